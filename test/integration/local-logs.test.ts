import { readdir } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { Document } from '../../src/client/document.ts';
import { DocumentClosedError, StoreUnavailableError, UsageError } from '../../src/errors.ts';
import { openLogs as openAwsLogs } from '../../src/exports/aws.ts';
import { openLogs } from '../../src/exports/local.ts';
import { openLogs as openPageLogs, START } from '../../src/exports/logfold.ts';
import { spreadsheet as reducer } from '../../src/state/spreadsheet/reducer.ts';
import { enginePids, isAlive, temporaryDirectory } from '../support/stores/shared-engine.ts';

const CORNER = { rows: { from: 0, to: 2 }, columns: { from: 0, to: 1 } };
const set = (row: number, value: string) => ({ type: 'Set', version: 1, body: [[row, 0, value]] });

/** Resolves at the next change of a document. */
function changed(document: Document): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const unsubscribe = document.subscribe(() => {
    unsubscribe();
    resolve();
  });
  return promise;
}

/** Fails a test whose watch fails. */
function onError(error: unknown): never {
  throw error;
}

test('a client creates a log, appends and views it, and watches what another client appends', async () => {
  const directory = await temporaryDirectory();
  const ours = await openLogs({ directory });
  const theirs = await openLogs({ directory });
  const log = await ours.create();
  const document = await ours.open(log, { reducer });
  const other = await theirs.open(log, { reducer });

  const appended = await document.append(set(0, 'Denver'));
  expect(appended?.first).toEqual({ segment: 0, entry: 1 });
  expect(await document.view(CORNER)).toEqual([['Denver'], [null]]);

  const before = other.state;
  const change = changed(other);
  const stop = other.watch({ intervalMs: 10, onError });
  await change;
  stop();
  expect(await other.view(CORNER)).toEqual([['Denver'], [null]]);
  expect(await before.view(CORNER)).toEqual([[null], [null]]);

  expect(await other.mutate(set(1, 'Austin'))).toEqual({ segment: 0, entry: 2 });
  await document.refresh();
  expect(await document.view(CORNER)).toEqual([['Denver'], ['Austin']]);
  expect((await Array.fromAsync(ours.list())).map((listed) => listed.log)).toEqual([log]);

  const { engine } = await enginePids(directory);
  await theirs.close();
  await expect(other.refresh()).rejects.toThrow(DocumentClosedError);
  expect(await isAlive(engine)).toBe(true);
  await ours.close();
  expect(await isAlive(engine)).toBe(false);

  const again = await openLogs({ directory });
  expect(await (await again.open(log, { reducer })).view(CORNER)).toEqual([['Denver'], ['Austin']]);
  await again.close();
});

test('close ends the wait of a watch immediately', async () => {
  const directory = await temporaryDirectory();
  const logs = await openLogs({ directory });
  const document = await logs.open(await logs.create(), { reducer });
  document.watch({ intervalMs: 3_600_000, onError });
  await logs.close();
  // The process of this test would otherwise wait for an hour.
  expect(process.getActiveResourcesInfo()).not.toContain('Timeout');
});

test('each request names the loss of the engine', async () => {
  const directory = await temporaryDirectory();
  const logs = await openLogs({ directory });
  const document = await logs.open(await logs.create(), { reducer });
  process.kill((await enginePids(directory)).engine, 'SIGKILL');
  const refused = () => document.refresh().catch((thrown: unknown) => thrown);
  let error = await refused();
  // The supervisor needs a moment to notice the loss.
  for (; !String(error).includes('the local engine has ended'); error = await refused()) await sleep(10);
  expect(error).toBeInstanceOf(StoreUnavailableError);
  await logs.close();
});

test('openLogs takes names for the reserved types, and refuses to go without options', async () => {
  const directory = await temporaryDirectory();
  const logs = await openLogs({ directory, types: { snapshot: 'Snap', endSegment: 'End' } });
  const log = await logs.create();
  const { entries } = await logs.client.query(log, { from: START });
  expect((await Array.fromAsync(entries)).flat().map(({ type }) => type)).toEqual(['Snap']);
  await logs.close();
  await expect(Reflect.apply(openLogs, undefined, [])).rejects.toThrow(UsageError);
  expect(() => Reflect.apply(openAwsLogs, undefined, [])).toThrow(UsageError);
  await expect(Reflect.apply(openPageLogs, undefined, [])).rejects.toThrow(UsageError);
});

test.each([
  { directory: 'data', table: 'Entry' },
  { directory: '' },
  { directory: 'data', entryTable: '' },
  { directory: 'data', cacheBytes: -1 },
])('openLogs refuses %o and creates nothing', async (options) => {
  const parent = await temporaryDirectory();
  const directory = options.directory && `${parent}/${options.directory}`;
  await expect(openLogs({ ...options, directory })).rejects.toThrow(UsageError);
  expect(await readdir(parent)).toEqual([]);
});
