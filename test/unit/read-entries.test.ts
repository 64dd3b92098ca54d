import { beforeEach, describe, expect, test } from 'vitest';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { EntryGapError, LogNotFoundError, PositionInvalidError } from '../../src/errors.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { comparePositions, type Position } from '../../src/ids/position.ts';
import { type Entry, RESERVED_TYPES } from '../../src/log/entry.ts';
import type { Consistency, LogStore, SegmentRange } from '../../src/log/log-store.ts';
import { type EntryRange, type OpenRange, readEntries, readUpTo } from '../../src/log/read-entries.ts';
import { entryAt, NOON, newLogId, recordRequests } from '../support/logs.ts';

const at = (segment: number, entry: number) => ({ segment, entry });
const END = { type: 'End Segment' };

let log: LogId;
beforeEach(() => {
  log = newLogId();
});

/** Segments of these lengths. All except the last end with an End Segment entry, which counts. */
async function build(store: LogStore, lengths: readonly number[], missing: readonly Position[] = []): Promise<void> {
  for (const [segment, length] of lengths.entries()) {
    for (let entry = 0; entry < length; entry++) {
      if (missing.some((each) => each.segment === segment && each.entry === entry)) continue;
      const last = segment < lengths.length - 1 && entry === length - 1;
      const item = entryAt(log, at(segment, entry), last ? END : {});
      if (entry === 0) await store.createLog({ log, segment, created: NOON }, item);
      else await store.putEntries([item]);
    }
  }
}

const sourceOf = (store: LogStore) => ({ store, types: RESERVED_TYPES, rangeEntries: 4, concurrency: 3 });

async function placesOf(pages: AsyncIterable<Entry[]>): Promise<string[]> {
  const places: string[] = [];
  for await (const page of pages) {
    expect(page.length).toBeGreaterThan(0);
    for (const { position } of page) places.push(`${position.segment}/${position.entry}`);
  }
  return places;
}

function read(store: LogStore, range: EntryRange, options = {}): Promise<string[]> {
  return placesOf(readEntries({ ...sourceOf(store), ...options }, log, range));
}

function readOpen(store: LogStore, range: OpenRange, options = {}): Promise<string[]> {
  return placesOf(readUpTo({ ...sourceOf(store), ...options }, log, range));
}

function places(segment: number, from: number, to: number): string[] {
  return Array.from({ length: to - from }, (_, i) => `${segment}/${from + i}`);
}

/** A store whose eventually consistent reads do not show some entries. */
class StaleStore extends MemoryLogStore {
  hidden: (position: Position) => boolean = () => false;
  consistentReads = 0;

  override async *entries(
    log: LogId,
    range: Parameters<LogStore['entries']>[1],
    consistency: Consistency = { consistent: true },
  ): AsyncGenerator<Entry[]> {
    if (consistency.consistent) this.consistentReads++;
    for await (const page of super.entries(log, range)) {
      yield consistency.consistent ? page : page.filter(({ position }) => !this.hidden(position));
    }
  }

  override async newestEntry(log: LogId, segment: number, consistency: Consistency = { consistent: true }) {
    const newest = await super.newestEntry(log, segment);
    if (consistency.consistent || newest === undefined) return newest;
    for (let entry = newest.position.entry; entry >= 0; entry--) {
      if (!this.hidden(at(segment, entry))) return this.getEntry(log, at(segment, entry));
    }
    return undefined;
  }
}

describe('reading entries', () => {
  const lengths = [10, 1, 8, 13];
  const all = lengths.flatMap((length, segment) => places(segment, 0, length));

  test.each([
    [1, 1],
    [2, 1],
    [3, 5],
    [8, 2],
    [100, 4],
  ])(
    'every range is read in order with %d entries per request and %d concurrent requests',
    async (rangeEntries, concurrency) => {
      const store = new MemoryLogStore({ pageItems: 3 });
      await build(store, lengths);
      const options = { rangeEntries, concurrency };
      for (const [i, first] of all.entries()) {
        const [segment = 0, entry = 0] = first.split('/').map(Number);
        expect(await read(store, { from: at(segment, entry), to: 'end' }, options)).toEqual(all.slice(i));
        expect(await read(store, { from: at(0, 0), to: at(segment, entry) }, options)).toEqual(all.slice(0, i));
        expect(await read(store, { from: at(segment, entry), to: at(3, 5) }, options).catch(() => 'refused')).toEqual(
          i <= all.indexOf('3/5') ? all.slice(i, all.indexOf('3/5')) : 'refused',
        );
      }
    },
  );

  test('the end of the log has no entries', async () => {
    const store = new MemoryLogStore();
    await build(store, [3, 5]);
    expect(await read(store, { from: at(1, 5), to: 'end' })).toEqual([]);
    expect(await read(store, { from: at(1, 5), to: at(1, 5) })).toEqual([]);
    expect(await read(store, { from: at(0, 3), to: 'end' })).toEqual(places(1, 0, 5));
    expect(await read(store, { from: at(0, 0), to: at(1, 5) })).toEqual([...places(0, 0, 3), ...places(1, 0, 5)]);
  });

  test('a short tail takes one request if the newest segment is known, otherwise two', async () => {
    const requests: string[] = [];
    const store = recordRequests(new MemoryLogStore(), requests);
    await build(store, [2]);
    const whole = { rangeEntries: 5 };
    requests.length = 0;
    expect(await readOpen(store, { from: at(0, 1), to: 'end', newestSegment: 0 }, whole)).toEqual(['0/1']);
    expect(requests).toEqual(['entries']);
    requests.length = 0;
    expect(await read(store, { from: at(0, 1), to: 'end' }, whole)).toEqual(['0/1']);
    expect(requests).toEqual(['newestSegments', 'entries']);
  });

  test('the number of requests is limited, even with a slow reader', async () => {
    let open = 0;
    let most = 0;
    let started = 0;
    class Slow extends MemoryLogStore {
      override async *entries(log: LogId, range: Parameters<LogStore['entries']>[1]): AsyncGenerator<Entry[]> {
        started++;
        most = Math.max(most, ++open);
        await new Promise((resolve) => setImmediate(resolve));
        open--;
        yield* super.entries(log, range);
      }
    }
    const store = new Slow();
    await build(store, [400]);
    const pages = readEntries({ store, types: RESERVED_TYPES, rangeEntries: 10, concurrency: 3 }, log, {
      from: at(0, 0),
      to: at(0, 400),
    });
    for await (const page of pages) {
      for (let turn = 0; turn < 5; turn++) await new Promise((resolve) => setImmediate(resolve));
      expect(page).toHaveLength(10);
      expect(started).toBeLessThanOrEqual((page[0]?.position.entry ?? 0) / 10 + 3);
    }
    expect(most).toBe(3);
    expect(started).toBe(40);
  });

  test('a reader that stops early or fails leaves no rejection behind', async () => {
    const store = new MemoryLogStore();
    await build(store, [40], [at(0, 30), at(0, 35)]);
    for await (const page of readEntries({ store, types: RESERVED_TYPES, rangeEntries: 5 }, log, {
      from: at(0, 0),
      to: at(0, 40),
    })) {
      expect(page).toHaveLength(5);
      break;
    }
    await expect(read(store, { from: at(0, 20), to: at(0, 40) })).rejects.toMatchObject({ entry: 30 });
    // Other ranges have failed by now too. Vitest reports unhandled rejections.
    await new Promise((resolve) => setImmediate(resolve));
  });
});

describe('a range that may end early', () => {
  const lengths = [3, 1, 9, 6];
  const all = lengths.flatMap((length, segment) => places(segment, 0, length));
  const positions = [...all, '0/3', '1/7', '3/6', '3/7', '9/9'].map((place) => {
    const [segment = 0, entry = 0] = place.split('/').map(Number);
    return at(segment, entry);
  });

  test.each([
    [1, 1],
    [4, 2],
    [50, 3],
  ])(
    'it ends at its bound, its limit and the end of the log, with %d entries per request',
    async (rangeEntries, concurrency) => {
      const store = new MemoryLogStore({ pageItems: 3 });
      await build(store, lengths);
      for (const from of positions.slice(0, all.length)) {
        for (const to of [...positions, 'end'] as const) {
          if (to !== 'end' && comparePositions(from, to) > 0) continue;
          for (const limit of [1, 2, 5, 1000]) {
            const within = positions
              .slice(0, all.length)
              .filter((each) => comparePositions(each, from) >= 0 && (to === 'end' || comparePositions(each, to) < 0));
            const read = await readOpen(store, { from, to, limit }, { rangeEntries, concurrency });
            expect(read).toEqual(within.slice(0, limit).map(({ segment, entry }) => `${segment}/${entry}`));
          }
        }
      }
    },
  );

  test('it requests no more entries than its limit and the previous one', async () => {
    const ranges: SegmentRange[] = [];
    class Watched extends MemoryLogStore {
      override entries(log: LogId, range: SegmentRange): AsyncGenerator<Entry[]> {
        ranges.push(range);
        return super.entries(log, range);
      }
    }
    const store = new Watched();
    await build(store, [3, 20]);
    await readOpen(store, { from: at(1, 5), to: 'end', limit: 2, newestSegment: 1 }, { rangeEntries: 50 });
    expect(ranges).toEqual([{ segment: 1, from: 4, to: 7 }]);
  });

  test('a gap inside is an error, wherever the range ends', async () => {
    const store = new MemoryLogStore();
    await build(store, [3, 12], [at(1, 6)]);
    for (const to of [at(1, 8), at(1, 99), at(5, 0), 'end'] as const) {
      await expect(readOpen(store, { from: at(0, 0), to })).rejects.toThrow(EntryGapError);
      await expect(readOpen(store, { from: at(0, 0), to, limit: 10 })).rejects.toThrow(EntryGapError);
      expect(await readOpen(store, { from: at(0, 0), to, limit: 9 })).toHaveLength(9);
    }
    await expect(readOpen(store, { from: at(1, 7), to: at(1, 8) })).rejects.toThrow(EntryGapError);
  });

  test('a closed segment without its last entries is an error', async () => {
    const store = new MemoryLogStore();
    await build(store, [8, 3], [at(0, 6), at(0, 7)]);
    await expect(readOpen(store, { from: at(0, 4), to: at(0, 8) })).rejects.toThrow(EntryGapError);
    expect(await readOpen(store, { from: at(0, 4), to: at(0, 6) })).toEqual(places(0, 4, 6));
  });

  test('an explicit bound misses no entry because of a stale read', async () => {
    const store = new StaleStore();
    await build(store, [3, 20]);
    store.hidden = ({ segment, entry }) => segment === 1 && entry > 9;
    expect(await readOpen(store, { from: at(1, 0), to: at(1, 15) })).toEqual(places(1, 0, 15));
    expect(await readOpen(store, { from: at(1, 0), to: at(4, 0), newestSegment: 1 })).toEqual(places(1, 0, 20));
    expect(await readOpen(store, { from: at(0, 0), to: at(1, 99), newestSegment: 0 })).toHaveLength(23);
  });
});

describe('gaps', () => {
  test.each<[string, Position, EntryRange]>([
    ['a gap in the first range', at(1, 2), { from: at(1, 0), to: 'end' }],
    ['a gap at the end of the first range', at(1, 3), { from: at(1, 0), to: 'end' }],
    ['a gap in a later range', at(1, 9), { from: at(1, 0), to: 'end' }],
    ['a gap at the start of a run', at(1, 5), { from: at(1, 5), to: at(1, 8) }],
    ['a gap at the end of a run', at(1, 7), { from: at(1, 5), to: at(1, 8) }],
    ['a gap at the end of a range', at(1, 3), { from: at(1, 0), to: at(1, 12) }],
    ['a gap at the start of a segment', at(1, 1), { from: at(0, 0), to: 'end' }],
    ['a gap in an earlier segment', at(0, 6), { from: at(0, 0), to: at(1, 3) }],
    ['a gap right before the start', at(1, 4), { from: at(1, 5), to: 'end' }],
  ])('%s is an error that names the entry', async (_where, gap, range) => {
    const store = new MemoryLogStore();
    await build(store, [8, 14], [gap]);
    const reading = read(store, range);
    await expect(reading).rejects.toThrow(EntryGapError);
    await expect(reading).rejects.toMatchObject({ log, segment: gap.segment, entry: gap.entry });
  });

  test('gaps outside the range do not matter', async () => {
    const store = new MemoryLogStore();
    await build(store, [8, 14], [at(0, 2), at(1, 9)]);
    expect(await read(store, { from: at(0, 4), to: at(1, 9) })).toEqual([...places(0, 4, 8), ...places(1, 0, 9)]);
  });

  test('a range beyond the end of the log is a gap', async () => {
    const store = new MemoryLogStore();
    await build(store, [3, 5]);
    const gap = async (range: EntryRange, place: object) => {
      const reading = read(store, range);
      await expect(reading).rejects.toThrow(EntryGapError);
      await expect(reading).rejects.toMatchObject({ log, ...place });
    };
    await gap({ from: at(1, 0), to: at(1, 6) }, { segment: 1, entry: 5 });
    await gap({ from: at(1, 0), to: at(1, 4_000_000_000) }, { segment: 1, entry: 5 });
    await gap({ from: at(1, 0), to: at(2, 0) }, { segment: 1, entry: 5 });
    await gap({ from: at(0, 0), to: at(0, 4) }, { segment: 0, entry: 3 });
    await gap({ from: at(1, 6), to: 'end' }, { segment: 1, entry: 5 });
    await gap({ from: at(7, 0), to: 'end' }, { segment: 7, entry: 0 });
  });

  test('a segment without End Segment entry is a gap unless it is the newest', async () => {
    const store = new MemoryLogStore();
    await build(store, [8, 5], [at(0, 7)]);
    for (const to of ['end', at(1, 2)] as const) {
      const reading = read(store, { from: at(0, 0), to });
      await expect(reading).rejects.toThrow(EntryGapError);
      await expect(reading).rejects.toMatchObject({ log, segment: 0, entry: 7 });
    }
  });

  test('a missing segment is a gap', async () => {
    const store = new MemoryLogStore();
    await build(store, [8]);
    await store.createLog({ log, segment: 2, created: NOON }, entryAt(log, at(2, 0)));
    await store.putEntries([entryAt(log, at(0, 8), END)]);
    await expect(read(store, { from: at(0, 0), to: 'end' })).rejects.toMatchObject({ segment: 1, entry: 0 });
  });
});

describe('stale reads', () => {
  test.each<[string, (position: Position) => boolean]>([
    ['one entry', ({ segment, entry }) => segment === 0 && entry === 6],
    ['entries here and there', ({ entry }) => entry % 3 === 1],
    ['the first entries', ({ entry }) => entry < 2],
    ['the end of a segment', ({ segment, entry }) => segment === 0 && entry > 4],
    ['a whole segment', ({ segment }) => segment === 1],
    ['everything', () => true],
  ])('stale reads without %s are repeated consistently', async (_what, hidden) => {
    const store = new StaleStore({ pageItems: 3 });
    await build(store, [10, 2, 6]);
    store.hidden = hidden;
    const expected = [...places(0, 0, 10), ...places(1, 0, 2), ...places(2, 0, 6)];
    expect(await read(store, { from: at(0, 0), to: at(2, 6) })).toEqual(expected);
    const toEnd = await read(store, { from: at(0, 0), to: 'end' });
    expect(toEnd).toEqual(expected.slice(0, toEnd.length));
    expect(toEnd.length).toBeGreaterThanOrEqual(12);
    expect(store.consistentReads).toBeGreaterThan(0);
  });

  test('reads without gaps are not repeated', async () => {
    const store = new StaleStore();
    await build(store, [10, 2, 6]);
    await read(store, { from: at(0, 0), to: at(2, 6) });
    await read(store, { from: at(0, 0), to: 'end' });
    expect(store.consistentReads).toBe(0);
  });

  test('stale reads may miss the newest entries', async () => {
    const store = new StaleStore();
    await build(store, [3, 20]);
    store.hidden = ({ segment, entry }) => segment === 1 && entry > 9;
    expect(await read(store, { from: at(1, 0), to: 'end' })).toEqual(places(1, 0, 10));
  });

  test('a read continues into a segment that was started in the meantime', async () => {
    const store = new MemoryLogStore();
    await build(store, [3, 5]);
    expect(await readOpen(store, { from: at(0, 0), to: 'end', newestSegment: 0 })).toHaveLength(8);
  });
});

test('a range that goes backwards or has no log is refused', async () => {
  const store = new MemoryLogStore();
  await expect(read(store, { from: at(0, 0), to: 'end' })).rejects.toThrow(LogNotFoundError);
  await build(store, [3, 5]);
  await expect(read(store, { from: at(1, 0), to: at(0, 2) })).rejects.toThrow(PositionInvalidError);
});

test('at most one page of each range is read ahead', async () => {
  const pageItems = 3;
  let given = 0;
  class CountedStore extends MemoryLogStore {
    override async *entries(log: LogId, range: Parameters<LogStore['entries']>[1]): AsyncGenerator<Entry[]> {
      for await (const page of super.entries(log, range)) {
        given += page.length;
        yield page;
      }
    }
  }
  const store = new CountedStore({ pageItems });
  await build(store, [400]);
  let read = 0;
  let ahead = 0;
  const concurrency = 4;
  const pages = readEntries({ store, types: RESERVED_TYPES, rangeEntries: 50, concurrency }, log, {
    from: at(0, 0),
    to: at(0, 400),
  });
  for await (const page of pages) {
    for (let i = 0; i < 5; i++) await new Promise((resolve) => setImmediate(resolve));
    ahead = Math.max(ahead, given - read);
    read += page.length;
  }
  expect(read).toBe(400);
  // The count includes the page that was just yielded.
  expect(ahead).toBe((concurrency + 1) * pageItems);
});
