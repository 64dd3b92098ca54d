import { ResourceMissingError } from '../errors.ts';
import type { StreamRecord } from '../workers/dispatch/route-stream-records.ts';
import type { BatchDelivery } from './batch-delivery.ts';
import type { RecordPage, StreamRequests } from './stream-requests.ts';
import type { Time } from './stream-settings.ts';
import { backoffMs, type StreamSettings } from './stream-settings.ts';

/** Records that were trimmed from a shard before they were read, and are lost to whoever reads the stream. */
export interface TrimmedRecords {
  readonly shardId: string;
  /** The last record that was read; undefined where none was. */
  readonly afterSequenceNumber: string | undefined;
}

export interface ShardReaderOptions {
  readonly shardId: string;
  /** Where an earlier run left off; undefined to read the shard from its beginning. */
  readonly position: string | undefined;
  readonly requests: StreamRequests;
  readonly delivery: BatchDelivery;
  readonly filter: (record: StreamRecord) => boolean;
  readonly onTrimmed: (trimmed: TrimmedRecords) => Promise<void>;
  /** Called each time that the reader has seen the end of what there is. */
  readonly onTip: () => void;
  /** The poller's count of questions; see `tip`. */
  readonly tick: () => number;
  readonly settings: StreamSettings;
  readonly time: Time;
}

/** Reads one shard in order and hands it over in batches. */
export class ShardReader {
  readonly #options: ShardReaderOptions;
  /** Every record up to here is handled, filtered out or given up. */
  #position: string | undefined;
  /** Every record up to here was read; undefined where to begin at the oldest. */
  #read: string | undefined;
  #gathered: StreamRecord[] = [];
  #gatheredSince = 0;
  #iterator: string | undefined;
  #trims = 0;
  #tip = -1;
  #finished = false;

  constructor(options: ShardReaderOptions) {
    this.#options = options;
    this.#position = options.position;
    this.#read = options.position;
  }

  /** Sequence number up to which all records are handled, filtered out or given up. */
  get position(): string | undefined {
    return this.#position;
  }

  /** Whether the shard has ended and all of it is done. */
  get finished(): boolean {
    return this.#finished;
  }

  /** The tick at which the newest request began that found nothing more, with all that came before it done. */
  get tip(): number {
    return this.#tip;
  }

  /** Reads until the shard has ended or the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && !this.#finished) {
      const asked = this.#options.tick();
      const page = await this.#readPage(signal);
      if (page !== undefined) await this.#take(page, asked, signal);
    }
  }

  /** The next page; undefined where the signal aborted, or where to try again from `#read`. */
  async #readPage(signal: AbortSignal): Promise<RecordPage | undefined> {
    const { requests, settings, shardId, time } = this.#options;
    try {
      this.#iterator ??= await requests.iterator(shardId, this.#read, signal);
      if (this.#iterator === undefined) return undefined;
      const page = await requests.records(this.#iterator, settings.batchSize - this.#gathered.length, signal);
      this.#iterator = page?.next;
      this.#trims = 0;
      return page;
    } catch (error) {
      this.#iterator = undefined;
      const problem = problemOf(error);
      if (problem === 'expired') return undefined;
      // What was trimmed over and over before it could be read is one gap.
      if (this.#trims === 0) await this.#options.onTrimmed({ shardId, afterSequenceNumber: this.#read });
      this.#read = undefined;
      this.#trims++;
      // Shards go a day after their last record. Where it is the whole stream that has gone, the poller finds out.
      if (problem === 'gone') this.#finished = true;
      else await time.sleep(backoffMs(this.#trims, settings), signal);
      return undefined;
    }
  }

  async #take(page: RecordPage, asked: number, signal: AbortSignal): Promise<void> {
    const { filter, onTip, settings, time } = this.#options;
    this.#read = page.records.at(-1)?.sequenceNumber ?? this.#read;
    if (this.#gathered.length === 0) this.#gatheredSince = time.now();
    this.#gathered.push(...page.records.filter(filter));

    const waitMs = this.#gatheredSince + settings.maximumBatchingWindowSeconds * 1000 - time.now();
    const full = this.#gathered.length >= settings.batchSize;
    if (page.next === undefined || full || waitMs <= 0 || this.#gathered.length === 0) await this.#handOver(signal);
    if (signal.aborted) return;
    if (page.next === undefined) {
      this.#finished = true;
    } else if (page.records.length === 0 && this.#gathered.length === 0) {
      this.#tip = asked;
      onTip();
      await time.sleep(settings.pollMs, signal);
    } else if (page.records.length === 0) {
      await time.sleep(Math.min(settings.pollMs, waitMs), signal);
    }
  }

  async #handOver(signal: AbortSignal): Promise<void> {
    const batch = this.#gathered;
    this.#gathered = [];
    await this.#options.delivery.deliver(
      batch,
      (sequenceNumber) => {
        this.#position = sequenceNumber;
      },
      signal,
    );
    // Records that the filter left out behind the last of the batch are done as well.
    if (!signal.aborted) this.#position = this.#read ?? this.#position;
  }
}

function problemOf(error: unknown): 'expired' | 'trimmed' | 'gone' {
  if (error instanceof ResourceMissingError) return 'gone';
  if (error instanceof Error && error.name === 'ExpiredIteratorException') return 'expired';
  if (error instanceof Error && error.name === 'TrimmedDataAccessException') return 'trimmed';
  throw error;
}
