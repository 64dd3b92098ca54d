import { expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import type { Document } from '../../src/client/document.ts';
import { Logs } from '../../src/client/logs.ts';
import { textLogId } from '../../src/ids/log-id.ts';
import { type Position, START } from '../../src/ids/position.ts';
import type { Entry } from '../../src/log/entry.ts';
import { VIRTUAL_TYPES } from '../../src/log/schedule.ts';
import { sheetOf } from '../../src/state/spreadsheet/reducer.ts';
import { sheetRows } from '../../src/state/spreadsheet/sheet.ts';
import { completeSnapshot } from '../../src/workers/snapshot/build-snapshot.ts';
import { rowsOf } from '../support/live-logs.ts';
import { NOON } from '../support/logs.ts';
import { versionedSheet } from '../support/models/versioned-sheet.ts';
import { interceptBlobStore } from '../support/stores/interceptor.ts';
import { MappedLogs, newMappedLog, TENS } from '../support/stores/mapped-logs.ts';
import { testDeployment } from '../support/test-deployment.ts';

/** A table of orders, a worker, and clients whose downloads are counted. */
class LiveOrders extends MappedLogs {
  readonly log = newMappedLog();
  readonly downloads: string[] = [];
  nowMs = NOON * 1000;
  readonly #blobs = new MemoryBlobStore(() => NOON * 1000);

  open(log: string = this.log): Promise<Document> {
    const { store: tables } = this;
    const blobs = interceptBlobStore(this.#blobs, (name, effect) => {
      this.downloads.push(name);
      return effect();
    });
    const process = { types: VIRTUAL_TYPES, parseLog: textLogId, now: () => this.nowMs, newLogId: () => this.log };
    const logs = new Logs(testDeployment({ tables, blobs, ...process }));
    return logs.open(log, { reducer: versionedSheet(1) });
  }

  /** Completes the snapshot at a position, as the pipeline does. */
  async snapshot(segment: number, entry: number): Promise<void> {
    const { store: tables, log } = this;
    const deps = testDeployment({ tables, blobs: this.#blobs, types: VIRTUAL_TYPES });
    const result = await completeSnapshot(deps, { kind: 'snapshot', log, position: { segment, entry } });
    expect(result.outcome).toBe('built');
  }
}

const values = (count: number) => Array.from({ length: count }, (_, i) => [`value ${i}`]);

test('a document of a mapped log follows the items that the application appends, across segments', async () => {
  const orders = new LiveOrders();
  await orders.create(3, TENS, orders.log);
  const document = await orders.open();
  expect(await rowsOf(document)).toEqual(values(3));
  for (const count of [1, 6, 8]) {
    await orders.append(orders.log, count);
    await document.refresh();
  }
  expect(await rowsOf(document)).toEqual(values(18));
  expect(document.newest).toEqual({ segment: 1, entry: 9 });
});

test('a document of a mapped log opens at its newest snapshot and moves to the next one without a download', async () => {
  const orders = new LiveOrders();
  await orders.create(7, TENS, orders.log);
  await orders.snapshot(0, 6);
  const document = await orders.open();
  expect(await rowsOf(document)).toEqual(values(7));
  await orders.append(orders.log, 5);
  await document.refresh();
  await orders.store.register(orders.log, TENS);
  await orders.snapshot(1, 0);
  await orders.append(orders.log, 1);
  orders.downloads.length = 0;
  // A document asks for a pending snapshot now and then.
  orders.nowMs += 3_600_000;
  await document.refresh();
  expect(await rowsOf(document)).toEqual(values(13));
  expect(document.snapshot).toEqual({ segment: 1, entry: 0 });
  expect(orders.downloads).toEqual([]);
});

test.each(['append', 'mutate'] as const)('%s of a mapped log is refused and changes nothing', async (method) => {
  const orders = new LiveOrders();
  await orders.create(3, TENS, orders.log);
  const document = await orders.open();
  const entry = { type: 'Set', version: 1, body: [[0, 0, 'mine']] };
  await expect(document[method](entry)).rejects.toMatchObject({ code: 'LOG_READ_ONLY', log: orders.log });
  expect(await rowsOf(document)).toEqual(values(3));
  expect(document.pending).toEqual([]);
});

test('a log that is not registered is not found, and the error says what to do', async () => {
  const orders = new LiveOrders();
  await orders.append(orders.log, 3);
  await expect(orders.open()).rejects.toMatchObject({
    code: 'LOG_NOT_FOUND',
    advice: expect.stringContaining(`logfold adopt`),
  });
});

test('a document of a mapped log shows its past, from the nearest snapshot', async () => {
  const orders = new LiveOrders();
  await orders.create(19, TENS, orders.log);
  const document = await orders.open();
  const entries: Entry[] = [];
  for (const segment of [0, 1]) {
    const range = { segment, from: 0, to: 100 };
    for await (const page of orders.store.entries(orders.log, range, { consistent: true })) entries.push(...page);
  }
  const snapshots = entries.filter(({ type }) => type === VIRTUAL_TYPES.snapshot);
  for (const { position } of snapshots) await orders.snapshot(position.segment, position.entry);
  expect(snapshots.length).toBeGreaterThan(2);
  let items = 0;
  let nearest: Position | undefined;
  for (const { type, position } of entries) {
    if (type === VIRTUAL_TYPES.snapshot && items > 0) nearest = position;
    const state = await document.at(position);
    expect(state.snapshot ?? START).toEqual(nearest ?? START);
    expect(await Array.fromAsync(sheetRows(sheetOf(state.draft)))).toEqual(values(items));
    if (!VIRTUAL_TYPES.includes(type)) items++;
  }
  expect((await document.at(new Date(0))).position).toEqual(START);
  const newest = await document.at(new Date((NOON + 3600) * 1000));
  expect(await Array.fromAsync(sheetRows(sheetOf(newest.draft)))).toEqual(values(19));
});
