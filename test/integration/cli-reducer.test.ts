import { writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { loadReducer } from '../../src/adapters/platform/reducer-module.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import type { Position } from '../../src/ids/position.ts';
import { RESERVED_TYPES } from '../../src/log/entry.ts';
import { loadState } from '../../src/snapshot/load.ts';
import { type Answer, runCli } from '../support/cli.ts';
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

async function newest(log: LogId): Promise<Position | undefined> {
  return (await place.tables.newestEntry(log, 0, { consistent: true }))?.position;
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

test('documents of collections are folded by the name of their reducer', async () => {
  const log = await place.log();
  const lines = [
    { type: 'Put', body: { name: 'title', value: 'My project' } },
    { type: 'Put', body: { collection: 'charts', id: 'a', value: { since: { $date: '2026-01-01T00:00:00.000Z' } } } },
    { op: 'snapshot' },
    { type: 'Patch', body: { collection: 'charts', id: 'a', patch: { kind: 'pie' } } },
  ];
  const file = join(place.directory, 'project.ndjson');
  await writeFile(file, lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  const named = ['--reducer', 'collections'];
  expect(await place.json('append', log, file, ...named)).toMatchObject({ entries: 3, snapshots: 1 });
  expect(await place.json('work', '--until-idle', ...named)).toMatchObject({ snapshots: 2 });
  expect(await place.json('replay', log, ...named)).toMatchObject({ equal: true });
  const { stdout } = await runCli(['export', log, ...named, ...place.words]);
  const exported = stdout.trim().split('\n');
  expect(exported.map((line): unknown => JSON.parse(line))).toEqual([
    { meta: {} },
    { map: 'items', key: 'charts/a', value: { kind: 'pie', since: { $date: '2026-01-01T00:00:00.000Z' } } },
    { map: 'scalars', key: 'title', value: 'My project' },
  ]);
  const refused = await runCli(['view', log, '--rows', '0:1', '--columns', '0:1', ...named, ...place.words]);
  expect(refused.stderr).toContain("the states of reducer 'collections' are not sheets");
});

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
      ['flush', log],
      ['replay', log],
      ['append', log, edits],
      ['export', log],
      ['export', log, '--at', '0/2'],
      ['state', log],
    );
    for (const refusal of refusals) {
      const advice = expect.stringContaining('--reducer FILE');
      expect(refusal).toMatchObject({ code: 'REDUCER_FOREIGN', log, advice });
    }
    for (const rebuild of [[], ['--rebuild']]) {
      const swept = await runCli(['sweep', '--log', log, ...rebuild, '--json', ...place.words]);
      expect(swept.code).toBe(1);
      const failures = [{ log, code: 'REDUCER_FOREIGN' }];
      expect(JSON.parse(swept.stdout)).toMatchObject({ jobs: [], skipped: [], failures });
    }
    const skipped = [{ log, code: 'REDUCER_FOREIGN' }];
    expect(await place.json('work', '--until-idle')).toMatchObject({ snapshots: 0, skipped, failures: [] });
    expect(await place.contents()).toEqual(before);

    // The stream has passed the skipped log, and a sweep builds its snapshot.
    const swept = await place.json('sweep', '--log', log, '--reducer', first);
    expect(swept).toMatchObject({ jobs: [{ kind: 'snapshot', outcome: 'built' }], failures: [] });
    expect(await load(log, first)).toEqual({ snapshot: position, counts: { Yes: 2, No: 1 } });
  });

  test('is skipped with one notice, and the other logs go on', async () => {
    const sheet = await place.log({ type: 'Set', cells: [[0, 0, 'a']] });
    const { log } = await votes();
    await place.json('sweep', '--log', log, '--reducer', first);
    for (const how of ['work', 'sweep'] as const) {
      for (let i = 0; i < 3; i++) await place.client.addSnapshot(log);
      await place.client.addSnapshot(sheet);
      const words = how === 'work' ? ['work', '--until-idle'] : ['sweep'];
      const answer = await runCli([...words, '--snapshot-every-entries', '1', ...place.words]);
      expect(answer, answer.stderr).toMatchObject({ code: 0 });
      const said = `${answer.stderr}${answer.stdout}`;
      const notices = said.split('\n').filter((line) => line.startsWith(`${log} is skipped: reducer 'tally' `));
      expect(notices).toEqual([expect.stringContaining(` sweep`)]);
      expect(said).toContain(`snapshot ${sheet} `);
      expect(said).not.toMatch(/FAILED|given up|try again/);
      expect(await place.json('sweep', '--log', sheet)).toMatchObject({ jobs: [] });
    }
    // Nothing is lost: the log gets its newest snapshot from its own reducer.
    const swept = await place.json('sweep', '--log', log, '--reducer', first);
    expect(swept).toMatchObject({ skipped: [], failures: [] });
    expect(await load(log, first)).toEqual({ snapshot: await newest(log), counts: { Yes: 2, No: 1 } });
  });

  test('is not folded for a reader, even if the default reducer knows its entries', async () => {
    const log = await place.log({ type: 'Set', cells: [[0, 0, 'a']] });
    await place.client.addSnapshot(log);
    await place.json('work', '--until-idle', '--reducer', first);
    const refusals = await place.refusals(
      ['export', log],
      ['export', log, '--at', '0/2'],
      ['view', log, '--rows', '0:1', '--columns', '0:1'],
      ['state', log],
      ['state', log, '--map', 'cells'],
    );
    for (const refusal of refusals) expect(refusal).toMatchObject({ code: 'REDUCER_FOREIGN', log });
    expect(await place.json('export', log, '--reducer', 'spreadsheet')).toMatchObject({ rows: [['a']] });
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

describe('a log of any reducer', () => {
  /** Stores each body under the entry's number, refuses no body, and counts the entries. */
  const NOTES = `export default {
    name: 'notes',
    version: 1,
    fold(draft, { position, body, metadata }) {
      if (body === null) throw new Error('the note is empty');
      draft.map('notes', 'number').put(position.entry, body);
      draft.map('authors', 'string').put(metadata?.author ?? 'nobody', position.entry);
      draft.meta.set('notes', (draft.meta.get('notes') ?? 0) + 1);
    },
  };`;
  const lines = [
    { type: 'Note', body: { picture: { $bytes: 'AQID' }, text: 'first' }, metadata: { author: 'Ada' } },
    { op: 'snapshot' },
    { type: 'Note', body: ['second'], time: 1_000_000, once: { client: 'c', mutation: 1 } },
    { type: 'Note', version: 2, body: 3 },
  ];
  const items = [
    { meta: { notes: 3 } },
    { map: 'authors', key: 'Ada', value: 1 },
    { map: 'authors', key: 'nobody', value: 4 },
    { map: 'notes', key: 1, value: lines[0]?.body },
    { map: 'notes', key: 3, value: ['second'] },
    { map: 'notes', key: 4, value: 3 },
  ];
  let own: readonly string[];
  let log: LogId;

  function ndjson(values: readonly object[]): string {
    return values.map((value) => `${JSON.stringify(value)}\n`).join('');
  }

  async function append(values: readonly object[], ...words: readonly string[]): Promise<Answer> {
    return runCli(['append', log, '-', ...words, ...own, ...place.words], { input: ndjson(values) });
  }

  beforeAll(async () => {
    own = ['--reducer', await module('notes', NOTES)];
    log = await place.log();
    expect(JSON.parse((await append(lines, '--json')).stdout)).toMatchObject({
      entries: 3,
      snapshots: 1,
      last: { segment: 0, entry: 4 },
    });
  });

  test('is exported as lines of JSON, now or at a position', async () => {
    const answer = await runCli(['export', log, ...own, ...place.words]);
    expect(answer).toMatchObject({ code: 0, stdout: ndjson(items), stderr: '' });
    const position = { segment: 0, entry: 5 };
    expect(await place.json('export', log, ...own)).toEqual({ log, position, snapshot: null, items });
    const before = await place.json('export', log, '--at', '0/2', ...own);
    expect(before).toMatchObject({ items: [{ meta: { notes: 1 } }, items[1], items[3]] });
  });

  test('is compared by its metadata and items', async () => {
    const before = await place.json('export', log, '--at', '0/2', ...own);
    const { changes } = await place.json('diff', log, '0/0', '0/2', ...own);
    const made = (before.items as Record<string, unknown>[]).map(({ meta, value, ...place }) =>
      meta === undefined ? { kind: 'item', ...place, after: value } : { kind: 'meta', name: 'notes', after: 1 },
    );
    expect(changes).toEqual(made);
    const { stdout } = await runCli(['diff', log, '0/2', ...own, ...place.words]);
    expect(stdout).toBe(
      [
        'metadata["notes"]: 1 -> 3',
        'authors["nobody"] added: 4',
        'notes[3] added: ["second"]',
        'notes[4] added: 3',
        '',
      ].join('\n'),
    );
  });

  test('is shown by its metadata, its maps and ranges of a map', async () => {
    const view = (...words: readonly string[]) => place.json('state', log, ...words, ...own);
    const head = { log, position: { segment: 0, entry: 5 }, snapshot: null, fetched: { objects: 0, bytes: 0 } };
    expect(await view()).toEqual({
      ...head,
      meta: { notes: 3 },
      maps: [
        { map: 'authors', keys: 'string', items: 2, isExact: true, buffered: 0 },
        { map: 'notes', keys: 'number', items: 3, isExact: true, buffered: 0 },
      ],
    });
    expect(await view('--at', '0/2')).toMatchObject({ position: { segment: 0, entry: 2 }, meta: { notes: 1 } });
    expect(await view('--map', 'authors', '--prefix', 'A')).toMatchObject({ items: [{ key: 'Ada' }], next: null });
    expect(await view('--map', 'authors', '--prefix', 'B')).toMatchObject({ items: [], next: null });
    expect(await view('--map', 'notes', '--from', '2', '--limit', '1')).toEqual({
      ...head,
      map: 'notes',
      items: [{ key: 3, value: ['second'] }],
      next: 4,
    });
    expect(await view('--map', 'authors', '--to', 'nobody')).toMatchObject({ items: [{ key: 'Ada' }], next: null });
    expect(await view('--map', 'authors', '--prefix', 'A', '--reverse')).toMatchObject({ items: [{ key: 'Ada' }] });
    const last = await view('--map', 'notes', '--reverse', '--limit', '2');
    expect(last).toMatchObject({ items: [{ key: 4 }, { key: 3, value: ['second'] }], next: 3 });
    expect(await view('--map', 'notes', '--reverse', '--to', '3')).toMatchObject({ items: [{ key: 1 }], next: null });
    expect(await view('--map', 'nothing', '--from', 'x')).toMatchObject({ items: [], next: null });
    const { stdout, stderr } = await runCli(['state', log, '--map', 'notes', '--limit', '2', ...own, ...place.words]);
    expect(stdout).toBe(
      ndjson([
        { key: 1, value: lines[0]?.body },
        { key: 3, value: ['second'] },
      ]),
    );
    expect(stderr).toContain('continue with --from 4.');
  });

  test('gets an entry once, however often its line is appended', async () => {
    const before = await place.contents();
    const answer = await append(lines.slice(2, 3));
    expect(answer.stdout).toBe('0 entries appended (1 more in the log already)\n');
    expect(await place.contents()).toEqual(before);
  });

  test('does not get an entry that the reducer rejects', async () => {
    const answer = await append([{ type: 'Note', body: 'fourth' }, { type: 'Note' }], '--json');
    const refusal = refusalOf(answer);
    expect(refusal).toMatchObject({ code: 'ENTRY_REJECTED', log, type: 'Note' });
    expect(refusal.message).toMatch(/^line 2: the reducer refuses the entry: the note is empty/);
    const after = await place.json('state', log, '--map', 'notes', '--from', '5', ...own);
    expect(after).toMatchObject({ items: [{ key: 5, value: 'fourth' }] });
    const { entries } = await place.client.query(log, { from: { segment: 0, entry: 6 } });
    expect(await Array.fromAsync(entries)).toEqual([]);
  });

  test('gets an entry of an unknown type after the advice of its rejection was followed', async () => {
    const own = await place.log();
    const file = join(place.directory, 'votes.ndjson');
    await writeFile(file, ndjson([{ type: 'Vote', body: 'Denver' }]));
    const words = ['append', own, file, ...place.words];
    const refusal = refusalOf(await runCli([...words, '--json']));
    expect(refusal).toMatchObject({
      code: 'ENTRY_REJECTED',
      advice: expect.stringContaining('name it with --reducer'),
    });
    expect(refusal.message).toMatch(/'Vote'\]\. Use a reducer that folds them: .*; this one knows Set, Insert Rows,/);
    expect(await runCli([...words, '--reducer', first])).toMatchObject({ code: 0 });
  });

  test.each([
    ['an op of a sheet', { op: 'set', cells: [] }, "op set is for sheets, and the states of reducer 'notes' are not"],
    ['a check', { op: 'check', rows: 0, sha256: '0'.repeat(64) }, 'op check is for sheets'],
    ['an unknown name', { type: 'Note', text: 'x' }, 'text'],
    ['a reserved type', { type: 'Snapshot' }, "the type 'Snapshot' is reserved"],
    ['a negative version', { type: 'Note', version: -1 }, 'version'],
    ['an unknown form', { type: 'Note', body: { $ref: 'x' } }, 'is not a value'],
    ['metadata that DynamoDB cannot hold', { type: 'Note', metadata: { '': 1 } }, 'empty name'],
    ['a mutation without a number', { type: 'Note', once: { client: 'c' } }, 'once.mutation'],
    ['a mutation below 1', { type: 'Note', once: { client: 'c', mutation: 0 } }, 'mutation'],
  ])('appends nothing if a line has %s', async (_, line, reason) => {
    const before = await place.contents();
    const refusal = refusalOf(await append([{ type: 'Note', body: 'good' }, line], '--json'));
    expect(refusal).toMatchObject({ code: 'EDIT_LINE_INVALID', message: expect.stringMatching(/^line 2: /) });
    expect(refusal.message).toContain(reason);
    expect(await place.contents()).toEqual(before);
  });

  test('has no rows and columns', async () => {
    const refusals = await place.refusals(
      ['export', log, '--rows', '0:1', ...own],
      ['export', log, '--csv', join(place.directory, 'never.csv'), ...own],
      ['view', log, '--rows', '0:1', '--columns', '0:1', ...own],
    );
    for (const { code, message } of refusals) {
      expect(code).toBe('USAGE');
      expect(message).toContain("is for sheets, and the states of reducer 'notes' are not sheets");
    }
    const keys = ['x', '0x10', ' 5', 'Infinity'];
    const wrong = await place.refusals(...keys.map((key) => ['state', log, '--map', 'notes', '--from', key, ...own]));
    for (const [i, { message }] of wrong.entries()) expect(message).toContain(`--from: '${keys[i]}' is not a number`);
  });
});

test('a sheet takes entries as well as ops', async () => {
  const log = await place.log();
  const input = '{"op":"set","cells":[[0,0,"a"]]}\n{"type":"Set","body":[[1,0,"b"]]}\n';
  await runCli(['append', log, '-', ...place.words], { input });
  expect(await place.json('export', log)).toMatchObject({ rows: [['a'], ['b']] });
  expect(await place.json('state', log, '--map', 'cells')).toMatchObject({ map: 'cells', next: null });
});

test.each([
  ['missing', undefined, 'cannot be loaded'],
  ['broken', 'export default {', 'cannot be loaded'],
  [
    'without an export',
    'export const reducer = 1;',
    'has no reducer (a name, a version of 1 or more, a function fold, and perhaps functions validate and rebase) as its default export',
  ],
  [
    'no-reducer',
    "export default { name: 'tally', version: 0, fold: () => {} };",
    'has no reducer (a name, a version of 1 or more, a function fold, and perhaps functions validate and rebase) as its default export',
  ],
])('a module that is %s is refused', async (name, text, reason) => {
  const file = text === undefined ? join(place.directory, 'nowhere.mjs') : await module(name, text);
  const answer = await runCli(['work', '--until-idle', '--reducer', file, '--json', ...place.words]);
  expect(answer.code).toBe(2);
  const { code, message } = refusalOf(answer);
  expect(code).toBe('REDUCER_INVALID');
  expect(message).toContain(`the module '${file}' ${reason}`);
});
