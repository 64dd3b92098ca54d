import fc from 'fast-check';
import { expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { type Entry, RESERVED_TYPES } from '../../src/log/entry.ts';
import type { RangeOptions, SegmentRange } from '../../src/log/log-store.ts';
import { readEntries } from '../../src/log/read-entries.ts';
import { ReadPace } from '../../src/log/read-pace.ts';
import { buildState } from '../../src/snapshot/build.ts';
import { entryAt, newLogId, unarchived } from '../support/logs.ts';
import { propertyRuns } from '../support/property-runs.ts';

const MB = 2 ** 20;
/** Eventually consistent reads pay for this many bytes together. */
const HALF_UNITS_BYTES = 8192;

interface SizedLogOptions {
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
class SizedLog extends MemoryLogStore {
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

const KB = 1024;
const MAX_ITEM = 400 * KB;
const pageRead = fc.record({
  items: fc.integer({ min: 0, max: 30_000 }),
  bytes: fc.integer({ min: 0, max: MB + MAX_ITEM }),
  attempts: fc.integer({ min: 1, max: 4 }),
});
const events = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: fc.record({ kind: fc.constant('read' as const), page: pageRead }) },
    fc.record({ kind: fc.constant('waited' as const) }),
    fc.record({ kind: fc.constant('untold' as const) }),
    fc.record({ kind: fc.constant('ended' as const), pages: fc.integer({ min: 0, max: 9 }) }),
  ),
  { maxLength: 60 },
);
const limit = (max: number) => fc.option(fc.integer({ min: 1, max }), { nil: undefined });

test('after any pages, ranges have at least one entry and fit into four pages of the smallest entries', () => {
  fc.assert(
    fc.property(events, limit(1000), limit(12), (all, rangeEntries, ranges) => {
      const pace = new ReadPace({ rangeEntries, ranges });
      let smallest = Number.POSITIVE_INFINITY;
      for (const event of all) {
        if (event.kind === 'waited') pace.waited();
        if (event.kind === 'untold') pace.readUntold();
        if (event.kind === 'ended') pace.ended({ plan: pace.next, pages: event.pages, longest: pace.next.entries });
        if (event.kind === 'read') {
          const { items, bytes } = event.page;
          pace.read(event.page);
          if (items > 0 && bytes > 0) smallest = Math.min(smallest, bytes / items);
        }
        const { entries, pages } = pace.next;
        expect(Number.isSafeInteger(entries)).toBe(true);
        expect(entries).toBeGreaterThanOrEqual(1);
        expect(entries).toBeLessThanOrEqual(rangeEntries ?? Math.max(500, (4 * MB) / smallest + 1));
        expect(pages ?? 1).toBeLessThanOrEqual(4);
        expect(pace.ranges).toBeGreaterThanOrEqual(1);
        expect(pace.ranges).toBeLessThanOrEqual(ranges ?? 8);
      }
    }),
    { numRuns: propertyRuns(500) },
  );
});

const size = fc.double({ min: 0, max: 1, noNaN: true }).map((share) => 70 * (MAX_ITEM / 70) ** share);
/** Parts of a log, each with entries of growing, falling or random sizes. */
const parts = fc.array(
  fc.record({
    kind: fc.constantFrom('line' as const, 'random' as const),
    from: size,
    to: size,
    entries: fc.integer({ min: 1, max: 10_000 }),
    seed: fc.double({ min: 0.1, max: 0.9, noNaN: true }),
  }),
  { minLength: 1, maxLength: 6 },
);
type Part = typeof parts extends fc.Arbitrary<(infer P)[]> ? P : never;

/** The sizes of the entries, at most 60 MB. */
function sizesOf(all: readonly Part[]): number[] {
  const sizes: number[] = [];
  let left = 60 * MB;
  for (const { kind, from, to, entries, seed } of all) {
    let random = seed;
    for (let i = 0; i < entries && left > 0; i++) {
      // A chaotic sequence is random enough for sizes.
      random = 3.99 * random * (1 - random);
      const next = Math.ceil(from * (to / from) ** (kind === 'line' ? i / entries : random));
      sizes.push(next);
      left -= next;
    }
  }
  return sizes;
}

async function readAll(store: SizedLog, limits: { readonly rangeEntries?: number } = {}): Promise<number> {
  const range = { from: { segment: 0, entry: 0 }, to: { segment: 0, entry: store.length } };
  let next = 0;
  for await (const page of readEntries({ store, types: RESERVED_TYPES, ...limits }, newLogId(), range)) {
    for (const { position } of page) {
      if (position.entry !== next) throw new Error(`entry ${next} is missing`);
      store.consume(next++);
    }
  }
  return next;
}

/** Requests that a reader takes who asks for the whole log and follows its pages. */
async function leastRequests(all: readonly number[], options: SizedLogOptions): Promise<number> {
  const store = new SizedLog(all, options);
  const range = { segment: 0, from: 0, to: all.length };
  for await (const page of store.entries(newLogId(), range)) page.length;
  return store.requests;
}

test('a log of any sizes takes at most a fifth more requests than it has pages, plus 10, and holds 9 pages', async () => {
  await fc.assert(
    fc.asyncProperty(parts, fc.boolean(), fc.integer({ min: 0, max: 6 }), async (some, exceeds, turns) => {
      const all = sizesOf(some);
      let request = 0;
      const store = new SizedLog(all, { exceeds, turns: () => (request++ * 7) % (turns + 1) });
      expect(await readAll(store)).toBe(all.length);
      expect(store.requests).toBeLessThanOrEqual(1.2 * (await leastRequests(all, { exceeds })) + 10);
      expect(store.mostHeld).toBeLessThanOrEqual(9 * (exceeds ? MB + MAX_ITEM : MB));
    }),
    { numRuns: propertyRuns(100) },
  );
});

test('a log whose entries grow from 100 bytes to 400 KB and back takes 1.2 requests a megabyte, plus 10', async () => {
  const up = Array.from({ length: 2000 }, (_, i) => Math.ceil(100 * 4096 ** (i / 1999)));
  const jump = [
    ...Array<number>(40_000).fill(100),
    ...Array<number>(100).fill(MAX_ITEM),
    ...Array<number>(40_000).fill(100),
  ];
  for (const all of [[...up, ...up.toReversed()], jump]) {
    for (const turns of [0, 3]) {
      const store = new SizedLog(all, { turns: () => turns });
      expect(await readAll(store)).toBe(all.length);
      expect(store.requests).toBeLessThanOrEqual((1.2 * store.bytes) / MB + 10);
    }
  }
});

test('a log of small entries takes a request for the first 500, then about one a page', async () => {
  const store = new SizedLog(Array<number>(100_000).fill(70));
  expect(await readAll(store)).toBe(100_000);
  // The size of the first page was rounded up, so the second range is a little shorter.
  expect(store.requests).toBeLessThanOrEqual(2 + Math.ceil((99_500 * 70) / (0.95 * MB)));
  const limited = new SizedLog(Array<number>(2000).fill(70));
  expect(await readAll(limited, { rangeEntries: 100 })).toBe(2000);
  expect(limited.requests).toBe(20);
});

test('after a request took several attempts, ranges are read ahead again', async () => {
  const store = new SizedLog(Array<number>(100_000).fill(200), { attempts: (request) => (request === 5 ? 2 : 1) });
  const range = { from: { segment: 0, entry: 0 }, to: { segment: 0, entry: store.length } };
  const ahead: number[] = [];
  for await (const page of readEntries({ store, types: RESERVED_TYPES }, newLogId(), range)) {
    expect(page.length).toBeGreaterThan(0);
    await new Promise((resolve) => setImmediate(resolve));
    ahead.push(store.requests - ahead.length - 1);
  }
  expect(ahead.length).toBeGreaterThan(20);
  // These are the last page, and the only page that is read alone after the throttled request.
  expect(ahead.filter((requests) => requests === 0)).toHaveLength(2);
});

test.each([
  ['1,500 entries of 400 KB', 1500, MAX_ITEM],
  ['200,000 entries of 70 bytes', 200_000, 70],
])('a build of %s holds at most the pages of eight ranges, and the page that it folds', async (_, entries, each) => {
  let requests = 0;
  // The pages of other ranges arrive while the build waits for a slow one.
  const turns = () => (requests++ % 8 === 7 ? 50 : 1);
  const tables = new SizedLog(Array<number>(entries).fill(each), { turns });
  let folded = 0;
  const reducer = { name: 'counter', version: 1, fold: () => tables.consume(folded++) };
  const stores = { store: unarchived(tables), blobs: new MemoryBlobStore(), platform: nativePlatform };
  const at = { segment: 0, entry: entries };
  const built = await buildState({ ...stores, reducer, types: RESERVED_TYPES }, newLogId(), { at, only: 'beginning' });
  expect(built.entries).toBe(entries);
  expect(folded).toBe(entries);
  const page = each < MAX_ITEM ? MB + each : 3 * each;
  expect(tables.mostHeld).toBeGreaterThan(2 * page);
  expect(tables.mostHeld).toBeLessThanOrEqual(9 * page);
  expect(tables.requests).toBeLessThanOrEqual((1.2 * tables.bytes) / MB + 4);
});
