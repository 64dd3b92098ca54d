import type { DynamoDBClientConfig } from '@aws-sdk/client-dynamodb';
import { backoffMs, type RetryLimits } from '../../log/backoff.ts';
import { isRetryable } from './dynamodb-error.ts';

type RetryStrategy = Extract<
  Exclude<DynamoDBClientConfig['retryStrategy'], undefined>,
  { acquireInitialRetryToken: unknown }
>;
type RetryToken = Awaited<ReturnType<RetryStrategy['acquireInitialRetryToken']>>;
type Failure = Parameters<RetryStrategy['refreshRetryTokenForRetry']>[1];

/**
 * Retries of workers: ten attempts at most, which wait 23 seconds on average and 46 seconds at
 * most.
 */
export const SDK_RETRIES: RetryLimits = { attempts: 10, baseMs: 100, capMs: 20_000 };

const CONNECT_MS = 5_000;
/** Longer than SQS's long poll, which sends nothing for up to 20 seconds. */
const IDLE_MS = 30_000;

// Names of the error that KMS throttles another service: SQS's name in both of its protocols, and
// S3's, with the prefix of all KMS errors. The SDK classifies them as errors of the caller.
const KMS_THROTTLES = new Set(['KmsThrottled', 'KMS.ThrottlingException', 'KMSThrottlingException']);

export interface SdkOptions {
  /** {@link SDK_RETRIES} by default. */
  readonly retries?: RetryLimits;
  /**
   * How long a connection may be silent before the request counts as lost, in milliseconds; 30
   * seconds by default.
   */
  readonly idleMs?: number;
}

/**
 * Options for requests that work can do without. With the default retries, it could wait a minute
 * for them.
 */
export const IMPATIENT: SdkOptions = { retries: { attempts: 4, baseMs: 100, capMs: 2_000 }, idleMs: 5_000 };

export interface SdkConfig {
  readonly maxAttempts: number;
  readonly retryStrategy: RetryStrategy;
  readonly requestHandler: { readonly connectionTimeout: number; readonly socketTimeout: number };
}

/**
 * The configuration of the workers' clients for DynamoDB, S3 and SQS, so that throttling only slows
 * work down. Use: `new S3Client({ ...sdkConfig() })`.
 *
 * It differs from the SDK's defaults:
 *
 * - The SDK gives each client a budget of retries. If half of all requests are throttled, the
 *   budget is used up after a few dozen requests, and most jobs fail from then on. A job that
 *   fails and starts over sends more requests than one that waits. Therefore each request has its
 *   own limit here, and waits longer after each failure ("full jitter").
 * - It also retries after transaction conflicts of DynamoDB and after throttling by KMS.
 * - It gives up a silent connection. The SDK waits for an answer without limit.
 */
export function sdkConfig({ retries = SDK_RETRIES, idleMs = IDLE_MS }: SdkOptions = {}): SdkConfig {
  return {
    maxAttempts: retries.attempts,
    retryStrategy: new PatientRetries(retries),
    requestHandler: { connectionTimeout: CONNECT_MS, socketTimeout: idleMs },
  };
}

class PatientRetries implements RetryStrategy {
  readonly #limits: RetryLimits;

  constructor(limits: RetryLimits) {
    this.#limits = limits;
  }

  async acquireInitialRetryToken(): Promise<RetryToken> {
    return retryToken(0, 0);
  }

  /**
   * @throws Error if the request must not be sent again; the SDK then throws the request's own
   * error
   */
  async refreshRetryTokenForRetry(token: RetryToken, failure: Failure): Promise<RetryToken> {
    const count = token.getRetryCount() + 1;
    if (count >= this.#limits.attempts || !isTransient(failure)) throw new Error('the request is not sent again');
    return retryToken(count, Math.random() * backoffMs(this.#limits, count));
  }

  recordSuccess(): void {}
}

function retryToken(count: number, delayMs: number): RetryToken {
  return { getRetryCount: () => count, getRetryDelay: () => delayMs };
}

function isTransient({ error, errorType }: Failure): boolean {
  if (errorType === 'THROTTLING' || errorType === 'TRANSIENT') return true;
  return error instanceof Error && (KMS_THROTTLES.has(error.name) || isRetryable(error));
}
