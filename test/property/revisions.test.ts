import fc from 'fast-check';
import { expect, test } from 'vitest';
import { LogNotFoundError } from '../../src/errors.ts';
import type { Item } from '../../src/log/attribute.ts';
import type { ImageChange } from '../../src/revisions/image-change.ts';
import { withHistory } from '../../src/state/history/with-history.ts';
import { type ItemRevision, readItemRevision } from '../../src/state/items/edit.ts';
import { itemKey } from '../../src/state/items/item-key.ts';
import { ITEMS_MAP, items, liveItems } from '../../src/state/items/reducer.ts';
import { recordRevisions } from '../../src/workers/revisions/record-revisions.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { interceptLogStore } from '../support/stores/interceptor.ts';
import { ownedItem, RevisedTable } from '../support/stores/revised-table.ts';
import { StreamedTable } from '../support/stores/streamed-table.ts';

type Write =
  | { readonly op: 'put'; readonly id: string; readonly part: number; readonly color: string; readonly by: string }
  | { readonly op: 'delete' | 'expire'; readonly id: string; readonly part: number }
  /** Time passes, in seconds. */
  | { readonly op: 'wait'; readonly seconds: number };

/** How the records of a stream arrive. */
interface Delivery {
  /** Records per batch. */
  readonly size: number;
  /** Records that a batch has again, from those before it. */
  readonly again: number;
  /** The processes that get the batch, at the same time. */
  readonly processes: readonly ('first' | 'second')[];
  /** Records of the batch that are lost, by index. */
  readonly lost: readonly number[];
  /**
   * Whether the pipeline divides the logs afterwards, and whether the stream goes on in the
   * meantime.
   */
  readonly divides: 'not' | 'alone' | 'beside the stream';
}

const WHOLE: Delivery = { size: 6, again: 0, processes: ['first'], lost: [], divides: 'not' };

const place = { id: fc.constantFrom('a', 'b'), part: fc.constantFrom(1, 2) };
const write: fc.Arbitrary<Write> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      op: fc.constant('put' as const),
      ...place,
      color: fc.constantFrom('red', 'green', 'blue'),
      by: fc.constantFrom('ann', 'bob'),
    }),
  },
  { weight: 2, arbitrary: fc.record({ op: fc.constantFrom('delete' as const, 'expire' as const), ...place }) },
  { weight: 2, arbitrary: fc.record({ op: fc.constant('wait' as const), seconds: fc.integer({ min: 1, max: 9 }) }) },
);
const delivery = fc.record<Delivery>({
  size: fc.integer({ min: 1, max: 6 }),
  again: fc.integer({ min: 0, max: 5 }),
  processes: fc.constantFrom<Delivery['processes']>(['first'], ['second'], ['first', 'second'], ['first', 'first']),
  lost: fc.uniqueArray(fc.nat(5), { maxLength: 2 }),
  divides: fc.constantFrom('not' as const, 'alone' as const, 'beside the stream' as const),
});
const plan = fc.record({
  // Long enough that most logs are divided before their last revisions.
  writes: fc.array(write, { minLength: 1, maxLength: 30, size: 'max' }),
  deliveries: fc.array(delivery, { minLength: 1, maxLength: 6 }),
  per: fc.constantFrom('item' as const, 'partition' as const),
  keepsHistory: fc.boolean(),
});

function itemOf({ id, part }: { readonly id: string; readonly part: number }): Item {
  return { id: { S: id }, part: { N: String(part) } };
}

function apply(table: StreamedTable, each: Write): void {
  if (each.op === 'wait') table.time += each.seconds;
  else if (each.op === 'put') table.put({ ...itemOf(each), color: { S: each.color }, by: { S: each.by } });
  else table.remove(itemOf(each), each.op === 'delete' ? 'Delete' : 'Expire');
}

/**
 * Delivers the records of a table in batches.
 * @returns the records that arrived, each once
 */
async function deliver(table: StreamedTable, deliveries: readonly Delivery[]): Promise<ImageChange[]> {
  const recorders = { first: table.recorder(), second: table.recorder(undefined, 1) };
  const arrived: ImageChange[] = [];
  for (let at = 0, batch = 0; at < table.records.length; batch++) {
    const { size, again, processes, lost, divides } = deliveries[batch % deliveries.length] ?? WHOLE;
    const fresh = table.records.slice(at, at + size).filter((_, i) => !lost.includes(i));
    const changes = [...arrived.slice(Math.max(0, arrived.length - again)), ...fresh];
    const results = await Promise.all(processes.map((name) => recordRevisions({ logs: recorders[name] }, changes)));
    for (const { failed } of results) expect(failed).toEqual([]);
    expect(results.reduce((sum, { recorded }) => sum + recorded, 0)).toBe(fresh.length);
    arrived.push(...fresh);
    at += size;
    table.deployment.nowMs += 60_000;
    if (divides === 'not') continue;
    for (const log of new Set(changes.map(({ keys }) => table.logOf(keys)))) {
      // Before each write of the divide job, the log gets its next revision.
      const beside = interceptLogStore(table.deployment.tables, async (name, effect) => {
        const isWrite = name === 'putEntries' || name === 'putAhead' || name === 'startSegment';
        for (let isSame = !isWrite; divides === 'beside the stream' && !isSame && at < table.records.length; at++) {
          const next = table.records.slice(at, at + 1);
          expect((await recordRevisions({ logs: recorders.second }, next)).failed).toEqual([]);
          arrived.push(...next);
          isSame = next.some(({ keys }) => table.logOf(keys) === log);
        }
        return effect();
      });
      await table.divide(log, 3, 6, beside);
    }
  }
  return arrived;
}

/** The revisions of one item, from its records alone. */
function expected(records: readonly ImageChange[]): unknown[] {
  const revisions: { change: string; created: number; item: Item | undefined; actor: string | undefined }[] = [];
  const by = (item: Item | undefined) => (item === undefined ? undefined : String(Object.values(item.by ?? {})));
  for (const { change, oldImage, newImage, created } of records) {
    const left = revisions.at(-1)?.item;
    if (JSON.stringify(left) !== JSON.stringify(oldImage)) {
      revisions.push({ change: 'Gap', created, item: oldImage, actor: by(oldImage) });
    }
    revisions.push({ change, created, item: newImage, actor: by(newImage) });
  }
  return revisions;
}

test('records that come twice, together or never give one revision each', { tags: ['I11'] }, async () => {
  await fc.assert(
    fc.asyncProperty(plan, async ({ writes, deliveries, per, keepsHistory }) => {
      const reducer = keepsHistory ? withHistory(items) : items;
      const table = new StreamedTable({ per }, reducer);
      for (const each of writes) apply(table, each);
      const arrived = await deliver(table, deliveries);
      const logs = table.logs();
      for (const [log, ofLog] of Map.groupBy(arrived, ({ keys }) => table.logOf(keys))) {
        const document = await logs.open(log, { reducer });
        const { entries } = await logs.client.query(log, { from: 'start' });
        const times = (await Array.fromAsync(entries)).flat().map(({ created }) => created);
        expect(times).toEqual(times.toSorted((a, b) => a - b));
        const byItem = Map.groupBy(ofLog, ({ keys }) => itemKey(table.source, keys));
        for (const [key, records] of byItem) {
          const history = await Array.fromAsync(document.history({ map: ITEMS_MAP, key }));
          const revisions = history.map(({ value = null }) => readItemRevision(value));
          expect(revisions.map(({ revision }) => revision)).toEqual(revisions.map((_, i) => i + 1));
          expect(history.map(({ number }) => number)).toEqual(revisions.map(({ revision }) => revision));
          const plain = revisions.map(({ revision: _, stream: __, sequence: ___, ...rest }) => rest);
          expect(plain).toEqual(expected(records));
        }
        for (const time of new Set(ofLog.flatMap(({ created }) => [created - 1, created]))) {
          const left = [...byItem.values()].map((of) => of.findLast(({ created }) => created <= time)?.newImage);
          const past = await document.at(new Date(time * 1000));
          const live = (await Array.fromAsync(liveItems(past))).map(({ item }) => item);
          expect(live).toEqual(expect.arrayContaining(left.filter((item) => item !== undefined)));
          expect(live.length).toBe(left.filter((item) => item !== undefined).length);
        }
      }
      await logs.close();
    }),
    { numRuns: propertyRuns(100, 20) },
  );
});

const [HOUR_S, DAY_S] = [3600, 24 * 3600];

/** A step of a table whose stream lags, and whose comparisons run on machines with wrong clocks. */
type Step =
  | { readonly step: 'put' | 'remove' | 'expire'; readonly number: number; readonly value: string }
  | { readonly step: 'wait'; readonly seconds: number }
  /** The recorder takes the oldest records. The stream has dropped those that are a day old. */
  | { readonly step: 'record'; readonly records: number }
  /** A record fails in each attempt. */
  | { readonly step: 'lose' }
  | { readonly step: 'compare'; readonly clockErrorDays: number };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      step: fc.constantFrom('put' as const, 'put' as const, 'put' as const, 'remove' as const, 'expire' as const),
      number: fc.nat(2),
      value: fc.constantFrom('red', 'green'),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      step: fc.constant('wait' as const),
      seconds: fc.constantFrom(7, 600, HOUR_S, 9 * HOUR_S, 26 * HOUR_S),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ step: fc.constant('record' as const), records: fc.integer({ min: 1, max: 9 }) }),
  },
  { weight: 1, arbitrary: fc.record({ step: fc.constant('lose' as const) }) },
  {
    weight: 3,
    arbitrary: fc.record({
      step: fc.constant('compare' as const),
      clockErrorDays: fc.constantFrom(0, 0, 30, -30, 1.5),
    }),
  },
);

/** Whether the stream drops records during the step. */
function isLongWait(each: Step): boolean {
  return each.step === 'wait' && each.seconds > DAY_S;
}

/** None if the item has no log. */
function revisionsOf(table: RevisedTable, keys: Item): Promise<ItemRevision[]> {
  return table.revisionsOf(keys).catch((error: unknown) => {
    if (error instanceof LogNotFoundError) return [];
    throw error;
  });
}

test('a comparison records no gap for a change on its way, and dates gaps by the clock of the table', {
  tags: ['I11'],
}, async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 5, maxLength: 30, size: 'max' }),
      fc.constantFrom('item' as const, 'partition' as const),
      // More can be compared if no record is lost.
      fc.boolean(),
      async (drawn, per, mayLose) => {
        const steps = drawn.filter((each) => mayLose || (each.step !== 'lose' && !isLongWait(each)));
        const table = new RevisedTable({ per });
        const recorded: ImageChange[] = [];
        /** The table after each second in which it changed. */
        const states = new Map<number, string[]>();
        let lost = 0;
        const record = async (records: number): Promise<void> => {
          const kept = table.stream.filter(({ created }) => created > table.nowMs / 1000 - DAY_S);
          lost += table.stream.length - kept.length;
          const changes = kept.splice(0, records);
          table.stream.splice(0, table.stream.length, ...kept);
          expect(await recordRevisions({ logs: table.revisions }, changes)).toMatchObject({ failed: [] });
          recorded.push(...changes);
        };
        const compare = (clockErrorDays: number) => table.compareLater({ clockErrorMs: clockErrorDays * DAY_S * 1000 });
        for (const each of steps) {
          const item = 'number' in each ? ownedItem('ann', each.number, each.value) : undefined;
          if (each.step === 'wait') table.nowMs += each.seconds * 1000;
          else if (each.step === 'record') await record(each.records);
          else if (each.step === 'lose') lost += table.stream.splice(0, 1).length;
          else if (each.step === 'compare') await compare(each.clockErrorDays);
          else if (item !== undefined && each.step === 'put') table.put(item);
          else if (item !== undefined) table.remove(item, each.step === 'remove' ? 'Delete' : 'Expire');
          states.set(table.nowMs / 1000, await table.lines());
        }
        await record(table.stream.length);
        const atRest = await compare(30);
        if (lost === 0) expect(atRest).toMatchObject({ gaps: 0, waiting: 0 });
        table.nowMs += 26 * HOUR_S * 1000;
        expect(await compare(-30)).toMatchObject({ waiting: 0, complete: true });

        const revisions = await Promise.all([0, 1, 2].map((number) => revisionsOf(table, ownedItem('ann', number))));
        const all = revisions.flat();
        const gaps = all.filter(({ change }) => change === 'Gap');
        if (lost === 0) expect(gaps).toEqual([]);
        for (const { sequence, change, created } of recorded) {
          const [revision] = all.filter((each) => each.sequence === sequence && each.change !== 'Gap');
          expect(revision, `record ${sequence}`).toMatchObject({ change, created });
        }
        if (all.length === 0) return;
        expect(await table.export({ at: new Date(table.nowMs) })).toEqual(await table.lines());
        for (const [seconds, lines] of lost === 0 ? states : []) {
          expect(await table.export({ at: new Date(seconds * 1000) }), String(seconds)).toEqual(lines);
        }
      },
    ),
    { numRuns: propertyRuns(300, 60) },
  );
});
