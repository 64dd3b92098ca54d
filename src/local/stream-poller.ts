import type { DynamoDBStreamsClient } from '@aws-sdk/client-dynamodb-streams';
import { EngineError } from '../errors.ts';
import type { StreamHandler, StreamRecord } from '../workers/dispatch/route-stream-records.ts';
import { BatchDelivery, type DiscardedBatch, type FailedAttempt } from './batch-delivery.ts';
import type { CheckpointStore, StreamPosition } from './checkpoint-store.ts';
import { ShardReader, type TrimmedRecords } from './shard-reader.ts';
import { StreamRequests } from './stream-requests.ts';
import { type StreamSettings, streamSettings, systemTime, type Time } from './stream-settings.ts';

export interface StreamPollerOptions {
  readonly client: DynamoDBStreamsClient;
  readonly streamArn: string;
  readonly handler: StreamHandler;
  /** Records for which this is false are done without the handler seeing them. All are handled by default. */
  readonly filter?: ((record: StreamRecord) => boolean) | undefined;
  readonly checkpoints: CheckpointStore;
  /** The failure destination: takes batches that are given up. Where it throws, polling ends with its error. */
  readonly onDiscard: (batch: DiscardedBatch) => Promise<void>;
  /** Learns of records that the stream dropped before they were read. Where it throws, polling ends with its error. */
  readonly onTrimmed: (trimmed: TrimmedRecords) => Promise<void>;
  /** Learns of failed calls of the handler that are followed by another. */
  readonly onFailedAttempt?: ((attempt: FailedAttempt) => void) | undefined;
  /** What is not given is as in Lambda. */
  readonly settings?: Partial<StreamSettings> | undefined;
  readonly time?: Time | undefined;
}

interface KnownShard {
  readonly parent: string | undefined;
  /** Absent as long as the parent is not finished. */
  reader?: ShardReader;
}

interface Question {
  readonly tick: number;
  readonly answer: PromiseWithResolvers<void>;
}

/**
 * Reads a DynamoDB stream as an event source mapping of Lambda does: every shard from its oldest record on, a child
 * only after its parent, records of a shard in order and in batches, each at least once.
 *
 * How far it is becomes durable only by `commit`, since what a handler starts may end long after it returns.
 *
 * Source: AWS Lambda Developer Guide, "Using AWS Lambda with Amazon DynamoDB"; Amazon DynamoDB Developer Guide,
 * "Working with streams" (lineage of shards).
 */
export class StreamPoller {
  readonly #options: StreamPollerOptions;
  readonly #settings: StreamSettings;
  readonly #time: Time;
  readonly #requests: StreamRequests;
  readonly #shards = new Map<string, KnownShard>();
  readonly #running = new Set<Promise<void>>();
  readonly #questions = new Set<Question>();
  #committed: StreamPosition = {};
  #saving: Promise<void> = Promise.resolve();
  // A logical clock: each question and each end of a shard moves it on. What began at a tick or later has seen
  // everything that was there at that tick.
  #tick = 0;
  #discovered = -1;
  #lastFinish = 0;
  #wake = new AbortController();
  #failure: unknown;
  #ended = false;

  /** @throws UsageError where a setting is out of range */
  constructor(options: StreamPollerOptions) {
    this.#options = options;
    this.#settings = streamSettings(options.settings);
    this.#time = options.time ?? systemTime;
    this.#requests = new StreamRequests({ ...options, settings: this.#settings, time: this.#time });
  }

  /**
   * Reads on from what was committed last, until the signal aborts. To be called once.
   * @throws ResourceMissingError where there is no such stream
   * @throws AttemptsExhaustedError where it cannot be reached
   */
  async run(signal: AbortSignal): Promise<void> {
    const failed = new AbortController();
    const stop = AbortSignal.any([signal, failed.signal]);
    try {
      this.#committed = await this.#options.checkpoints.load();
      while (!stop.aborted) {
        this.#wake = new AbortController();
        await this.#discover(stop, failed);
        await this.#time.sleep(this.#settings.discoverMs, AbortSignal.any([stop, this.#wake.signal]));
      }
    } catch (error) {
      this.#failure ??= error;
    }
    failed.abort();
    await Promise.all(this.#running);
    this.#ended = true;
    for (const question of this.#questions) question.answer.reject(this.#endError());
    if (this.#failure !== undefined) throw this.#failure;
  }

  /** How far every shard has been handed over. What it leads to may still be under way; see `commit`. */
  routed(): StreamPosition {
    const position: Record<string, string> = {};
    for (const [id, { reader }] of this.#shards) {
      const sequenceNumber = reader?.position ?? this.#committed[id];
      if (sequenceNumber !== undefined) position[id] = sequenceNumber;
    }
    return position;
  }

  /**
   * Makes a position durable that `routed` gave, so that the next run reads on from there. Call it once everything
   * that was started up to there is done. A shard's position never goes back.
   */
  commit(position: StreamPosition): Promise<void> {
    const next: Record<string, string> = {};
    for (const id of this.#shards.keys()) {
      const newest = later(position[id], this.#committed[id]);
      if (newest !== undefined) next[id] = newest;
    }
    const changed = Object.entries(next).some(([id, sequenceNumber]) => this.#committed[id] !== sequenceNumber);
    if (!changed) return this.#saving;
    this.#committed = next;
    this.#saving = this.#saving.then(() => this.#options.checkpoints.save(next));
    return this.#saving;
  }

  /**
   * Resolves once every record that is in the stream now has been handled, filtered out or given up. A shard counts as
   * read to its end when a request that begins after this call finds nothing more in it.
   * @throws the error with which `run` ends, where it ends before
   */
  caughtUp(): Promise<void> {
    if (this.#ended) return Promise.reject(this.#endError());
    const question = { tick: ++this.#tick, answer: Promise.withResolvers<void>() };
    this.#questions.add(question);
    this.#wake.abort();
    return question.answer.promise;
  }

  async #discover(stop: AbortSignal, failed: AbortController): Promise<void> {
    const tick = this.#tick;
    const listed = await this.#requests.shards(stop);
    if (listed === undefined) return;
    const ids = new Set(listed.map((shard) => shard.ShardId));
    for (const [id, { reader }] of this.#shards) {
      if (!ids.has(id) && (reader === undefined || reader.finished)) this.#shards.delete(id);
    }
    for (const { ShardId: id, ParentShardId: parent } of listed) {
      if (id !== undefined && !this.#shards.has(id)) this.#shards.set(id, { parent });
    }
    for (const [id, shard] of this.#shards) {
      if (shard.reader === undefined && this.#isDone(shard.parent)) {
        shard.reader = this.#reader(id);
        const reading = this.#read(shard.reader, stop, failed);
        this.#running.add(reading);
        void reading.then(() => this.#running.delete(reading));
      }
    }
    this.#discovered = tick;
    this.#answer();
  }

  /** A parent that is listed no more was trimmed: nothing of it is left to read. */
  #isDone(parent: string | undefined): boolean {
    const known = parent === undefined ? undefined : this.#shards.get(parent);
    return known === undefined || known.reader?.finished === true;
  }

  #reader(shardId: string): ShardReader {
    const { filter = () => true, handler, onDiscard, onFailedAttempt, onTrimmed, streamArn } = this.#options;
    const common = { shardId, settings: this.#settings, time: this.#time };
    return new ShardReader({
      ...common,
      position: this.#committed[shardId],
      requests: this.#requests,
      delivery: new BatchDelivery({ ...common, streamArn, handler, onDiscard, onFailedAttempt }),
      filter,
      onTrimmed,
      onTip: () => this.#answer(),
      tick: () => this.#tick,
    });
  }

  async #read(reader: ShardReader, stop: AbortSignal, failed: AbortController): Promise<void> {
    try {
      await reader.run(stop);
    } catch (error) {
      this.#failure ??= error;
      failed.abort();
    }
    if (!reader.finished) return;
    this.#lastFinish = ++this.#tick;
    this.#wake.abort();
  }

  #answer(): void {
    for (const question of this.#questions) {
      // A shard that has ended may have children that were not listed before.
      const allKnown = this.#discovered >= Math.max(question.tick, this.#lastFinish);
      const allRead = this.#shards
        .values()
        .every(({ reader }) => reader !== undefined && (reader.finished || reader.tip >= question.tick));
      if (!allKnown || !allRead) continue;
      this.#questions.delete(question);
      question.answer.resolve();
    }
  }

  #endError(): unknown {
    return this.#failure ?? new EngineError('the stream is not read any more');
  }
}

function later(a: string | undefined, b: string | undefined): string | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return BigInt(a) > BigInt(b) ? a : b;
}
