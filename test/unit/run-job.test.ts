import { describe, expect, test } from 'vitest';
import { MemoryJobQueue } from '../../src/adapters/memory/job-queue.ts';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { EntryNotFoundError, MessageInvalidError, MessageNewerError } from '../../src/errors.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import type { Position } from '../../src/ids/position.ts';
import { DEFAULT_POLICY, type RetentionPolicy } from '../../src/retention/retention-policy.ts';
import { flushDue } from '../../src/snapshot/root.ts';
import { readStop, type Stop } from '../../src/snapshot/stop.ts';
import { describeJobResult, type JobDeps, type JobResult, runJob } from '../../src/workers/dispatch/run-job.ts';
import {
  continuationDeduplicationId,
  decodeJob,
  describeJob,
  dueDeduplicationId,
  encodeJob,
  type Job,
  streamDeduplicationId,
} from '../../src/workers/jobs/job.ts';
import { SMALL_SHAPE } from '../support/chunks.ts';
import { LOG, NOON, newLogId } from '../support/logs.ts';
import { FAULTY } from '../support/models/versioned-sheet.ts';
import { SheetLog, set } from '../support/sheet-log.ts';

const GRACE = 3600;
const START: Position = { segment: 0, entry: 0 };
const STRICT: RetentionPolicy = { ...DEFAULT_POLICY, keepSegments: 1, keepDays: 0, graceSeconds: GRACE };

interface Sent {
  readonly group: string;
  readonly deduplicationId: string;
  readonly job: Job;
}

/** Does one job; how it ended, and what it sent. */
async function ran(
  sheet: SheetLog,
  job: Job,
  deps: Partial<JobDeps> = {},
): Promise<{ result: JobResult; sent: Sent[] }> {
  const sent: Sent[] = [];
  const queue: JobDeps['queue'] = {
    send: async ({ group, deduplicationId, body }) => {
      sent.push({ group, deduplicationId, job: decodeJob(body) });
    },
  };
  const result = await runJob({ ...sheet.deps, policyOf: () => STRICT, queue, ...deps }, job);
  return { result, sent };
}

/**
 * Does a job and all that follow from it, in the order of the queue; every one of them and how it
 * ended.
 */
async function ranAll(
  sheet: SheetLog,
  first: Job,
  deps: Partial<JobDeps> = {},
): Promise<[string, JobResult['outcome']][]> {
  const done: [string, JobResult['outcome']][] = [];
  for (const waiting = [first]; ; ) {
    const job = waiting.shift();
    if (job === undefined) return done;
    const { result, sent } = await ran(sheet, job, deps);
    done.push([job.kind, result.outcome]);
    waiting.push(...sent.map((each) => each.job));
  }
}

/** A log whose first segment is covered, and its newest snapshot. */
async function coveredSheet(tables = new MemoryLogStore()): Promise<{ sheet: SheetLog; position: Position }> {
  const sheet = await SheetLog.create(undefined, tables);
  await sheet.completed();
  for (let i = 0; i < 6; i++) await sheet.edit(set(i, 0, `edit ${i}`));
  return { sheet, position: await sheet.covered() };
}

/** A log whose newest snapshot needs a flush. */
async function scatteredSheet(): Promise<{ sheet: SheetLog; position: Position }> {
  const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
  await sheet.complete(START);
  await sheet.fill(100, 5);
  await sheet.completed();
  for (let i = 0; i < 99; i++) await sheet.edit(set(i, i % 5, ''));
  return { sheet, position: await sheet.snapshot() };
}

describe('a snapshot job', () => {
  test('no job follows it if nothing is due', async () => {
    const { sheet } = await coveredSheet();
    const position = await sheet.snapshot();
    const { result, sent } = await ran(sheet, { kind: 'snapshot', log: LOG, position });
    expect([result.outcome, sent]).toEqual(['built', []]);
    expect(await ran(sheet, { kind: 'snapshot', log: LOG, position })).toMatchObject({ sent: [] });
  });

  test('it has as many continuations as it needs, and drops force after its start', async () => {
    const sheet = await SheetLog.create();
    for (let i = 0; i < 5; i++) await sheet.edit(set(i, 0, `edit ${i}`));
    const position = await sheet.snapshot();
    const deps = { deadline: sheet.nowMs, rangeEntries: 2 };
    const job: Job = { kind: 'snapshot', log: LOG, position, force: true };
    const { sent } = await ran(sheet, job, deps);
    const next: Job = { kind: 'snapshot', log: LOG, position, continuation: 1 };
    const reached = { segment: 0, entry: 2 };
    expect(sent).toEqual([{ group: LOG, deduplicationId: continuationDeduplicationId(next, reached), job: next }]);
    expect(await ranAll(sheet, next, deps)).toEqual([
      ['snapshot', 'progress'],
      ['snapshot', 'built'],
    ]);
    expect((await sheet.rows(position)).flat()).toEqual(Array.from({ length: 5 }, (_, i) => `edit ${i}`));
  });

  test('a flush job follows it if a flush is due, also if the snapshot was complete before', async () => {
    const { sheet, position } = await scatteredSheet();
    const job: Job = { kind: 'snapshot', log: LOG, position };
    const compact: Job = { kind: 'flush', log: LOG, position };
    const expected = [{ group: LOG, deduplicationId: dueDeduplicationId(compact), job: compact }];
    const { result, sent } = await ran(sheet, job);
    expect([result.outcome, sent]).toEqual(['built', expected]);
    expect(await ranAll(sheet, job)).toEqual([
      ['snapshot', 'present'],
      ['flush', 'flushed'],
    ]);
    expect(await ranAll(sheet, job)).toEqual([['snapshot', 'present']]);
  });

  test('no job follows it if the log is stopped', async () => {
    const sheet = await SheetLog.create();
    await sheet.append({ type: FAULTY, version: 1, body: 1 });
    const position = await sheet.snapshot();
    const { result, sent } = await ran(sheet, { kind: 'snapshot', log: LOG, position });
    expect([result.outcome, sent]).toEqual(['stopped', []]);
  });
});

describe('an archive job', () => {
  test('one collect job follows it', async () => {
    const { sheet } = await coveredSheet();
    const job: Job = { kind: 'archive', log: LOG, segment: 0 };
    const collect: Job = { kind: 'collect', log: LOG };
    const { result, sent } = await ran(sheet, job);
    expect(result.outcome).toBe('archived');
    expect(sent).toEqual([{ group: LOG, deduplicationId: dueDeduplicationId(collect), job: collect }]);
    expect(await ranAll(sheet, collect)).toEqual([['collect', 'collected']]);
    expect(await ran(sheet, job)).toMatchObject({ result: { outcome: 'present' }, sent: [] });
  });
});

describe('an expire job', () => {
  test("it reads the log's policy, wherever that is stored", async () => {
    const { sheet } = await coveredSheet();
    await sheet.archive(0);
    const logs: LogId[] = [];
    const policyOf = async (log: LogId): Promise<RetentionPolicy> => {
      logs.push(log);
      return { ...STRICT, expire: logs.length === 1 ? 'never' : 'ttl' };
    };
    const job: Job = { kind: 'expire', log: LOG, segment: 0 };
    expect(await ran(sheet, job, { policyOf })).toEqual({ result: { outcome: 'kept', segment: 0 }, sent: [] });
    const expired = { outcome: 'expired', segment: 0, entries: 9, expires: NOON + GRACE };
    expect(await ran(sheet, job, { policyOf })).toEqual({ result: expired, sent: [] });
    expect(logs).toEqual([LOG, LOG]);
  });

  test('a collect job follows it if snapshots expire without an archive', async () => {
    const { sheet } = await coveredSheet();
    const policyOf = (): RetentionPolicy => ({ ...STRICT, archive: false, expire: 'delete', keepDays: 1 });
    const job: Job = { kind: 'expire', log: LOG, segment: 0 };
    sheet.nowMs += 2 * 24 * 3600 * 1000;
    expect(await ran(sheet, job, { policyOf })).toMatchObject({ result: { outcome: 'waiting' }, sent: [] });
    sheet.nowMs += GRACE * 1000;
    const collect: Job = { kind: 'collect', log: LOG };
    const sent = [{ group: LOG, deduplicationId: dueDeduplicationId(collect), job: collect }];
    expect(await ran(sheet, job, { policyOf })).toMatchObject({ result: { outcome: 'expired' }, sent });
    expect(await ran(sheet, job, { policyOf })).toMatchObject({ result: { outcome: 'present' }, sent: [] });
  });

  test('it has as many continuations as it needs', async () => {
    const { sheet } = await coveredSheet(new MemoryLogStore({ pageItems: 4 }));
    await sheet.archive(0);
    const items = await sheet.items();
    const deps: Partial<JobDeps> = {
      deadline: sheet.nowMs,
      policyOf: () => ({ ...STRICT, expire: 'ttl' }),
    };
    const job: Job = { kind: 'expire', log: LOG, segment: 0 };
    const next: Job = { ...job, from: 4, announced: NOON + GRACE };
    const { result, sent } = await ran(sheet, job, deps);
    expect(result).toEqual({ outcome: 'progress', segment: 0, reached: 4, expires: NOON + GRACE });
    const deduplicationId = continuationDeduplicationId(next, { segment: 0, entry: 4 });
    expect(sent).toEqual([{ group: LOG, deduplicationId, job: next }]);
    const done = await ranAll(sheet, next, deps);
    expect(done.at(-1)).toEqual(['expire', 'expired']);
    expect((await sheet.items()).map(({ X }) => X)).toEqual(items.map(() => ({ N: String(NOON + GRACE) })));
  });
});

describe('a rebuild job', () => {
  test('it has as many continuations as it needs', async () => {
    const { sheet } = await coveredSheet();
    const before = await sheet.contents();
    const deps = { deadline: sheet.nowMs, rangeEntries: 1 };
    const { result, sent } = await ran(sheet, { kind: 'rebuild', log: LOG }, deps);
    const reached = { segment: 0, entry: 2 };
    expect(result).toMatchObject({ outcome: 'progress', after: { segment: 0, entry: 1 }, reached });
    const next: Job = { kind: 'rebuild', log: LOG, after: { segment: 0, entry: 1 }, continuation: 1 };
    expect(sent).toEqual([{ group: LOG, deduplicationId: continuationDeduplicationId(next, reached), job: next }]);
    const done = await ranAll(sheet, next, deps);
    expect(new Set(done.slice(0, -1).map(([, outcome]) => outcome))).toEqual(new Set(['progress']));
    expect(done.at(-1)).toEqual(['rebuild', 'rebuilt']);
    expect((await sheet.contents()).segments).toEqual(before.segments);
  });

  test('a flush job follows it if the newest snapshot was flushed before, and its state hash is the same', async () => {
    const { sheet, position } = await scatteredSheet();
    await ranAll(sheet, { kind: 'snapshot', log: LOG, position });
    const before = await sheet.contents();
    expect((await sheet.root(position)).stateHash).toBeDefined();
    const { sent } = await ran(sheet, { kind: 'rebuild', log: LOG });
    expect(flushDue((await sheet.root(position)).state)).toBeDefined();
    expect(sent.map(({ job }) => job)).toEqual([{ kind: 'flush', log: LOG, position }]);
    for (const { job } of sent) await ranAll(sheet, job);
    const after = await sheet.contents();
    expect([after.entries, after.segments]).toEqual([before.entries, before.segments]);
    expect(after.objects).toMatchObject(before.objects);
  });

  test('a flush job follows it for the snapshots before the entry that stopped it', async () => {
    const { sheet, position } = await scatteredSheet();
    await ranAll(sheet, { kind: 'snapshot', log: LOG, position });
    await sheet.append({ type: 'Note', version: 1 });
    await sheet.snapshot();
    const { result, sent } = await ran(sheet, { kind: 'rebuild', log: LOG });
    expect(result).toMatchObject({ outcome: 'stopped', newest: position, stop: { code: 'ENTRY_TYPE_UNKNOWN' } });
    expect(sent.map(({ job }) => job)).toEqual([{ kind: 'flush', log: LOG, position }]);
    for (const { job } of sent) expect(await ranAll(sheet, job)).toEqual([['flush', 'flushed']]);
  });
});

test('a segment passes through its life: snapshot, archive, collection, expiry, collection', async () => {
  const sheet = await SheetLog.create();
  await sheet.completed();
  await sheet.fill(20, 3);
  const position = await sheet.segment();
  const deps: Partial<JobDeps> = { policyOf: () => ({ ...STRICT, expire: 'delete' }) };
  const expire: Job = { kind: 'expire', log: LOG, segment: 0 };
  const did = [
    ...(await ranAll(sheet, { kind: 'snapshot', log: LOG, position }, deps)),
    ...(await ranAll(sheet, { kind: 'archive', log: LOG, segment: 0 }, deps)),
    ...(await ranAll(sheet, expire, deps)),
  ];
  sheet.nowMs += GRACE * 1000;
  did.push(...(await ranAll(sheet, expire, deps)), ...(await ranAll(sheet, { kind: 'collect', log: LOG }, deps)));
  expect(did).toEqual([
    ['snapshot', 'built'],
    ['archive', 'archived'],
    ['collect', 'collected'],
    ['expire', 'waiting'],
    ['expire', 'expired'],
    ['collect', 'collected'],
  ]);
  expect(await sheet.items(0)).toEqual([]);
  expect((await sheet.rows(position)).length).toBe(20);
});

describe('a job for a missing object', () => {
  const log = newLogId();
  const jobs: [Job, string][] = [
    [{ kind: 'snapshot', log, position: START }, 'ENTRY_NOT_FOUND'],
    [{ kind: 'flush', log, position: START }, 'LOG_NOT_FOUND'],
    [{ kind: 'archive', log, segment: 0 }, 'SEGMENT_NOT_FOUND'],
    [{ kind: 'expire', log, segment: 0 }, 'SEGMENT_NOT_FOUND'],
    [{ kind: 'collect', log }, 'LOG_NOT_FOUND'],
    [{ kind: 'rebuild', log }, 'LOG_NOT_FOUND'],
  ];
  test.each(jobs)('%o fails, names the log, sends nothing and stops nothing', async (job, code) => {
    const { sheet } = await coveredSheet();
    const before = await sheet.contents();
    let sent = 0;
    const queue = { send: async () => void sent++ };
    const running = ran(sheet, job, { queue, policyOf: () => ({ ...STRICT, expire: 'ttl' }) });
    await expect(running).rejects.toMatchObject({ code, log, stopsLog: false });
    expect(sent).toBe(0);
    expect(await readStop(sheet.blobs, log)).toBeUndefined();
    const after = await sheet.contents();
    expect([after.entries, after.segments]).toEqual([before.entries, before.segments]);
  });

  test('in an existing log it fails and names the position', async () => {
    const { sheet } = await coveredSheet();
    const before = await sheet.contents();
    const position = { segment: 4, entry: 2 };
    const running = ran(sheet, { kind: 'snapshot', log: LOG, position });
    await expect(running).rejects.toThrow(EntryNotFoundError);
    await expect(running).rejects.toMatchObject({ log: LOG, ...position });
    const archiving = ran(sheet, { kind: 'archive', log: LOG, segment: 4 });
    await expect(archiving).rejects.toMatchObject({ code: 'SEGMENT_NOT_FOUND', log: LOG, segment: 4 });
    expect(await sheet.contents()).toEqual(before);
  });

  test('it fails for an entry of another type too', async () => {
    const { sheet } = await coveredSheet();
    const position = { segment: 0, entry: 3 };
    await expect(ran(sheet, { kind: 'snapshot', log: LOG, position })).rejects.toThrow(MessageInvalidError);
  });
});

test('a malformed job becomes a dead letter unchanged, and delays no job of another log', async () => {
  const { sheet } = await coveredSheet();
  const position = await sheet.snapshot();
  const queue = new MemoryJobQueue({ now: () => sheet.nowMs, maxReceives: 2 });
  const bad = [
    'no JSON',
    '{"kind":"archive"}',
    JSON.stringify({ format: 2, kind: 'archive', log: LOG, segment: -1 }),
    JSON.stringify({ format: 2, kind: 'demolish', log: LOG }),
    JSON.stringify({ format: 2, kind: 'collect' }),
    JSON.stringify({ format: 3, kind: 'collect', log: LOG }),
  ];
  for (const [i, body] of bad.entries()) await queue.send({ group: `other ${i}`, deduplicationId: `${i}`, body });
  await queue.send({ group: LOG, deduplicationId: 'good', body: encodeJob({ kind: 'snapshot', log: LOG, position }) });
  const outcomes: string[] = [];
  for (let rounds = 0; rounds < 10; rounds++) {
    for (const { body, receipt } of await queue.receive({ max: 10, visibilityMs: 1000 })) {
      try {
        const { outcome } = await runJob({ ...sheet.deps, queue }, decodeJob(body));
        outcomes.push(outcome);
        await queue.delete(receipt);
      } catch (error) {
        if (!(error instanceof MessageInvalidError || error instanceof MessageNewerError)) throw error;
      }
    }
    sheet.nowMs += 1000;
  }
  expect(outcomes).toEqual(['built']);
  const dead = (await queue.deadLetters?.receive({ max: 10, visibilityMs: 1000 })) ?? [];
  expect(dead.map(({ body }) => body)).toEqual(bad);
});

describe('deduplication ids', () => {
  const position = { segment: 1, entry: 2 };
  const jobs: Job[] = [
    { kind: 'snapshot', log: LOG, position },
    { kind: 'flush', log: LOG, position },
    { kind: 'archive', log: LOG, segment: 1 },
    { kind: 'expire', log: LOG, segment: 1 },
    { kind: 'collect', log: LOG },
    { kind: 'rebuild', log: LOG },
  ];

  test('they differ by job, position, run and sender', () => {
    const others: Job[] = [
      { kind: 'snapshot', log: LOG, position: { segment: 12, entry: 2 } },
      { kind: 'archive', log: LOG, segment: 12 },
      { kind: 'snapshot', log: newLogId(), position },
      { kind: 'snapshot', log: LOG, position, continuation: 1 },
      { kind: 'snapshot', log: LOG, position, continuation: 2 },
      { kind: 'rebuild', log: LOG, after: position, continuation: 2 },
    ];
    const continuations = [...jobs, ...others].flatMap((job) => [
      continuationDeduplicationId(job, position),
      continuationDeduplicationId(job, { segment: 1, entry: 3 }),
    ]);
    const due = [...jobs, ...others.slice(0, 3)].map(dueDeduplicationId);
    const streamed = streamDeduplicationId({ kind: 'snapshot', log: LOG, position });
    const all = [...continuations, ...due, streamed];
    expect(new Set(all).size).toBe(all.length);
    // SQS accepts up to 128 characters.
    for (const id of all) expect(id).toMatch(/^[\w:/.-]{1,128}$/);
  });

  test('they are equal for the same job', () => {
    for (const job of jobs) {
      expect(dueDeduplicationId({ ...job })).toBe(dueDeduplicationId(job));
      expect(continuationDeduplicationId({ ...job }, position)).toBe(continuationDeduplicationId(job, position));
    }
  });
});

describe('a line for an operator', () => {
  const position = { segment: 1, entry: 2 };
  const stop: Stop = {
    format: 1,
    code: 'ENTRY_GAP',
    message: 'An entry is not there',
    segment: 0,
    entry: 1,
    reducer: { name: 'spreadsheet', version: 1 },
    since: 0,
  };
  const work = {
    base: undefined,
    requestedAt: NOON,
    entries: 7,
    chunksRead: 2,
    bytesRead: 900,
    chunksWritten: 3,
    bytesWritten: 1500,
    rootBytes: 500,
  };
  const built = { outcome: 'built', position, stateHash: undefined, flushDue: undefined, ...work } as const;
  const tally = (objects: number, bytes: number) => ({ objects, bytes });
  const collected = { outcome: 'collected', kept: tally(1, 1), foreign: [], aborted: 0 } as const;
  const rebuilt = { outcome: 'rebuilt', snapshots: 4, replaced: 1, entries: 9, newest: position, flushDue: undefined } as const; // biome-ignore format: short
  const snapshot: Job = { kind: 'snapshot', log: LOG, position };
  const archive: Job = { kind: 'archive', log: LOG, segment: 3 };
  const expire: Job = { kind: 'expire', log: LOG, segment: 3 };
  const hash = new Uint8Array(32);
  const collect: Job = { kind: 'collect', log: LOG };
  const rebuild: Job = { kind: 'rebuild', log: LOG };

  test('it says what a job is for', () => {
    expect(describeJob(snapshot)).toBe(`snapshot ${LOG} 1/2`);
    expect(describeJob({ kind: 'flush', log: LOG, position })).toBe(`flush ${LOG} 1/2`);
    expect([archive, expire, collect, rebuild].map(describeJob)).toEqual([
      `archive ${LOG} segment 3`,
      `expire ${LOG} segment 3`,
      `collect ${LOG}`,
      `rebuild ${LOG}`,
    ]);
  });

  test.each<[Job, JobResult, string]>([
    [snapshot, built, '7 entries, 3 chunks, 2.0 kB'],
    [
      snapshot,
      { ...built, rebuiltBecause: 'it is old' },
      '7 entries, 3 chunks, 2.0 kB, from the beginning because it is old',
    ],
    [snapshot, { outcome: 'stopped', position, stop }, 'the log is stopped: An entry is not there'],
    [
      { kind: 'flush', log: LOG, position },
      {
        outcome: 'flushed',
        position,
        stateHash: '',
        flushedEdits: 5,
        chunksWritten: 2,
        bytesWritten: 10,
        rootBytes: 20,
      },
      '5 edits flushed, 2 chunks, 30 B',
    ],
    [
      archive,
      { outcome: 'archived', segment: 3, key: 'k', entries: 8, bytes: 2_000_000, stored: 300_000, frames: 2, hash },
      '8 entries, 2.0 MB as 300.0 kB',
    ],
    [
      expire,
      { outcome: 'expired', segment: 3, entries: 8, expires: NOON },
      '8 entries leave the table from 2024-11-20T12:00:00Z on',
    ],
    [
      expire,
      { outcome: 'waiting', segment: 3, expires: NOON },
      'the entries may be deleted after 2024-11-20T12:00:00Z',
    ],
    [
      collect,
      { ...collected, removed: tally(2, 100), condemned: tally(3, 200) },
      '2 objects removed, 100 B; 3 removable after the grace period, 200 B',
    ],
    [
      collect,
      { ...collected, removed: tally(0, 0), condemned: tally(0, 0), aborted: 1 },
      '0 objects removed, 0 B; 0 removable after the grace period, 0 B; 1 unfinished upload aborted',
    ],
    [
      collect,
      { outcome: 'refused', error: new EntryNotFoundError('a root cannot be read') },
      'refused: a root cannot be read',
    ],
    [rebuild, { ...rebuilt, differed: [] }, '4 snapshots from 9 entries, 1 replaced'],
    [
      rebuild,
      { ...rebuilt, differed: [START, position] },
      '4 snapshots from 9 entries, 1 replaced; 2 HAD A DIFFERENT STATE: 0/0, 1/2',
    ],
  ])('it describes the result %o', (job, result, line) => {
    expect(describeJobResult(job, result)).toBe(`${describeJob(job)}: ${line}`);
  });

  test('there is none if there was nothing to do, or if a continuation follows', () => {
    const flush: Job = { kind: 'flush', log: LOG, position };
    const quiet: [Job, JobResult][] = [
      [expire, { outcome: 'progress', segment: 3, reached: 4, expires: NOON }],
      [expire, { outcome: 'present', segment: 3 }],
      [expire, { outcome: 'kept', segment: 3 }],
      [snapshot, { outcome: 'obsolete', position }],
      [flush, { outcome: 'empty', position }],
      [flush, { outcome: 'passed', position, newest: position }],
      [collect, { ...collected, removed: tally(0, 0), condemned: tally(0, 0) }],
    ];
    for (const [job, result] of quiet) expect(describeJobResult(job, result)).toBeUndefined();
  });
});
