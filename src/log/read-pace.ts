import type { PageRead } from './log-store.ts';

/** Entries of a range while the size of entries is unknown. */
const FIRST_ENTRIES = 500;
// https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Query.Pagination.html
/** Bytes of items at which DynamoDB ends a page. */
const PAGE_BYTES = 2 ** 20;
/** Part of its pages that a range is meant to fill. The rest allows for larger entries. */
const FILL = 0.95;
/** The most pages of a range. Its last page is partly empty, which costs less of a longer range. */
const MOST_PAGES = 4;
/** Concurrent ranges once the size of entries is known. */
const FIRST_RANGES = 2;
/**
 * The most concurrent ranges: 8 pages of 1 MB of items are in memory, besides the one that the
 * caller has. DynamoDB delivers 24 MB a second of one log, so 8 requests suffice up to 300 ms each.
 */
const MOST_RANGES = 8;
/** Concurrent ranges of a store that reports no sizes. */
const UNSIZED_RANGES = 4;

export interface PaceLimits {
  /** The most entries of a range. */
  readonly rangeEntries?: number | undefined;
  /** The most concurrent ranges. */
  readonly ranges?: number | undefined;
}

/** The next range to read. */
export interface RangePlan {
  readonly entries: number;
  /** Pages that the entries fill; undefined if their size is unknown. */
  readonly pages: number | undefined;
}

/** A range that was read to its end. */
export interface PacedRead {
  readonly plan: RangePlan;
  readonly pages: number;
  /** Number of entries in its longest page. */
  readonly longest: number;
}

/** Bytes and number of the recent entries. Each page counts half as much as the page after it. */
interface RecentEntries {
  readonly bytes: number;
  readonly entries: number;
}

/**
 * Learns from the pages of a log how many entries to request next, and how many ranges at the same
 * time. Ranges fill DynamoDB's pages, since each request has a price in time and CPU.
 */
export class ReadPace {
  readonly #limits: PaceLimits;
  #sizes: RecentEntries | 'unread' | 'untold' = 'unread';
  #ranges = FIRST_RANGES;
  /** Pages of a range with known size. */
  #pages = 1;
  /** Entries of a range with unknown size. */
  #entries: number;

  constructor(limits: PaceLimits) {
    this.#limits = limits;
    this.#entries = this.#unsizedEntries;
  }

  /**
   * Ranges to request or hold concurrently, with the one that the caller reads. At least 1. Only 1
   * until the first page shows how long the others should be.
   */
  get ranges(): number {
    const { ranges = MOST_RANGES } = this.#limits;
    if (this.#sizes === 'unread') return 1;
    if (this.#sizes === 'untold') return this.#limits.ranges ?? UNSIZED_RANGES;
    return Math.min(this.#ranges, ranges);
  }

  /** At least one entry. */
  get next(): RangePlan {
    const sizes = this.#sizes;
    if (sizes === 'unread' || sizes === 'untold') return { entries: this.#entries, pages: undefined };
    const fitting = Math.ceil((this.#pages * FILL * PAGE_BYTES * sizes.entries) / sizes.bytes);
    return { entries: Math.min(fitting, this.#limits.rangeEntries ?? fitting), pages: this.#pages };
  }

  /** A request returned a page. */
  read({ items, bytes, attempts }: PageRead): void {
    if (attempts > 1) this.#ranges = Math.max(1, Math.floor(this.#ranges / 2));
    if (items === 0 || bytes === 0) return;
    const before = typeof this.#sizes === 'string' ? { bytes: 0, entries: 0 } : this.#sizes;
    this.#sizes = { bytes: before.bytes / 2 + bytes, entries: before.entries / 2 + items };
  }

  /** A range returned entries whose size the store did not report. */
  readUntold(): void {
    this.#sizes = 'untold';
  }

  /** The caller asked for a range before its first page had arrived. */
  waited(): void {
    this.#ranges = Math.min(this.#ranges + 1, MOST_RANGES);
  }

  /**
   * A range was read. If it took more pages than planned, its entries are larger, or differ in
   * size. Then ranges become longer, because the additional page of each is partly empty.
   */
  ended({ plan, pages, longest }: PacedRead): void {
    if (plan.pages !== undefined) {
      if (pages > plan.pages) this.#pages = Math.min(Math.max(this.#pages, plan.pages + 1), MOST_PAGES);
    } else {
      this.#entries = pages > 1 ? Math.max(1, longest) : Math.min(this.#entries * 2, this.#unsizedEntries);
    }
  }

  get #unsizedEntries(): number {
    return this.#limits.rangeEntries ?? FIRST_ENTRIES;
  }
}
