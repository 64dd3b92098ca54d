import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { formatPosition } from '../../src/ids/position.ts';
import type { StoredItem } from '../../src/log/attribute.ts';
import type { LogStore } from '../../src/log/log-store.ts';
import type { Segment } from '../../src/log/segment.ts';
import type { MappedItems } from '../../src/mapping/mapped-items.ts';
import { MappedLogStore } from '../../src/mapping/mapped-log-store.ts';
import { NOON } from '../support/logs.ts';
import { Random } from '../support/models/random.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { newMappedLog, ORDERS, orderItem } from '../support/stores/mapped-logs.ts';
import { MemoryMappedItems } from '../support/stores/memory-mapped-items.ts';

const CONSISTENT = { consistent: true };
const EVENTUAL = { consistent: false };
const FOURS = { items: 4, snapshotEvery: 2 };
const THREES = { items: 3, snapshotEvery: 3 };
const SIZES = [FOURS, THREES, { items: 6, snapshotEvery: 2 }];

/** Segments that were read at some time, and what an entry was at each position. */
interface Seen {
  readonly segments: readonly Segment[];
  readonly entries: readonly { readonly place: string; readonly what: string }[];
}

/** One table with concurrent writers, and stores whose reads are late and may be stale. */
class LateTables {
  readonly log: LogId = newMappedLog();
  readonly random: Random;
  readonly #books = new MemoryLogStore({ pageItems: 2 });
  readonly #items = new MemoryMappedItems({ mapping: ORDERS, books: this.#books, pageItems: 2 });
  /** The records at earlier times. */
  readonly #past: (readonly Segment[])[] = [[]];
  #count = 0;

  constructor(seed: number) {
    this.random = new Random(seed);
  }

  append(): void {
    this.#items.insert(orderItem(this.log, this.#count));
    this.#count++;
  }

  /** Lets other operations run for a while. */
  async wait(): Promise<void> {
    for (let turns = this.random.below(6); turns > 0; turns--) await Promise.resolve();
  }

  /** Remembers the records as they are now, for stale reads. */
  async remember(): Promise<void> {
    this.#past.push(await Array.fromAsync(this.#books.segments(this.log)));
  }

  open(): MappedLogStore {
    const { random } = this;
    // A stale read shows some prefix of the items.
    const limit = (consistent: boolean): number => (consistent ? this.#count : random.below(this.#count + 1));
    const records = async (consistent: boolean): Promise<readonly Segment[]> => {
      await this.wait();
      if (consistent) return Array.fromAsync(this.#books.segments(this.log));
      return random.pick(this.#past) ?? [];
    };
    const late = async <T>(operation: () => Promise<T>): Promise<T> => {
      await this.wait();
      const result = await operation();
      await this.wait();
      return result;
    };
    const wait = () => this.wait();
    async function* latePages<T>(pages: () => AsyncIterable<T>): AsyncGenerator<T> {
      await wait();
      yield* pages();
    }
    const { items: inner, books: stored } = { items: this.#items, books: this.#books };
    const items: MappedItems = {
      newest: (log, below, { consistent }) => late(() => inner.newest(log, Math.min(below, limit(consistent)))),
      pages: (log, { from, to }, { consistent }) =>
        latePages(() => inner.pages(log, { from, to: Math.min(to, limit(consistent)) })),
      logs: (part) => inner.logs(part),
      putSegment: (segment) => late(() => inner.putSegment(segment)),
      beginSegment: (segment) => late(() => inner.beginSegment(segment)),
      put: (all) => inner.put(all),
      expire: (segment, indexes, how) => inner.expire(segment, indexes, how),
      unexpire: (segment, indexes) => inner.unexpire(segment, indexes),
      setExpiry: (log, index, expires) => inner.setExpiry(log, index, expires),
    };
    const books: LogStore = new Proxy<LogStore>(stored, {
      get: (target, name) => {
        if (name === 'newestSegments') {
          return async (_: LogId, most: number, { consistent }: { consistent: boolean }) =>
            (await records(consistent)).toReversed().slice(0, most);
        }
        if (name === 'getSegment') {
          return async (_: LogId, segment: number, { consistent }: { consistent: boolean }) =>
            (await records(consistent)).find((each) => each.segment === segment);
        }
        const member: unknown = Reflect.get(target, name, target);
        if (typeof member !== 'function') return member;
        if (name === 'putSegment') return (...args: unknown[]) => late(async () => Reflect.apply(member, target, args));
        return member.bind(target);
      },
    });
    return new MappedLogStore({ items, books, mapping: ORDERS, now: () => NOON * 1000 });
  }
}

/** Reads everything that a store shows. */
async function look(
  tables: LateTables,
  store: MappedLogStore,
  consistency: { readonly consistent: boolean },
): Promise<Seen> {
  const segments = await store.newestSegments(tables.log, 3, consistency);
  const entries: { place: string; what: string }[] = [];
  for (let segment = 0; segment < (segments[0]?.segment ?? 0) + 2; segment++) {
    for await (const page of store.items(tables.log, { segment, from: 0, to: 100 }, consistency)) {
      entries.push(...page.map((item) => ({ place: `${segment}/${item.N?.N}`, what: identity(item) })));
    }
    const newest = await store.newestEntry(tables.log, segment, consistency);
    if (newest === undefined) continue;
    const { position, type, number } = newest;
    entries.push({ place: formatPosition(position), what: `${type} ${number}` });
    const found = await store.getSegment(tables.log, segment, consistency);
    if (found !== undefined) segments.push(found);
  }
  return { segments, entries };
}

function identity({ T, Q }: StoredItem): string {
  return `${T?.S} ${Q?.N}`;
}

test('no read ever shows an entry at a position where the log has another one in the end', async () => {
  await fc.assert(
    fc.asyncProperty(fc.integer({ min: 1 }), async (seed) => {
      const tables = new LateTables(seed);
      const { random } = tables;
      tables.append();
      await tables.open().register(tables.log, FOURS);
      const seen: Seen[] = [];
      const application = async (): Promise<void> => {
        for (let i = 0; i < 30; i++) {
          tables.append();
          for (let turns = random.below(12); turns > 0; turns--) await tables.wait();
        }
      };
      const registering = async (): Promise<void> => {
        const store = tables.open();
        for (let i = 0; i < 10; i++) {
          await store.register(tables.log, random.pick(SIZES) ?? FOURS);
          await tables.remember();
          for (let turns = random.below(8); turns > 0; turns--) await tables.wait();
        }
      };
      const reading = async (store: MappedLogStore): Promise<void> => {
        for (let i = 0; i < 6; i++) {
          const consistency = random.chance(0.5) ? CONSISTENT : EVENTUAL;
          try {
            seen.push(await look(tables, store, consistency));
          } catch (error) {
            // The log is not registered yet, as far as this read shows.
            if (!(error instanceof Error && 'code' in error && error.code === 'LOG_NOT_FOUND')) throw error;
          }
        }
      };
      const readers = Array.from({ length: 3 }, () => tables.open());
      await Promise.all([application(), registering(), registering(), ...readers.map(reading)]);
      await tables.open().register(tables.log, THREES);
      const last = await look(tables, tables.open(), CONSISTENT);
      const truth = new Map(last.entries.map(({ place, what }) => [place, what]));
      expect(truth.size).toBeGreaterThan(30);
      const whole = [...truth.values()].filter((what) => what.startsWith('Set')).map((what) => Number(what.slice(4)));
      expect(whole.sort((a, b) => a - b)).toEqual(Array.from({ length: 31 }, (_, i) => i + 1));
      const firsts = new Map<number, number | undefined>();
      for await (const { segment, schedule } of tables.open().segments(tables.log))
        firsts.set(segment, schedule?.first);
      for (const { segments, entries } of seen) {
        for (const { segment, schedule } of segments) expect(schedule?.first).toBe(firsts.get(segment));
        for (const { place, what } of entries) expect(`${place} ${truth.get(place)}`).toBe(`${place} ${what}`);
      }
    }),
    { numRuns: propertyRuns(500) },
  );
});
