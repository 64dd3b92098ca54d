import {
  type AttributeValue,
  DynamoDBStreamsClient,
  type DynamoDBStreamsServiceException,
  ExpiredIteratorException,
  LimitExceededException,
  ResourceNotFoundException,
  TrimmedDataAccessException,
} from '@aws-sdk/client-dynamodb-streams';
import type { CheckpointStore, StreamPosition } from '../../../src/local/checkpoint-store.ts';
import { systemTime, type Time } from '../../../src/local/stream-requests.ts';

interface ScriptedShard {
  readonly parent: string | undefined;
  readonly sequenceNumbers: number[];
  closed: boolean;
}

const ERRORS = {
  expired: ExpiredIteratorException,
  throttled: LimitExceededException,
  missing: ResourceNotFoundException,
  trimmed: TrimmedDataAccessException,
};

function error(kind: keyof typeof ERRORS): DynamoDBStreamsServiceException {
  return new ERRORS[kind]({ message: kind, $metadata: {} });
}

function keysOf({ S, N }: Record<string, AttributeValue>): Record<string, AttributeValue> {
  return { ...(S && { S }), ...(N && { N }) };
}

/** A stream behind the SDK's own client. The test decides its shards and failures. */
export class ScriptedStream {
  readonly client = new DynamoDBStreamsClient({ region: 'us-east-1', endpoint: 'http://127.0.0.1:1' });
  /** Failures of the next requests of a kind, in order. */
  readonly failures: { readonly command: string; readonly kind: keyof typeof ERRORS }[] = [];
  readonly requests: string[] = [];
  readonly #shards = new Map<string, ScriptedShard>();
  /** Creation time of records, in epoch milliseconds; undefined leaves it out. */
  createdMs: number | undefined;
  /** The item that a record inserted. By default it has only a key. */
  itemOf: (sequenceNumber: number) => Record<string, AttributeValue> = (number) => ({ N: { N: `${number}` } });
  /** Called for each request. */
  onRequest: (command: string) => void = () => undefined;
  /** The number of records that were read. */
  given = 0;

  constructor() {
    this.client.middlewareStack.add(
      (_next, context) => async (args) => {
        const output = this.#answer(String(context.commandName), { ...args.input });
        return { output: { $metadata: {}, ...output }, response: undefined };
      },
      { step: 'initialize' },
    );
  }

  shard(id: string, parent?: string): this {
    this.#shards.set(id, { parent, sequenceNumbers: [], closed: false });
    return this;
  }

  write(id: string, ...sequenceNumbers: number[]): this {
    this.#find(id).sequenceNumbers.push(...sequenceNumbers);
    return this;
  }

  close(id: string): this {
    this.#find(id).closed = true;
    return this;
  }

  /** Removes a shard, as AWS does a day after its last record. */
  drop(id: string): this {
    this.#shards.delete(id);
    return this;
  }

  #find(id: unknown): ScriptedShard {
    const shard = this.#shards.get(String(id));
    if (shard === undefined) throw error('missing');
    return shard;
  }

  #answer(command: string, input: Record<string, unknown>): object {
    this.requests.push(command);
    this.onRequest(command);
    const next = this.failures.findIndex((failure) => failure.command === command);
    const [failure] = next < 0 ? [] : this.failures.splice(next, 1);
    if (failure !== undefined) throw error(failure.kind);
    if (command === 'DescribeStreamCommand') return this.#describe(input.ExclusiveStartShardId);
    if (command === 'GetShardIteratorCommand') return this.#iterator(input);
    if (command === 'GetRecordsCommand') return this.#records(String(input.ShardIterator), Number(input.Limit));
    throw new Error(`the script has no answer to ${command}`);
  }

  /** One shard per page, so that every test exercises paging. */
  #describe(after: unknown): object {
    const ids = [...this.#shards.keys()];
    const id = ids[after === undefined ? 0 : ids.indexOf(String(after)) + 1];
    if (id === undefined) return { StreamDescription: { Shards: [] } };
    const Shards = [{ ShardId: id, ParentShardId: this.#find(id).parent }];
    return { StreamDescription: { Shards, ...(id !== ids.at(-1) && { LastEvaluatedShardId: id }) } };
  }

  #iterator({ ShardId, SequenceNumber }: Record<string, unknown>): object {
    const { sequenceNumbers } = this.#find(ShardId);
    const after = SequenceNumber === undefined ? -1 : Number(SequenceNumber);
    const index = sequenceNumbers.findIndex((sequenceNumber) => sequenceNumber > after);
    return { ShardIterator: `${ShardId}:${index < 0 ? sequenceNumbers.length : index}` };
  }

  #records(iterator: string, limit: number): object {
    const [id = '', from = '0'] = iterator.split(':');
    const { sequenceNumbers, closed } = this.#find(id);
    const given = sequenceNumbers.slice(Number(from), Number(from) + limit);
    const end = Number(from) + given.length;
    this.given += given.length;
    return {
      Records: given.map((sequenceNumber) => ({
        eventID: `${id}/${sequenceNumber}`,
        eventName: 'INSERT',
        dynamodb: {
          SequenceNumber: `${sequenceNumber}`,
          Keys: keysOf(this.itemOf(sequenceNumber)),
          NewImage: this.itemOf(sequenceNumber),
          ...(this.createdMs !== undefined && { ApproximateCreationDateTime: new Date(this.createdMs) }),
        },
      })),
      ...(!(closed && end >= sequenceNumbers.length) && { NextShardIterator: `${id}:${end}` }),
    };
  }
}

interface Sleeper {
  readonly until: number;
  wake(): void;
}

/** A clock that jumps to the time of the next sleeper when no other work is left. */
export class ScriptedTime implements Time {
  readonly slept: number[] = [];
  readonly #sleepers = new Set<Sleeper>();
  #now = 1_000_000_000_000;

  now(): number {
    return this.#now;
  }

  async sleep(ms: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    this.slept.push(ms);
    const { promise, resolve } = Promise.withResolvers<void>();
    const sleeper = { until: this.#now + ms, wake: resolve };
    if (this.#sleepers.size === 0) setImmediate(() => this.#jump());
    this.#sleepers.add(sleeper);
    signal.addEventListener('abort', () => resolve(), { once: true });
    await promise;
    this.#sleepers.delete(sleeper);
  }

  #jump(): void {
    const [next] = [...this.#sleepers].toSorted((a, b) => a.until - b.until);
    if (next === undefined) return;
    this.#now = next.until;
    this.#sleepers.delete(next);
    next.wake();
    if (this.#sleepers.size > 0) setImmediate(() => this.#jump());
  }
}

/** The machine's clock, with waits of at most 20 ms, so that polls and retries follow quickly. */
export const shortWaits: Time = {
  ...systemTime,
  sleep: (ms, signal) => systemTime.sleep(Math.min(ms, 20), signal),
};

export class MemoryCheckpoints implements CheckpointStore {
  saved: StreamPosition;

  constructor(saved: StreamPosition = {}) {
    this.saved = saved;
  }

  async load(): Promise<StreamPosition> {
    return this.saved;
  }

  async save(position: StreamPosition): Promise<void> {
    this.saved = position;
  }
}
