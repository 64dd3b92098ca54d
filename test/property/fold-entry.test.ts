import fc from 'fast-check';
import { expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { Logs } from '../../src/client/logs.ts';
import type { Value } from '../../src/codec/value.ts';
import { LogClient, type NewEntry } from '../../src/log/client.ts';
import { RESERVED_TYPES } from '../../src/log/entry.ts';
import { readEntries } from '../../src/log/read-entries.ts';
import { foldEntries } from '../../src/snapshot/fold.ts';
import { nodeStore } from '../../src/snapshot/snapshots.ts';
import { Draft } from '../../src/state/draft.ts';
import type { FoldEntry, Reducer } from '../../src/state/reducer.ts';
import { flushState, hashFlushedState, saveState } from '../../src/state/state.ts';
import { NOON, newLogId } from '../support/logs.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { testDeployment } from '../support/test-deployment.ts';

/** Keeps what it knows of each entry. */
function keeps(what: (entry: FoldEntry) => Value): Reducer {
  return {
    name: 'keeps',
    version: 1,
    fold: (draft, entry) => draft.map('entries', 'number').put(entry.number ?? 0, what(entry)),
  };
}

const content = keeps(({ type, number, created, createdMs, body, metadata }) => {
  return [type, number ?? null, created, createdMs, body, Object.entries(metadata ?? {}).map(([name]) => name)];
});
const everything = keeps(({ log, position: { segment, entry }, number, createdMs }) => {
  return [log, segment, entry, number ?? null, createdMs];
});

const entries = fc.array(
  fc.record({
    type: fc.constantFrom('A', 'B'),
    version: fc.constant(1),
    body: fc.nat(9),
    created: fc.nat(5).map((second) => NOON + second),
    milliseconds: fc.nat(999),
    metadata: fc.constantFrom(undefined, { by: 'Ann' }),
  }),
  { minLength: 1, maxLength: 12 },
);
/** The number of entries before a Snapshot entry, or before a segment. */
const divisions = fc.uniqueArray(fc.record({ after: fc.nat(12), isSegment: fc.boolean() }), {
  maxLength: 6,
  selector: ({ after }) => after,
});

async function logOf(given: readonly NewEntry[], division: readonly { after: number; isSegment: boolean }[]) {
  const tables = new MemoryLogStore();
  const deps = testDeployment({ tables, blobs: new MemoryBlobStore(), now: () => NOON * 1000 + 7 });
  const client = new LogClient({ ...deps, random: Math.random, sleep: async () => undefined, newLogId });
  const log = await client.createLog();
  for (const [i, entry] of given.entries()) {
    const divided = division.find(({ after }) => after === i);
    if (divided?.isSegment === false) await client.addSnapshot(log);
    if (divided?.isSegment === true) {
      const [newest] = await tables.newestSegments(log, 1);
      await tables.advanceLastSnapshot(log, { position: { segment: newest?.segment ?? 0, entry: 0 } });
      await client.startSegment(log);
    }
    await client.addEntry(log, entry);
  }
  return { deps, log };
}

async function stateHash({ deps, log }: Awaited<ReturnType<typeof logOf>>, reducer: Reducer): Promise<string> {
  const nodes = nodeStore(deps, log);
  const draft = new Draft(nodes);
  const pages = readEntries(deps, log, { from: { segment: 0, entry: 0 }, to: 'end' });
  await foldEntries(draft, pages, { reducer, blobs: deps.blobs, types: RESERVED_TYPES });
  const state = await flushState(nodes, await draft.state());
  await saveState(nodes, state);
  return hashFlushedState(deps.platform, state);
}

test('equal logs have equal states, wherever their Snapshot entries and segments are', { tags: ['I9'] }, async () => {
  await fc.assert(
    fc.asyncProperty(entries, divisions, divisions, async (given, one, other) => {
      const [first, second] = [await logOf(given, one), await logOf(given, other)];
      expect(await stateHash(first, content)).toBe(await stateHash(second, content));
      expect(await stateHash(first, everything)).not.toBe(await stateHash(second, everything));
    }),
    { numRuns: propertyRuns(100) },
  );
});

test('a document that appends shows the state that another one loads', { tags: ['I9'] }, async () => {
  await fc.assert(
    fc.asyncProperty(
      entries,
      divisions,
      fc.array(fc.boolean(), { maxLength: 12 }),
      async (given, division, pending) => {
        const { deps, log } = await logOf([], []);
        let ms = NOON * 1000;
        const logs = new Logs({
          ...deps,
          now: () => (ms += 137),
          random: Math.random,
          sleep: () => new Promise((resolve) => setImmediate(resolve)),
          newLogId,
        });
        const document = await logs.open(log, { reducer: everything });
        const waits: Promise<unknown>[] = [];
        for (const [i, { created: _, milliseconds: __, ...entry }] of given.entries()) {
          // Another client puts entries and Snapshot entries in between.
          const divided = division.find(({ after }) => after === i);
          if (divided?.isSegment === false) await logs.client.addSnapshot(log);
          if (divided?.isSegment === true) await logs.client.addEntry(log, entry);
          if (pending[i] === true) waits.push(document.mutate(entry));
          else await document.append(entry);
        }
        await Promise.all(waits);
        await document.refresh();
        const fresh = await logs.open(log, { reducer: everything });
        const rows = (of: typeof document) => Array.fromAsync(of.map('entries').range());
        expect(await rows(document)).toEqual(await rows(fresh));
        expect(document.number).toBe(fresh.number);
        expect((await rows(fresh)).map(({ key }) => key)).toEqual(
          Array.from({ length: fresh.number ?? 0 }, (___, i) => i + 1),
        );
        for (const { value } of await rows(fresh)) expect(value).toContain(log);
        await logs.close();
      },
    ),
    { numRuns: propertyRuns(100) },
  );
});
