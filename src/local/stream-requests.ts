import {
  type _Record,
  DescribeStreamCommand,
  type DynamoDBStreamsClient,
  DynamoDBStreamsServiceException,
  GetRecordsCommand,
  GetShardIteratorCommand,
  type Shard,
} from '@aws-sdk/client-dynamodb-streams';
import { exactAnswer } from '../adapters/dynamodb/exact-answer.ts';
import { sleep } from '../adapters/platform/node-logs.ts';
import { AttemptsExhaustedError, MessageInvalidError, ResourceMissingError, StoreUnavailableError } from '../errors.ts';
import { type Backoff, backoffMs } from '../log/backoff.ts';
import type { StreamRecord } from '../workers/dispatch/route-stream-records.ts';

/** The waits before a batch or request is retried. */
export const STREAM_BACKOFF: Backoff = { baseMs: 100, capMs: 30_000 };

/** A clock. Tests replace it. */
export interface Time {
  /** Epoch milliseconds. */
  now(): number;
  /** Resolves after `ms` milliseconds, or as soon as the signal aborts. */
  sleep(ms: number, signal: AbortSignal): Promise<void>;
}

/** The machine's clock. */
export const systemTime: Time = { now: Date.now, sleep };

/** The most records that one request returns. */
const MAX_PAGE = 1_000;
/** How often a request may fail before the poller gives up. */
const MAX_FAILURES = 8;
const EVENT_NAMES = ['INSERT', 'MODIFY', 'REMOVE'] as const;

const THROTTLED = new Set([
  'LimitExceededException',
  'ProvisionedThroughputExceededException',
  'RequestLimitExceeded',
  'ThrottlingException',
]);
const UNREACHABLE = new Set(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'EAI_AGAIN']);

/** Records of a shard, in order. */
export interface RecordPage {
  readonly records: readonly StreamRecord[];
  /** The iterator of the next page; undefined if the shard is closed and this is its last page. */
  readonly next: string | undefined;
}

export interface StreamRequestsOptions {
  readonly client: DynamoDBStreamsClient;
  readonly streamArn: string;
  readonly time: Time;
}

/**
 * The requests to a stream. Each request is retried while the service throttles it, and up to 8
 * times if the service fails or is unreachable. Each returns undefined if the signal aborts first.
 */
export class StreamRequests {
  readonly #options: StreamRequestsOptions;

  constructor(options: StreamRequestsOptions) {
    this.#options = options;
  }

  /**
   * All shards of the stream.
   * @throws ResourceMissingError if the stream does not exist
   * @throws AttemptsExhaustedError if 8 attempts fail
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

  /**
   * An iterator that starts after the record `after`, or at the shard's oldest record.
   * @throws ResourceMissingError if the stream does not have the shard
   * @throws AttemptsExhaustedError if 8 attempts fail
   */
  async iterator(ShardId: string, after: string | undefined, signal: AbortSignal): Promise<string | undefined> {
    const { client, streamArn: StreamArn } = this.#options;
    const command = new GetShardIteratorCommand(
      after === undefined
        ? { StreamArn, ShardId, ShardIteratorType: 'TRIM_HORIZON' }
        : { StreamArn, ShardId, ShardIteratorType: 'AFTER_SEQUENCE_NUMBER', SequenceNumber: after },
    );
    const answer = await this.#try(() => client.send(command, { abortSignal: signal }), signal);
    if (answer !== undefined && answer.ShardIterator === undefined) {
      throw new MessageInvalidError(`the stream returned no iterator for shard ${ShardId}`);
    }
    return answer?.ShardIterator;
  }

  /**
   * The next records of a shard, at most `limit`. An empty page with `next` is not the end of the
   * shard.
   * @throws ResourceMissingError if the stream does not have the shard
   * @throws AttemptsExhaustedError if 8 attempts fail
   * @throws MessageInvalidError if a record lacks a part that every record has
   */
  async records(ShardIterator: string, limit: number, signal: AbortSignal): Promise<RecordPage | undefined> {
    const command = new GetRecordsCommand({ ShardIterator, Limit: Math.min(limit, MAX_PAGE) });
    exactAnswer(command, `stream ${this.#options.streamArn}`);
    const answer = await this.#try(() => this.#options.client.send(command, { abortSignal: signal }), signal);
    if (answer === undefined) return undefined;
    return { records: (answer.Records ?? []).map(toStreamRecord), next: answer.NextShardIterator };
  }

  async #try<T>(send: () => Promise<T>, signal: AbortSignal): Promise<T | undefined> {
    const { streamArn, time } = this.#options;
    let failures = 0;
    for (let attempts = 1; !signal.aborted; attempts++) {
      try {
        return await send();
      } catch (error) {
        if (signal.aborted) return undefined;
        const problem = problemOf(error);
        if (problem === 'other') throw this.#translate(error);
        if (problem === 'failed') failures++;
        if (failures >= MAX_FAILURES) {
          throw new AttemptsExhaustedError(failures, `stream ${streamArn} cannot be read`, { cause: error });
        }
        await time.sleep(backoffMs(STREAM_BACKOFF, attempts), signal);
      }
    }
    return undefined;
  }

  #translate(error: unknown): unknown {
    const { streamArn } = this.#options;
    if (!(error instanceof Error) || error.name !== 'ResourceNotFoundException') return error;
    return new ResourceMissingError(`stream ${streamArn} does not exist, or lacks this shard`, { cause: error });
  }
}

function problemOf(error: unknown): 'throttled' | 'failed' | 'other' {
  if (!(error instanceof Error)) return 'other';
  if (THROTTLED.has(error.name)) return 'throttled';
  // An answer that was cut.
  if (error instanceof SyntaxError || error instanceof StoreUnavailableError) return 'failed';
  if (error instanceof DynamoDBStreamsServiceException) return error.$fault === 'server' ? 'failed' : 'other';
  if (error.name === 'TimeoutError') return 'failed';
  return 'code' in error && typeof error.code === 'string' && UNREACHABLE.has(error.code) ? 'failed' : 'other';
}

function toStreamRecord(record: _Record): StreamRecord {
  const change = record.dynamodb;
  const eventName = EVENT_NAMES.find((name) => name === record.eventName);
  if (
    record.eventID === undefined ||
    eventName === undefined ||
    change?.SequenceNumber === undefined ||
    !/^\d+$/.test(change.SequenceNumber) ||
    change.Keys === undefined
  ) {
    throw new MessageInvalidError(`stream record ${record.eventID} lacks its id, event name, sequence number or keys`);
  }
  return {
    eventId: record.eventID,
    eventName,
    sequenceNumber: change.SequenceNumber,
    bytes: change.SizeBytes,
    createdMs: change.ApproximateCreationDateTime?.getTime(),
    keys: change.Keys,
    newImage: change.NewImage,
    oldImage: change.OldImage,
    isExpiry: record.userIdentity?.PrincipalId === 'dynamodb.amazonaws.com',
  };
}
