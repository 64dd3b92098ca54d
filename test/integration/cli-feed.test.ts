import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DynamoDBClient, PutItemCommand } from '@aws-sdk/client-dynamodb';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FEED_LOG } from '../../src/feed/feed-log.ts';
import { formatPosition, type Position } from '../../src/ids/position.ts';
import { end, runCli, runJson, startCli } from '../support/cli.ts';
import { CliPlace } from '../support/cli-place.ts';
import { createItemTable } from '../support/stores/item-table.ts';
import { clientConfig } from '../support/stores/shared-engine.ts';

const FEED = ['--feed-table', 'Feed'];

let place: CliPlace;

beforeAll(async () => {
  place = await CliPlace.open();
});
afterAll(() => place.close());

/** How far each log is fed. */
async function fed(words: readonly string[]): Promise<Record<string, string>> {
  const { items } = (await place.json('state', 'feed', '--map', 'logs', ...words)) as {
    items: { key: string; value: [number, number] }[];
  };
  return Object.fromEntries(items.map(({ key, value: [segment, entry] }) => [key, `${segment}/${entry}`]));
}

/** The newest position of each log but the feed. */
async function newest(words: readonly string[]): Promise<Record<string, string>> {
  const { logs } = (await place.json('list', '--newest', ...words)) as {
    logs: { log: string; newest: Position }[];
  };
  return Object.fromEntries(
    logs.filter(({ log }) => log !== FEED_LOG).map(({ log, newest }) => [log, formatPosition(newest)]),
  );
}

interface Line {
  readonly checkpoint: number;
  readonly log: string;
}

function linesOf(text: string): Line[] {
  return text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)]));
}

/** The lines that a command prints. */
async function printed(...words: readonly string[]): Promise<Line[]> {
  const { code, stdout, stderr } = await runCli([...words, ...place.words, '--json']);
  expect({ words, code, stderr }).toEqual({ words, code: 0, stderr: '' });
  return linesOf(stdout);
}

/** An entry as the command `entries` prints it. */
function withoutPlace({ checkpoint: _, log: __, ...entry }: Line): object {
  return entry;
}

const row = (number: number) => ({ type: 'Set', cells: [[number, 0, `row ${number}`]] }) as const;

describe('a feed on the embedded engine', () => {
  test('a missing table is created by work and by sweep only', async () => {
    const log = await place.log();
    const refused = await place.refusals(
      ['entries', log, ...FEED],
      ['sweep', '--dry-run', ...FEED],
      ['feed', ...FEED],
      ['feed', '--rebuild', ...FEED],
    );
    expect(refused.map(({ code }) => code)).toEqual(refused.map(() => 'RESOURCE_MISSING'));
    expect(await place.tableNames()).not.toContain('Feed');
  });

  test('no command writes the feed into a table of the logs', async () => {
    const tables = ['Entry', 'Segment'].map((name) => ['--feed-table', name]);
    const commands = [['feed', '--rebuild'], ['sweep'], ['work', '--until-idle']];
    const refused = await place.refusals(
      ...tables.flatMap((words) => commands.map((command) => [...command, ...words])),
    );
    expect(refused.map(({ code }) => code)).toEqual(refused.map(() => 'USAGE'));
  });

  test('the sweep feeds logs from before the feed, and work the new entries', async () => {
    const log = await place.log(row(0), row(1));
    await place.json('work', '--until-idle');
    const swept = await place.json('sweep', ...FEED);
    expect(swept).toMatchObject({ spans: 2, failures: [] });
    expect(await fed(FEED)).toEqual(await newest(FEED));
    for (let number = 2; number < 9; number++) await place.edit(log, row(number));
    const worked = await place.json('work', '--until-idle', ...FEED);
    expect(worked).toMatchObject({ spans: expect.any(Number), failures: [] });
    expect(worked.spans).toBeGreaterThan(0);
    expect(await fed(FEED)).toEqual(await newest(FEED));
    expect(await place.json('sweep', ...FEED)).toMatchObject({ spans: 0, failures: [] });
  });

  test('the feed gets snapshots by its own reducer, and a replay proves them', async () => {
    await place.json('snapshot', 'feed', ...FEED);
    const swept = await place.json('sweep', '--log', 'feed', ...FEED);
    expect(swept).toMatchObject({ jobs: [{ kind: 'snapshot', log: FEED_LOG, outcome: 'built' }], failures: [] });
    expect(await place.json('replay', 'feed', ...FEED)).toMatchObject({ equal: true });
    expect(await place.json('verify', 'feed', ...FEED)).toMatchObject({ problems: [] });
    const { snapshots } = (await place.json('snapshots', 'feed', ...FEED)) as { snapshots: object[] };
    expect(snapshots[0]).toMatchObject({ root: { reducer: { name: 'feed', version: 1 } } });
  });

  test('an epoch is archived, expires and stays readable', async () => {
    const before = await fed(FEED);
    await place.json('segment', 'feed', ...FEED);
    await place.json('sweep', '--log', 'feed', ...FEED);
    expect(await place.json('archive', 'feed', '0', ...FEED)).toMatchObject({ segments: [{ outcome: 'archived' }] });
    await place.json('expire', 'feed', '0', '--expire', 'delete', '--grace', '0s', ...FEED);
    expect(await place.json('status', 'feed', ...FEED)).toMatchObject({ logs: [{ segments: 2, expired: 1 }] });
    // Both segments and the first entry of the second epoch are left.
    expect(await place.items('Feed')).toHaveLength(3);
    await place.json('collect', 'feed', ...FEED);
    expect(await place.json('verify', 'feed', ...FEED)).toMatchObject({ archived: 1, problems: [] });
    expect(await place.json('replay', 'feed', ...FEED)).toMatchObject({ equal: true });
    expect(await fed(FEED)).toEqual(before);
  });

  test('the command prints every entry of every log, those of archived epochs too', async () => {
    const { logs } = (await place.json('list')) as { logs: { log: string }[] };
    const lines = await printed('feed', ...FEED);
    for (const { log } of logs) {
      const entries = await printed('entries', log);
      expect(lines.filter((line) => line.log === log).map(withoutPlace)).toEqual(entries);
    }
    const checkpoints = lines.map(({ checkpoint }) => checkpoint);
    expect(checkpoints).toEqual(checkpoints.toSorted((a, b) => a - b));
  });

  test('a group continues after what it had when a signal ended its member', async () => {
    const all = await printed('feed', ...FEED);
    const member = startCli(['feed', '--group', 'search', '--follow', ...FEED, ...place.words, '--json']);
    let text = '';
    await new Promise<void>((resolve) => {
      member.stdout?.on('data', (part) => {
        text += String(part);
        if (text.split('\n').length > all.length) resolve();
      });
    });
    const [busy] = await place.refusals(['feed', '--group', 'search', ...FEED]);
    expect(busy).toMatchObject({ code: 'FEED_GROUP_BUSY' });
    await end(member, 'SIGINT');
    expect(member.exitCode).toBe(130);
    expect(linesOf(text)).toEqual(all);
    const idle = { name: 'search', lagSeconds: 0, leaseUntil: null };
    expect(await place.json('feed', '--groups', ...FEED)).toMatchObject({ groups: [idle] });

    const log = await place.log(row(1));
    await place.json('work', '--until-idle', ...FEED);
    const rest = await printed('feed', '--group', 'search', ...FEED);
    expect(rest.map(withoutPlace)).toEqual(await printed('entries', log));
    expect(await printed('feed', '--group', 'search', ...FEED)).toEqual([]);
  });

  describe('a program that gets the entries of a group', () => {
    /** Writes a module that handles the lines of its standard input. @returns the command for it */
    async function program(name: string, handle: string): Promise<string> {
      const path = join(place.directory, `${name}.mjs`);
      const lines = [
        "import { appendFileSync } from 'node:fs';",
        "import { createInterface } from 'node:readline';",
        `const keep = (line) => appendFileSync('${join(place.directory, name)}.ndjson', line + '\\n');`,
        `for await (const line of createInterface({ input: process.stdin })) { ${handle} }`,
      ];
      await writeFile(path, lines.join('\n'));
      return `'${process.execPath}' '${path}'`;
    }

    const kept = async (name: string): Promise<string[]> => {
      return (await readFile(join(place.directory, `${name}.ndjson`), 'utf8')).split('\n').slice(0, -1);
    };

    test('gets every entry, wherever it dies', async () => {
      const all = (await printed('feed', ...FEED)).map((line) => JSON.stringify(line));
      // It dies before or after it has kept a line.
      const dies = "if (Math.random() < 0.1) process.kill(process.pid, 'SIGKILL');";
      const exec = await program('dying', `${dies} keep(line); ${dies}`);
      const words = ['feed', '--group', 'dying', ...FEED, '--exec', exec, '--batch', '4', ...place.words];
      const codes: (number | null)[] = [];
      while (codes.at(-1) !== 0) {
        const { code, stderr } = await runCli(words);
        if (code !== 0) expect(stderr).toContain('PROGRAM_FAILED');
        codes.push(code);
      }
      const got = await kept('dying');
      expect([...new Set(got)]).toEqual(all);
      expect(got.length).toBeGreaterThanOrEqual(all.length);
    });

    test('gets entries again after it refused them, and none that it took', async () => {
      const all = (await printed('feed', ...FEED)).map((line) => JSON.stringify(line));
      const taking = await program('taking', 'keep(line);');
      const words = ['feed', '--group', 'taking', ...FEED, '--batch', '3'];
      const [refused] = await place.refusals([...words, '--exec', `${taking}; exit 3`]);
      expect(refused).toMatchObject({ code: 'PROGRAM_FAILED', message: expect.stringContaining('exit code 3') });
      const { code } = await runCli([...words, ...place.words, '--exec', taking]);
      expect(code).toBe(0);
      expect(await kept('taking')).toEqual([...all.slice(0, 3), ...all]);
      await runCli([...words, ...place.words, '--exec', taking]);
      expect(await kept('taking')).toHaveLength(3 + all.length);
    });

    test('finishes its batch when a signal ends the command, and the batch is done', async () => {
      const all = (await printed('feed', ...FEED)).map((line) => JSON.stringify(line));
      const slow = await program('slow', 'await new Promise((done) => setTimeout(done, 200)); keep(line);');
      const words = ['feed', '--group', 'slow', ...FEED, '--batch', '3', ...place.words, '--exec'];
      const member = startCli([...words, `echo begun; ${slow}`]);
      await new Promise((resolve) => member.stdout?.once('data', resolve));
      await end(member, 'SIGTERM');
      expect(member.exitCode).toBe(143);
      expect(await kept('slow')).toEqual(all.slice(0, 3));
      const { code } = await runCli([...words, await program('slow', 'keep(line);')]);
      expect(code).toBe(0);
      expect(await kept('slow')).toEqual(all);
    });
  });

  test('a group whose pipe breaks gets the lines that it had not written again', async () => {
    const all = await printed('feed', ...FEED);
    const member = startCli(['feed', '--group', 'pipe', '--json', ...FEED, ...place.words]);
    member.stdout?.destroy();
    await once(member, 'close');
    expect(member.exitCode).toBe(141);
    expect(await printed('feed', '--group', 'pipe', ...FEED)).toEqual(all);
  });

  test('a group whose member was killed is released by hand', async () => {
    const member = startCli(['feed', '--group', 'index', '--follow', ...FEED, ...place.words, '--json']);
    await new Promise((resolve) => member.stdout?.once('data', resolve));
    await end(member, 'SIGKILL');
    const [busy] = await place.refusals(['feed', '--group', 'index', ...FEED]);
    expect(busy).toMatchObject({ code: 'FEED_GROUP_BUSY' });
    const release = ['feed', '--group', 'index', '--release', ...FEED];
    expect(await place.json(...release)).toMatchObject({ group: 'index', released: true });
    expect(await place.json(...release)).toMatchObject({ group: 'index', released: false });
    // The killed member may have taken every entry.
    const log = await place.log(row(0));
    await place.json('work', '--until-idle', ...FEED);
    const taken = await printed('feed', '--group', 'index', ...FEED);
    expect(taken.filter((line) => line.log === log).map(withoutPlace)).toEqual(await printed('entries', log));
  });

  test('a rebuilt feed has the same entries, at later checkpoints', async () => {
    const before = await printed('feed', ...FEED);
    const { from } = await place.json('feed', '--rebuild', ...FEED);
    const after = await printed('feed', '--from', String(from), ...FEED);
    const sorted = (lines: readonly Line[]) => lines.map((line) => JSON.stringify(withoutPlace(line))).toSorted();
    expect(sorted(after)).toEqual(sorted(before));
    expect(after[0]?.checkpoint).toBeGreaterThanOrEqual(before.at(-1)?.checkpoint ?? 0);
  });

  test('a log that went back is named by a sweep, until the feed begins again', async () => {
    const log = await place.log(row(0), row(1), row(2));
    await place.json('work', '--until-idle', ...FEED);
    for (const entry of [2, 3]) await place.deleteItem(log, { segment: 0, entry });
    // Another process, which does not remember the end of the log.
    await runJson(['append', log, '-', ...place.words], '{"op":"set","cells":[[7,0,"again"]]}\n');
    await place.json('work', '--until-idle', ...FEED);
    const late = await runCli(['sweep', ...FEED, ...place.words, '--json']);
    expect(late.code).toBe(1);
    const { failures }: { failures: unknown[] } = JSON.parse(late.stdout);
    expect(failures).toMatchObject([{ log, code: 'FEED_AHEAD', message: expect.stringContaining('ends at 0/2') }]);
    const { from } = await place.json('feed', '--rebuild', ...FEED);
    expect(await place.json('sweep', ...FEED)).toMatchObject({ failures: [] });
    const ofLog = (lines: readonly Line[]) => lines.filter((line) => line.log === log).map(withoutPlace);
    const entries = await printed('entries', log);
    expect(ofLog(await printed('feed', '--from', String(from), ...FEED))).toEqual(entries);
    // A group before the entries that are gone goes on after the restart.
    expect(ofLog(await printed('feed', '--group', 'search', ...FEED)).slice(-entries.length)).toEqual(entries);
  });

  test('the command refuses a wrong place, group or choice', async () => {
    const cases: readonly (readonly [readonly string[], string, string])[] = [
      [['--groups'], 'USAGE', '--feed-table'],
      [[...FEED, '--from', '99999999'], 'CHECKPOINT_INVALID', '99999999 is after the end'],
      [[...FEED, '--from', 'start'], 'USAGE', "--from: 'start'"],
      [[...FEED, '--limit', '0'], 'USAGE', "--limit: '0'"],
      [[...FEED, '--group', ''], 'USAGE', 'name of a group'],
      [[...FEED, '--groups', '--follow'], 'USAGE', '--groups'],
      [[...FEED, '--rebuild', '--from', '0'], 'USAGE', '--rebuild'],
      [[...FEED, '--rebuild', '--group', 'search'], 'USAGE', '--rebuild'],
      [[...FEED, '--exec', 'true'], 'USAGE', '--exec needs --group'],
      [[...FEED, '--group', 'search', '--batch', '0', '--exec', 'true'], 'USAGE', "--batch: '0'"],
      [[...FEED, '--release'], 'USAGE', '--release needs --group'],
      [[...FEED, '--release', '--group', 'search', '--follow'], 'USAGE', '--release'],
      [[...FEED, '--release', '--group', 'serach'], 'USAGE', "no consumer group 'serach'"],
      [[...FEED, '--from', String(2 ** 52 - 1)], 'CHECKPOINT_INVALID', 'is after the end'],
    ];
    const refusals = await place.refusals(...cases.map(([words]) => ['feed', ...words]));
    for (const [i, [words, code, about]] of cases.entries()) {
      const message: unknown = expect.stringContaining(about);
      expect(refusals[i], words.join(' ')).toMatchObject({ code, message });
    }
  });

  test('without the table of a feed, feed is not a name', async () => {
    const [refused] = await place.refusals(['entries', 'feed']);
    expect(refused).toMatchObject({ code: 'LOG_ID_INVALID' });
  });
});

test('items of a mapped log are fed by their positions, also in logs that nobody registered', async () => {
  const file = join(place.directory, 'mapping.json');
  await writeFile(
    file,
    JSON.stringify({
      partitionKey: { name: 'pk', type: 'S', pattern: 'order#{id}' },
      sortKey: { name: 'sk', type: 'N', first: 0 },
      type: 'type',
      version: { constant: 1 },
      body: 'payload',
    }),
  );
  await writeFile(join(place.directory, 'idle.mjs'), "export default { name: 'idle', version: 1, fold() {} };");
  const db = new DynamoDBClient(clientConfig(place.endpoint));
  const put = async (id: string, numbers: number): Promise<void> => {
    for (let n = 0; n < numbers; n++) {
      const item = { pk: { S: `order#${id}` }, sk: { N: String(n) }, type: { S: 'Paid' }, payload: { S: 'one' } };
      await db.send(new PutItemCommand({ TableName: 'orders', Item: item }));
    }
  };
  await createItemTable(db, 'orders', { stream: 'NEW_IMAGE' });
  const words = ['--entry-table', 'orders', '--segment-table', 'OrderSegment', '--mapping', file];
  words.push('--reducer', join(place.directory, 'idle.mjs'), '--feed-table', 'OrderFeed');
  const sizes = ['--snapshot-every-entries', '4', '--segment-every-entries', '8'];
  await put('1', 21);
  await put('2', 3);
  // The feed names the logs of this table only.
  const worked = await place.json('work', '--until-idle', ...sizes, ...words);
  expect(worked).toMatchObject({ spans: 2, failures: [] });
  expect(await fed(words)).toEqual({ 1: '2/6', 2: '0/3' });
  expect(await fed(words)).toEqual(await newest(words));
  expect(await place.json('sweep', ...sizes, ...words)).toMatchObject({ spans: 0, failures: [] });
  const ofOne = (await printed('feed', ...words)).filter(({ log }) => log === '1');
  expect(ofOne.map(withoutPlace)).toEqual(await printed('entries', '1', ...words));
  db.destroy();
});
