import {
  DescribeStreamCommand,
  type DynamoDBStreamsClient,
  DynamoDBStreamsServiceException,
  GetRecordsCommand,
  GetShardIteratorCommand,
  type Shard,
} from '@aws-sdk/client-dynamodb-streams';
import { AttemptsExhaustedError, MessageInvalidError, ResourceMissingError } from '../errors.ts';
import type { StreamRecord } from '../workers/dispatch/route-stream-records.ts';
import { fromSdkRecord } from './stream-records.ts';
import type { Time } from './stream-settings.ts';
import { backoffMs, type StreamSettings } from './stream-settings.ts';

/** The most records that one request gives. */
export const MAX_PAGE = 1_000;

const THROTTLED = new Set([
  'LimitExceededException',
  'ProvisionedThroughputExceededException',
  'RequestLimitExceeded',
  'ThrottlingException',
]);
const UNREACHABLE = new Set(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'EAI_AGAIN']);

/** Some records of a shard, in order. */
export interface RecordPage {
  readonly records: readonly StreamRecord[];
  /** Where to read on; undefined once the shard has ended and nothing more will come. */
  readonly next: string | undefined;
}

export interface StreamRequestsOptions {
  readonly client: DynamoDBStreamsClient;
  readonly streamArn: string;
  readonly settings: StreamSettings;
  readonly time: Time;
}

/**
 * The requests that reading a stream takes. Each waits and tries again where the service is too busy, for as long as
 * it is, and up to `requestAttempts` times where it fails or cannot be reached. Each gives undefined where the signal
 * aborts first.
 */
export class StreamRequests {
  readonly #options: StreamRequestsOptions;

  constructor(options: StreamRequestsOptions) {
    this.#options = options;
  }

  /**
   * Every shard that the stream has now.
   * @throws ResourceMissingError where the stream does not exist
   */
  async shards(signal: AbortSignal): Promise<Shard[] | undefined> {
    const { client, streamArn: StreamArn } = this.#options;
    const shards: Shard[] = [];
    for (let ExclusiveStartShardId: string | undefined; ; ) {
      const command = new DescribeStreamCommand({ StreamArn, ExclusiveStartShardId });
      const answer = await this.#try(() => client.send(command, { abortSignal: signal }), signal);
      if (answer === undefined) return undefined;
      shards.push(...(answer.StreamDescription?.Shards ?? []));
      ExclusiveStartShardId = answer.StreamDescription?.LastEvaluatedShardId;
      if (ExclusiveStartShardId === undefined) return shards;
    }
  }

  /** Where to begin to read a shard: after a record, or at the oldest one that there is. */
  async iterator(ShardId: string, after: string | undefined, signal: AbortSignal): Promise<string | undefined> {
    const { client, streamArn: StreamArn } = this.#options;
    const command = new GetShardIteratorCommand(
      after === undefined
        ? { StreamArn, ShardId, ShardIteratorType: 'TRIM_HORIZON' }
        : { StreamArn, ShardId, ShardIteratorType: 'AFTER_SEQUENCE_NUMBER', SequenceNumber: after },
    );
    const answer = await this.#try(() => client.send(command, { abortSignal: signal }), signal);
    if (answer !== undefined && answer.ShardIterator === undefined) {
      throw new MessageInvalidError(`no iterator was given for shard ${ShardId}`);
    }
    return answer?.ShardIterator;
  }

  /** The next records of a shard, at most `limit`. None does not mean that there are no more unless `next` says so. */
  async records(ShardIterator: string, limit: number, signal: AbortSignal): Promise<RecordPage | undefined> {
    const command = new GetRecordsCommand({ ShardIterator, Limit: Math.min(limit, MAX_PAGE) });
    const answer = await this.#try(() => this.#options.client.send(command, { abortSignal: signal }), signal);
    if (answer === undefined) return undefined;
    return { records: (answer.Records ?? []).map(fromSdkRecord), next: answer.NextShardIterator };
  }

  async #try<T>(send: () => Promise<T>, signal: AbortSignal): Promise<T | undefined> {
    const { settings, streamArn, time } = this.#options;
    let failed = 0;
    for (let attempts = 1; !signal.aborted; attempts++) {
      try {
        return await send();
      } catch (error) {
        if (signal.aborted) return undefined;
        const trouble = troubleOf(error);
        if (trouble === 'other') throw this.#translate(error);
        if (trouble === 'failed') failed++;
        if (failed >= settings.requestAttempts) {
          throw new AttemptsExhaustedError(failed, `stream ${streamArn} cannot be read`, { cause: error });
        }
        await time.sleep(backoffMs(attempts, settings), signal);
      }
    }
    return undefined;
  }

  #translate(error: unknown): unknown {
    const { streamArn } = this.#options;
    if (!(error instanceof Error) || error.name !== 'ResourceNotFoundException') return error;
    return new ResourceMissingError(`stream ${streamArn} does not exist, or not with this shard`, { cause: error });
  }
}

function troubleOf(error: unknown): 'throttled' | 'failed' | 'other' {
  if (!(error instanceof Error)) return 'other';
  if (THROTTLED.has(error.name)) return 'throttled';
  if (error instanceof DynamoDBStreamsServiceException) return error.$fault === 'server' ? 'failed' : 'other';
  if (error.name === 'TimeoutError') return 'failed';
  return 'code' in error && typeof error.code === 'string' && UNREACHABLE.has(error.code) ? 'failed' : 'other';
}
