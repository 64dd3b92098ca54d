import type { LogId } from '../../src/ids/log-id.ts';
import type { Entry } from '../../src/log/entry.ts';
import type { RangeOptions, SegmentRange } from '../../src/log/log-store.ts';
import { entryAt } from './logs.ts';
import { MemoryLogStore } from './stores/memory-log-store.ts';

export const MB = 2 ** 20;
/** Eventually consistent reads pay for this many bytes together. */
const HALF_UNITS_BYTES = 8192;

export interface SizedLogOptions {
  /** Whether the entry that exceeds 1 MB still belongs to its page. */
  readonly exceeds?: boolean;
  /** Turns of the event loop that a request takes. */
  readonly turns?: () => number;
  /** Attempts that a request takes; the first one has the number 1. */
  readonly attempts?: (request: number) => number;
}

/**
 * A log with one segment, whose entries have the given sizes in bytes and no contents. Its pages
 * end at 1 MB, and it reports their sizes as the DynamoDB adapter does. It makes entries when they
 * are read, so a log may be larger than the memory.
 */
export class SizedLog extends MemoryLogStore {
  requests = 0;
  /** The most bytes of entries that were returned before {@link consume} took them. */
  mostHeld = 0;
  readonly bytes: number;
  readonly #sizes: readonly number[];
  readonly #options: Required<SizedLogOptions>;
  #held = 0;

  constructor(sizes: readonly number[], { exceeds = true, turns = () => 0, attempts = () => 1 }: SizedLogOptions = {}) {
    super();
    this.#sizes = sizes;
    this.#options = { exceeds, turns, attempts };
    this.bytes = sizes.reduce((sum, size) => sum + size, 0);
  }

  get length(): number {
    return this.#sizes.length;
  }

  consume(entry: number): void {
    this.#held -= this.#sizes[entry] ?? 0;
  }

  override async *entries(
    log: LogId,
    { segment, from, to }: SegmentRange,
    { onPage }: RangeOptions = { consistent: true },
  ): AsyncGenerator<Entry[]> {
    for (let next = from; ; ) {
      const attempts = this.#options.attempts(++this.requests);
      for (let turns = this.#options.turns(); turns > 0; turns--) await new Promise((resolve) => setImmediate(resolve));
      const end = Math.min(to, this.#pageEnd(next));
      const bytes = this.#sizes.slice(next, end).reduce((sum, size) => sum + size, 0);
      const units = Math.max(1, Math.ceil(bytes / HALF_UNITS_BYTES));
      onPage?.({ items: end - next, bytes: units * HALF_UNITS_BYTES, attempts });
      this.#held += bytes;
      this.mostHeld = Math.max(this.mostHeld, this.#held);
      const isWhole = end === Math.min(to, this.#sizes.length);
      const first = next;
      if (end > first) yield Array.from({ length: end - first }, (_, i) => entryAt(log, { segment, entry: first + i }));
      if (isWhole) return;
      next = end;
    }
  }

  #pageEnd(from: number): number {
    let bytes = 0;
    for (let entry = from; ; entry++) {
      const size = this.#sizes[entry];
      if (size === undefined || bytes > MB) return entry;
      if (!this.#options.exceeds && entry > from && bytes + size > MB) return entry;
      bytes += size;
    }
  }
}
