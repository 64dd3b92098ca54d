import { once } from 'node:events';
import { mkdtemp, readdir, readFile, realpath, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { CreateBucketCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import { parse as parseCsv } from 'csv-parse/sync';
import fc from 'fast-check';
import pLimit from 'p-limit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { LogId } from '../../src/ids/log-id.ts';
import { formatPosition, type Position } from '../../src/ids/position.ts';
import { ensureTables } from '../../src/local/tables.ts';
import type { SheetEdit } from '../../src/state/spreadsheet/reducer.ts';
import { type Answer, end, runCli, runShell, startCli } from '../support/cli.ts';
import { CliPlace, engineProcesses, expectNoTrace, refusalOf } from '../support/cli-place.ts';
import { Random } from '../support/models/random.ts';
import { SheetModel, sheetEdits, trim } from '../support/models/sheet-model.ts';
import { startLocalAws } from '../support/stores/fauxqs.ts';
import { clientConfig } from '../support/stores/shared-engine.ts';

const HASH: unknown = expect.stringMatching(/^[0-9a-f]{64}$/);
const NUMBER: unknown = expect.any(Number);

let place: CliPlace;

beforeAll(async () => {
  place = await CliPlace.open();
});
afterAll(() => place.close());

/** Runs a command without `--json`. */
async function say(...words: readonly string[]): Promise<Answer> {
  const answer = await runCli([...words, ...place.words]);
  expectNoTrace(answer);
  return answer;
}

test('every command explains its options', async () => {
  const own: Record<string, readonly string[]> = {
    create: ['--name'],
    append: ['--snapshot-every', '--segment-every', '--check'],
    snapshot: [],
    segment: [],
    work: ['--until-idle', '--concurrency'],
    status: [],
    export: ['--at', '--rows', '--all-rows', '--csv'],
    view: ['--at', '--rows', '--columns'],
    entries: ['--from', '--to', '--type', '--application', '--limit', '--follow'],
    feed: ['--feed-table', '--from', '--follow', '--limit', '--group', '--groups', '--skip-expired', '--rebuild'],
    snapshots: ['--limit'],
    list: ['--newest'],
    state: ['--map', '--prefix', '--from', '--to', '--limit', '--at'],
    diff: ['before', 'after', '--on-bad-entry'],
    replay: ['--at'],
    verify: [],
    resume: [],
    inspect: ['--sample', '--partitions', '--read-units', '--output'],
    adopt: ['--read-units', '--snapshot-every-entries', '--segment-every-entries'],
    engine: [],
  };
  const common = [
    '--local',
    '--entry-table',
    '--segment-table',
    '--bucket',
    '--reducer',
    '--mapping',
    '--json',
    '--help',
  ];
  const limit = pLimit(3);
  await Promise.all(
    Object.entries(own).map(([name, options]) =>
      limit(async () => {
        const { code, stdout, stderr } = await runCli([name, '--help']);
        expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
        for (const option of [...common, ...options]) expect(stdout, name).toContain(option);
      }),
    ),
  );
  const { code, stdout } = await runCli(['--help']);
  expect(code).toBe(0);
  for (const name of Object.keys(own)) expect(stdout).toMatch(new RegExp(`^  ${name} `, 'm'));
});

describe('the JSON documents', () => {
  const edits = [
    {
      op: 'set',
      cells: [
        [0, 0, 'a'],
        [1, 2, 'line\u2028separator'],
      ],
    },
    { op: 'insertRows', at: 1, count: 1 },
    { op: 'check', rows: 3, sha256: '0'.repeat(64) },
  ];
  const rows = [['a'], [], ['', '', 'line\u2028separator']];
  const input = edits.map((edit) => `${JSON.stringify(edit)}\n`).join('');
  let log: string;

  /** Runs a command that must print one document on standard output and nothing else. */
  async function only(words: readonly string[], standardInput?: string): Promise<unknown> {
    const options = standardInput === undefined ? {} : { input: standardInput };
    const { code, stdout, stderr } = await runCli([...words, '--json', ...place.words], options);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const document: unknown = JSON.parse(stdout);
    expect(stdout).toBe(`${JSON.stringify(document)}\n`);
    return document;
  }

  test('have these fields, from an empty directory to a new segment', async () => {
    expect(await only(['status'])).toEqual({ logs: [], failures: [] });
    const created = await only(['create']);
    expect(created).toEqual({ log: expect.any(String) });
    ({ log } = created as { log: string });

    expect(await only(['append', log, '-'], input)).toEqual({
      log,
      entries: 2,
      repeated: 0,
      snapshots: 0,
      segments: 0,
      checks: 0,
      unchecked: 1,
      last: { segment: 0, entry: 2 },
    });
    expect(await only(['status', log])).toEqual({
      logs: [
        {
          log,
          segments: 1,
          archived: 0,
          expiring: 0,
          expired: 0,
          entries: 3,
          lastSnapshot: null,
          lagEntries: 3,
          chunks: 0,
          bytes: 0,
          bufferedEdits: 0,
          stopped: null,
          foreign: { archives: 0, pointers: 0, roots: 0 },
        },
      ],
      failures: [],
      segments: [
        {
          segment: 0,
          entries: 3,
          lastSnapshot: null,
          archived: false,
          expires: null,
          onHold: false,
          expired: false,
          foreign: [],
        },
      ],
    });
    const end = { segment: 0, entry: 3 };
    expect(await only(['export', log])).toEqual({ log, position: end, snapshot: null, rows });
    expect(await only(['snapshot', log])).toEqual({ log, position: end });
    expect(await only(['work', '--until-idle'])).toEqual({
      snapshots: 2,
      present: 0,
      flushes: 0,
      entries: 3,
      archived: 0,
      removed: 0,
      chunks: 0,
      bytes: NUMBER,
      stopped: [],
      skipped: [],
      failures: [],
    });
    expect(await only(['segment', log])).toEqual({ log, segment: 1, position: { segment: 1, entry: 0 } });
    expect(await only(['status'])).toEqual({
      logs: [
        {
          log,
          segments: 2,
          archived: 0,
          expiring: 0,
          expired: 0,
          entries: 6,
          lastSnapshot: end,
          lagEntries: 2,
          chunks: 0,
          bytes: 0,
          bufferedEdits: 0,
          stopped: null,
          foreign: { archives: 0, pointers: 0, roots: 0 },
        },
      ],
      failures: [],
    });
    expect(await only(['view', log, '--rows', '0:2', '--columns', '0:2'])).toEqual({
      rows: [
        ['a', ''],
        ['', ''],
      ],
      rectangle: { rows: { from: 0, to: 2 }, columns: { from: 0, to: 2 } },
      fetched: { objects: 0, bytes: 0 },
    });
    expect(await only(['replay', log])).toEqual({
      log,
      outcome: 'replayed',
      from: null,
      position: end,
      replayed: HASH,
      stored: HASH,
      equal: true,
      snapshot: end,
      entries: 3,
    });
    expect(await only(['verify', log])).toEqual({
      log,
      snapshots: 2,
      archived: 0,
      left: 0,
      expired: 0,
      chunks: 0,
      bytes: 0,
      problems: [],
      foreign: { archives: 0, pointers: 0, roots: 0 },
    });
    expect(await only(['resume', log])).toEqual({ log, position: { segment: 1, entry: 1 }, wasStopped: null });
    const csv = join(place.directory, 'sheet.csv');
    expect(await only(['export', log, '--csv', csv])).toEqual({
      log,
      position: { segment: 1, entry: 2 },
      snapshot: end,
      csv,
      rowCount: 3,
      columnCount: 3,
    });
  });

  test('name the line of a failed check', async () => {
    const answer = await runCli(['append', log, '-', '--check', '--json', ...place.words], { input });
    const refusal = refusalOf(answer);
    expect(refusal).toMatchObject({ code: 'CHECK_FAILED', log, segment: 1, entry: 3 });
    expect(refusal.message).toMatch(/^line 3: /);
  });
});

describe('the output for people', () => {
  test('has the answer on standard output, and everything else on standard error', async () => {
    const created = await say('create');
    expect(created).toMatchObject({ code: 0, stderr: '' });
    const log = created.stdout.trim();
    expect(created.stdout).toMatch(/^[0-9a-f-]{36}\n$/);

    const file = join(place.directory, 'edits.ndjson');
    await writeFile(file, '{"op":"set","cells":[[0,0,"a,b"],[1,1,"x"]]}');
    const appended = await say('append', log, file);
    expect(appended.stdout).toBe('1 entry appended\n');

    expect((await say('export', log)).stdout).toBe('"a,b",\n,x\n');
    expect((await say('view', log, '--rows', '1:3', '--columns', '1:3')).stdout).toBe('x,\n,\n');
    const refused = await say('segment', log);
    expect(refused).toMatchObject({ code: 1, stdout: '' });
    expect(refused.stderr).toMatch(/^logfold: SEGMENT_WITHOUT_SNAPSHOT: .+\n$/);
    const alone = await say('replay', log, '--at', '0/2');
    expect(alone.code).toBe(1);
    expect(alone.stdout).toMatch(/^The fold of 2 entries could not be compared: no snapshot is stored/);
    expect((await say('work', '--until-idle')).stdout).toMatch(/^\d+ snapshots? built from /);
    const status = await say('status', log);
    expect(status.stdout).toContain(log);
    expect(status.stdout).toMatch(/│ segment │ entries │ last snapshot │ archived │ expires │/);
    expect(status.stdout).toMatch(/│ 0 +│ 2 +│ 0\/0 +│ - +│ - +│/);
    const all = await say('status');
    expect(all.stdout).toContain(log);
    // Programs and files get no colours.
    for (const { stdout, stderr } of [status, all]) expect(stdout + stderr).not.toContain('\x1b');
    expect(await say('replay', log)).toMatchObject({ code: 0, stdout: expect.stringMatching(/equals/) });
    await writeFile(file, '{"op":"set","cells":[[0,0,"b"]]}\n{"op":"snapshot"}\n'.repeat(2));
    await say('append', log, file);
    await say('work', '--until-idle');
    const part = await say('replay', log, '--from', '0/3');
    expect(part).toMatchObject({
      code: 0,
      stdout: expect.stringMatching(/^The fold of 2 entries since the snapshot at 0\/3 equals/),
    });
    expect((await say('verify', log)).stdout).toMatch(/nothing is missing/);
  });
});

test('export and view show the state at a time', async () => {
  const log = await place.client.createLog();
  const file = join(place.directory, 'timed.ndjson');
  const texts = ['a', 'b', 'c'];
  const lines = texts.map((text, i) => ({
    op: 'set',
    time: Date.UTC(2038, 0, i + 1, 8) / 1000,
    cells: [[0, 0, text]],
  }));
  await writeFile(file, lines.map((line) => JSON.stringify(line)).join('\n'));
  await say('append', log, file);
  for (const [time, text, entry] of [
    ['2038-01-01T08:00:00Z', 'a', 2],
    ['2038-01-02T10:00+02:00', 'b', 3],
    ['2038-01-03', 'b', 3],
    ['2100-01-01 00:00', 'c', 4],
  ] as const) {
    expect((await say('export', log, '--at', time)).stdout).toBe(`${text}\n`);
    expect(await place.json('view', log, '--rows', '0:1', '--columns', '0:1', '--at', time)).toMatchObject({
      rows: [[text]],
      position: { segment: 0, entry },
    });
  }
});

test('diff shows the rows, columns and cells that changed between two moments', async () => {
  const log = await place.client.createLog();
  const file = join(place.directory, 'changed.ndjson');
  const lines = [
    {
      op: 'set',
      time: Date.UTC(2038, 0, 1) / 1000,
      cells: ['city', 'Denver', 'Austin'].map((city, row) => [row, 0, city]),
    },
    { op: 'insertRows', at: 1, count: 2 },
    {
      op: 'set',
      cells: [
        [1, 0, 'Boston'],
        [4, 0, 'Da\u001bllas'],
        [3, 0, ''],
      ],
    },
    { op: 'deleteColumns', at: 5, count: 1, time: Date.UTC(2038, 0, 2) / 1000 },
  ];
  await writeFile(
    file,
    lines.map((line) => JSON.stringify({ time: Date.UTC(2038, 0, 1, 12) / 1000, ...line })).join('\n'),
  );
  await say('append', log, file);
  const text = [
    'rows 1 to 2 inserted',
    'column 5 removed',
    'cell 1:0 removed: "Denver"',
    'cell 4:0, before 2:0: "Austin" -> "Da\\u001bllas"',
    'cell 1:0 added: "Boston"',
  ];
  const changed = await say('diff', log, '0/2');
  expect(changed).toMatchObject({ code: 0, stdout: text.map((line) => `${line}\n`).join('') });
  expect(changed.stderr).toBe('5 changes between 0/2 and 0/5; no object fetched.\n');
  expect(await place.json('diff', log, '2038-01-01', '2038-01-01T18:00:00Z')).toEqual({
    log,
    before: { segment: 0, entry: 2 },
    after: { segment: 0, entry: 4 },
    changes: [
      { kind: 'rows', change: 'inserted', to: 1, count: 2 },
      { kind: 'cell', before: { row: 1, column: 0, value: 'Denver' } },
      {
        kind: 'cell',
        before: { row: 2, column: 0, value: 'Austin' },
        after: { row: 4, column: 0, value: 'Da\u001bllas' },
      },
      { kind: 'cell', after: { row: 1, column: 0, value: 'Boston' } },
    ],
    more: false,
  });
  expect(await say('diff', log, '0/3', '0/3')).toMatchObject({ code: 0, stdout: '' });
});

test('history lists the values of a place, whether the reducer keeps them or not', async () => {
  const log = await place.client.createLog();
  const edits = [
    { body: [[0, 0, 'Denver']] },
    { body: [[0, 0, 'Austin']], metadata: { by: 'Ann' } },
    { body: [[0, 0, '']] },
  ].map((entry) => ({ type: 'Set', version: 1, ...entry }));
  for (const entry of edits) await place.client.addEntry(log, entry);
  await place.json('sweep', '--log', log);
  const expected = [
    { number: 1, value: 'Denver' },
    { number: 2, value: 'Austin', metadata: { by: 'Ann' } },
    { number: 3, position: { segment: 0, entry: 3 } },
  ];
  for (const reducer of [[], ['--reducer', 'spreadsheet+history']]) {
    for (const cell of [
      ['--cell', '0:0'],
      ['--map', 'cells', '--key', '0'],
    ]) {
      const { revisions } = await place.json('history', log, ...cell, ...reducer);
      expect(revisions).toMatchObject(expected);
      expect(revisions).not.toHaveProperty([2, 'value']);
    }
    expect((await place.json('history', log, '--row', '0', '--limit', '1', ...reducer)).revisions).toMatchObject([
      { number: 3, value: [[0, null]] },
    ]);
    const past = await place.json('history', log, '--cell', '0:0', '--at', '0/2', ...reducer);
    expect(past.revisions).toMatchObject([{ number: 1, value: 'Denver' }]);
  }
});

test('status lists logs in order, although it reads several at the same time', async () => {
  for (let i = 0; i < 20; i++) await place.client.createLog();
  const { logs } = await place.json('status');
  const ids = (logs as { log: string }[]).map(({ log }) => log);
  expect(ids.length).toBeGreaterThanOrEqual(20);
  expect(ids).toEqual([...ids].sort());
});

describe('earlier states', () => {
  /** Every position of the log in order, with the sheet before it. */
  const states: { readonly position: Position; readonly rows: readonly (readonly string[])[] }[] = [];
  let log: LogId;

  beforeAll(async () => {
    const model = new SheetModel();
    log = await place.client.createLog();
    const [parts] = fc.sample(fc.tuple(sheetEdits(40), sheetEdits(40), sheetEdits(40)), { numRuns: 1, seed: 7 });
    const add = async (edits: readonly SheetEdit[]) => {
      for (const edit of edits) {
        const rows = model.trimmed();
        states.push({ position: await place.edit(log, edit), rows });
        model.apply(edit);
      }
      const rows = model.trimmed();
      states.push({ position: (await place.client.addSnapshot(log)).position, rows });
    };
    for (const [i, edits] of (parts ?? []).entries()) {
      await add(edits.slice(0, 12));
      await add(edits.slice(12));
      await place.json('work', '--until-idle');
      if (i === 2) break;
      states.push({ position: (await place.client.startSegment(log)).position, rows: model.trimmed() });
    }
    states.push({ position: { segment: 2, entry: (states.at(-1)?.position.entry ?? 0) + 1 }, rows: model.trimmed() });
  });

  test('export prints the sheet of any position of any segment', async () => {
    expect(new Set(states.map(({ position }) => position.segment))).toEqual(new Set([0, 1, 2]));
    // Every fourth position, and the ends of all segments.
    const chosen = states.filter(({ position }, i) => {
      return i % 4 === 0 || i === states.length - 1 || position.segment !== states[i + 1]?.position.segment;
    });
    const limit = pLimit(3);
    const exported = await Promise.all(
      chosen.map(({ position }) => limit(() => place.json('export', log, '--at', formatPosition(position)))),
    );
    for (const [i, { position, rows }] of chosen.entries()) expect(exported[i]).toMatchObject({ position, rows });
    expect(exported.length).toBeGreaterThan(10);
  });

  test('export prints the newest sheet as CSV on standard output by default', async () => {
    const { code, stdout } = await say('export', log);
    expect(code).toBe(0);
    expect(trim(parseCsv(stdout, { skipEmptyLines: false }))).toEqual(states.at(-1)?.rows);
  });
});

describe('a sheet of 60,000 cells', () => {
  let log: LogId;
  let cells: string[][];

  beforeAll(async () => {
    const random = new Random(60);
    cells = Array.from({ length: 1000 }, () => Array.from({ length: 60 }, () => random.text(8)));
    log = await place.client.createLog();
    for (let from = 0; from < cells.length; from += 50) {
      const rows = cells.slice(from, from + 50);
      const edit = rows.flatMap((row, i) => row.map((text, column) => [from + i, column, text] as const));
      await place.edit(log, { type: 'Set', cells: edit });
    }
    await place.client.addSnapshot(log);
    await place.json('work', '--until-idle');
  });

  test('needs at most 3 objects for a rectangle', async () => {
    const { logs } = await place.json('status', log);
    const [{ chunks, bytes }] = logs as [{ chunks: number; bytes: number }];
    expect(chunks).toBeGreaterThan(6);
    for (const [rows, columns] of [
      [0, 0],
      [475, 20],
      [950, 40],
    ] as const) {
      const span = ['--rows', `${rows}:${rows + 50}`, '--columns', `${columns}:${columns + 20}`];
      const view = (await place.json('view', log, ...span)) as { rows: string[][]; fetched: Record<string, number> };
      expect(view.rows).toEqual(cells.slice(rows, rows + 50).map((row) => row.slice(columns, columns + 20)));
      expect(view.fetched.objects).toBeLessThanOrEqual(3);
      expect(view.fetched.bytes).toBeLessThan(bytes / 2);
    }
  });

  test('is empty outside of its cells', async () => {
    const { rows } = await place.json('view', log, '--rows', '999:1002', '--columns', '59:62');
    expect(rows).toEqual([
      [cells[999]?.[59], '', ''],
      ['', '', ''],
      ['', '', ''],
    ]);
    const far = await place.json('view', log, '--rows', '4294967295:4294967296', '--columns', '1048575:1048576');
    expect(far.rows).toEqual([['']]);
  });

  test.each([['export'], ['export', '--json'], ['view', '--rows', '0:1000', '--columns', '0:60']])(
    '%s ends silently when its reader has seen enough',
    async (...words) => {
      const [name = '', ...options] = words;
      const child = startCli([name, log, ...options, ...place.words]);
      let stderr = '';
      child.stderr?.on('data', (data: Buffer) => {
        stderr += data.toString();
      });
      const closed = once(child, 'close');
      if (child.stdout !== null) await once(child.stdout, 'data');
      child.stdout?.destroy();
      await closed;
      expect(child.exitCode).toBe(141);
      expectNoTrace({ stderr });
      expect(stderr).not.toMatch(/EPIPE|logfold:/);
    },
  );
});

describe('an interrupted pipeline', () => {
  test.each<{ readonly signals: readonly NodeJS.Signals[]; readonly codes: readonly number[] }>([
    { signals: ['SIGINT'], codes: [130] },
    { signals: ['SIGTERM'], codes: [143] },
    { signals: ['SIGHUP'], codes: [129] },
    // Either of them may be the first.
    { signals: ['SIGINT', 'SIGTERM'], codes: [130, 143] },
  ])('ends with an exit code of $codes and one document after $signals', async ({ signals, codes }) => {
    const log = await place.log({ type: 'Set', cells: [[0, 0, 'a']] });
    await place.client.addSnapshot(log);
    const child = startCli(['work', '--json', ...place.words]);
    const output = { stdout: '', stderr: '' };
    child.stdout?.on('data', (data: Buffer) => {
      output.stdout += data.toString();
    });
    child.stderr?.on('data', (data: Buffer) => {
      output.stderr += data.toString();
    });
    for (;;) {
      const { logs } = await place.json('status', log);
      if ((logs as [{ lagEntries: number }])[0].lagEntries === 0) break;
    }
    const closed = once(child, 'close');
    // SIGSTOP holds the process until it has both signals.
    child.kill('SIGSTOP');
    for (const signal of signals) child.kill(signal);
    child.kill('SIGCONT');
    await closed;
    expect(output.stderr).toBe('');
    expect(codes).toContain(child.exitCode);
    expect(JSON.parse(output.stdout)).toMatchObject({ snapshots: 2, stopped: [], failures: [] });
  });
});

describe('several commands on one directory', () => {
  test('commands share an engine, and the last command stops it', async () => {
    const directory = await realpath(await mkdtemp(join(tmpdir(), 'logfold-shared-')));
    try {
      const words = ['--local', directory, '--json'];
      const created = await Promise.all(Array.from({ length: 4 }, () => runCli(['create', ...words])));
      const logs = created.map(({ stdout }) => JSON.parse(stdout).log);
      expect(new Set(logs).size).toBe(4);
      expect(await engineProcesses(directory)).toEqual([]);

      const work = startCli(['work', ...words]);
      const answers = await Promise.all(logs.map((log) => runCli(['snapshot', log, ...words])));
      for (const answer of answers) expect(answer).toMatchObject({ code: 0, stderr: '' });
      await end(work, 'SIGTERM');
      const idle = await runCli(['work', '--until-idle', ...words]);
      expect(JSON.parse(idle.stdout)).toMatchObject({ stopped: [], failures: [] });
      const status = JSON.parse((await runCli(['status', ...words])).stdout);
      expect(status.logs).toHaveLength(4);
      for (const each of status.logs) expect(each).toMatchObject({ lastSnapshot: { segment: 0, entry: 1 } });
      expect(await engineProcesses(directory)).toEqual([]);
    } finally {
      await rm(directory, { recursive: true });
    }
  });
});

describe('tables and a bucket instead of a directory', () => {
  test('work like a directory, and external bodies may have any key', async () => {
    const aws = await startLocalAws();
    const db = new DynamoDBClient(clientConfig(place.endpoint));
    try {
      await aws.s3.send(new CreateBucketCommand({ Bucket: 'sheets' }));
      await ensureTables(db, { entryTable: 'Entry', segmentTable: 'Segment' });
      const key = 'imports//2024 März/prices (1).json';
      await aws.s3.send(new PutObjectCommand({ Bucket: 'sheets', Key: key, Body: '[[0, 1, "imported"]]' }));
      const environment = {
        AWS_REGION: 'us-east-1',
        AWS_ACCESS_KEY_ID: 'test',
        AWS_SECRET_ACCESS_KEY: 'test',
        AWS_ENDPOINT_URL_S3: aws.server.address,
        DYNAMODB_ENDPOINT: place.endpoint,
      };
      const there = ['--entry-table', 'Entry', '--segment-table', 'Segment', '--bucket', 'sheets', '--json'];
      const run = async (words: readonly string[], input = '') => {
        const answer = await runCli([...words, ...there], { environment, input });
        expect(answer).toMatchObject({ code: 0, stderr: '' });
        return JSON.parse(answer.stdout);
      };
      const { log } = await run(['create']);
      const large = JSON.stringify({ op: 'set', cells: [[0, 0, 'x'.repeat(20_000)]] });
      await run(['append', log, '-'], large);
      const item = { C: { N: '1732104000' }, T: { S: 'Set' }, V: { N: '1' }, E: { S: key } };
      await place.putItem(log, { segment: 0, entry: 2 }, item);
      await run(['snapshot', log]);
      await run(['work', '--until-idle']);
      expect((await run(['export', log])).rows).toEqual([['x'.repeat(20_000), 'imported']]);
      expect(await run(['replay', log])).toMatchObject({ equal: true });
    } finally {
      db.destroy();
      await aws.stop();
    }
  });
});

describe('a cell in the last row', () => {
  const last = 2 ** 32 - 1;
  let log: LogId;

  beforeAll(async () => {
    log = await place.log({ type: 'Set', cells: [[3, 1, 'far above']] }, { type: 'Set', cells: [[last, 0, 'z']] });
  });

  test('makes export ask for rows before it writes any', async () => {
    const csv = join(place.directory, 'far.csv');
    for (const refusal of await place.refusals(['export', log], ['export', log, '--csv', csv])) {
      expect(refusal).toMatchObject({ code: 'USAGE', advice: expect.stringContaining('--rows FROM:TO') });
      expect(refusal.message).toContain(`rows 0 to ${last} with 2 columns have ${2 ** 33} fields`);
    }
    expect(await readdir(place.directory)).not.toContain('far.csv');
  });

  test('does not keep export from named rows, as wide as the sheet', async () => {
    expect(await place.json('export', log, '--rows', '2:5')).toMatchObject({ rows: [[], ['', 'far above'], []] });
    expect((await say('export', log, '--rows', `${last - 1}:${last + 1}`)).stdout).toBe(',\nz,\n');
    expect((await say('export', log, '--rows', '5:9')).stdout).toBe(',\n,\n,\n,\n');
  });

  test.each([
    [['--all-rows'], '\n'],
    [['--all-rows', '--json'], '[]'],
  ])('export reaches it with %s line by line until a reader or a signal ends the command', async (words, empty) => {
    for (const end of ['close', 'signal']) {
      const child = startCli(['export', log, ...words, ...place.words]);
      if (child.stdout === null) throw new Error('export has no standard output');
      const closed = once(child, 'close');
      let text = '';
      for await (const data of child.stdout.iterator({ destroyOnReturn: false })) {
        text += String(data);
        if (text.includes(empty.repeat(3)) || text.length > 1_000) break;
      }
      if (end === 'close') child.stdout.destroy();
      else child.kill('SIGTERM');
      child.stdout.resume();
      await closed;
      expect(child.exitCode).toBe(end === 'close' ? 141 : 143);
    }
  });
});

test('export keeps an existing file until the new one is complete', async () => {
  const log = await place.log({ type: 'Set', cells: [[0, 0, 'a']] });
  const [file, link] = [join(place.directory, 'kept.csv'), join(place.directory, 'link.csv')];
  await writeFile(file, 'before\n', { mode: 0o600 });
  await symlink(file, link);
  const line = 'ulimit -f 8; logfold export "$@" --all-rows';
  const full = await place.log({ type: 'Set', cells: [[50_000, 0, 'b']] });
  expect(await runShell(line, [full, '--csv', link, ...place.words])).toMatchObject({ code: 1 });
  expect(await readFile(file, 'utf8')).toBe('before\n');
  expect(await say('export', log, '--csv', link)).toMatchObject({ code: 0 });
  expect(await readFile(file, 'utf8')).toBe('a\n');
  expect((await stat(file)).mode & 0o777).toBe(0o600);
  expect((await readdir(place.directory)).filter((name) => name.includes('.csv.'))).toEqual([]);
});

describe('append from a source that can be read only once', () => {
  const line = JSON.stringify({ op: 'set', cells: [[0, 0, 'from a pipe']] });
  let file: string;
  let temporary: string;

  beforeAll(async () => {
    file = join(place.directory, 'once.ndjson');
    await writeFile(file, `${line}\n${line}\n`);
    temporary = await mkdtemp(join(tmpdir(), 'logfold-once-'));
  });
  afterAll(() => rm(temporary, { recursive: true }));

  test.each([
    ['a pipe that the shell names', 'logfold append $log <(cat "$file") "$@"'],
    ['a pipe as /dev/stdin', 'cat "$file" | logfold append $log /dev/stdin "$@"'],
    ['a file as /dev/stdin', 'logfold append $log /dev/stdin "$@" < "$file"'],
    ['a pipe as -', 'cat "$file" | logfold append $log - "$@"'],
  ])('appends %s and leaves no copy', async (_, words) => {
    const log = await place.log();
    const answer = await runShell(`export TMPDIR=${temporary} log=$1 file=$2; shift 2; ${words}`, [
      log,
      file,
      ...place.words,
    ]);
    expect(answer, answer.stderr).toMatchObject({ code: 0, stdout: '2 entries appended\n' });
    expect(await readdir(temporary)).toEqual([]);
  });

  test.each([
    [
      'a directory',
      'logfold append $log - "$@" < /',
      2,
      /^logfold: USAGE: standard input cannot be read: it is a directory/,
    ],
    [
      'more than the disk takes',
      'ulimit -f 8; head -c 100000 /dev/zero | logfold append $log - "$@"',
      1,
      /^logfold: OUTPUT_FAILED: a copy of '-' in '.+' cannot be written/,
    ],
  ])('refuses %s in one line and leaves no copy', async (_, words, code, message) => {
    const log = await place.log();
    const answer = await runShell(`export TMPDIR=${temporary} log=$1 file=$2; shift 2; ${words}`, [
      log,
      file,
      ...place.words,
    ]);
    expectNoTrace(answer);
    expect(answer).toMatchObject({ code, stdout: '', stderr: expect.stringMatching(message) });
    expect(answer.stderr).toMatch(/^[^\n]+\n$/);
    expect(await readdir(temporary)).toEqual([]);
  });
});

test('every kind of line gives its time to its entry', async () => {
  const log = await place.log();
  const lines = [
    { op: 'set', time: 1_000, cells: [[0, 0, 'a']] },
    { op: 'snapshot', time: 2_000 },
  ].map((each) => JSON.stringify(each));
  await runCli(['append', log, '-', ...place.words], { input: lines.join('\n') });
  await place.json('work', '--until-idle');
  const rest = [
    { op: 'segment', time: 3_000 },
    { op: 'set', time: 4_000, cells: [[0, 0, 'b']] },
  ].map((each) => JSON.stringify(each));
  await runCli(['append', log, '-', '--snapshot-every', '1', ...place.words], { input: rest.join('\n') });
  const times: (string | undefined)[] = [];
  for (const position of [
    [0, 1],
    [0, 2],
    [0, 3],
    [1, 0],
    [1, 1],
    [1, 2],
  ] as const) {
    times.push((await place.getItem(log, { segment: position[0], entry: position[1] })).C?.N);
  }
  expect(times).toEqual(['1000', '2000', '3000', '3000', '4000', '4000']);
  expect(await place.tables.getSegment(log, 1, { consistent: true })).toMatchObject({ created: 3_000 });
});

describe('a full output', () => {
  let log: LogId;

  beforeAll(async () => {
    log = await place.log(
      ...Array.from({ length: 40 }, (_, row) => ({ type: 'Set', cells: [[row, 0, 'x'.repeat(2_000)]] }) as const),
    );
  });

  test.each([
    ['a document', 'logfold export "$@" --json > /dev/full'],
    ['a table', 'logfold status "$@" > /dev/full'],
    ['CSV', 'logfold export "$@" > /dev/full'],
    ['CSV into a file', 'logfold export "$@" --csv /dev/full'],
    // The disk takes only a part.
    ['a part of a document', 'cd "$3"; ulimit -f 8; logfold export "$@" --json > part'],
    ['a part of CSV', 'cd "$3"; ulimit -f 8; logfold export "$@" > part'],
    ['a part of CSV into a file', 'cd "$3"; ulimit -f 8; logfold export "$@" --csv part'],
  ])('logfold reports an error in one line, with exit code 1: %s', async (_, line) => {
    const answer = await runShell(line, [log, ...place.words]);
    expectNoTrace(answer);
    expect(answer.code, answer.stderr).toBe(1);
    expect(answer.stderr).toMatch(/^logfold: OUTPUT_FAILED: .+ cannot be written: .+\n$/);
  });

  test('logfold does not crash if standard error is full', async () => {
    const answer = await runShell('logfold status "$@" --local 2> /dev/full', [log]);
    expect(answer).toMatchObject({ code: 2, stdout: '' });
    const both = await runShell('logfold --help > /dev/full 2>&1', []);
    expect(both).toMatchObject({ code: 1, stdout: '', stderr: '' });
  });
});
