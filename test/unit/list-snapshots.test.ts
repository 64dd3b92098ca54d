import { expect, test } from 'vitest';
import { listSnapshots } from '../../src/workers/audit/list-snapshots.ts';
import { writeCollected } from '../../src/workers/gc/collection-record.ts';
import { DAMAGED_ROOT } from '../support/damage.ts';
import { SheetLog, set } from '../support/sheet-log.ts';
import { interceptLogStore } from '../support/stores/interceptor.ts';
import { testDeployment } from '../support/test-deployment.ts';

async function list(sheet: SheetLog) {
  return Array.fromAsync(listSnapshots(sheet.deps, sheet.log));
}

test('the snapshots of a log are listed newest first, also those of archived segments', async () => {
  const sheet = await SheetLog.create();
  await sheet.edit(set(0, 0, 'a'));
  const first = await sheet.completed();
  const second = await sheet.covered();
  await sheet.archive();
  await sheet.edit(set(1, 0, 'b'));
  const third = await sheet.snapshot();
  const reducer = { name: 'spreadsheet', version: 1 };
  expect(await list(sheet)).toMatchObject([
    { position: third, status: 'pending', root: null, created: sheet.nowMs / 1000 },
    { position: second, status: 'complete', root: { reducer, stateHash: await sheet.stateHash(second) } },
    { position: first, status: 'complete', root: { reducer, bufferedEdits: 0 } },
    { position: { segment: 0, entry: 0 }, status: 'pending' },
  ]);
});

test('a snapshot that garbage collection dropped is listed as dropped', async () => {
  const sheet = await SheetLog.create();
  await sheet.edit(set(0, 0, 'a'));
  const { segment, entry } = await sheet.completed();
  await sheet.completed();
  await writeCollected(sheet.blobs, sheet.log, { bodies: 0, dropped: [[`${segment}/${entry}`, sheet.nowMs]] });
  expect((await list(sheet)).map(({ status }) => status)).toEqual(['complete', 'dropped', 'pending']);
});

test('a damaged root is reported with its reason, and the others are listed', async () => {
  const sheet = await SheetLog.create();
  await sheet.completed();
  const position = await sheet.snapshot();
  await sheet.tables.completeSnapshot(sheet.log, position, { inline: DAMAGED_ROOT });
  expect(await list(sheet)).toMatchObject([
    { position, status: 'damaged', root: null, error: { code: expect.any(String) } },
    { status: 'complete', error: null },
    { status: 'pending' },
  ]);
});

test('the newest snapshot of a long log takes few entries', async () => {
  const sheet = await SheetLog.create();
  await sheet.edit(...Array.from({ length: 500 }, () => set(0, 0, 'a')));
  const position = await sheet.completed();
  let ranges = 0;
  const tables = interceptLogStore(sheet.tables, (name, effect) => {
    if (name === 'items') ranges++;
    return effect();
  });
  const { store } = testDeployment({ tables, blobs: sheet.blobs });
  const newest = await listSnapshots({ ...sheet.deps, store }, sheet.log).next();
  expect(newest.value).toMatchObject({ position, status: 'complete' });
  // Two look for entries after the newest; a walk over all 500 entries would take more than three.
  expect(ranges).toBe(3);
});
