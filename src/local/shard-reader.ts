import { ResourceMissingError } from '../errors.ts';
import { backoffMs } from '../log/backoff.ts';
import type { StreamRecord } from '../workers/dispatch/route-stream-records.ts';
import type { BatchDelivery } from './batch-delivery.ts';
import { type RecordPage, STREAM_BACKOFF, type StreamRequests, type Time } from './stream-requests.ts';

/** The wait before an empty shard is read again. Lambda polls four times a second, too. */
const POLL_MS = 250;

/** A gap: records of a shard that the stream dropped before they were read. */
export interface TrimmedRecords {
  readonly shardId: string;
  /** The last record before the gap; undefined if no record was read. */
  readonly afterSequenceNumber: string | undefined;
}

export interface ShardReaderOptions {
  readonly shardId: string;
  /** The position of an earlier run; undefined to start at the oldest record. */
  readonly position: string | undefined;
  readonly requests: StreamRequests;
  readonly delivery: BatchDelivery;
  readonly filter: (record: StreamRecord) => boolean;
  readonly onTrimmed: (trimmed: TrimmedRecords) => Promise<void>;
  /** Called each time that `tip` changes. */
  readonly onTip: () => void;
  /** The poller's logical clock. */
  readonly tick: () => number;
  /** The most records in a batch. */
  readonly batchSize: number;
  readonly time: Time;
}

/** Reads one shard in order and delivers its records page by page. */
export class ShardReader {
  readonly #options: ShardReaderOptions;
  #position: string | undefined;
  #iterator: string | undefined;
  #trims = 0;
  #tip = -1;
  #finished = false;

  constructor(options: ShardReaderOptions) {
    this.#options = options;
    this.#position = options.position;
  }

  /**
   * The sequence number up to which all records are handled, filtered out or discarded.
   * Undefined if there is none, also after a gap.
   */
  get position(): string | undefined {
    return this.#position;
  }

  /** Whether the shard is closed and all its records are done. */
  get finished(): boolean {
    return this.#finished;
  }

  /** The tick at which the newest request that found no more records began; -1 before the first. */
  get tip(): number {
    return this.#tip;
  }

  /** Reads until the shard is finished or the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && !this.#finished) {
      const began = this.#options.tick();
      const page = await this.#readPage(signal);
      if (page !== undefined) await this.#deliver(page, began, signal);
    }
  }

  /** The next page; undefined if the signal aborted or the request must be repeated. */
  async #readPage(signal: AbortSignal): Promise<RecordPage | undefined> {
    const { requests, batchSize, shardId, time } = this.#options;
    try {
      this.#iterator ??= await requests.iterator(shardId, this.#position, signal);
      if (this.#iterator === undefined) return undefined;
      const page = await requests.records(this.#iterator, batchSize, signal);
      this.#iterator = page?.next;
      this.#trims = 0;
      return page;
    } catch (error) {
      this.#iterator = undefined;
      const problem = problemOf(error);
      if (problem === 'expired') return undefined;
      // Several trims in a row are one gap.
      if (this.#trims === 0) await this.#options.onTrimmed({ shardId, afterSequenceNumber: this.#position });
      this.#position = undefined;
      this.#trims++;
      // DynamoDB drops a shard a day after its last record. If the whole stream is gone, the
      // poller's next request fails.
      if (problem === 'gone') this.#finished = true;
      else await time.sleep(backoffMs(STREAM_BACKOFF, this.#trims), signal);
      return undefined;
    }
  }

  async #deliver(page: RecordPage, began: number, signal: AbortSignal): Promise<void> {
    const { delivery, filter, onTip, time } = this.#options;
    const done = (sequenceNumber: string): void => {
      this.#position = sequenceNumber;
    };
    await delivery.deliver(page.records.filter(filter), done, signal);
    if (signal.aborted) return;
    const last = page.records.at(-1);
    if (last !== undefined) done(last.sequenceNumber);
    if (page.next === undefined) {
      this.#finished = true;
    } else if (page.records.length === 0) {
      this.#tip = began;
      onTip();
      await time.sleep(POLL_MS, signal);
    }
  }
}

function problemOf(error: unknown): 'expired' | 'trimmed' | 'gone' {
  if (error instanceof ResourceMissingError) return 'gone';
  if (error instanceof Error && error.name === 'ExpiredIteratorException') return 'expired';
  if (error instanceof Error && error.name === 'TrimmedDataAccessException') return 'trimmed';
  throw error;
}
