import { describe, expect, test } from 'vitest';
import { MemoryJobQueue } from '../../src/adapters/memory/job-queue.ts';
import { EntryNotFoundError, MessageInvalidError } from '../../src/errors.ts';
import type { Position } from '../../src/ids/position.ts';
import type { RootRef } from '../../src/log/entry.ts';
import { bufferedEdits, encodeRoot, flushDue } from '../../src/snapshot/root.ts';
import { loadRoot, nodeStore } from '../../src/snapshot/snapshots.ts';
import { readStop, writeStop } from '../../src/snapshot/stop.ts';
import { Draft } from '../../src/state/draft.ts';
import { isStateFlushed } from '../../src/state/state.ts';
import { parseKey, rootKey } from '../../src/store/keys.ts';
import { verify } from '../../src/workers/audit/verify.ts';
import { runJob } from '../../src/workers/dispatch/run-job.ts';
import { decodeJob, type SnapshotJob } from '../../src/workers/jobs/job.ts';
import { SMALL_SHAPE } from '../support/chunks.ts';
import { dieAt } from '../support/die-at.ts';
import { readRows, versionedSheet } from '../support/models/versioned-sheet.ts';
import { type Contents, interceptPorts, recordWrites, SheetLog, type SheetPorts, set } from '../support/sheet-log.ts';
import type { Interceptor } from '../support/stores/interceptor.ts';

/** A sheet of a few dozen leaves, in whose newest snapshot a few edits wait. */
async function waitingSheet(edits = 3): Promise<{ sheet: SheetLog; position: Position }> {
  const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
  await sheet.fill(100, 5);
  await sheet.fill(2, 1, 5_000);
  await sheet.completed();
  for (let i = 0; i < edits; i++) await sheet.edit(set(7 + i * 31, i, `edit ${i}`));
  const position = await sheet.completed();
  expect(bufferedEdits((await sheet.root(position)).state)).toBe(edits);
  return { sheet, position };
}

/**
 * The same with roots that are objects: so much waits, or has a place among rows, that it does not
 * fit the entry.
 */
async function largeSheet(rows: number): Promise<{ sheet: SheetLog; position: Position }> {
  const sheet = await SheetLog.create();
  await sheet.fill(60, 1, 4_000);
  for (let i = 0; i < rows; i++) await sheet.edit({ type: 'Insert Rows', position: (i * 7_919) % (61 + i), count: 1 });
  await sheet.completed();
  await sheet.fill(2, 1, 4_050);
  const position = await sheet.completed();
  expect(bufferedEdits((await sheet.root(position)).state)).toBe(2);
  expect(await sheet.ref(position)).toHaveProperty('key');
  return { sheet, position };
}

async function chunkKeys(sheet: SheetLog): Promise<Set<string>> {
  return new Set(Object.keys((await sheet.contents()).objects));
}

describe('a flush', () => {
  test('it keeps the rows and the state hash of a fold from the beginning', {
    tags: ['I1'],
  }, async () => {
    const { sheet, position } = await waitingSheet();
    const [rows, stateHash] = [await sheet.rows(position), await sheet.stateHash(position)];
    const before = await chunkKeys(sheet);
    const result = await sheet.flush(position);
    expect(result).toMatchObject({ outcome: 'flushed', position, stateHash, flushedEdits: 3 });
    const root = await sheet.root(position);
    expect([isStateFlushed(root.state), root.stateHash]).toEqual([true, stateHash]);
    expect(await sheet.rows(position)).toEqual(rows);
    const written = [...(await chunkKeys(sheet))].filter((key) => !before.has(key));
    const chunks = written.filter((key) => parseKey(key)?.kind === 'chunk');
    expect(result).toMatchObject({ chunksWritten: chunks.length });
    expect(await sheet.lastSnapshot()).toBe(position.entry);
    expect((await verify(sheet.deps, sheet.log)).problems).toEqual([]);
  });

  test('it deletes nothing, so that readers of the old root can go on', { tags: ['I4'] }, async () => {
    const { sheet, position } = await largeSheet(0);
    const [old, rows, before] = [await sheet.ref(position), await sheet.rows(position), await sheet.contents()];
    await sheet.flush(position);
    expect((await sheet.contents()).objects).toMatchObject(before.objects);
    const root = await loadRoot(sheet.deps, { log: sheet.log, position }, old ?? { key: '' });
    expect(await readRows(new Draft(nodeStore(sheet.deps, sheet.log), root.state))).toEqual(rows);
  });

  test('the next snapshot is built from it', async () => {
    const { sheet, position } = await waitingSheet();
    await sheet.flush(position);
    await sheet.edit(set(50, 2, 'later'));
    const next = await sheet.snapshot();
    expect(await sheet.complete(next)).toMatchObject({ outcome: 'built', base: position });
    expect(bufferedEdits((await sheet.root(next)).state)).toBe(1);
    expect((await sheet.rows(next))[50]?.[2]).toBe('later');
  });

  test('it writes chunks, then the root, then the entry', {
    tags: ['I2'],
  }, async () => {
    const { sheet, position } = await largeSheet(1_000);
    const events: string[] = [];
    const writes = new Set(['put', 'replaceRoot']);
    const interceptor: Interceptor = async (name, effect) => {
      if (!writes.has(name)) return effect();
      events.push(`${name} begins`);
      // Slow enough for anything that does not wait for it to come first.
      for (let turns = 0; turns < 100; turns++) await Promise.resolve();
      const answer = await effect();
      events.push(`${name} ends`);
      return answer;
    };
    expect(await sheet.flush(position, interceptPorts(sheet, interceptor))).toMatchObject({ chunksWritten: 2 });
    expect(events).toEqual([
      ...['put begins', 'put begins', 'put ends', 'put ends'],
      ...['put begins', 'put ends'],
      ...['replaceRoot begins', 'replaceRoot ends'],
    ]);
    expect(await sheet.ref(position)).toHaveProperty('key');
  });

  test('it moves a root into the entry if the root is small enough after the flush', async () => {
    const { sheet, position } = await largeSheet(0);
    const rows = await sheet.rows(position);
    expect(await sheet.flush(position)).toMatchObject({ outcome: 'flushed', flushedEdits: 2 });
    expect(await sheet.ref(position)).toHaveProperty('inline');
    expect(await sheet.rows(position)).toEqual(rows);
  });

  test.each([
    ['it writes nothing if no edits are buffered', 'empty'],
    ['it writes nothing if a newer snapshot is complete', 'passed'],
    ['it writes nothing if another version of the reducer made the snapshot', 'foreign'],
    ['it writes nothing if the log is stopped before the snapshot', 'stopped'],
  ])('%s', async (_what, outcome) => {
    const { sheet, position } = await waitingSheet();
    const reducer = versionedSheet(outcome === 'foreign' ? 2 : 1);
    if (outcome === 'empty') await sheet.flush(position);
    if (outcome === 'passed') await sheet.segment().then((newer) => sheet.complete(newer));
    if (outcome === 'stopped') {
      const error = new EntryNotFoundError('gone', { ...position, entry: position.entry - 1 });
      await writeStop(sheet.blobs, sheet.log, { error, reducer, since: 1 });
    }
    const before = await sheet.contents();
    const { writes, ports } = recordWrites(sheet);
    expect(await sheet.flush(position, { ...ports, reducer })).toMatchObject({ outcome, position });
    expect(writes).toEqual([]);
    expect(await sheet.contents()).toEqual(before);
  });

  test('a flush before the stop of a log is done, and the stop stays', async () => {
    const { sheet, position } = await waitingSheet();
    await sheet.append({ type: 'Pivot', version: 1 });
    await sheet.complete(await sheet.snapshot());
    const stop = await readStop(sheet.blobs, sheet.log);
    expect(stop).toMatchObject({ code: 'ENTRY_TYPE_UNKNOWN' });
    expect(await sheet.flush(position)).toMatchObject({ outcome: 'flushed' });
    expect(await readStop(sheet.blobs, sheet.log)).toEqual(stop);
  });

  test('a flush of a pending snapshot, or of another entry, fails and stops nothing', async () => {
    const { sheet } = await waitingSheet();
    const edit = await sheet.edit(set(0, 0, 'a'));
    const open = await sheet.snapshot();
    const beyond = { segment: 0, entry: open.entry + 1 };
    await expect(sheet.flush(open)).rejects.toThrow(MessageInvalidError);
    await expect(sheet.flush(open)).rejects.toThrow('the snapshot of a flush job is not complete');
    await expect(sheet.flush(edit)).rejects.toThrow(MessageInvalidError);
    await expect(sheet.flush(beyond)).rejects.toThrow(EntryNotFoundError);
    expect(await readStop(sheet.blobs, sheet.log)).toBeUndefined();
  });
});

describe('a flush that runs again', () => {
  test('it has the same result, wherever the first run died', { tags: ['I5'] }, async () => {
    const reference = await waitingSheet();
    const operations: string[] = [];
    const whole = await contentsAfter(reference, async (name, effect) => {
      operations.push(name);
      return effect();
    });
    for (const name of ['newestSegments', 'getEntry', 'get', 'put', 'replaceRoot']) expect(operations).toContain(name);
    for (const when of ['before', 'after'] as const) {
      for (let dies = 1; dies <= operations.length; dies++) {
        const again = await waitingSheet();
        const rows = await again.sheet.rows(again.position);
        await dieAt(again.sheet, { operation: dies, when }, (ports) => again.sheet.flush(again.position, ports));
        // Whatever is done by then, what is read is the same.
        expect(await again.sheet.rows(again.position)).toEqual(rows);
        expect((await verify(again.sheet.deps, again.sheet.log)).problems).toEqual([]);
        expect(await contentsAfter(again), `died ${when} operation ${dies}`).toEqual(whole);
      }
    }
  });

  test('it fails and is retried if a store does not answer', async () => {
    const { sheet, position } = await waitingSheet();
    for (const failing of ['newestSegments', 'getEntry', 'get', 'put', 'replaceRoot']) {
      const interceptor: Interceptor = (name, effect) =>
        name === failing ? Promise.reject(new Error('no answer')) : effect();
      await expect(sheet.flush(position, interceptPorts(sheet, interceptor)), failing).rejects.toThrow('no answer');
    }
    expect(await readStop(sheet.blobs, sheet.log)).toBeUndefined();
    expect(await sheet.flush(position)).toMatchObject({ outcome: 'flushed' });
  });

  test('it agrees with a duplicate that was faster', async () => {
    const { sheet, position } = await waitingSheet();
    const ports = besideDuplicate(sheet, () => sheet.flush(position));
    // Both write the same root, so the entry carries what this one wanted.
    expect(await sheet.flush(position, ports)).toMatchObject({ outcome: 'flushed' });
    expect(await readStop(sheet.blobs, sheet.log)).toBeUndefined();
    expect((await sheet.root(position)).stateHash).toBe(await sheet.stateHash(position));
  });

  test('it leaves the root of a duplicate with the same state alone', { tags: ['I5'] }, async () => {
    const { sheet, position } = await waitingSheet();
    let moved: RootRef | undefined;
    const duplicate = async (): Promise<void> => {
      await sheet.flush(position);
      moved = await moveRoot(sheet, position, await sheet.root(position));
    };
    expect(await sheet.flush(position, besideDuplicate(sheet, duplicate))).toMatchObject({ outcome: 'empty' });
    expect(await sheet.ref(position)).toEqual(moved);
  });

  test('it stops the log if its duplicate has another state', { tags: ['I1'] }, async () => {
    const { sheet, position } = await waitingSheet();
    const first = await sheet.root({ segment: 0, entry: 3 });
    const duplicate = () => moveRoot(sheet, position, { ...first, position });
    const result = await sheet.flush(position, besideDuplicate(sheet, duplicate));
    expect(result).toMatchObject({ outcome: 'stopped', stop: { code: 'SNAPSHOT_MISMATCH', ...position } });
  });
});

/** Has an entry carry a small root as an object, although it would be inline. */
async function moveRoot(sheet: SheetLog, position: Position, root: Parameters<typeof encodeRoot>[1]): Promise<RootRef> {
  const { id, stored } = encodeRoot(sheet.deps.platform, root);
  const key = rootKey(sheet.log, position, id);
  await sheet.blobs.put(key, stored);
  const carried = (await sheet.ref(position)) ?? { key: '' };
  expect(await sheet.tables.replaceRoot(sheet.log, position, carried, { key })).toBe(true);
  return { key };
}

/** Ports on which a duplicate acts just before a root is replaced. */
function besideDuplicate(sheet: SheetLog, duplicate: () => Promise<unknown>): SheetPorts {
  return interceptPorts(sheet, async (name, effect) => {
    if (name === 'replaceRoot') await duplicate();
    return effect();
  });
}

async function contentsAfter(
  { sheet, position }: { readonly sheet: SheetLog; readonly position: Position },
  interceptor: Interceptor = (_, effect) => effect(),
): Promise<Contents> {
  await sheet.flush(position, interceptPorts(sheet, interceptor));
  return sheet.contents();
}

describe('an error of the log', () => {
  test('a missing chunk stops the log, and the stop names it', { tags: ['I7'] }, async () => {
    const { sheet, position } = await waitingSheet();
    const { objects } = await sheet.contents();
    const chunks = Object.keys(objects).filter((key) => parseKey(key)?.kind === 'chunk');
    await sheet.blobs.delete(chunks);
    const result = await sheet.flush(position);
    expect(result).toMatchObject({ outcome: 'stopped', stop: { code: 'CHUNK_MISSING' } });
    expect(await readStop(sheet.blobs, sheet.log)).toMatchObject({ message: expect.stringContaining(sheet.log) });
  });

  test('a damaged root stops the log', async () => {
    const { sheet, position } = await largeSheet(0);
    const ref = await sheet.ref(position);
    await sheet.blobs.put(ref !== undefined && 'key' in ref ? ref.key : '', Uint8Array.of(1, 2, 3));
    expect(await sheet.flush(position)).toMatchObject({ outcome: 'stopped', stop: { code: 'CHUNK_CORRUPT' } });
  });
});

describe('a snapshot after which a flush is due', () => {
  /** Works on jobs as a worker does, until none is left. */
  async function drain(sheet: SheetLog, queue: MemoryJobQueue): Promise<string[]> {
    const done: string[] = [];
    for (;;) {
      const [message] = await queue.receive({ max: 1, visibilityMs: 60_000 });
      if (message === undefined) return done;
      const job = decodeJob(message.body);
      expect(message.group).toBe(job.log);
      const result = await runJob({ ...sheet.deps, queue }, job);
      done.push(`${job.kind} ${result.outcome} ${'position' in job ? job.position.entry : ''}`);
      await queue.delete(message.receipt);
    }
  }

  /** A pending snapshot whose write buffers will hold more edits than are worth it. */
  async function dueSheet(): Promise<{ sheet: SheetLog; queue: MemoryJobQueue; job: SnapshotJob }> {
    const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
    await sheet.fill(100, 5);
    await sheet.completed();
    await sheet.edit({ type: 'Set', cells: Array.from({ length: 100 }, (_, row) => [row, row % 5, row] as const) });
    const position = await sheet.snapshot();
    return { sheet, queue: new MemoryJobQueue(), job: { kind: 'snapshot', log: sheet.log, position } };
  }

  test('a flush job follows it', async () => {
    const { sheet, queue, job } = await dueSheet();
    const result = await runJob({ ...sheet.deps, queue }, job);
    expect(result).toMatchObject({ outcome: 'built', flushDue: { map: 'cells', reason: 'buffer share' } });
    expect(flushDue((await sheet.root(job.position)).state)).toBeDefined();
    expect(await drain(sheet, queue)).toEqual([`flush flushed ${job.position.entry}`]);
    expect((await sheet.root(job.position)).stateHash).toBeDefined();
    // Nothing is due any more, however often the snapshot's job comes.
    await runJob({ ...sheet.deps, queue }, job);
    expect(await drain(sheet, queue)).toEqual([]);
  });

  test('a flush job follows it if the first worker died before it could send one', { tags: ['I5'] }, async () => {
    const { sheet, queue, job } = await dueSheet();
    const broken = { send: () => Promise.reject(new Error('no answer')) };
    await expect(runJob({ ...sheet.deps, queue: broken }, job)).rejects.toThrow('no answer');
    expect(await runJob({ ...sheet.deps, queue }, job)).toMatchObject({ outcome: 'present' });
    expect(await drain(sheet, queue)).toEqual([`flush flushed ${job.position.entry}`]);
  });

  test('one flush job follows it, however often the flush is found due', async () => {
    const { sheet, queue, job } = await dueSheet();
    for (let times = 0; times < 3; times++) await runJob({ ...sheet.deps, queue }, job);
    expect(queue.stats()).toMatchObject({ waiting: 1 });
  });

  test('it is not flushed if a newer snapshot is complete by then', async () => {
    const { sheet, queue, job } = await dueSheet();
    await runJob({ ...sheet.deps, queue }, job);
    const newer = await sheet.snapshot();
    await runJob({ ...sheet.deps, queue }, { ...job, position: newer });
    expect(await drain(sheet, queue)).toEqual([`flush passed ${job.position.entry}`, `flush flushed ${newer.entry}`]);
    // Nor is it looked at again: a newer one stands for it.
    expect(await runJob({ ...sheet.deps, queue }, job)).toEqual({ outcome: 'present', position: job.position });
  });

  test('no flush job follows it if no flush is due', async () => {
    const { sheet, position } = await waitingSheet();
    const queue = new MemoryJobQueue();
    await sheet.edit(set(1, 1, 'one more'));
    const next = await sheet.snapshot();
    await runJob({ ...sheet.deps, queue }, { kind: 'snapshot', log: sheet.log, position: next });
    await runJob({ ...sheet.deps, queue }, { kind: 'snapshot', log: sheet.log, position });
    expect(await drain(sheet, queue)).toEqual([]);
    expect(bufferedEdits((await sheet.root(next)).state)).toBe(4);
  });
});
