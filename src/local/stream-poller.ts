import type { DynamoDBStreamsClient } from '@aws-sdk/client-dynamodb-streams';
import { EngineError } from '../errors.ts';
import type { StreamHandler, StreamRecord } from '../workers/dispatch/route-stream-records.ts';
import { BatchDelivery, type DiscardedBatch } from './batch-delivery.ts';
import type { CheckpointStore, StreamPosition } from './checkpoint-store.ts';
import { ShardReader, type TrimmedRecords } from './shard-reader.ts';
import { StreamRequests, systemTime, type Time } from './stream-requests.ts';

/** The wait before the poller lists the shards again, in milliseconds. */
const DISCOVER_MS = 10_000;

export interface StreamPollerOptions {
  readonly client: DynamoDBStreamsClient;
  readonly streamArn: string;
  readonly handler: StreamHandler;
  /** The handler gets the records for which this is true. By default it gets all records. */
  readonly filter?: (record: StreamRecord) => boolean;
  readonly checkpoints: CheckpointStore;
  /** The failure destination. Its error ends the run. */
  readonly onDiscard: (batch: DiscardedBatch) => Promise<void>;
  /** Called for each gap in a shard. Its error ends the run. */
  readonly onTrimmed: (trimmed: TrimmedRecords) => Promise<void>;
  /** The most records in a batch; 1,000 by default, which is also the most of a request. */
  readonly batchSize?: number;
  /** How often a batch is retried before it is discarded; 10 by default. */
  readonly retries?: number;
  readonly time?: Time;
}

interface KnownShard {
  readonly parent: string | undefined;
  /** Absent until the parent is finished. */
  reader?: ShardReader;
}

interface CatchUp {
  readonly tick: number;
  readonly done: PromiseWithResolvers<void>;
}

/**
 * Reads a DynamoDB stream as Lambda's event source mappings do. It reads every shard from its
 * oldest record on, and a child after its parent. The handler gets the records of a shard in order
 * and in batches, each record at least once.
 *
 * Only `commit` makes a position durable, since the work that a handler starts may end long after
 * the handler returns.
 *
 * Source: AWS Lambda Developer Guide, "Using AWS Lambda with Amazon DynamoDB"; Amazon DynamoDB
 * Developer Guide, "Working with streams" (lineage of shards).
 */
export class StreamPoller {
  readonly #options: StreamPollerOptions;
  readonly #time: Time;
  readonly #requests: StreamRequests;
  readonly #shards = new Map<string, KnownShard>();
  readonly #running = new Set<Promise<void>>();
  readonly #catchUps = new Set<CatchUp>();
  readonly #failed = new AbortController();
  #committed: StreamPosition = {};
  #saving: Promise<void> = Promise.resolve();
  // A logical clock. Each catch-up and each end of a shard advances it. A request that begins at a
  // tick or later sees everything that was in the stream at that tick.
  #tick = 0;
  #discovered = -1;
  #lastFinish = 0;
  #wake = new AbortController();
  #failure: unknown;
  #ended = false;

  constructor(options: StreamPollerOptions) {
    this.#options = options;
    this.#time = options.time ?? systemTime;
    this.#requests = new StreamRequests({ ...options, time: this.#time });
  }

  /**
   * Reads from the last committed position on, until the signal aborts. Call it once.
   * @throws ResourceMissingError if the stream does not exist
   * @throws AttemptsExhaustedError if the stream is unreachable
   */
  async run(signal: AbortSignal): Promise<void> {
    const stop = AbortSignal.any([signal, this.#failed.signal]);
    try {
      this.#committed = await this.#options.checkpoints.load();
      while (!stop.aborted) {
        this.#wake = new AbortController();
        await this.#discover(stop);
        await this.#time.sleep(DISCOVER_MS, AbortSignal.any([stop, this.#wake.signal]));
      }
    } catch (error) {
      this.#fail(error);
    }
    await Promise.all(this.#running);
    this.#ended = true;
    for (const { done } of this.#catchUps) done.reject(this.#endError());
    if (this.#failure !== undefined) throw this.#failure;
  }

  /**
   * The position of every shard. Work that the handler started may still be running; see `commit`.
   */
  routed(): StreamPosition {
    const position: Record<string, string> = {};
    for (const [id, { reader }] of this.#shards) {
      const sequenceNumber = reader?.position ?? this.#committed[id];
      if (sequenceNumber !== undefined) position[id] = sequenceNumber;
    }
    return position;
  }

  /**
   * Makes a position durable that `routed` returned. The next run starts there. Call it when all
   * work that the handler started up to there is done. The position of a shard never moves back.
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
   * Resolves when every record that is in the stream now is handled, filtered out or discarded. For
   * each shard, a request that begins after this call must find no more records.
   * @throws the error of `run` if `run` ends first
   */
  caughtUp(): Promise<void> {
    if (this.#ended) return Promise.reject(this.#endError());
    const catchUp = { tick: ++this.#tick, done: Promise.withResolvers<void>() };
    this.#catchUps.add(catchUp);
    this.#wake.abort();
    return catchUp.done.promise;
  }

  async #discover(stop: AbortSignal): Promise<void> {
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
        const reading = this.#read(shard.reader, stop);
        this.#running.add(reading);
        void reading.then(() => this.#running.delete(reading));
      }
    }
    this.#discovered = tick;
    this.#resolveCatchUps();
  }

  /** The stream no longer lists a parent that it dropped: nothing of the parent is left to read. */
  #isDone(parent: string | undefined): boolean {
    const known = parent === undefined ? undefined : this.#shards.get(parent);
    return known === undefined || known.reader?.finished === true;
  }

  #reader(shardId: string): ShardReader {
    const { filter = () => true, handler, onDiscard, onTrimmed, streamArn } = this.#options;
    const { batchSize = 1_000, retries = 10 } = this.#options;
    const common = { shardId, time: this.#time };
    return new ShardReader({
      ...common,
      batchSize,
      position: this.#committed[shardId],
      requests: this.#requests,
      delivery: new BatchDelivery({ ...common, retries, streamArn, handler, onDiscard }),
      filter,
      onTrimmed,
      onTip: () => this.#resolveCatchUps(),
      tick: () => this.#tick,
    });
  }

  async #read(reader: ShardReader, stop: AbortSignal): Promise<void> {
    await reader.run(stop).catch((error: unknown) => this.#fail(error));
    if (!reader.finished) return;
    this.#lastFinish = ++this.#tick;
    this.#wake.abort();
  }

  #resolveCatchUps(): void {
    for (const catchUp of this.#catchUps) {
      // A finished shard may have children that an earlier list lacks.
      const allKnown = this.#discovered >= Math.max(catchUp.tick, this.#lastFinish);
      const allRead = this.#shards
        .values()
        .every(({ reader }) => reader !== undefined && (reader.finished || reader.tip >= catchUp.tick));
      if (!allKnown || !allRead) continue;
      this.#catchUps.delete(catchUp);
      catchUp.done.resolve();
    }
  }

  #fail(error: unknown): void {
    this.#failure ??= error;
    this.#failed.abort();
  }

  #endError(): unknown {
    return this.#failure ?? new EngineError('the stream poller has stopped');
  }
}

function later(a: string | undefined, b: string | undefined): string | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return BigInt(a) > BigInt(b) ? a : b;
}
