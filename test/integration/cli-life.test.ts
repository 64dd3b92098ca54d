import { CreateTableCommand, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { CreateBucketCommand, PutObjectCommand } from '@aws-sdk/client-s3';
import pLimit from 'p-limit';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { decodeSeekTable, encodeSeekTable, seekTableBytesOf } from '../../src/archive/seek-table.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { entryTableInput } from '../../src/local/tables.ts';
import { chunkPrefix } from '../../src/store/keys.ts';
import { type Answer, runCli } from '../support/cli.ts';
import { CliPlace, type Damage, expectNoTrace, itemTexts, refusalOf } from '../support/cli-place.ts';
import { Random } from '../support/models/random.ts';
import { startLocalAws } from '../support/stores/fauxqs.ts';
import { clientConfig } from '../support/stores/shared-engine.ts';

const UNKNOWN = '0192f7a0-5b1c-7d3e-8f10-2a3b4c5d6e7f';
const ADVICE: unknown = expect.any(String);
const NUMBER: unknown = expect.any(Number);
const HASH: unknown = expect.stringMatching(/^[0-9a-f]{64}$/);
const NOTHING = { objects: 0, bytes: 0 };
/** All closed segments are due, without a grace period. */
const NOW = ['--keep-segments', '1', '--keep-days', '0', '--grace', '0s'];
const EDITS = 6;
/**
 * Entries of a closed segment: its first Snapshot entry, its edits, a second Snapshot entry and the
 * End Segment entry.
 */
const ENTRIES = 1 + EDITS + 1 + 1;

let place: CliPlace;

beforeAll(async () => {
  place = await CliPlace.open();
});
afterAll(() => place.close());

/** New logs with the same edits, each with some covered segments and an open one. */
async function logsOf(count: number, closed: number): Promise<[LogId, ...LogId[]]> {
  const random = new Random(9);
  const [first, ...others] = await Promise.all(Array.from({ length: count }, () => place.client.createLog()));
  if (first === undefined) throw new Error('the count of logs is 0');
  const logs: [LogId, ...LogId[]] = [first, ...others];
  for (let segment = 0; segment < closed; segment++) {
    for (let edit = 0; edit < EDITS; edit++) {
      const cells = Array.from({ length: 100 }, (_, i) => [100 * segment + i, edit, random.text(20)] as const);
      for (const log of logs) await place.edit(log, { type: 'Set', cells });
    }
    for (const log of logs) await place.client.addSnapshot(log);
    await place.json('work', '--until-idle');
    for (const log of logs) await place.client.startSegment(log);
  }
  await place.json('work', '--until-idle');
  return logs;
}

/** Runs a command without `--json`. */
async function say(...words: readonly string[]): Promise<Answer> {
  const answer = await runCli([...words, ...place.words]);
  expectNoTrace(answer);
  return answer;
}

/** Runs a command that must print one document on standard output and nothing else. */
async function only(...words: readonly string[]): Promise<Record<string, unknown>> {
  const { code, stdout, stderr } = await runCli([...words, '--json', ...place.words]);
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  const document = JSON.parse(stdout);
  expect(stdout).toBe(`${JSON.stringify(document)}\n`);
  return document;
}

/** Runs a command with --dry-run, which must change nothing. */
async function dry(...words: readonly string[]): Promise<Record<string, unknown>> {
  const before = await place.contents();
  const planned = await only(...words, '--dry-run');
  expect(planned.dryRun).toBe(true);
  expect(await place.contents()).toEqual(before);
  return planned;
}

async function keysOf(log: LogId): Promise<string[]> {
  return (await Array.fromAsync(place.blobs.list(`logs/${log}/`))).map(({ key }) => key);
}

/** Numbers of a log's entries in the table, by segment. */
async function inTable(log: LogId): Promise<number[][]> {
  const found: number[][] = [];
  for await (const { segment } of place.tables.segments(log)) {
    const numbers: number[] = [];
    const range = { segment, from: 0, to: 1_000 };
    for await (const page of place.tables.items(log, range, { consistent: true })) {
      numbers.push(...page.map(({ N }) => Number(N?.N)));
    }
    found.push(numbers);
  }
  return found;
}

const ALL = Array.from({ length: ENTRIES }, (_, entry) => entry);

test('every command explains its options', async () => {
  const policy = [
    '--keep-segments',
    '--keep-days',
    '--archive',
    '--no-archive',
    '--expire',
    '--grace',
    '--keep-snapshots',
  ];
  const own: Record<string, readonly string[]> = {
    flush: [],
    archive: [...policy, '--dry-run'],
    expire: [...policy, '--undo', '--capacity-share', '--dry-run'],
    restore: ['--hold', '--to-entry-table', '--to-segment-table', '--capacity-share', '--dry-run'],
    collect: [...policy, '--dry-run'],
    sweep: [...policy, '--log', '--since', '--rebuild', '--collect', '--capacity-share', '--dry-run'],
    policy: [...policy, '--clear'],
    work: policy,
  };
  const common = ['--local', '--entry-table', '--segment-table', '--bucket', '--json', '--help'];
  const limit = pLimit(3);
  const check = async ([name, options]: [string, readonly string[]]) => {
    const { code, stdout, stderr } = await runCli([name, '--help']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    for (const option of [...common, ...options]) expect(stdout, name).toContain(option);
    if (name === 'policy') expect(stdout).toContain("This command knows only a log's own settings");
    else if (options.includes('--grace')) expect(stdout).toContain('By default: keep 2 segments and 30 days');
  };
  await Promise.all(Object.entries(own).map((each) => limit(check, each)));
  const { stdout } = await runCli(['--help']);
  for (const name of Object.keys(own)) expect(stdout).toMatch(new RegExp(`^  ${name}[ |]`, 'm'));
});

describe('the commands on segments, with --json', () => {
  let log: LogId;
  let before: readonly string[];

  beforeAll(async () => {
    [log] = await logsOf(1, 2);
    before = itemTexts(await place.items());
  });

  test('archive writes what --dry-run printed', async () => {
    expect(await only('archive', log)).toEqual({ log, dryRun: false, segments: [] });
    const sizes = { entries: ENTRIES, bytes: NUMBER, stored: NUMBER, frames: 1, hash: HASH };
    const planned = await dry('archive', log, ...NOW);
    expect(planned).toEqual({
      log,
      dryRun: true,
      segments: [0, 1].map((segment) => ({ segment, outcome: 'would archive', ...sizes })),
    });
    const done = await only('archive', log, ...NOW);
    const keys = await place.keys(log, 'archives');
    const would = planned.segments as object[];
    expect(done).toEqual({
      log,
      dryRun: false,
      segments: would.map((each, i) => ({ ...each, outcome: 'archived', key: keys[i] })),
    });
    expect(itemTexts(await place.items())).toEqual(before);
    const present = { segment: 1, outcome: 'present' };
    expect(await dry('archive', log, '1')).toEqual({ log, dryRun: true, segments: [present] });
    const again = await only('archive', log, '1');
    expect(again).toEqual({ log, dryRun: false, segments: [{ ...present, key: keys[1] }] });
  });

  test('expire stamps what --dry-run printed, and --undo removes the stamps', async () => {
    const planned = await dry('expire', log, '--keep-segments', '1', '--keep-days', '0');
    const segments = [0, 1].map((segment) => ({ segment, outcome: 'expired', entries: ENTRIES, expires: NUMBER }));
    expect(planned).toEqual({ log, dryRun: true, segments });
    const done = await only('expire', log, '--keep-segments', '1', '--keep-days', '0');
    expect(done).toEqual({ log, dryRun: false, segments });
    const expires = (done.segments as { expires: number }[]).map((each) => String(each.expires));
    const stamps = (await place.items()).map(({ X }) => X?.N).filter((stamp) => stamp !== undefined);
    expect(stamps.sort()).toEqual(expires.flatMap((each) => ALL.map(() => each)).sort());

    const present = { segment: 0, outcome: 'present' };
    expect(await only('expire', log, '0')).toEqual({ log, dryRun: false, segments: [present] });
    for (const segment of [0, 1]) {
      const taken = { log, segment, entries: ENTRIES };
      expect(await dry('expire', log, String(segment), '--undo')).toEqual({ ...taken, dryRun: true });
      expect(await only('expire', log, String(segment), '--undo')).toEqual({ ...taken, dryRun: false });
      expect(await only('expire', log, String(segment), '--undo')).toEqual({ ...taken, dryRun: false, entries: 0 });
    }
    expect(itemTexts(await place.items())).toEqual(before);
  });

  test('expire waits for the grace period before it deletes anything', async () => {
    const waiting = { segment: 0, outcome: 'waiting', expires: NUMBER };
    const words = ['expire', log, '0', '--expire', 'delete'];
    expect(await dry(...words)).toEqual({ log, dryRun: true, segments: [waiting] });
    const done = await only(...words);
    expect(done).toEqual({ log, dryRun: false, segments: [waiting] });
    expect(await only(...words, '--grace', '0s')).toEqual(done);
    expect(itemTexts(await place.items())).toEqual(before);
    await only('expire', log, '0', '--undo');
  });

  test('expire deletes what --dry-run printed', async () => {
    const words = ['expire', log, ...NOW, '--expire', 'delete'];
    const segments = [0, 1].map((segment) => ({ segment, outcome: 'expired', entries: ENTRIES, expires: NUMBER }));
    expect(await dry(...words)).toEqual({ log, dryRun: true, segments });
    expect(await only(...words)).toEqual({ log, dryRun: false, segments });
    expect(await inTable(log)).toEqual([[], [], [0]]);
    expect(await only(...words)).toEqual({ log, dryRun: false, segments: [] });
  });

  test('restore puts back what --dry-run printed, into other tables and in place', async () => {
    const into = ['--to-entry-table', 'Other', '--to-segment-table', 'OtherSegment'];
    for (const [words, creates, created] of [
      [['restore', log, '0', ...into], { created: ['Other', 'OtherSegment'] }, { created: [] }],
      [['restore', log, '0'], {}, {}],
      [['restore', log, '1'], {}, {}],
    ] as const) {
      const segment = Number(words[2]);
      const put = { log, segment, entries: ENTRIES, restored: ENTRIES, unexpired: 0 };
      const tables = await place.tableNames();
      expect(await dry(...words)).toEqual({ ...put, dryRun: true, ...creates });
      expect(await place.tableNames()).toEqual(tables);
      expect(await only(...words)).toEqual({ ...put, dryRun: false, ...creates });
      expect(await dry(...words)).toEqual({ ...put, dryRun: true, restored: 0, ...created });
      expect(await only(...words)).toEqual({ ...put, dryRun: false, restored: 0, ...created });
    }
    // The Entry table exists, and only the Segment table would be created.
    const third = ['restore', log, '0', '--to-entry-table', 'Other', '--to-segment-table', 'ThirdSegment'];
    expect(await dry(...third)).toMatchObject({ restored: 0, created: ['ThirdSegment'] });
    expect(itemTexts(await place.items())).toEqual(before);
    expect(itemTexts(await place.items('Other'))).toEqual(before.slice(0, ENTRIES));
  });

  test('collect removes what --dry-run printed', async () => {
    const stray = `${chunkPrefix(log)}${'0'.repeat(64)}`;
    const foreign = `logs/${log}/notes.txt`;
    for (const key of [stray, foreign]) await place.blobs.put(key, Uint8Array.of(1, 2, 3));
    const keys = await keysOf(log);
    const young = await dry('collect', log);
    const kept = { objects: keys.length - 1, bytes: NUMBER };
    const nothing = { removed: NOTHING, condemned: NOTHING, aborted: 0, foreign: [foreign] };
    expect(young).toEqual({
      log,
      dryRun: true,
      outcome: 'collected',
      ...nothing,
      kept,
      keys: { removed: [], condemned: [] },
    });

    const planned = await dry('collect', log, '--grace', '0s');
    const { removed } = planned.keys as { removed: string[] };
    expect(removed).toContain(stray);
    expect(planned).toMatchObject({ outcome: 'collected', condemned: NOTHING, foreign: [foreign] });
    expect(planned.removed).toEqual({ objects: removed.length, bytes: NUMBER });
    const done = await only('collect', log, '--grace', '0s');
    const { keys: _, ...rest } = planned;
    // The collection has written an object with its progress.
    expect(done).toEqual({ ...rest, dryRun: false, kept: { objects: keys.length - removed.length, bytes: NUMBER } });
    const left = keys.filter((key) => !removed.includes(key));
    expect(await keysOf(log)).toEqual([...left, `logs/${log}/collected.json`].sort());
    await place.blobs.delete([foreign]);
    expect(await dry('collect', log, '--grace', '0s')).toMatchObject({ removed: NOTHING, foreign: [] });
    expect(await only('verify', log)).toMatchObject({ archived: 2, problems: [] });
    expect(await only('replay', log)).toMatchObject({ equal: true });
  });

  test("policy shows and sets a log's own policy", async () => {
    expect(await only('policy')).toEqual({ policies: [] });
    expect(await only('policy', log)).toEqual({ policies: [{ log, own: {} }] });
    const set = await only('policy', log, '--keep-days', '0.5', '--expire', 'ttl', '--grace', '2h');
    const own = { keepDays: 0.5, expire: 'ttl', graceSeconds: 7_200 };
    expect(set).toEqual({ policies: [{ log, own }] });
    const more = await only('policy', log, '--keep-segments', '3', '--keep-snapshots', 'last');
    const all = { ...own, keepSegments: 3, keepSnapshots: 'last' };
    expect(more).toEqual({ policies: [{ log, own: all }] });
    expect(await only('policy')).toEqual(more);
    expect(await only('policy', log, '--clear')).toEqual({ policies: [{ log, own: {} }] });
    expect(await only('policy')).toEqual({ policies: [] });
  });
});

describe('sweep', () => {
  let logs: LogId[];
  const words = ['sweep', ...NOW, '--expire', 'delete'];

  beforeAll(async () => {
    logs = await logsOf(2, 2);
  });

  test('does what --dry-run printed, and then the jobs that become due', async () => {
    const [log = '', other = ''] = logs;
    const planned = await dry(...words, '--log', log);
    expect(planned).toEqual({
      logs: 1,
      dryRun: true,
      jobs: [0, 1].flatMap((segment) => [
        { kind: 'archive', log, segment, why: 'the retention policy archives the segment' },
        { kind: 'expire', log, segment, why: 'the retention policy expires the segment after its archive' },
      ]),
      skipped: [],
      failures: [],
    });
    const collecting = (await dry(...words, '--log', log, '--collect')).jobs as { kind: string }[];
    expect(collecting.map(({ kind }) => kind)).toEqual(['archive', 'expire', 'archive', 'expire', 'collect']);
    const keeping = (await dry('sweep', ...NOW, '--log', log)).jobs as { kind: string }[];
    expect(keeping.map(({ kind }) => kind)).toEqual(['archive', 'archive']);
    const done = await only(...words, '--log', log);
    const collected = { kind: 'collect', log, outcome: 'collected' };
    const archived = [0, 1].map((segment) => ({ kind: 'archive', log, segment, outcome: 'archived' }));
    const expired = [0, 1].map((segment) => ({ kind: 'expire', log, segment, outcome: 'expired' }));
    // One collection for all segments of a log: each one reads the whole log.
    expect(done).toEqual({
      logs: 1,
      dryRun: false,
      jobs: [...archived, collected, ...expired],
      skipped: [],
      failures: [],
    });
    expect(await only(...words, '--log', log)).toEqual({ logs: 1, dryRun: false, jobs: [], skipped: [], failures: [] });
    const rest = (await dry(...words)).jobs as { log: string }[];
    expect(rest.filter((job) => job.log === log)).toEqual([]);
    expect(rest.filter((job) => job.log === other)).toHaveLength(4);
  });

  test('finds the same jobs with a rate, which checks the logs one by one', async () => {
    const all = await dry(...words);
    const { jobs, ...one } = await dry(...words, '--rate', '100000');
    expect(one).toEqual({ logs: all.logs, dryRun: true, skipped: [], failures: [] });
    expect(new Set(jobs as unknown[])).toEqual(new Set(all.jobs as unknown[]));
  });

  test('checks every log although an item of the Segment table is not a segment, and reports the item', async () => {
    const all = await dry(...words);
    const remove = await place.putStranger();
    const answer = await runCli([...words, '--rate', '100000', '--dry-run', '--json', ...place.words]);
    await remove();
    expect(answer.code).toBe(1);
    const { logs: looked, failures } = JSON.parse(answer.stdout);
    expect(looked).toBe(all.logs);
    expect(failures).toEqual([{ log: null, code: 'ITEM_INVALID', message: expect.any(String) }]);
  });

  test('rebuilds every snapshot, even from entries that have left the table', async () => {
    const [log = ''] = logs;
    const rebuild = ['sweep', '--rebuild', '--log', log];
    const job = { kind: 'rebuild', log };
    expect(await dry(...rebuild)).toMatchObject({ jobs: [{ ...job, why: 'every snapshot must be rebuilt' }] });
    const done = await only(...rebuild);
    expect(done).toEqual({ logs: 1, dryRun: false, jobs: [{ ...job, outcome: 'rebuilt' }], skipped: [], failures: [] });
    expect(await only('verify', log)).toMatchObject({ problems: [] });
  });

  test('checks every log although one has an invalid policy, and names that log', async () => {
    const [log = '', other = ''] = logs;
    await only('policy', log, '--keep-days', '0');
    // The deployment's policy alone is valid.
    const answer = await runCli(['sweep', '--no-archive', '--expire', 'delete', '--json', ...place.words]);
    expect(answer.code).toBe(1);
    const { failures, jobs, logs: looked } = JSON.parse(answer.stdout);
    expect(failures).toEqual([{ log, code: 'POLICY_INVALID', message: expect.stringContaining(log) }]);
    expect(jobs).toEqual([]);
    expect(looked).toBeGreaterThanOrEqual(2);
    expect((await inTable(other as LogId)).map((numbers) => numbers.length)).toEqual([ENTRIES, ENTRIES, 1]);
    await only('policy', log, '--clear');
  });
});

describe('the output for people', () => {
  test('has the answer on standard output, and warnings on standard error', async () => {
    const [log] = await logsOf(1, 2);
    const short = /^With a grace period under 1h, nothing else may read the log or work on it/;

    expect((await say('archive', log)).stdout).toMatch(/^No segment is due\. /);
    const planned = await say('archive', log, ...NOW, '--dry-run');
    expect(planned.stdout).toMatch(
      /^would do: archive \S+ segment 0: 9 entries, .+ as .+\nwould do: archive \S+ segment 1: /,
    );
    const archived = await say('archive', log, ...NOW);
    expect(archived.stdout).toBe(planned.stdout.replaceAll('would do: ', ''));
    expect((await say('archive', log, '0')).stdout).toBe(`archive ${log} segment 0: already archived\n`);

    const day = /^expire \S+ segment 0: 9 entries leave the table from \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ on\n$/;
    expect((await say('expire', log, '0')).stdout).toMatch(day);
    const status = await say('status', log);
    expect(status.stdout).toMatch(/│ 0 +│ 9 +│ 0\/7 +│ yes +│ from \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ │/);
    expect(status.stdout).toMatch(/│ 1 +│ 9 +│ 1\/7 +│ yes +│ - +│/);
    expect(status.stdout).toMatch(/│ 2 +│ 1 +│ 2\/0 +│ - +│ - +│/);
    const undone = await say('expire', log, '0', '--undo');
    expect(undone.stdout).toBe('segment 0 stays in the table: 9 entries lose their expiry\n');
    expect((await say('expire', log, '0', '--undo')).stdout).toBe('segment 0 does not expire\n');
    const later = await say('expire', log, '1', '--expire', 'delete');
    expect(later.stdout).toMatch(
      /^expire \S+ segment 1: the entries may be deleted after .+Z\. Run the command again then/,
    );
    const gone = await say('expire', log, '0', ...NOW, '--expire', 'delete');
    expect(gone.stdout).toMatch(/^expire \S+ segment 0: 9 entries leave the table from .+Z on\n$/);
    expect(gone.stderr).toMatch(short);
    expect((await say('expire', log, '0')).stdout).toBe(`expire ${log} segment 0: already expired\n`);

    const would = await say('restore', log, '0', '--dry-run');
    expect(would.stdout).toBe(
      'segment 0 of 9 entries: 9 would be put back, 0 no longer expire, 0 were in the table already\n',
    );
    const into = ['--to-entry-table', 'Aside', '--to-segment-table', 'AsideSegment'];
    const aside = await say('restore', log, '0', '--dry-run', ...into);
    expect(aside.stdout).toMatch(
      /: 9 would be put back, .* 0 were in the table already, Aside and AsideSegment would be created\n$/,
    );
    const back = await say('restore', log, '0');
    expect(back.stdout).toBe(
      'segment 0 of 9 entries: 9 are put back, 0 no longer expire, 0 were in the table already\n',
    );

    const condemned = await say('collect', log, '--grace', '0s', '--dry-run');
    const lines = condemned.stdout.trimEnd().split('\n');
    const listed = lines.filter((line) => line.startsWith('  would remove logs/'));
    expect(lines[0]).toMatch(new RegExp(`^${listed.length} objects? would be removed, `));
    expect(listed.length).toBeGreaterThan(0);
    const collected = await say('collect', log, '--grace', '0s');
    expect(collected.stdout).toMatch(new RegExp(`^${listed.length} objects? removed, `));
    expect(collected.stderr).toMatch(short);

    const swept = await say('sweep', '--log', log, '--dry-run', ...NOW);
    expect(swept.stdout).toMatch(/1 log checked, 0 jobs to do, 0 failed\n$/);
    const policy = await say('policy', log, '--keep-days', '7');
    expect(policy.stdout).toBe(`${log}: own settings: keepDays 7; other settings come from the deployment\n`);
    const more = await say('policy', log, '--no-archive', '--grace', '2h');
    expect(more.stdout).toBe(
      `${log}: own settings: keepDays 7, archive false, graceSeconds 7200; other settings come from the deployment\n`,
    );
    expect((await say('policy', log, '--clear')).stdout).toBe(
      `${log}: no settings; the policy of the deployment applies\n`,
    );
    expect((await say('policy')).stdout).toBe('No log has its own policy.\n');
  });
});

describe('a refused command', () => {
  let log: LogId;

  beforeAll(async () => {
    [log] = await logsOf(1, 1);
  });

  test('names the log or segment that does not exist', async () => {
    const [none, ...refusals] = await place.refusals(
      ['archive', UNKNOWN, '0'],
      ['archive', log, '7'],
      ['expire', log, '7'],
      ['expire', log, '7', '--undo'],
      ['restore', log, '7'],
    );
    expect(none).toMatchObject({ code: 'SEGMENT_NOT_FOUND', log: UNKNOWN, segment: 0, advice: ADVICE });
    for (const refusal of refusals) {
      expect(refusal).toMatchObject({ code: 'SEGMENT_NOT_FOUND', log, segment: 7, advice: ADVICE });
    }
    const unknown = await place.refusals(
      ['archive', UNKNOWN],
      ['expire', UNKNOWN],
      ['collect', UNKNOWN],
      ['collect', UNKNOWN, '--dry-run'],
      ['sweep', '--log', UNKNOWN],
      ['policy', UNKNOWN],
      ['policy', UNKNOWN, '--keep-days', '1'],
    );
    for (const refusal of unknown)
      expect(refusal).toMatchObject({ code: 'LOG_NOT_FOUND', log: UNKNOWN, advice: ADVICE });
  });

  test('explains that a segment is open or not covered yet', async () => {
    const [pending] = await logsOf(1, 0);
    await place.edit(pending, { type: 'Set', cells: [[0, 0, 'x']] });
    await place.client.addSnapshot(pending);
    await place.json('work', '--until-idle');
    await place.client.startSegment(pending);
    const commands = [
      ['archive'],
      ['archive', '--dry-run'],
      ['expire'],
      ['expire', '--dry-run', '--expire', 'delete', '--grace', '0s'],
    ];
    const on = (of: LogId, segment: string) => commands.map(([name = '', ...rest]) => [name, of, segment, ...rest]);
    const [open, uncovered] = [await place.refusals(...on(log, '1')), await place.refusals(...on(pending, '0'))];
    for (const refusal of open) {
      expect(refusal).toMatchObject({ code: 'SEGMENT_STATE', log, segment: 1, advice: ADVICE });
      expect(refusal.message).toContain('open');
    }
    for (const refusal of uncovered) {
      expect(refusal).toMatchObject({ code: 'SEGMENT_STATE', log: pending, segment: 0, advice: ADVICE });
      expect(refusal.message).toContain('1/0');
    }
    expect(await only('sweep', '--log', pending, '--dry-run', ...NOW)).toMatchObject({
      jobs: [{ kind: 'snapshot', position: { segment: 1, entry: 0 } }],
    });
  });

  test('explains that a segment without an archive can be neither restored nor, by default, expired', async () => {
    const refusals = await place.refusals(
      ['restore', log, '0'],
      ['restore', log, '0', '--dry-run'],
      ['expire', log, '0'],
      ['expire', log, '0', '--dry-run'],
    );
    for (const refusal of refusals) {
      expect(refusal).toMatchObject({ code: 'SEGMENT_STATE', log, segment: 0, advice: ADVICE });
      expect(refusal.message).toContain('no archive');
    }
  });

  test('names the log whose policy contradicts itself, with exit code 2', async () => {
    const against = ['--no-archive', '--expire', 'delete', '--keep-days', '0'];
    const ofLog = [
      ['policy', log, ...against],
      ['expire', log, ...against],
      ['expire', log, '0', ...against],
      // The expire command expires by TTL by default.
      ['expire', log, '--no-archive', '--keep-days', '0'],
      ['collect', log, ...against],
    ];
    const everywhere = [
      ['sweep', ...against],
      ['work', '--until-idle', ...against],
    ];
    const refusals = await place.refusals(...ofLog, ...everywhere);
    for (const [i, refusal] of refusals.entries()) {
      expect(refusal).toMatchObject({ code: 'POLICY_INVALID', log: i < ofLog.length ? log : null, advice: ADVICE });
      expect(refusal.message).toMatch(/without an archive/);
    }
    expect((await say('policy', log, ...against)).code).toBe(2);
    expect(await only('policy')).toEqual({ policies: [] });
  });

  test('names times and numbers beyond their limits', async () => {
    const grace = ['--grace', '999999999d'];
    const refusals = await place.refusals(
      ['expire', log, '0', ...grace],
      ['expire', log, '0', '--no-archive', ...grace],
      ['collect', log, ...grace],
      ['policy', log, ...grace],
      ['policy', log, '--keep-segments', '1000001'],
      ['sweep', '--keep-days', '36601'],
    );
    for (const refusal of refusals) expect(refusal).toMatchObject({ code: 'POLICY_INVALID', advice: ADVICE });
    const [held] = await place.refusals(['restore', log, '0', '--hold', '999999999d']);
    expect(held).toMatchObject({ code: 'USAGE', message: expect.stringContaining("'999999999d'"), advice: ADVICE });
  });

  test('explains that the table has no TTL', async () => {
    const aws = await startLocalAws();
    const db = new DynamoDBClient(clientConfig(place.endpoint));
    try {
      await aws.s3.send(new CreateBucketCommand({ Bucket: 'sheets' }));
      await db.send(new CreateTableCommand(entryTableInput('Lasting')));
      const environment = {
        AWS_REGION: 'us-east-1',
        AWS_ACCESS_KEY_ID: 'test',
        AWS_SECRET_ACCESS_KEY: 'test',
        AWS_ENDPOINT_URL_S3: aws.server.address,
        DYNAMODB_ENDPOINT: place.endpoint,
      };
      const there = ['--entry-table', 'Lasting', '--segment-table', 'Segment', '--bucket', 'sheets'];
      const commands = [
        ['expire', log, '0', ...there],
        ['sweep', '--expire', 'ttl', ...there],
      ];
      const refusals = await place.refused(
        [...commands, ...commands.map((words) => [...words, '--dry-run'])],
        environment,
      );
      expect(refusals).toHaveLength(4);
      for (const refusal of refusals) {
        expect(refusal).toMatchObject({ code: 'USAGE', advice: expect.stringContaining('--expire delete') });
        expect(refusal.message).toContain('the TTL of the Entry table is off');
      }
      // The policy of one log gets the same refusal.
      await aws.s3.send(
        new PutObjectCommand({
          Bucket: 'sheets',
          Key: 'policies.json',
          Body: JSON.stringify({ format: 1, logs: { [log]: { expire: 'ttl' } } }),
        }),
      );
      const ofOne = await place.refused(
        [
          ['sweep', ...there],
          ['sweep', '--log', log, '--dry-run', ...there],
          ['policy', log, '--keep-days', '1', ...there],
        ],
        environment,
      );
      for (const refusal of ofOne) {
        expect(refusal).toMatchObject({ code: 'USAGE', log, advice: expect.stringContaining('--expire delete') });
      }
      const cleared = await runCli(['policy', log, '--expire', 'delete', '--json', ...there], { environment });
      expect(JSON.parse(cleared.stdout)).toMatchObject({ policies: [{ log, own: { expire: 'delete' } }] });
    } finally {
      db.destroy();
      await aws.stop();
    }
  });

  test('names the object with the policies if it cannot be read', async () => {
    const documents = [
      '{"format":1,"logs":',
      '{"format":1,"logs":{"":{}}}',
      `{"format":1,"logs":{"${log}":{"keep":1}}}`,
    ];
    for (const document of documents) {
      await place.blobs.put('policies.json', Buffer.from(document));
      const refusals = await place.refusals(['policy'], ['expire', log], ['archive', log], ['sweep']);
      for (const refusal of refusals) {
        expect(refusal).toMatchObject({ code: 'OBJECT_INVALID', advice: ADVICE });
        expect(refusal.message).toContain('policies.json');
      }
    }
    await place.blobs.delete(['policies.json']);
  });

  test('names each invalid word', async () => {
    const cases: [words: string, code: string, about: string][] = [
      ['archive', 'USAGE', "'log'"],
      [`archive ${log} x`, 'USAGE', "'x'"],
      [`archive ${log} 4294967296`, 'USAGE', "'4294967296'"],
      [`archive ${log} --keep-segments 0`, 'USAGE', "--keep-segments: '0'"],
      [`archive ${log} --keep-days -1`, 'USAGE', "--keep-days: '-1'"],
      [`expire ${log} --expire soon`, 'USAGE', 'soon'],
      [`expire ${log} --grace tomorrow`, 'USAGE', "--grace: 'tomorrow'"],
      [`expire ${log} --capacity-share 2`, 'USAGE', "--capacity-share: '2'"],
      [`expire ${log} --capacity-share 0`, 'USAGE', "--capacity-share: '0'"],
      [`expire ${log} --undo`, 'USAGE', 'segment'],
      [`expire ${log} 0 --undo --expire delete`, 'USAGE', '--undo'],
      [`expire ${log} 0 --undo --grace 2h`, 'USAGE', '--undo'],
      [`restore ${log} 0 --hold 1y`, 'USAGE', "--hold: '1y'"],
      [`restore ${log} 0 --to-entry-table Other`, 'USAGE', '--to-segment-table'],
      ['collect 0192f7a0-5b1c-0000-0000-2a3b4c5d6e7f', 'LOG_ID_INVALID', '0192f7a0-5b1c-0000-0000-2a3b4c5d6e7f'],
      [`collect ${log} --keep-snapshots some`, 'USAGE', 'some'],
      ['sweep --since 2026-02-31', 'USAGE', "--since: '2026-02-31' is not a date"],
      ['sweep --since 2026-02-28T12:00', 'USAGE', '--since'],
      ['sweep --since yesterday', 'USAGE', "--since: 'yesterday'"],
      ['sweep --rebuild --since 2026-01-01', 'USAGE', '--since'],
      ['policy --keep-days 1', 'USAGE', 'needs a log'],
      [`policy ${log} --clear --keep-days 1`, 'USAGE', '--clear'],
    ];
    const refusals = await place.refusals(...cases.map(([words]) => words.split(' ')));
    for (const [i, [words, code, about]] of cases.entries()) {
      expect(refusals[i], words).toMatchObject({ code, message: expect.stringContaining(about) });
    }
  });
});

describe('damaged archives', () => {
  let log: LogId;
  let other: LogId;
  /**
   * Archives of the log's expired segment, of its second segment, and of another log's first
   * segment.
   */
  let keys: { readonly expired: string; readonly present: string; readonly foreign: string };
  let archives: Map<string, Buffer>;
  let exported: unknown;
  let sound: unknown;

  beforeAll(async () => {
    [log, other = log] = await logsOf(2, 2);
    await place.json('archive', log, ...NOW);
    await place.json('archive', other, ...NOW);
    await place.json('expire', log, '0', ...NOW, '--expire', 'delete');
    const [expired = '', present = ''] = await place.keys(log, 'archives');
    const [foreign = ''] = await place.keys(other, 'archives');
    keys = { expired, present, foreign };
    archives = new Map();
    for (const key of [expired, present, foreign]) archives.set(key, await place.read(key));
    exported = await place.json('export', log, '--at', '0/3');
    sound = await place.json('verify', log);
    expect(sound).toMatchObject({ archived: 2, problems: [] });
  });

  /** Damages an archive by changing the sizes of the first frame in its seek table. */
  const lying = (change: { readonly stored: number; readonly content: number }): Damage => {
    return (stored) => {
      const at = stored.length - (seekTableBytesOf(stored) ?? 0);
      const [first, ...rest] = decodeSeekTable(stored.subarray(at)) ?? [];
      if (first === undefined) throw new Error('the archive has no seek table');
      const lie = { stored: first.stored + change.stored, content: first.content + change.content };
      return Buffer.concat([stored.subarray(0, at), encodeSeekTable([lie, ...rest])]);
    };
  };
  const flipped = (at: number): Damage => {
    return (stored) =>
      stored.fill((stored.at(at) ?? 0) ^ 1, at < 0 ? stored.length + at : at, (at < 0 ? stored.length + at : at) + 1);
  };

  test.each<[name: string, problem: string, damage: Damage]>([
    ['truncated', 'CORRUPT', (stored) => stored.subarray(0, -1)],
    ['truncated to a few bytes', 'CORRUPT', (stored) => stored.subarray(0, 5)],
    ['truncated to nothing', 'CORRUPT', () => Buffer.alloc(0)],
    [
      'without its seek table',
      'CORRUPT',
      (stored) => stored.subarray(0, stored.length - (seekTableBytesOf(stored) ?? 0)),
    ],
    ['altered in a frame', 'CORRUPT', flipped(100)],
    ['altered in the index', 'CORRUPT', flipped(-60)],
    ['longer at the end', 'CORRUPT', (stored) => Buffer.concat([stored, Buffer.alloc(100)])],
    ['longer at the beginning', 'CORRUPT', (stored) => Buffer.concat([Buffer.alloc(100), stored])],
    ['lying about where frames end', 'CORRUPT', lying({ stored: 7, content: 0 })],
    ['lying about how long frames are', 'CORRUPT', lying({ stored: 0, content: -1 })],
    ['lying by a gigabyte', 'CORRUPT', lying({ stored: 0, content: 2 ** 30 })],
    ['the archive of another segment', 'CORRUPT', () => archives.get(keys.present)],
    ['the archive of another log', 'CORRUPT', () => archives.get(keys.foreign)],
    ['missing', 'MISSING', () => undefined],
  ])('readers refuse an archive that is %s', async (_, problem, damage) => {
    const mend = await place.harm(keys.expired, damage);
    try {
      const refusals = await place.refusals(
        ['export', log, '--at', '0/3'],
        ['replay', log],
        ['restore', log, '0', '--dry-run'],
      );
      for (const refusal of refusals) {
        expect(refusal).toMatchObject({ code: `ARCHIVE_${problem}`, log, segment: 0, advice: ADVICE });
        expect(refusal.message).toContain(keys.expired);
      }
      const items = itemTexts(await place.items());
      const restored = refusalOf(await runCli(['restore', log, '0', '--json', ...place.words]));
      expect(restored).toMatchObject({ code: `ARCHIVE_${problem}`, log, segment: 0 });
      expect(itemTexts(await place.items())).toEqual(items);

      const { code, stdout } = await runCli(['verify', log, '--json', ...place.words]);
      expect(code).toBe(1);
      const problems = [
        expect.objectContaining({ code: `ARCHIVE_${problem}`, message: expect.stringContaining(keys.expired) }),
      ];
      expect(JSON.parse(stdout)).toMatchObject({ archived: 1, problems });
      // The newest state needs no archive.
      expect(await place.json('export', log)).toMatchObject({ log });
    } finally {
      await mend();
    }
  });

  test('readers accept the archives again after a repair', async () => {
    expect(await place.json('export', log, '--at', '0/3')).toEqual(exported);
    expect(await place.json('verify', log)).toEqual(sound);
  });

  test.each<[name: string, damage: Damage]>([
    ['altered', flipped(100)],
    ['of another log', () => archives.get(keys.foreign)],
    ['missing', () => undefined],
  ])('no entry leaves the table whose archive is %s', { tags: ['I3'] }, async (_, damage) => {
    const before = await inTable(log);
    expect(before[1]).toEqual(ALL);
    const mend = await place.harm(keys.present, damage);
    try {
      for (const how of ['delete', 'ttl']) {
        const answer = await runCli(['expire', log, '1', ...NOW, '--expire', how, '--json', ...place.words]);
        expect(refusalOf(answer)).toMatchObject({ log, segment: 1, code: expect.stringMatching(/^ARCHIVE_/) });
      }
      const swept = await runCli(['sweep', '--log', log, ...NOW, '--expire', 'delete', '--json', ...place.words]);
      expect(swept.code).toBe(1);
      expect(JSON.parse(swept.stdout).failures).toMatchObject([{ log, code: expect.stringMatching(/^ARCHIVE_/) }]);
    } finally {
      await mend();
    }
    expect(await inTable(log)).toEqual(before);
    expect((await place.items()).filter(({ X }) => X !== undefined)).toEqual([]);
    await place.json('expire', log, '1', '--undo');
  });
});
