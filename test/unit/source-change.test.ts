import { describe, expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import type { Position } from '../../src/ids/position.ts';
import type { Item } from '../../src/log/attribute.ts';
import { divisionOf } from '../../src/log/division-policy.ts';
import type { LogReader } from '../../src/log/log-store.ts';
import { buildState } from '../../src/snapshot/build.ts';
import { lastItemHash } from '../../src/snapshot/last-item.ts';
import { loadState } from '../../src/snapshot/load.ts';
import { loadRoot } from '../../src/snapshot/snapshots.ts';
import { readStop } from '../../src/snapshot/stop.ts';
import { replay } from '../../src/workers/audit/replay.ts';
import { logStatus } from '../../src/workers/audit/status.ts';
import { verify } from '../../src/workers/audit/verify.ts';
import { type JobDeps, runJob } from '../../src/workers/dispatch/run-job.ts';
import { MemoryChunks } from '../support/chunks.ts';
import { NOON } from '../support/logs.ts';
import { MappedLogs, mappedDeps, orderItem, TENS } from '../support/stores/mapped-logs.ts';

/** A table of orders, and the jobs of its log. */
class Source {
  readonly logs = new MappedLogs();
  readonly blobs = new MemoryBlobStore(() => NOON * 1000);

  get deps(): JobDeps {
    const { store } = this.logs;
    const division = divisionOf({ snapshotEveryEntries: 5, segmentEveryEntries: 10 });
    return { ...mappedDeps(store, this.blobs), scheduler: store, division };
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

/** The same store, which notes the reads. */
function interceptReads(store: LogReader, reads: string[], onRead = () => {}): LogReader {
  return new Proxy(store, {
    get: (target, name) => {
      const member: unknown = Reflect.get(target, name, target);
      if (typeof member !== 'function') return member;
      return (...given: unknown[]) => {
        if (typeof name === 'string' && name !== 'meaningOf') reads.push(name);
        onRead();
        return Reflect.apply(member, target, given);
      };
    },
  });
}

const OTHER: Item = { payload: { L: [{ L: [{ N: '0' }, { N: '0' }, { S: 'another life' }] }] } };
/** The end of a log of 14 items. */
const END = { segment: 1, entry: 5 };
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

test('a build during which the log begins again makes no snapshot of both lives', { tags: ['I1'] }, async () => {
  const source = new Source();
  const log = await source.logs.create(14, TENS);
  const all = Array.from({ length: 14 }, (_, index) => index);
  const reads: string[] = [];
  const store = interceptReads(source.deps.store, reads, () => {
    if (reads.filter((name) => name === 'entries').length === 3) source.change(log, all, OTHER);
  });
  const job = { kind: 'snapshot', log, position: { segment: 1, entry: 0 } } as const;
  const mixed = runJob({ ...source.deps, store, rangeEntries: 4 }, job);
  await expect(mixed).rejects.toMatchObject({ code: 'ENTRY_NOT_FOUND', ...job.position });
  expect(await runJob(source.deps, job)).toMatchObject({ outcome: 'built' });
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

test.each([
  ['after a block', { segment: 0, entry: 6 }, 4, ['items']],
  ['at the beginning of a segment', { segment: 1, entry: 0 }, 9, ['getSegment', 'items']],
])('a load from a snapshot %s refuses to mix two lives of a log', { tags: ['I1'] }, async (_, position, last, more) => {
  const source = new Source();
  const log = await source.folded(position);
  const reads: string[] = [];
  const store = interceptReads(source.deps.store, reads);
  expect(await loadState({ ...source.deps, store }, log)).toMatchObject({ base: { position }, end: END });
  expect(reads.filter((name) => name !== 'entries')).toEqual(['newestSegments', ...more]);
  source.change(log, [last], OTHER);
  const changed = { code: 'SOURCE_CHANGED', log, ...position };
  await expect(loadState(source.deps, log)).rejects.toMatchObject(changed);
  await expect(loadState(source.deps, log, { onBadEntry: 'stop' })).rejects.toMatchObject(changed);
  await expect(loadState(source.deps, log, { at: END })).rejects.toMatchObject(changed);
  expect(await loadState(source.deps, log, { at: { segment: 0, entry: 3 } })).toMatchObject({ tailEntries: 3 });
});

describe.each([
  ['after a block', { segment: 0, entry: 6 }],
  ['at the beginning of a segment', { segment: 1, entry: 0 }],
])('a log that began again and is shorter than its snapshot %s', (_, position) => {
  async function begunAgain() {
    const source = new Source();
    const log = await source.folded(position);
    const all = Array.from({ length: 14 }, (_, index) => index);
    source.change(log, all);
    source.change(log, [0, 1, 2], OTHER);
    return { source, log, lost: { code: 'SOURCE_CHANGED', log, ...position } };
  }

  test('says so to each reader, and advises no backup', { tags: ['I1'] }, async () => {
    const { source, log, lost } = await begunAgain();
    await expect(loadState(source.deps, log)).rejects.toMatchObject(lost);
    const verified: unknown = await verify(source.deps, log).catch((error: unknown) => error);
    expect(String(verified)).not.toContain('backup');
    expect(String(verified)).toContain('another id');
    const rebuilt = await runJob(source.deps, { kind: 'rebuild', log });
    expect(rebuilt).toMatchObject({ outcome: 'stopped', stop: { code: 'SOURCE_CHANGED' } });
    expect(await logStatus(source.deps, log)).toMatchObject({ lagEntries: 0 });
  });

  test('is stopped when the stream shows its first item', { tags: ['I7'] }, async () => {
    const { source, log, lost } = await begunAgain();
    const { log: _, ...stop } = lost;
    expect(await runJob(source.deps, { kind: 'divide', log })).toMatchObject({ outcome: 'stopped', stop });
    expect(await readStop(source.blobs, log)).toMatchObject(stop);
  });
});

test('items of an archived segment leave the table in any order', { tags: ['I1'] }, async () => {
  const source = new Source();
  const log = await source.folded({ segment: 1, entry: 0 });
  await source.logs.append(log, 10);
  expect(await runJob(source.deps, { kind: 'archive', log, segment: 0 })).toMatchObject({ outcome: 'archived' });
  const at = { segment: 1, entry: 4 };
  const whole = await loadState(source.deps, log, { at });
  expect(whole.base?.position).toEqual({ segment: 1, entry: 0 });
  for (const gone of [[9], [6, 8], [0, 1, 2, 3, 4, 5, 7]]) {
    source.change(log, gone);
    const { base, end } = await loadState(source.deps, log, { at });
    expect({ base, end }).toEqual({ base: whole.base, end: at });
    expect(await source.snapshot(log, { segment: 1, entry: 6 })).not.toMatchObject({ outcome: 'stopped' });
  }
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

test("a build up to a segment's second entry takes the last item from the previous segment", {
  tags: ['I1'],
}, async () => {
  const source = new Source();
  const log = await source.folded({ segment: 1, entry: 0 });
  const position = { segment: 1, entry: 1 };
  const first = await lastItemHash(source.deps, log, { segment: 1, entry: 0 });
  expect(first).toBeDefined();
  expect(await lastItemHash(source.deps, log, position)).toEqual(first);
  expect(await lastItemHash(source.deps, log, { segment: 0, entry: 1 })).toBeUndefined();
  const deps = { ...source.deps, chunks: new MemoryChunks() };
  expect(await buildState(deps, log, { at: position, only: 'beginning' })).toMatchObject({ root: { position } });
});
