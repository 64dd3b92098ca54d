import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CreateBucketCommand } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { LogId } from '../../src/ids/log-id.ts';
import { runCli, runShell } from '../support/cli.ts';
import { type Attributes, CliPlace, type Damage, type Refusal, refusalOf } from '../support/cli-place.ts';
import { Random } from '../support/models/random.ts';
import { type LocalAws, startLocalAws } from '../support/stores/fauxqs.ts';

const UNKNOWN = '0192f7a0-5b1c-7d3e-8f10-2a3b4c5d6e7f';
const ADVICE: unknown = expect.any(String);

let place: CliPlace;

beforeAll(async () => {
  place = await CliPlace.open();
});
afterAll(() => place.close());

function smallLog(): Promise<LogId> {
  return place.log(
    { type: 'Set', cells: [[0, 0, 'a']] },
    { type: 'Set', cells: [[1, 1, 'b']] },
    { type: 'Insert Rows', position: 0, count: 1 },
  );
}

describe('a file of edits with one bad line', () => {
  const good = Array.from({ length: 300 }, (_, i) => JSON.stringify({ op: 'set', cells: [[i, 0, `row ${i}`]] }));
  const cases: [name: string, line: string | Buffer, reason: RegExp][] = [
    ['a row that no sheet has', '{"op":"set","cells":[[0,0,"x"],[4294967296,0,"x"]]}', /SHEET_LIMIT.*row 4294967296/],
    ['a column that no sheet has', '{"op":"set","cells":[[0,1048576,"x"]]}', /SHEET_LIMIT.*column 1048576/],
    ['rows inserted past the last', '{"op":"insertRows","at":4294967295,"count":2}', /SHEET_LIMIT.*exceeds the size/],
    [
      'columns inserted past the last',
      '{"op":"insertColumns","at":0,"count":1048577}',
      /SHEET_LIMIT.*exceeds the size/,
    ],
    ['rows deleted past the last', '{"op":"deleteRows","at":1,"count":4294967296}', /SHEET_LIMIT.*exceeds the size/],
    ['a negative row', '{"op":"set","cells":[[-1,0,"x"]]}', /BODY_INVALID.*whole number/],
    ['an unknown op', '{"op":"sort","at":1}', /at op/],
    ['a part that is missing', '{"op":"insertRows","at":1}', /at count/],
    ['half a line', '{"op":"set","cells":[[0,', /not JSON/],
    ['text that UTF-8 cannot carry', '{"op":"set","cells":[[0,0,"\\ud800"]]}', /VALUE_UNSUPPORTED.*surrogate/],
    ['bytes that are not UTF-8', Buffer.from('{"op":"set","cells":[[0,0,"\xe9"]]}', 'latin1'), /not UTF-8/],
  ];
  let refusals: Refusal[];

  beforeAll(async () => {
    const log = await smallLog();
    const files = cases.map((_, i) => join(place.directory, `bad-${i}.ndjson`));
    for (const [i, [, line]] of cases.entries()) {
      await writeFile(files[i] ?? '', Buffer.concat([Buffer.from(`${good.join('\n')}\n\n`), Buffer.from(line)]));
    }
    refusals = await place.refusals(...files.map((file) => ['append', log, file, '--snapshot-every', '10']));
  });

  test.each(cases.map(([name, , reason], i) => [name, i, reason] as const))('append refuses %s', (_, i, reason) => {
    expect(refusals[i]).toMatchObject({ code: 'EDIT_LINE_INVALID', advice: ADVICE });
    expect(refusals[i]?.message).toMatch(/^line 302: /);
    expect(refusals[i]?.message).toMatch(reason);
  });

  test('append names a file that cannot be read', async () => {
    const files = [join(place.directory, 'nowhere'), place.directory];
    for (const [i, refusal] of (await place.refusals(...files.map((file) => ['append', UNKNOWN, file]))).entries()) {
      expect(refusal).toMatchObject({
        code: 'USAGE',
        message: expect.stringContaining(files[i] ?? ''),
        advice: ADVICE,
      });
    }
  });
});

describe('a bad entry', () => {
  const C = { N: '1732104000' };
  const SET = { C, T: { S: 'Set' }, V: { N: '1' } };
  const cases: [name: string, code: string, item: Attributes][] = [
    ['an unknown type', 'ENTRY_TYPE_UNKNOWN', { ...SET, T: { S: 'Sort Rows' } }],
    ['an unknown version of the body', 'ENTRY_VERSION_UNKNOWN', { ...SET, V: { N: '2' }, B: { L: [] } }],
    ['a body that is not MessagePack', 'BODY_UNDECODABLE', { ...SET, B: { B: Uint8Array.of(0xc1) } }],
    ['a body that is half a JSON document', 'BODY_UNDECODABLE', { ...SET, B: { S: '[[0, 0' } }],
    ['a body of another shape', 'BODY_INVALID', { ...SET, B: { S: '{"cells": []}' } }],
    ['a cell outside of the sheet', 'SHEET_LIMIT', { ...SET, B: { S: '[[4294967296, 0, "x"]]' } }],
    ['an external body that is missing', 'EXTERNAL_MISSING', { ...SET, E: { S: 'imports/2024/prices.json' } }],
    ['a key that no object can have here', 'BLOB_KEY_INVALID', { ...SET, E: { S: '../prices.json' } }],
    ['two bodies', 'ITEM_INVALID', { ...SET, B: { S: '[]' }, E: { S: 'a' } }],
    ['no version', 'ITEM_INVALID', { C, T: { S: 'Set' } }],
    ['no type', 'ITEM_INVALID', { C, V: { N: '1' } }],
  ];
  const logs: LogId[] = [];
  let refusals: Refusal[];

  beforeAll(async () => {
    for (const [, , item] of cases) {
      const log = await smallLog();
      await place.putItem(log, { segment: 0, entry: 4 }, item);
      logs.push(log);
    }
    refusals = await place.refusals(...logs.map((log) => ['export', log]));
  });

  test.each(cases.map(([name, code], i) => [name, code, i] as const))(
    'export refuses %s with %s and names the entry',
    (_, code, i) => {
      // An invalid item has no type.
      const type = code === 'ITEM_INVALID' ? null : (cases[i]?.[2].T?.S ?? '');
      const typed = type === null ? '' : `, type '${type}'`;
      expect(refusals[i]).toMatchObject({ code, log: logs[i], segment: 0, entry: 4, type, advice: ADVICE });
      expect(refusals[i]?.message).toContain(`[log ${logs[i]}, segment 0, entry 4${typed}]`);
      expect(refusals[i]?.message).toContain(refusals[i]?.advice);
    },
  );

  test('view names the key of an altered external body', async () => {
    const log = await smallLog();
    await place.edit(log, { type: 'Set', cells: [[0, 0, 'x'.repeat(20_000)]] });
    const [key = ''] = await place.keys(log, 'bodies');
    await place.blobs.put(key, Buffer.concat([await place.read(key), Buffer.from([1])]));
    const [refusal] = await place.refusals(['view', log, '--rows', '0:1', '--columns', '0:1']);
    expect(refusal).toMatchObject({ code: 'EXTERNAL_CORRUPT', log, segment: 0, entry: 4, advice: ADVICE });
    expect(refusal?.message).toContain(key);
  });

  test('every command that reads across a gap in the numbers names the missing entry', async () => {
    const log = await smallLog();
    await place.deleteItem(log, { segment: 0, entry: 2 });
    const refusals = await place.refusals(
      ['export', log],
      ['export', log, '--at', '0/4', '--csv', join(place.directory, 'never.csv')],
      ['view', log, '--rows', '0:1', '--columns', '0:1'],
      ['replay', log, '--at', '0/4'],
      ['verify', log],
    );
    for (const refusal of refusals) expect(refusal).toMatchObject({ code: 'ENTRY_GAP', log, segment: 0, entry: 2 });
  });
});

describe('damaged objects', () => {
  const random = new Random(5);
  let large: LogId;
  let middling: LogId;

  /**
   * A sheet of random texts, 1,000 cells per edit. The root object contains the leaf of 1,000
   * cells; 20,000 cells need chunks.
   */
  async function sheet(edits: number): Promise<LogId> {
    const log = await place.log();
    for (let row = 0; row < edits * 20; row += 20) {
      const cells = Array.from({ length: 1000 }, (_, i) => {
        return [row + Math.floor(i / 50), i % 50, random.text(6)] as const;
      });
      await place.edit(log, { type: 'Set', cells });
    }
    await place.client.addSnapshot(log);
    return log;
  }

  beforeAll(async () => {
    large = await sheet(20);
    middling = await sheet(1);
    await place.json('work', '--until-idle');
  });

  test.each<[name: string, problem: string, damage: Damage]>([
    ['truncated', 'CORRUPT', (stored) => stored.subarray(0, -1)],
    ['truncated within its header', 'CORRUPT', (stored) => stored.subarray(0, 5)],
    ['altered', 'CORRUPT', (stored) => stored.fill((stored.at(100) ?? 0) ^ 1, 100, 101)],
    ['oversized by its header', 'CORRUPT', (stored) => stored.fill(0xff, 5, 9)],
    ['oversized by bytes at its end', 'CORRUPT', (stored) => Buffer.concat([stored, Buffer.alloc(100)])],
    ['in another format', 'CORRUPT', (stored) => stored.fill(0x7f, 3, 4)],
    ['missing', 'MISSING', () => undefined],
  ])('export refuses a chunk and a root that are %s', async (_, problem, damage) => {
    const [chunk = ''] = await place.keys(large, 'chunks');
    const [root = ''] = await place.keys(middling, 'roots');
    const mend = await Promise.all([place.harm(chunk, damage), place.harm(root, damage)]);
    const [ofChunk, ofRoot] = await place.refusals(['export', large], ['export', middling]);
    await Promise.all(mend.map((each) => each()));
    expect(ofChunk).toMatchObject({ code: `CHUNK_${problem}`, log: large, advice: ADVICE });
    expect(ofChunk?.message).toContain(chunk.slice(-64));
    expect(ofRoot).toMatchObject({ code: `CHUNK_${problem}`, log: middling, segment: 0, entry: 2, advice: ADVICE });
  });

  test('verify finds all damage and changes nothing, and finds none after a repair', async () => {
    const [first = '', second = ''] = await place.keys(large, 'chunks');
    const mend = [await place.harm(first, (stored) => stored.subarray(1)), await place.harm(second, () => undefined)];
    const before = await place.contents();
    const { code, stdout } = await runCli(['verify', large, '--json', ...place.words]);
    expect(code).toBe(1);
    expect(JSON.parse(stdout).problems).toHaveLength(2);
    expect(JSON.parse(stdout).problems).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ part: first.slice(-64), code: 'CHUNK_CORRUPT' }),
        expect.objectContaining({ part: second.slice(-64), code: 'CHUNK_MISSING' }),
      ]),
    );
    expect(await place.contents()).toEqual(before);
    for (const each of mend) await each();
    expect(await place.json('verify', large)).toMatchObject({ problems: [] });
    expect(await place.json('replay', large)).toMatchObject({ equal: true });
  });
});

describe('invalid arguments', () => {
  test('every command refuses a log that does not exist', async () => {
    const file = join(place.directory, 'one.ndjson');
    await writeFile(file, '{"op":"set","cells":[[0,0,"x"]]}');
    const refusals = await place.refusals(
      ['append', UNKNOWN, file],
      ['snapshot', UNKNOWN],
      ['segment', UNKNOWN],
      ['status', UNKNOWN],
      ['export', UNKNOWN],
      ['export', UNKNOWN, '--at', '0/0'],
      ['view', UNKNOWN, '--rows', '0:1', '--columns', '0:1'],
      ['diff', UNKNOWN, '0/0'],
      ['replay', UNKNOWN],
      ['verify', UNKNOWN],
      ['resume', UNKNOWN],
    );
    for (const refusal of refusals) {
      expect(refusal).toMatchObject({ code: 'LOG_NOT_FOUND', log: UNKNOWN, advice: ADVICE });
    }
  });

  test('export, diff and replay refuse a position that the log does not have', async () => {
    const log = await smallLog();
    const [after, beyond, compared, replayed] = await place.refusals(
      ['export', log, '--at', '0/5'],
      ['export', log, '--at', '1/0'],
      ['diff', log, '0/0', '0/5'],
      ['replay', log, '--at', '0/5'],
    );
    const advice: unknown = expect.stringContaining('0/4');
    expect(after).toMatchObject({ code: 'ENTRY_NOT_FOUND', log, segment: 0, entry: 5, advice });
    expect(beyond).toMatchObject({ code: 'ENTRY_NOT_FOUND', log, segment: 1, entry: 0, advice });
    expect(compared).toMatchObject({ code: 'ENTRY_NOT_FOUND', log, segment: 0, entry: 5, advice });
    expect(replayed).toMatchObject({ code: 'ENTRY_NOT_FOUND', log, segment: 0, entry: 5, advice });
  });

  test('segment and replay refuse a log without a snapshot', async () => {
    const log = await smallLog();
    const refusals = await place.refusals(['segment', log], ['replay', log]);
    for (const refusal of refusals) expect(refusal).toMatchObject({ code: 'SEGMENT_WITHOUT_SNAPSHOT', log });
  });

  test('the error names each invalid word', async () => {
    const cases: [words: string, code: string, about: string][] = [
      ['export 0192f7a0-5b1c-0000-0000-2a3b4c5d6e7f', 'LOG_ID_INVALID', '0192f7a0-5b1c-0000-0000-2a3b4c5d6e7f'],
      ['export not-a-log', 'LOG_NOT_FOUND', 'not-a-log'],
      ['create feed', 'LOG_ID_INVALID', 'feed'],
      [`export ${UNKNOWN} --at 17.5`, 'POSITION_INVALID', "--at: '17.5'"],
      [`export ${UNKNOWN} --at 0/4294967296`, 'POSITION_INVALID', "--at: '0/4294967296'"],
      [`view ${UNKNOWN} --rows 5:1 --columns 0:1`, 'USAGE', "--rows: '5:1'"],
      [`view ${UNKNOWN} --rows 0:4294967297 --columns 0:1`, 'USAGE', '4294967296 rows'],
      [`view ${UNKNOWN} --rows 0:100000 --columns 0:100000`, 'USAGE', '1000000'],
      [`append ${UNKNOWN}`, 'USAGE', "'file'"],
      [`append ${UNKNOWN} x --snapshot-every 0`, 'USAGE', "--snapshot-every: '0' is not a whole number above 0"],
      [`diff ${UNKNOWN} #17`, 'POSITION_INVALID', "'#17' is neither"],
      [`diff ${UNKNOWN}`, 'USAGE', "'before'"],
      ['export', 'USAGE', "'log'"],
      ['work --concurrency 0', 'USAGE', "--concurrency: '0' is not"],
      ['work --concurrency 1000000', 'USAGE', "--concurrency: '1000000' is above 1000"],
      ['create --color', 'USAGE', '--color'],
      ['create one two', 'USAGE', 'arguments'],
      ['create a --attributes owner', 'USAGE', '--attributes: the attributes are not JSON'],
      ['create a --attributes [1]', 'USAGE', '--attributes: the attributes are not a JSON object'],
      ['create a --attributes {"at":{"$date":"2026-01-01T00:00:00.000Z"}}', 'VALUE_UNSUPPORTED', 'dates'],
      ['create a --attributes {"":1}', 'VALUE_UNSUPPORTED', 'attribute'],
      [`attributes ${UNKNOWN}`, 'LOG_NOT_FOUND', UNKNOWN],
      [`attributes ${UNKNOWN} --set null`, 'USAGE', '--set: the attributes are not a JSON object'],
      [`attributes ${UNKNOWN} --if-absent owner`, 'USAGE', '--if-absent'],
      [`attributes ${UNKNOWN} --remove a --if {"a":1} --if-absent a`, 'USAGE', "'a'"],
      [`attributes ${UNKNOWN} --set {"a":1} --remove a`, 'USAGE', "'a' twice"],
      ['list --limit 3', 'USAGE', '--prefix'],
      ['list --prefix org --limit 0', 'USAGE', '--limit'],
      ['destroy', 'USAGE', 'destroy'],
      ['create --bucket b', 'USAGE', '--bucket'],
    ];
    const refusals = await place.refusals(...cases.map(([words]) => words.split(' ')));
    for (const [i, [words, code, about]] of cases.entries()) {
      expect(refusals[i], words).toMatchObject({ code, message: expect.stringContaining(about) });
    }
  });

  test('commands refuse an output file in no directory, and a data directory that is a file', async () => {
    const file = join(place.directory, 'file');
    await writeFile(file, '');
    const csv = join(place.directory, 'no', 'such', 'folder.csv');
    const [refusal] = await place.refusals(['export', await smallLog(), '--csv', csv]);
    expect(refusal).toMatchObject({ code: 'USAGE', message: expect.stringContaining(csv), advice: ADVICE });
    const other = refusalOf(await runCli(['create', '--local', file, '--json']));
    expect(other).toMatchObject({ code: 'USAGE', message: expect.stringContaining(file), advice: ADVICE });
  });
});

describe('a missing or unreachable place', () => {
  const region: Record<string, string> = { AWS_REGION: 'eu-central-1' };
  const keys = { AWS_ACCESS_KEY_ID: 'local', AWS_SECRET_ACCESS_KEY: 'local' };
  const inAws = (...words: readonly string[]) => {
    return [...words, '--entry-table', 'Entries-X', '--segment-table', 'Segments-Y', '--bucket', 'bucket-z'];
  };
  let aws: LocalAws;

  beforeAll(async () => {
    aws = await startLocalAws();
    await aws.s3.send(new CreateBucketCommand({ Bucket: 'bucket-z' }));
    region.AWS_ENDPOINT_URL_S3 = aws.server.address;
  });
  afterAll(() => aws.stop());

  test('only create makes a data directory of a missing or empty one', async () => {
    const parent = await mkdtemp(join(tmpdir(), 'logfold-typo-'));
    const [typo, empty] = [join(parent, 'typo'), join(parent, 'empty')];
    await mkdir(empty);
    const file = join(parent, 'one.ndjson');
    await writeFile(file, '{"op":"set","cells":[[0,0,"x"]]}');
    try {
      for (const directory of [typo, empty]) {
        const local = ['--local', directory];
        const compare = ['table', 'compare', '--table', 'parts'];
        const commands = [['status'], ['append', UNKNOWN, file], ['sweep'], ['policy'], ['verify', UNKNOWN], compare];
        for (const refusal of await place.refused(commands.map((words) => [...words, ...local]))) {
          expect(refusal).toMatchObject({ code: 'RESOURCE_MISSING', advice: expect.stringContaining('create') });
          expect(refusal.message).toContain(`'${directory}'`);
        }
      }
      expect([(await readdir(parent)).sort(), await readdir(empty)]).toEqual([['empty', 'one.ndjson'], []]);
      expect((await runCli(['create', '--local', typo])).code).toBe(0);
      expect((await runCli(['status', '--local', typo])).code).toBe(0);
    } finally {
      await rm(parent, { recursive: true });
    }
  });

  test('status refuses a table that is not in the directory, and creates none', async () => {
    const tables = await place.tableNames();
    const [refusal] = await place.refusals(['status', '--segment-table', 'Segmnet']);
    expect(refusal).toMatchObject({ code: 'RESOURCE_MISSING', advice: ADVICE });
    expect(refusal?.message).toContain("'Segmnet'");
    expect(await place.tableNames()).toEqual(tables);
  });

  test('commands refuse to run without a place, or with a part of one', async () => {
    for (const refusal of await place.refused([['create'], ['work'], ['status', '--bucket', 'b'], ['engine']])) {
      expect(refusal).toMatchObject({ code: 'USAGE', advice: expect.stringContaining('--local') });
    }
  });

  test('commands name the table that does not exist', async () => {
    const commands = [
      inAws('create'),
      inAws('status'),
      inAws('snapshot', UNKNOWN),
      inAws('resume', UNKNOWN),
      inAws('export', UNKNOWN),
      inAws('work', '--until-idle'),
    ];
    const environment = { ...region, ...keys, DYNAMODB_ENDPOINT: place.endpoint };
    for (const refusal of await place.refused(commands, environment)) {
      expect(refusal).toMatchObject({ code: 'RESOURCE_MISSING', advice: ADVICE });
      expect(refusal.message).toMatch(/Entries-X|Segments-Y/);
    }
  });

  test('commands refuse names that no table can have', async () => {
    const environment = { ...region, ...keys, DYNAMODB_ENDPOINT: place.endpoint };
    const local = ['--entry-table', 'E2', ...place.words];
    const there = ['--entry-table', 'Entries-X', '--segment-table', 'S 2', '--bucket', 'bucket-z'];
    const stream = ['--entry-table', 'E2', '--segment-table', 'Segments-Y', '--bucket', 'bucket-z'];
    const commands = [
      ['create', ...local],
      ['status', ...there],
      ['work', ...stream],
    ];
    const refusals = await place.refused(commands, environment);
    for (const [i, name] of ["'E2'", "'S 2'", "'E2'"].entries()) {
      expect(refusals[i]).toMatchObject({ code: 'USAGE', message: expect.stringContaining(name), advice: ADVICE });
    }
    expect((await runCli(['create', ...local])).code).toBe(2);
  });

  test('commands ask for credentials', async () => {
    for (const refusal of await place.refused([inAws('create'), inAws('status'), inAws('work')], region)) {
      expect(refusal).toMatchObject({ code: 'CREDENTIALS', advice: expect.stringContaining('credentials') });
    }
  });

  test('commands ask for a region', async () => {
    const [refusal] = await place.refused([inAws('status')], keys);
    expect(refusal).toMatchObject({ code: 'USAGE', advice: expect.stringContaining('AWS_REGION') });
  });

  test('commands name an endpoint where nothing answers', async () => {
    const environment = { ...region, ...keys, DYNAMODB_ENDPOINT: 'http://127.0.0.1:1' };
    const [aws, local] = await place.refused([inAws('status'), ['status', ...place.words]], environment);
    for (const refusal of [aws, local]) {
      expect(refusal).toMatchObject({ code: 'STORE_UNAVAILABLE', message: expect.stringContaining('127.0.0.1:1') });
      expect(refusal?.advice).toContain('DYNAMODB_ENDPOINT');
    }
  });

  test('commands refuse an endpoint where a web server answers', async () => {
    const server = createServer((_, response) => response.end('<html>Welcome</html>'));
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
    const address = server.address();
    if (typeof address !== 'object' || address === null) throw new Error('the server does not listen');
    const environment = { ...region, ...keys, DYNAMODB_ENDPOINT: `http://127.0.0.1:${address.port}` };
    const refusals = await place.refused([inAws('status'), ['status', ...place.words]], environment);
    server.close();
    for (const refusal of refusals) {
      expect(refusal).toMatchObject({
        code: 'STORE_UNAVAILABLE',
        message: expect.stringContaining('does not respond like DynamoDB'),
      });
    }
  });

  test('an option is refused as the value of another option', async () => {
    const [refusal] = await place.refused([['create', '--local', '--json']]);
    expect(refusal).toMatchObject({
      code: 'USAGE',
      message: expect.stringContaining("--local: needs a value, but '--json'"),
    });
    expect(existsSync('--json')).toBe(false);
  });

  test.runIf(process.platform === 'linux')('create refuses a directory that it cannot make or write to', async () => {
    const commands = ['/proc/logfold', '/proc/logfold/below', '/proc'].map((dir) => ['create', '--local', dir]);
    for (const refusal of await place.refused(commands)) {
      expect(refusal).toMatchObject({ code: 'USAGE', message: expect.stringContaining('cannot be a data directory') });
    }
  });

  test('create refuses an engine that is not installed or unknown', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'logfold-engine-'));
    try {
      const create = ['create', '--local', directory];
      const [absent] = await place.refused([create], { LOGFOLD_ENGINE: 'dynamodb-local' });
      expect(absent).toMatchObject({ code: 'ENGINE_UNAVAILABLE', message: expect.stringContaining('DynamoDB Local') });
      expect(absent?.advice).toContain('npm install');
      const [unknown] = await place.refused([create], { LOGFOLD_ENGINE: 'sqlite' });
      expect(unknown).toMatchObject({ code: 'USAGE', advice: expect.stringContaining('dynoxide') });
    } finally {
      await rm(directory, { recursive: true });
    }
  });
});

test('every command refuses empty or equal types of entries before it reads anything', async () => {
  const same = ['--snapshot-type', 'Mark', '--end-segment-type', 'Mark'];
  const empty = ['--snapshot-type', ''];
  const commands = [
    ['create'],
    ['status'],
    ['replay', UNKNOWN],
    ['snapshot', UNKNOWN],
    ['sweep'],
    ['work', '--until-idle'],
  ];
  const refusals = await place.refusals(
    ...commands.flatMap((words) => [same, empty].map((types) => [...words, ...types])),
  );
  for (const refusal of refusals) {
    expect(refusal).toMatchObject({
      code: 'USAGE',
      message: expect.stringMatching(/same type 'Mark'|is empty/),
      advice: ADVICE,
    });
  }
});

test('no command echoes control characters of its arguments', async () => {
  const evil = '\u001b]0;owned\u0007\u009b2J';
  const lines = [
    [evil],
    ['list', `--${evil}`],
    ['status', evil, ...place.words],
    ['create', '--name', evil, ...place.words],
    ['view', UNKNOWN, '--rows', evil],
    ['create', '--reducer', `/${evil}`, ...place.words],
    ['inspect', evil, ...place.words],
    ['export', await smallLog(), '--csv', join(place.directory, evil), ...place.words],
  ];
  const answers = await Promise.all(lines.map((words) => runCli(words)));
  for (const { stdout, stderr } of answers) expect(`${stdout}${stderr}`).not.toMatch(/(?![\n\t])\p{Cc}/u);
  expect(answers.map(({ code }) => code)).toEqual([2, 2, 1, 2, 2, 2, 2, 0]);
});

test('a working directory that was removed is named as the cause', async () => {
  const answer = await runShell('mkdir "$1/gone"; cd "$1/gone"; rmdir "$1/gone"; logfold list', [place.directory]);
  expect(answer).toMatchObject({ code: 2, stdout: '' });
  expect(answer.stderr).toBe(
    'logfold: USAGE: the working directory was removed. Change to another directory, for example with cd ~, then run the command again.\n',
  );
});

test('an error of the operating system has its code once', async () => {
  const log = await smallLog();
  const answer = await runCli(['import', log, '/proc/self/mem', ...place.words]);
  expect(answer.code).not.toBe(0);
  expect(answer.stderr).not.toMatch(/\b(E[A-Z]+): \1/);
});
