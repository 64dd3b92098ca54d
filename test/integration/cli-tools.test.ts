import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text as textOf } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { end, runCli, startCli } from '../support/cli.ts';
import { CliPlace } from '../support/cli-place.ts';

let place: CliPlace;
/** A project with a settings file. */
let project: string;

beforeAll(async () => {
  place = await CliPlace.open();
  project = await mkdtemp(join(place.directory, 'project-'));
});
afterAll(() => place.close());

/** Runs a command in the project, without options for the place. */
async function here(...words: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await runCli(words, { cwd: project });
  expect({ words, code, stderr: code === 0 ? '' : stderr }).toEqual({ words, code: 0, stderr: '' });
  return stdout;
}

test('a project with a settings file needs no options, and its logs have names', async () => {
  await writeFile(join(project, 'logfold.json'), '{"local":"..","reducer":"spreadsheet"}');
  const [log] = (await here('create', '--name', 'budget')).split('\n');
  expect(JSON.parse(await readFile(join(project, 'logfold.json'), 'utf8'))).toEqual({
    local: '..',
    reducer: 'spreadsheet',
    names: { budget: log },
  });
  await writeFile(join(project, 'edits.ndjson'), '{"op":"set","cells":[[0,0,"a"]]}\n{"op":"snapshot"}\n');
  await here('append', 'budget', 'edits.ndjson');
  expect(await here('export', 'budget')).toBe('a\n');
  expect(await here('list')).toContain(`${log}  `);
  expect(JSON.parse(await here('list', '--newest', '--json'))).toMatchObject({
    logs: [{ log, names: ['budget'], newest: { segment: 0, entry: 2 } }],
    failures: [],
  });
  const again = await runCli(['create', '--name', 'budget'], { cwd: project });
  expect(again).toMatchObject({ code: 2, stderr: expect.stringContaining(`gives the name 'budget' to log ${log}`) });
  await here('sweep', '--log', 'budget');
  const { snapshots } = JSON.parse(await here('snapshots', 'budget', '--json'));
  expect(snapshots).toMatchObject([
    { position: { segment: 0, entry: 2 }, status: 'complete' },
    { position: { segment: 0, entry: 0 }, status: 'complete' },
  ]);
  expect(await here('snapshots', 'budget', '--limit', '1')).toMatch(/0\/2 .*complete/);
  const missing = await runCli(['state', 'budget', '--map', 'sells'], { cwd: project });
  expect(missing).toMatchObject({ code: 0, stderr: expect.stringContaining("no map 'sells'. Its maps: cells.") });
  const unknown = await runCli(['export', 'buget'], { cwd: project });
  expect(unknown).toMatchObject({ code: 1, stderr: expect.stringContaining('LOG_NOT_FOUND') });
});

test('the entries of a log make a copy of it, through a pipe', async () => {
  const source = await place.client.createLog();
  const lines = Array.from({ length: 20 }, (_, i) => ({
    type: 'Set',
    body: [[i, 0, `${i}`]],
    time: 2_000_000_000 + i,
    metadata: { correlation: `r-${i}` },
  }));
  const input = [...lines, { op: 'snapshot', time: 2_000_000_020 }].map((line) => JSON.stringify(line)).join('\n');
  await runCli(['append', source, '-', ...place.words], { input });
  const copy = await place.client.createLog();
  const { stdout } = await runCli(['entries', source, '--json', ...place.words]);
  const answer = await runCli(['append', copy, '-', '--json', ...place.words], { input: stdout });
  expect(JSON.parse(answer.stdout)).toMatchObject({ entries: 20, snapshots: 1, last: { segment: 0, entry: 21 } });
  const again = await runCli(['entries', copy, '--application', '--json', ...place.words]);
  expect(again.stdout).toBe(
    stdout
      .split('\n')
      .filter((line) => !line.includes('"op"'))
      .join('\n'),
  );
  const select = async (...words: readonly string[]) =>
    (await runCli(['entries', source, ...words, ...place.words])).stdout.split('\n').slice(0, -1);
  // From the second with number 5 on, up to but not including number 8.
  const range = ['--from', '2033-05-18T03:33:25Z', '--to', '2033-05-18T03:33:28Z'];
  expect((await select(...range)).map((line) => line.slice(0, 4).trim())).toEqual(['0/6', '0/7', '0/8']);
  expect(await select('--type', 'Snapshot')).toHaveLength(2);
  expect(await select('--type', 'Set', '--limit', '3')).toHaveLength(3);
  expect(await select('--from', '0/20')).toHaveLength(2);
});

test('a follower prints new entries as they come', async () => {
  const log = await place.client.createLog();
  const follower = startCli(['entries', log, '--follow', '--json', ...place.words]);
  const stderr = follower.stderr === null ? '' : textOf(follower.stderr);
  if (follower.stdout === null) throw new Error('the command has no standard output');
  const printed = createInterface({ input: follower.stdout });
  await once(printed, 'line');
  for (const text of ['a', 'b']) {
    const line = once(printed, 'line');
    await place.edit(log, { type: 'Set', cells: [[0, 0, text]] });
    expect(JSON.parse((await line)[0])).toMatchObject({ type: 'Set', body: [[0, 0, text]] });
  }
  await end(follower, 'SIGINT');
  expect(follower.exitCode).toBe(130);
  const [, next = ''] = /run the command again with --from (\S+)\.\n/.exec(await stderr) ?? [];
  expect(next).toBe('0/3');
  await place.edit(log, { type: 'Set', cells: [[0, 0, 'c']] });
  const { stdout } = await runCli(['entries', log, '--from', next, '--json', ...place.words]);
  expect(JSON.parse(stdout)).toMatchObject({ type: 'Set', body: [[0, 0, 'c']] });
  await rm(project, { recursive: true });
});
