import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { LogId } from '../../src/ids/log-id.ts';
import { comparePositions, type Position, START } from '../../src/ids/position.ts';
import type { LogClient, QueryRange } from '../../src/log/client.ts';
import { type Entry, RESERVED_TYPES } from '../../src/log/entry.ts';
import { allEntries, testLogClient } from '../support/logs.ts';
import { propertyRuns } from '../support/property-runs.ts';

const set = { type: 'Set', version: 1 };
const isOwn = ({ type }: Entry) => !RESERVED_TYPES.includes(type);

const steps = fc.array(
  fc.oneof(
    { weight: 5, arbitrary: fc.record({ adds: fc.integer({ min: 1, max: 90 }) }) },
    { weight: 3, arbitrary: fc.record({ snapshots: fc.integer({ min: 1, max: 5 }) }) },
    { weight: 2, arbitrary: fc.constant('segment' as const) },
  ),
  { minLength: 1, maxLength: 12 },
);

async function logOf(given: typeof steps extends fc.Arbitrary<infer T> ? T : never) {
  const { client, store } = testLogClient();
  const log = await client.createLog();
  for (const step of given) {
    if (step === 'segment') {
      const [newest] = await store.newestSegments(log, 1, { consistent: true });
      if (newest !== undefined)
        await store.advanceLastSnapshot(log, { position: { ...START, segment: newest.segment } });
      await client.startSegment(log);
    } else if ('adds' in step) {
      const entries = Array.from({ length: step.adds }, () => set);
      await client.addEntries(log, entries);
    } else for (let i = 0; i < step.snapshots; i++) await client.addSnapshot(log);
  }
  return { client: testLogClient({ store }).client, log };
}

/** The entries of a range, read with a limit again and again. */
async function readInParts(client: LogClient, log: LogId, range: QueryRange): Promise<Entry[]> {
  const { reverse = false } = range;
  const read: Entry[] = [];
  for (let next = range; ; ) {
    const answer = await client.query(log, next);
    const entries = await allEntries(answer.entries);
    read.push(...entries);
    if (entries.length === 0) return read;
    expect(entries.filter(isOwn).length).toBeLessThanOrEqual(range.limit ?? Number.POSITIVE_INFINITY);
    next = reverse ? { ...range, to: answer.end } : { ...range, from: answer.end };
  }
}

test('a query in parts, forward or in reverse, reads each entry of the range once and in order', async () => {
  await fc.assert(
    fc.asyncProperty(
      steps,
      fc.record({ from: fc.nat(), to: fc.option(fc.nat()), limit: fc.option(fc.integer({ min: 1, max: 150 })) }),
      fc.boolean(),
      fc.boolean(),
      async (given, wanted, reverse, byNumber) => {
        const { client, log } = await logOf(given);
        const all = await allEntries((await client.query(log, { from: 'start' })).entries);
        const place = (index: number): { readonly position: Position; readonly given: QueryRange['to'] } => {
          const entry = all[index % all.length];
          if (entry === undefined) throw new Error('a log has entries');
          const { position, number = 0 } = entry;
          return { position, given: byNumber && isOwn(entry) ? { number } : position };
        };
        const ends = [place(wanted.from), ...(wanted.to === null ? [] : [place(wanted.to)])];
        ends.sort((a, b) => comparePositions(a.position, b.position));
        const [from, to] = ends;
        if (from?.given === undefined || from.given === 'end') throw new Error('a range has a start');
        const expected = all.filter(
          ({ position }) =>
            comparePositions(position, from.position) >= 0 &&
            (to === undefined || comparePositions(position, to.position) < 0),
        );
        const read = await readInParts(client, log, {
          from: from.given,
          ...(to?.given !== undefined && { to: to.given }),
          ...(wanted.limit !== null && { limit: wanted.limit }),
          reverse,
        });
        expect(read).toEqual(reverse ? expected.toReversed() : expected);
      },
    ),
    { numRuns: propertyRuns(200) },
  );
});

test('the newest entries of a log take three requests', async () => {
  const { client, store } = testLogClient();
  const log = await client.createLog();
  for (let i = 0; i < 10; i++)
    await client.addEntries(
      log,
      Array.from({ length: 50 }, () => set),
    );
  const reader = testLogClient({ store });
  const answer = await reader.client.query(log, { from: 'start', limit: 10, reverse: true });
  expect((await allEntries(answer.entries)).map(({ number }) => number)).toEqual([
    500, 499, 498, 497, 496, 495, 494, 493, 492, 491,
  ]);
  expect(reader.requests).toEqual(['newestSegments', 'newestEntry', 'entries']);
  expect(answer.end).toEqual({ segment: 0, entry: 491 });
});

test('the end of a query in reverse that nobody has read is the end of its range', async () => {
  const { client, log } = await logOf([{ adds: 5 }, 'segment', { adds: 2 }]);
  const { end, start } = await client.query(log, { from: 'start', reverse: true });
  expect({ start, end }).toEqual({ start: START, end: { segment: 1, entry: 3 } });
  const bounded = await client.query(log, { from: { number: 2 }, to: { number: 4 }, reverse: true });
  expect((await allEntries(bounded.entries)).map(({ number }) => number)).toEqual([3, 2]);
  const last = await client.query(log, { from: 'snapshot', reverse: true });
  expect((await allEntries(last.entries)).at(-1)?.position).toEqual(last.start);
});
