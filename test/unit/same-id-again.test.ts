import { expect, test } from 'vitest';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { loadState } from '../../src/snapshot/load.ts';
import { completeSnapshot } from '../../src/workers/snapshot/build-snapshot.ts';
import { readRows } from '../support/models/versioned-sheet.ts';
import { SheetLog, set } from '../support/sheet-log.ts';
import { testDeployment } from '../support/test-deployment.ts';

/**
 * A log in logfold's own schema that was deleted from both tables, and its next life under the same
 * id. The bucket still has all objects of the former one. Both lives have equal times.
 */
async function twoLives(former: (sheet: SheetLog) => Promise<void>) {
  const first = await SheetLog.create();
  await first.edit(...Array.from({ length: 9 }, (_, row) => set(row, 0, 'former')));
  await former(first);
  const second = await SheetLog.create(undefined, new MemoryLogStore());
  // Its entries get other random ids.
  second.deps.random();
  const { blobs } = first;
  const { store } = testDeployment({ tables: second.tables, blobs });
  const deps = { ...second.deps, blobs, store, rangeEntries: 2 };
  return { first, second, deps };
}

const ROWS = Array.from({ length: 9 }, (_, row) => [`present ${row}`]);

async function edits(sheet: SheetLog): Promise<void> {
  await sheet.edit(...ROWS.map(([text = ''], row) => set(row, 0, text)));
}

test('a log that was deleted and created again under its id starts from nothing', { tags: ['I1'] }, async () => {
  const { second, deps } = await twoLives(async (sheet) => {
    await sheet.completed();
    await sheet.covered();
  });
  await edits(second);
  const position = await second.snapshot();
  const result = await completeSnapshot(deps, { kind: 'snapshot', log: second.log, position });
  expect(result).toMatchObject({ outcome: 'built', base: undefined, entries: 10 });
  const { draft } = await loadState(deps, second.log);
  expect(await readRows(draft)).toEqual(ROWS);
});

test('a build ignores progress of a deleted log with the same id and equal times', { tags: ['I1'] }, async () => {
  const { second, deps } = await twoLives(async (sheet) => {
    const position = await sheet.snapshot();
    const job = { kind: 'snapshot', log: sheet.log, position } as const;
    const stopped = await completeSnapshot({ ...sheet.deps, rangeEntries: 2, deadline: 0 }, job);
    expect(stopped).toMatchObject({ outcome: 'progress' });
  });
  await edits(second);
  const position = await second.snapshot();
  const result = await completeSnapshot(deps, { kind: 'snapshot', log: second.log, position });
  const ignored = ['the last entry before it has changed'];
  expect(result).toMatchObject({ outcome: 'built', base: undefined, ignored });
  const { draft } = await loadState(deps, second.log);
  expect(await readRows(draft)).toEqual(ROWS);
});

test('a build that has read a deleted log gives the next log no snapshot', { tags: ['I1'] }, async () => {
  const { first, second, deps } = await twoLives(async (sheet) => {
    await sheet.snapshot();
  });
  await edits(second);
  const position = await second.snapshot();
  const job = { kind: 'snapshot', log: second.log, position } as const;
  const late = completeSnapshot({ ...deps, store: first.deps.store }, job);
  await expect(late).rejects.toMatchObject({ code: 'ENTRY_NOT_FOUND', ...position });
  expect(await completeSnapshot(deps, job)).toMatchObject({ outcome: 'built', base: undefined });
  const { draft } = await loadState(deps, second.log);
  expect(await readRows(draft)).toEqual(ROWS);
});
