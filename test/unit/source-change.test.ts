import { expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { ArchivedLogStore } from '../../src/archive/archived-log-store.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import type { Position } from '../../src/ids/position.ts';
import type { Item } from '../../src/log/attribute.ts';
import { MAPPED_TYPES } from '../../src/mapping/layout.ts';
import { DEFAULT_POLICY } from '../../src/retention/retention-policy.ts';
import { loadRoot } from '../../src/snapshot/snapshots.ts';
import { type JobDeps, runJob } from '../../src/workers/dispatch/run-job.ts';
import { replay } from '../../src/workers/inspect/replay.ts';
import { MemoryChunks } from '../support/chunks.ts';
import { NOON } from '../support/logs.ts';
import { MappedLogs, orderItem, TENS } from '../support/mapped-logs.ts';
import { versionedSheet } from '../support/versioned-sheet.ts';

/** A table of orders, and the jobs of its log. */
class Source {
  readonly logs = new MappedLogs();
  readonly blobs = new MemoryBlobStore(() => NOON * 1000);

  get deps(): JobDeps {
    const { store: tables } = this.logs;
    const { blobs } = this;
    return {
      tables,
      store: new ArchivedLogStore(tables, { blobs, platform: nativePlatform }),
      blobs,
      platform: nativePlatform,
      types: MAPPED_TYPES,
      reducer: versionedSheet(1),
      now: () => NOON * 1000,
      random: Math.random,
      policyOf: () => DEFAULT_POLICY,
      queue: { send: async () => undefined },
    };
  }

  snapshot(log: LogId, position: Position) {
    return runJob(this.deps, { kind: 'snapshot', log, position });
  }

  /** A log of 14 items with a snapshot at 1/0, or at 0/6. */
  async folded(position: Position): Promise<LogId> {
    const log = await this.logs.create(14, TENS);
    expect(await this.snapshot(log, position)).toMatchObject({ outcome: 'built' });
    return log;
  }

  /** The application replaces or deletes items. */
  change(log: LogId, indexes: readonly number[], overrides?: Item): void {
    for (const index of indexes) {
      this.logs.items.delete(orderItem(log, index));
      if (overrides !== undefined) this.logs.items.insert(orderItem(log, index, overrides));
    }
  }
}

const OTHER: Item = { payload: { L: [{ L: [{ N: '0' }, { N: '0' }, { S: 'another life' }] }] } };
const NEXT = { segment: 1, entry: 6 };

test.each([
  ['after a block', { segment: 0, entry: 6 }, 4],
  ['at the beginning of a segment', { segment: 1, entry: 0 }, 9],
])('a fold %s stops if the last folded item has changed', { tags: ['I1'] }, async (_, position, last) => {
  const source = new Source();
  const log = await source.folded(position);
  await source.logs.append(log, 3);
  source.change(log, [last], OTHER);
  const stop = { code: 'SOURCE_CHANGED', segment: position.segment, entry: position.entry };
  expect(await source.snapshot(log, NEXT)).toMatchObject({ outcome: 'stopped', stop });
});

test('a log that was deleted and began again does not continue from the old snapshot', { tags: ['I1'] }, async () => {
  const source = new Source();
  const log = await source.folded({ segment: 1, entry: 0 });
  const all = Array.from({ length: 14 }, (_, index) => index);
  source.change(log, all);
  for (const index of [...all, 14, 15, 16]) source.logs.items.insert(orderItem(log, index, OTHER));
  expect(await source.snapshot(log, NEXT)).toMatchObject({ outcome: 'stopped', stop: { code: 'SOURCE_CHANGED' } });
  expect(await runJob(source.deps, { kind: 'rebuild', log })).toMatchObject({ outcome: 'rebuilt' });
  expect(await source.snapshot(log, NEXT)).toMatchObject({ outcome: 'present' });
  expect(await replay({ ...source.deps, scratch: new MemoryChunks() }, log)).toMatchObject({ equal: true });
});

test('a fold stops if the last folded item is missing, and goes on when it is back', { tags: ['I1'] }, async () => {
  const source = new Source();
  const log = await source.folded({ segment: 1, entry: 0 });
  await source.logs.append(log, 3);
  source.change(log, [9]);
  expect(await source.snapshot(log, NEXT)).toMatchObject({ outcome: 'stopped', stop: { code: 'SOURCE_CHANGED' } });
  source.logs.items.insert(orderItem(log, 9));
  await runJob(source.deps, { kind: 'snapshot', log, position: NEXT, force: true });
  expect(await replay({ ...source.deps, scratch: new MemoryChunks() }, log)).toMatchObject({ equal: true });
});

test('attributes that no fold reads may change', async () => {
  const source = new Source();
  const log = await source.folded({ segment: 1, entry: 0 });
  await source.logs.append(log, 3);
  source.change(log, [9], { note: { S: 'corrected' }, expiresAt: { N: '5' } });
  expect(await source.snapshot(log, NEXT)).toMatchObject({ outcome: 'built', base: { segment: 1, entry: 0 } });
});

test('a root without the hash of its last item is continued', async () => {
  const source = new Source();
  const older = source.deps;
  Object.assign(older.store, { meaningOf: () => undefined });
  const log = await source.logs.create(14, TENS);
  const position = { segment: 1, entry: 0 };
  expect(await runJob(older, { kind: 'snapshot', log, position })).toMatchObject({ outcome: 'built' });
  const [entry] = (
    await Array.fromAsync(source.deps.store.entries(log, { segment: 1, from: 0, to: 1 }, { consistent: true }))
  ).flat();
  if (entry?.body?.format !== 'bytes') throw new Error('the root is not inline');
  const root = await loadRoot(source.deps, { log, position }, { inline: entry.body.bytes });
  expect(root.lastItem).toBeUndefined();
  await source.logs.append(log, 3);
  expect(await source.snapshot(log, NEXT)).toMatchObject({ outcome: 'built', base: position });
});
