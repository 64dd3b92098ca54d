import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import stringWidth from 'string-width';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { LogId } from '../../src/ids/log-id.ts';
import { chunkPrefix } from '../../src/store/keys.ts';
import { type Answer, runCli } from '../support/cli.ts';
import { CliPlace } from '../support/cli-place.ts';

const CLAIM_TERMINAL = `--import=${new URL('../programs/claim-terminal.ts', import.meta.url).href}`;

let place: CliPlace;
/** A directory with names of logs. */
let project: string;
let log: LogId;

beforeAll(async () => {
  place = await CliPlace.open();
  project = await mkdtemp(join(tmpdir(), 'logfold-screen-'));
  log = await place.log({
    type: 'Set',
    cells: [
      [0, 0, 'city'],
      [1, 0, '日本語の長い名前、二十四桁より長い'],
      [1, 1, 'a\u001b[31mred\nline\tend'],
      [2, 7, '👩‍💻'],
      [19, 2, 'x'.repeat(400_000)],
      [20, 0, 'below'],
      [0, 8, 'right'],
    ],
  });
  await place.edit(log, { type: 'Insert Rows', position: 1, count: 1 });
  await place.edit(log, { type: 'Delete Rows', position: 0, count: 1 });
  await place.edit(log, { type: 'Delete Columns', position: 0, count: 1 });
});
afterAll(async () => {
  await place.close();
  await rm(project, { recursive: true });
});

/** Runs a command that must succeed, as on a terminal of this width if one is given. */
async function say(words: readonly string[], columns?: number): Promise<Answer> {
  const environment = columns === undefined ? {} : { NODE_OPTIONS: CLAIM_TERMINAL, CLAIMED_COLUMNS: `${columns}` };
  const answer = await runCli([...words, ...place.words], { environment, cwd: project });
  expect(answer, answer.stderr).toMatchObject({ code: 0 });
  return answer;
}

const linesOf = ({ stdout }: Answer): string[] => stdout.trimEnd().split('\n');

describe('view', () => {
  test('without a range shows the first cells, aligned with the numbers of rows and columns', async () => {
    const before = ['--at', '0/2'];
    const lines = linesOf(await say(['view', log, ...before]));
    expect(new Set(lines.map((line) => stringWidth(line))).size).toBe(1);
    expect(lines[1]).toMatch(/^│ +│ 0 +│ 1 +│ 2 +│ 3 +│ 4 +│ 5 +│ 6 +│ 7 +│$/);
    expect(lines.length).toBe(20 + 4);
    expect(lines[3]).toMatch(/^│ 0 {2}│ city +│ +│/);
    expect(lines[4]).toMatch(/^│ 1 {2}│ 日本語の長い名前、二十… +│ a\\u\{1b\}\[31mred\\u\{a\}line… │/);
    expect(lines[5]).toMatch(/│ 👩‍💻 +│$/);
    expect(lines[22]).toMatch(/^│ 19 │ +│ +│ x{23}… │/);
    for (const columns of [100, 60, 48]) {
      const narrow = linesOf(await say(['view', log, ...before], columns));
      expect(Math.max(...narrow.map((line) => stringWidth(line)))).toBeLessThanOrEqual(Math.max(columns, 70));
      expect(narrow.length).toBe(lines.length);
    }
  });

  test('leaves out empty rows and columns at the end, and has all cells in JSON', async () => {
    const lines = linesOf(await say(['view', log, '--rows', '0:3', '--columns', '0:9'], 200));
    expect(lines[1]).toMatch(/^│ +│ 0 +│ 1 +│ 2 +│ 3 +│ 4 +│ 5 +│ 6 +│$/);
    expect(lines.length).toBe(3 + 4);
    const { rows, rectangle } = await place.json('view', log, '--rows', '1:2');
    expect(rows).toEqual([['a\u001b[31mred\nline\tend', ...Array(7).fill('')]]);
    expect(rectangle).toEqual({ rows: { from: 1, to: 2 }, columns: { from: 0, to: 8 } });
    expect((await say(['view', log, '--rows', '5:7'], 80)).stdout).toBe(
      'No cell has a value in rows 5:7 and columns 0:8.\n',
    );
  });

  test('writes CSV to a pipe if it has a range', async () => {
    expect((await say(['view', log, '--rows', '1:2', '--columns', '0:2'])).stdout).toBe(
      '"a\\u{1b}[31mred\nline\tend",\n',
    );
  });
});

describe('diff', () => {
  test('lists no cell of a removed row or column', async () => {
    const { stdout, stderr } = await say(['diff', log, '0/2', '0/5']);
    expect(stdout).toBe('row 0 removed\nrow 0 inserted\ncolumn 0 removed\n');
    expect(stderr).toContain('3 changes between 0/2 and 0/5');
    const { changes } = await place.json('diff', log, '0/2', '0/5');
    expect(changes).toEqual([
      { kind: 'rows', change: 'removed', from: 0, count: 1 },
      { kind: 'rows', change: 'inserted', to: 0, count: 1 },
      { kind: 'columns', change: 'removed', from: 0, count: 1 },
    ]);
  });

  test('takes the numbers that entries prints, as view and entries do', async () => {
    const own = await place.log({ type: 'Set', cells: [[0, 0, 'a']] });
    await place.client.addSnapshot(own);
    await place.edit(own, { type: 'Set', cells: [[0, 0, 'b']] });
    const lines = linesOf(await say(['entries', own, '--application', '--json'])).map((line) => JSON.parse(line));
    const [, second] = lines;
    expect(second).toMatchObject({ position: { segment: 0, entry: 3 }, number: 2 });
    const { stdout, stderr } = await say(['diff', own, `${second.number}`]);
    expect(stdout).toBe('cell 0:0: "a" -> "b"\n');
    expect(stderr).toMatch(/between 0\/3 and 0\/4; no object fetched\.$/m);
    const at = ['--at', `${second.number}`];
    expect((await say(['view', own, ...at, '--rows', '0:1', '--columns', '0:1'])).stdout).toBe('a\n');
    expect(linesOf(await say(['entries', own, '--from', '2', '--json'])).map((line) => JSON.parse(line))).toEqual([
      second,
    ]);
    const earlier = linesOf(await say(['entries', own, '--application', '--to', '2', '--json']));
    expect(earlier.map((line) => JSON.parse(line))).toEqual(lines.slice(0, 1));
    const refusals = await place.refusals(['diff', own, '99'], ['view', own, '--at', '4294967296']);
    expect(refusals.map(({ code }) => code)).toEqual(['ENTRY_NOT_FOUND', 'POSITION_INVALID']);
  });

  test('lists a cell that was emptied, or whose row moved away from it', async () => {
    const own = await place.log({
      type: 'Set',
      cells: [
        [0, 0, 'a'],
        [1, 1, 'b'],
        [2, 0, 'c'],
        [3, 3, 'd'],
      ],
    });
    await place.edit(own, { type: 'Delete Rows', position: 0, count: 1 });
    await place.edit(own, { type: 'Delete Rows', position: 1, count: 1 });
    await place.edit(own, { type: 'Set', cells: [[0, 1, '']] });
    const { stdout } = await say(['diff', own, '0/2']);
    expect(stdout).toBe('row 0 removed\nrow 2 removed\ncell 1:1 removed: "b"\n');
  });

  test('counts the changes by kind, or shows only the first ones', async () => {
    expect((await say(['diff', log, '0/1', '--stat'])).stdout).toBe(
      '1 row removed\n1 row inserted\n1 column removed\n3 cells added\n',
    );
    expect(await place.json('diff', log, '0/1', '--stat')).toMatchObject({
      before: { segment: 0, entry: 1 },
      counts: [
        { kind: 'rows', change: 'removed', count: 1 },
        { kind: 'rows', change: 'inserted', count: 1 },
        { kind: 'columns', change: 'removed', count: 1 },
        { kind: 'cell', change: 'added', count: 3 },
      ],
    });
    const { changes } = await place.json('diff', log, '0/1');
    for (const [limit, more] of [
      [2, true],
      [5, true],
      [6, false],
      [7, false],
    ] as const) {
      const limited = await place.json('diff', log, '0/1', '--limit', `${limit}`);
      expect(limited).toMatchObject({ changes: (changes as unknown[]).slice(0, limit), more });
    }
    expect((await say(['diff', log, '0/1', '--limit', '1'])).stderr).toContain('Raise --limit');
    const notes = await place.client.createLog();
    for (const id of ['a', 'b']) {
      await place.client.addEntry(notes, { type: 'Put', version: 1, body: { collection: 'notes', id, value: 1 } });
    }
    const { stdout } = await say(['diff', notes, '0/1', '--stat', '--reducer', 'collections']);
    expect(stdout).toMatch(/^2 items of \w+ added\n/);
    const [refusal] = await place.refusals(['diff', log, '0/1', '--stat', '--limit', '1']);
    expect(refusal?.code).toBe('USAGE');
  });
});

describe('status', () => {
  test('on a terminal has the names first, no empty column, and no wider line than fits', async () => {
    const { log: named } = JSON.parse((await say(['create', '--name', 'budget', '--json'])).stdout);
    const table = (answer: Answer): string[] => linesOf(answer).filter((line) => /^[┌│├└]/.test(line));
    const wide = table(await say(['status'], 200));
    expect(wide[1]).toMatch(/^│ name +│ log +│ entries │ last snapshot │ lag │ segments │$/);
    expect(wide.join('\n')).toMatch(new RegExp(`│ budget │ ${named} │`));
    for (const columns of [100, 80, 60, 42]) {
      const answer = await say(['status'], columns);
      expect(Math.max(...table(answer).map((line) => stringWidth(line)))).toBeLessThanOrEqual(columns);
      expect(answer.stdout).toContain(log);
      if (columns < 100) expect(answer.stdout).toMatch(/^For .*segments.*, widen the terminal or give --json\.$/m);
    }
    const own = linesOf(await say(['status', named], 30));
    expect(own[1]).toMatch(/^│ log +│ entries │ lag │$/);
    expect(own[3]).toMatch(/^│ budget │ 1 /);
  });

  test('on a narrow terminal shows that a log is stopped', async () => {
    const own = await place.log({ type: 'Set', cells: [[0, 0, 'a']] });
    await place.client.addEntry(own, { type: 'Unknown', version: 1 });
    await place.client.addSnapshot(own);
    await runCli(['work', '--until-idle', ...place.words]);
    for (const columns of [100, 80, 65]) {
      const answer = await say(['status', own], columns);
      expect(answer.stdout).toContain('│ ENTRY_TYPE_UNKNOWN │');
      const table = linesOf(answer).filter((line) => line.startsWith('│'));
      expect(Math.max(...table.map((line) => stringWidth(line)))).toBeLessThanOrEqual(columns);
    }
    const narrow = await say(['status', own], 50);
    expect(narrow.stdout).toContain('… │ ENTRY_TYPE_UNKNOWN │');
    expect(narrow.stdout).toMatch(/^For .*lag, log in full, widen the terminal or give --json\.$/m);
    expect(narrow.stdout).toContain(`${own} is stopped: `);
  });

  test('at 80 columns shows names, ids without a name in part, and the same columns', async () => {
    const long = `org-7/${'a-long-id-'.repeat(7)}`;
    await say(['create', long]);
    await say(['create', '--name', 'a-quite-long-name-of-a-log']);
    const { stdout } = await say(['status'], 80);
    expect(stdout).toMatch(/^│ log +│ entries │ (last snapshot │ )?lag │/m);
    expect(stdout).toMatch(/^│ a-quite-long-name-of-a-log +│ 1 /m);
    expect(stdout).toMatch(new RegExp(`^│ ${long.slice(0, 30)}.*… +│ 1 `, 'm'));
    expect(stdout).toMatch(/^For .*log in full, widen the terminal or give --json\.$/m);
    const named = await say(['status', 'a-quite-long-name-of-a-log'], 80);
    expect(named.stdout).toMatch(/^│ log +│ entries │ last snapshot │ lag │ segments │$/m);
    const listed = await say(['list', '--newest'], 80);
    expect(Math.max(...linesOf(listed).map((line) => stringWidth(line)))).toBeLessThanOrEqual(80);
    expect(listed.stdout).toMatch(/^a-quite-long-name-of-a-log +20/m);
    expect(listed.stdout).toMatch(/^org-7\/a-long-id-.*… +20/m);
    expect((await say(['list'])).stdout).toMatch(new RegExp(`^${long} +20`, 'm'));
  });

  test('names the last snapshot of a log and of its segment in the same way', async () => {
    const own = await place.log();
    await place.client.addSnapshot(own);
    await runCli(['work', '--until-idle', ...place.words]);
    const { stdout } = await say(['status', own], 80);
    expect(stdout.match(/│ 0\/1 +│/g)).toHaveLength(2);
  });

  test('on a terminal without a size has all columns', async () => {
    const [, head = ''] = linesOf(await say(['status', log], 0));
    expect(head).toContain('buffered');
  });

  test('elsewhere has all columns, whatever the logs are', async () => {
    const all = ['name', 'log', 'entries', 'last snapshot', 'lag', 'stopped', 'segments', 'archived', 'expiring'];
    all.push('expired', 'chunks', 'bytes', 'buffered', 'foreign');
    const [, head = ''] = linesOf(await say(['status', log]));
    expect(head.split('│').map((name) => name.trim())).toEqual(['', ...all, '']);
  });
});

test('history fits the terminal, and shows whole values elsewhere', async () => {
  const answer = await say(['history', log, '--row', '19', '--at', '0/2'], 80);
  expect(Math.max(...linesOf(answer).map((line) => stringWidth(line)))).toBeLessThanOrEqual(80);
  expect(answer.stdout).toMatch(/^For value in full, widen the terminal or give --json\.$/m);
  expect((await say(['history', log, '--row', '1', '--at', '0/2'])).stdout).toContain(
    '日本語の長い名前、二十四桁より長い',
  );
});

test('list says that no id has the prefix', async () => {
  expect((await say(['list', '--prefix', 'nope'])).stdout).toBe("No log has a chosen id that begins with 'nope'.\n");
  expect((await say(['list', '--prefix', 'nope', '--after', 'nope/1'])).stdout).toBe(
    "No log has a chosen id that begins with 'nope', after 'nope/1'.\n",
  );
});

test('history says how many entries it folded', async () => {
  expect((await say(['history', log, '--cell', '1:0'])).stderr).toBe('5 entries folded.\n');
  expect(await place.json('history', log, '--cell', '1:0')).toMatchObject({ folded: 5 });
  const keeping = ['--reducer', 'spreadsheet+history'];
  expect(await place.json('history', log, '--cell', '1:0', ...keeping)).toMatchObject({ folded: 0 });
});

test('work shows the error of a failing job once, then the number of its tries', async () => {
  const own = await place.log();
  for (let i = 0; i < 2; i++) await place.edit(own, { type: 'Set', cells: [[i, 0, 'y'.repeat(14_000)]] });
  const cells = Array.from({ length: 2_000 }, (_, i) => [i, 1, Math.random().toString(36)] as const);
  await place.edit(own, { type: 'Set', cells });
  await place.client.addSnapshot(own);
  // A file in place of the directory.
  const chunks = join(place.directory, 'blobs/objects', chunkPrefix(own));
  await mkdir(dirname(chunks), { recursive: true });
  await writeFile(chunks.replace(/\/$/, ''), '');
  const { code, stderr } = await runCli(['work', '--until-idle', ...place.words]);
  expect(code).toBe(1);
  const about = stderr.split('\n').filter((line) => line.startsWith(`snapshot ${own} 0/4 `));
  expect(about).toEqual([
    expect.stringMatching(/ failed and will be tried again: .*(ENOTDIR|EEXIST)/),
    expect.stringMatching(/ was given up after 5 tries\.$/),
  ]);
});
