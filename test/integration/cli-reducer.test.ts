import { writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { loadReducer } from '../../src/adapters/platform/reducer-module.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import type { Position } from '../../src/ids/position.ts';
import { RESERVED_TYPES } from '../../src/log/entry.ts';
import { loadState } from '../../src/snapshot/load.ts';
import { runCli } from '../support/cli.ts';
import { CliPlace, refusalOf } from '../support/cli-place.ts';
import { unarchived } from '../support/logs.ts';

let place: CliPlace;
/** Two versions of a reducer that counts the entries of each type; the second counts twice. */
let first: string;
let second: string;

beforeAll(async () => {
  place = await CliPlace.open();
  first = await module('tally-1', tally(1));
  second = await module('tally-2', tally(2));
});
afterAll(() => place.close());

async function module(name: string, text: string): Promise<string> {
  const file = join(place.directory, `${name}.mjs`);
  await writeFile(file, text);
  return file;
}

function tally(version: number): string {
  return `export default {
    name: 'tally',
    version: ${version},
    fold({ meta }, { type }) { meta.set(type, (meta.get(type) ?? 0) + ${version}); },
  };`;
}

/** A log with entries that no spreadsheet knows, and a Snapshot entry. */
async function votes(): Promise<{ readonly log: LogId; readonly position: Position }> {
  const log = await place.log();
  for (const type of ['Yes', 'No', 'Yes']) await place.client.addEntry(log, { type, version: 1, body: null });
  return { log, position: (await place.client.addSnapshot(log)).position };
}

/** Loads a log with the reducer of a module. */
async function load(log: LogId, file: string): Promise<unknown> {
  const stores = {
    store: unarchived(place.tables),
    blobs: place.blobs,
    platform: nativePlatform,
    types: RESERVED_TYPES,
  };
  const { draft, base } = await loadState({ ...stores, reducer: await loadReducer(file) }, log);
  return { snapshot: base?.position, counts: Object.fromEntries(draft.meta) };
}

test('the pipeline, a replay and a rebuild fold with the reducer that is named', async () => {
  const { log, position } = await votes();
  const worked = await place.json('work', '--until-idle', '--reducer', relative(process.cwd(), first));
  expect(worked).toMatchObject({ snapshots: 2, stopped: [], failures: [] });
  const loaded = { snapshot: position, counts: { Yes: 2, No: 1 } };
  expect(await load(log, first)).toEqual(loaded);
  expect(await place.json('replay', log, '--reducer', first)).toMatchObject({ equal: true, snapshot: position });

  const rebuilt = await place.json('sweep', '--log', log, '--rebuild', '--reducer', second);
  expect(rebuilt).toMatchObject({ failures: [], jobs: [{ kind: 'rebuild', outcome: 'rebuilt' }] });
  expect(await load(log, second)).toEqual({ ...loaded, counts: { Yes: 4, No: 2 } });
  const environment = { LOGFOLD_REDUCER: second };
  const replayed = await runCli(['replay', log, '--json', ...place.words], { environment });
  expect(JSON.parse(replayed.stdout)).toMatchObject({ equal: true, snapshot: position });
});

describe('a log of another reducer', () => {
  test('stays as it is if nobody names a reducer', async () => {
    const { log } = await votes();
    await place.json('work', '--until-idle', '--reducer', first);
    const { position } = await place.client.addSnapshot(log);
    const edits = join(place.directory, 'edits.ndjson');
    await writeFile(edits, '{"op":"set","cells":[[0,0,"a"]]}');

    const before = await place.contents();
    const refusals = await place.refusals(
      ['work', '--until-idle'],
      ['flush', log],
      ['replay', log],
      ['append', log, edits],
    );
    for (const refusal of refusals) {
      const advice = expect.stringContaining('--reducer FILE');
      expect(refusal).toMatchObject({ code: 'REDUCER_FOREIGN', log, advice });
    }
    for (const rebuild of [[], ['--rebuild']]) {
      const swept = await runCli(['sweep', '--log', log, ...rebuild, '--json', ...place.words]);
      expect(swept.code).toBe(1);
      expect(JSON.parse(swept.stdout)).toMatchObject({ jobs: [], failures: [{ log, code: 'REDUCER_FOREIGN' }] });
    }
    expect(await place.contents()).toEqual(before);

    // The refused pipeline has marked no stream record as done.
    expect(await place.json('work', '--until-idle', '--reducer', first)).toMatchObject({ snapshots: 1 });
    expect(await load(log, first)).toEqual({ snapshot: position, counts: { Yes: 2, No: 1 } });
  });

  test('gets the named reducer', async () => {
    const log = await place.log({ type: 'Set', cells: [[0, 0, 'a']] });
    await place.client.addSnapshot(log);
    await place.json('work', '--until-idle', '--reducer', first);
    const rebuilt = await place.json('sweep', '--log', log, '--rebuild', '--reducer', 'spreadsheet');
    expect(rebuilt).toMatchObject({ failures: [], jobs: [{ kind: 'rebuild', outcome: 'rebuilt' }] });
    expect(await place.json('replay', log)).toMatchObject({ equal: true });
    expect(await place.json('export', log)).toMatchObject({ snapshot: { segment: 0, entry: 2 }, rows: [['a']] });
  });
});

test('commands on sheets refuse another reducer', async () => {
  const log = await place.log({ type: 'Set', cells: [[0, 0, 'a']] });
  const edits = await module('edits', '{"op":"set","cells":[[0,0,"b"]]}');
  const commands = [
    ['export', log],
    ['view', log, '--rows', '0:1', '--columns', '0:1'],
    ['append', log, edits],
  ];
  const refusals = await place.refusals(...commands.map((words) => [...words, '--reducer', first]));
  for (const [i, { code, message }] of refusals.entries()) {
    expect(code).toBe('USAGE');
    expect(message).toContain(
      `${commands[i]?.[0]} works only on sheets, and the states of reducer 'tally' are not sheets`,
    );
  }
});

test.each([
  ['missing', undefined, 'cannot be loaded'],
  ['broken', 'export default {', 'cannot be loaded'],
  [
    'without an export',
    'export const reducer = 1;',
    'has no reducer (a name, a version of 1 or more, and a function fold) as its default export',
  ],
  [
    'no-reducer',
    "export default { name: 'tally', version: 0, fold: () => {} };",
    'has no reducer (a name, a version of 1 or more, and a function fold) as its default export',
  ],
])('a module that is %s is refused', async (name, text, reason) => {
  const file = text === undefined ? join(place.directory, 'nowhere.mjs') : await module(name, text);
  const answer = await runCli(['work', '--until-idle', '--reducer', file, '--json', ...place.words]);
  expect(answer.code).toBe(2);
  const { code, message } = refusalOf(answer);
  expect(code).toBe('REDUCER_INVALID');
  expect(message).toContain(`the module '${file}' ${reason}`);
});
