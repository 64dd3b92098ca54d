import type { DynamoDBClientConfig } from '@aws-sdk/client-dynamodb';
import type { RetryLimits } from '../../log/backoff.ts';
import { isRetryable } from './dynamodb-error.ts';

type RetryStrategy = Extract<
  Exclude<DynamoDBClientConfig['retryStrategy'], undefined>,
  { acquireInitialRetryToken: unknown }
>;
type RetryToken = Awaited<ReturnType<RetryStrategy['acquireInitialRetryToken']>>;
type Failure = Parameters<RetryStrategy['refreshRetryTokenForRetry']>[1];

/** How workers send requests again: ten times at most, with waits of 23 seconds in the mean and 46 at the most. */
export const SDK_RETRIES: RetryLimits = { attempts: 10, baseMs: 100, capMs: 20_000 };

const CONNECT_MS = 5_000;
/** Longer than the longest wait of SQS, which sends nothing for 20 seconds. */
const IDLE_MS = 30_000;

// Where KMS throttles what another service asks of it: SQS's name for it, in both of its protocols, and S3's with the
// prefix that it gives to all errors of KMS. The SDK takes them for mistakes of the caller.
const KMS_THROTTLES = new Set(['KmsThrottled', 'KMS.ThrottlingException', 'KMSThrottlingException']);

export interface SdkOptions {
  /** {@link SDK_RETRIES} by default. */
  readonly retries?: RetryLimits | undefined;
  /** For how long a connection may be silent before the request counts as lost, in milliseconds; 30 seconds by default. */
  readonly idleMs?: number | undefined;
}

export interface SdkConfig {
  readonly maxAttempts: number;
  readonly retryStrategy: RetryStrategy;
  readonly requestHandler: { readonly connectionTimeout: number; readonly socketTimeout: number };
}

/**
 * What the workers' clients are made with, of DynamoDB, S3 and SQS alike, so that a service that throttles slows work
 * down and does nothing else: `new S3Client({ ...sdkConfig() })`.
 *
 * It differs from what the SDK does by itself:
 *
 * - The SDK gives a client a budget of retries. Where half of all requests are throttled it is used up after some
 *   dozens of them, and from then on most jobs fail. A job that fails and begins again sends more requests than one
 *   that waits, so each request has its own bound here, and waits longer after each failure ("full jitter").
 * - It knows that DynamoDB may be asked again after a conflict of transactions, and what it is called when KMS throttles.
 * - Where the SDK waits for ever for an answer, a silent connection is given up.
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

  /** @throws Error where the request is not to be sent again; the SDK then throws what the request failed with */
  async refreshRetryTokenForRetry(token: RetryToken, failure: Failure): Promise<RetryToken> {
    const { attempts, baseMs, capMs } = this.#limits;
    const count = token.getRetryCount() + 1;
    if (count >= attempts || !mayPass(failure)) throw new Error('the request is not sent again');
    return retryToken(count, Math.random() * Math.min(capMs, baseMs * 2 ** (count - 1)));
  }

  recordSuccess(): void {}
}

function retryToken(count: number, delayMs: number): RetryToken {
  return { getRetryCount: () => count, getRetryDelay: () => delayMs };
}

function mayPass({ error, errorType }: Failure): boolean {
  if (errorType === 'THROTTLING' || errorType === 'TRANSIENT') return true;
  return error instanceof Error && (KMS_THROTTLES.has(error.name) || isRetryable(error));
}
