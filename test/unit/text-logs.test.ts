import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { FilesystemBlobStore } from '../../src/adapters/filesystem/blob-store.ts';
import { withScratch } from '../../src/adapters/filesystem/scratch.ts';
import { MemoryJobQueue } from '../../src/adapters/memory/job-queue.ts';
import type { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { LogIdInvalidError, LogNotFoundError, ObjectInvalidError, UsageError, unprintable } from '../../src/errors.ts';
import { replayFunction } from '../../src/functions/replay-function.ts';
import { sweepFunction } from '../../src/functions/sweep-function.ts';
import { type LogId, MAX_CHOSEN_ID_BYTES, parseLogId, textLogId } from '../../src/ids/log-id.ts';
import { LogClient } from '../../src/log/client.ts';
import { readPolicies, writePolicy } from '../../src/retention/policies.ts';
import { DEFAULT_POLICY, type RetentionPolicy } from '../../src/retention/retention-policy.ts';
import { archiveKey, condemnedKey, logName, logPrefix, stopKey } from '../../src/store/keys.ts';
import { replay } from '../../src/workers/audit/replay.ts';
import { verify } from '../../src/workers/audit/verify.ts';
import { decodeJob, describeJob, type Job } from '../../src/workers/jobs/job.ts';
import { MemoryChunks } from '../support/chunks.ts';
import { lambdaContext } from '../support/deployed/lambda-events.ts';
import { beginUpload } from '../support/gc-scenario.ts';
import { LOG, recordRequests } from '../support/logs.ts';
import { SheetLogs } from '../support/sheet-logs.ts';

const DAY_MS = 24 * 3600 * 1000;
/** Longer than a name in keys may be. */
const LONG = 'order/'.repeat(300);
const TEXTS = [
  'order#17',
  'Order#17',
  'order#17\0\0\0\x01',
  `${LONG}1`,
  `${LONG}2`,
  '../../etc',
  '.',
  '__proto__',
  'LOG $& $1',
  'öé😀\uffff',
  LOG.toUpperCase(),
].map(textLogId);
const HASHED = TEXTS.filter((log) => logName(log).startsWith('~~'));
const DELETE: RetentionPolicy = {
  ...DEFAULT_POLICY,
  keepSegments: 1,
  keepDays: 0,
  graceSeconds: 3600,
  expire: 'delete',
};

/** Logs with these ids, in the order of their creation. */
function logsOf(texts: readonly LogId[], tables?: MemoryLogStore): SheetLogs {
  const left = [...texts];
  return new SheetLogs(tables, undefined, () => left.shift() ?? textLogId('none'));
}

describe('logs with any text as their ids', () => {
  test('they are snapshotted, archived, expired and collected, and replay to the same states', async () => {
    const sheets = logsOf(TEXTS);
    sheets.policy = DELETE;
    for (const log of TEXTS) {
      expect(await sheets.atRest(3)).toBe(log);
      await sheets.edit(log, { type: 'Set', cells: [[0, 0, `only in ${log}`]] });
      await sheets.snapshot(log);
    }
    sheets.nowMs += DAY_MS;
    expect(await sheets.sweepToRest()).toBeGreaterThan(0);
    sheets.nowMs += DAY_MS;
    await sheets.sweepToRest();
    for (const log of TEXTS) {
      const segments = await Array.fromAsync(sheets.tables.segments(log));
      expect(segments.map(({ expiry }) => expiry?.state)).toEqual(['expired', 'expired', undefined]);
      expect(segments[0]?.archive?.key.startsWith(logPrefix(log))).toBe(true);
      expect((await verify(sheets.deps, log)).problems).toEqual([]);
      expect(await replay({ ...sheets.deps, scratch: new MemoryChunks() }, log)).toMatchObject({ equal: true });
    }
    const prefixes = new Set((await Array.fromAsync(sheets.blobs.list('logs/'))).map(({ key }) => key.split('/')[1]));
    expect(prefixes).toEqual(new Set(TEXTS.map(logName)));
  });

  test('a client reads ids as its deployment does, by default as UUIDs and chosen ids', async () => {
    const [chosen = LOG] = TEXTS;
    const [log = LOG] = HASHED.filter((text) => text.length > MAX_CHOSEN_ID_BYTES);
    const sheets = logsOf([chosen, log]);
    await sheets.atRest();
    await sheets.atRest();
    const deps = {
      ...sheets.deps,
      store: sheets.deps.store,
      sleep: async () => undefined,
      newLogId: () => LOG,
    };
    const edit = { type: 'Set', version: 1, body: { cells: [] } };
    await expect(new LogClient(deps).addEntry(chosen, edit)).resolves.toBeDefined();
    await expect(new LogClient(deps).addEntry(log, edit)).rejects.toThrow(LogIdInvalidError);
    await expect(new LogClient({ ...deps, parseLog: textLogId }).addEntry(log, edit)).resolves.toBeDefined();
    // A typed UUID in upper case is the same in lower case, except in logs that take any text.
    const upper = new LogClient(deps).addEntry(parseLogId(LOG.toUpperCase()), edit);
    await expect(upper).rejects.toMatchObject({ code: 'LOG_NOT_FOUND', log: LOG });
  });

  test('the functions read ids as their deployment does, by default none of over 256 bytes', async () => {
    const [log = LOG] = HASHED;
    const sheets = logsOf([log]);
    await sheets.atRest();
    const queue = new MemoryJobQueue({ now: () => sheets.nowMs });
    const deps = { ...sheets.deps, policy: DELETE, withScratch, report: () => undefined };
    const queues = { snapshot: queue, maintenance: queue };
    const context = lambdaContext(900_000, 'run');
    for (const make of [replayFunction, (given: typeof deps) => sweepFunction({ ...given, queues })]) {
      await expect(make(deps)({ log }, context)).rejects.toThrow(UsageError);
      const parses = { ...deps, parseLog: textLogId };
      await expect(make(parses)({ log: '' }, context)).rejects.toThrow(UsageError);
      await expect(make(parses)({ log }, context)).resolves.toBeDefined();
    }
    const sweeps = sweepFunction({ ...deps, queues, parseLog: textLogId });
    expect(await sweeps({ log, rebuild: true }, context)).toMatchObject({ logs: 1, jobs: 1 });
    const [message] = await queue.receive({ max: 1, visibilityMs: 1000 });
    expect(decodeJob(message?.body ?? '')).toEqual({ kind: 'rebuild', log });
    expect(message?.group).toBe(logName(log).slice(0, 50));
  });

  test('advice names the log exactly, as one word of a command', () => {
    const advice = (log: string) => new LogNotFoundError('x', { log, advice: "Run 'logfold verify LOG'" }).advice;
    expect(advice(LOG)).toBe(`Run 'logfold verify ${LOG}'`);
    expect(advice('order#17')).toBe("Run 'logfold verify order#17'");
    expect(advice("LOG $& it's")).toBe("Run 'logfold verify 'LOG $& it'\\''s''");
    expect(advice('-17')).toBe("Run 'logfold verify '\\u{2d}17''");
    expect(unprintable('\\u{2d}17')).toBe('-17');
    const known = new LogNotFoundError('x', { advice: 'Verify LOG' }).at({ log: 'EVENT-LOG' }).at({ segment: 1 });
    expect(known.message).toBe('x [log EVENT-LOG, segment 1]. Verify EVENT-LOG.');
    expect(String(new LogNotFoundError('x', { log: 'a\u001b[2Jb\n' }))).toContain('[log a\\u{1b}[2Jb\\u{a}]');
    const job: Job = { kind: 'collect', log: textLogId('a\u001b[2Jb\n') };
    expect(describeJob(job)).toBe('collect a\\u{1b}[2Jb\\u{a}');
  });

  test('a directory holds the objects of each log apart', async () => {
    const dir = await mkdtemp(join(tmpdir(), 'logfold-text-logs-'));
    try {
      const blobs = new FilesystemBlobStore(dir, { fsync: false });
      for (const [i, log] of TEXTS.entries()) {
        for (const key of [stopKey(log), condemnedKey(log), archiveKey(log, 0, 'a'.repeat(32))]) {
          await blobs.update(key, (before) => (before === undefined ? Uint8Array.of(i) : undefined));
        }
      }
      for (const [i, log] of TEXTS.entries()) {
        expect(await blobs.get(stopKey(log))).toEqual(Uint8Array.of(i));
        const keys = (await Array.fromAsync(blobs.list(logPrefix(log)))).map(({ key }) => key);
        expect(keys).toEqual([archiveKey(log, 0, 'a'.repeat(32)), stopKey(log)]);
      }
      // A file system may ignore upper case.
      const all = (await Array.fromAsync(blobs.list(''))).map(({ key }) => key.toLowerCase());
      expect(new Set(all).size).toBe(3 * TEXTS.length);
    } finally {
      await rm(dir, { recursive: true });
    }
  });
});

describe('garbage of logs with any text as their ids', () => {
  async function withGarbage(texts: readonly LogId[]): Promise<{ sheets: SheetLogs; requests: string[] }> {
    const requests: string[] = [];
    const sheets = logsOf(TEXTS);
    for (const _ of TEXTS) await sheets.atRest();
    for (const log of texts) await sheets.blobs.put(condemnedKey(log), Uint8Array.of(1));
    sheets.nowMs += 100 * DAY_MS;
    return { sheets, requests };
  }

  const sweepWith = ({ sheets, requests }: Awaited<ReturnType<typeof withGarbage>>, log?: LogId) =>
    sheets.sweep({ log }, { tables: recordRequests(sheets.tables, requests) });

  const scansOf = (requests: readonly string[]) => requests.filter((name) => name === 'allSegments').length;

  test('a sweep collects each log, and scans once more only if keys have hashes', async () => {
    const short = TEXTS.filter((log) => !HASHED.includes(log));
    const plain = await withGarbage(short);
    expect((await sweepWith(plain)).sent.map(({ log }) => log).toSorted()).toEqual(short.toSorted());
    const scans = scansOf(plain.requests);
    const hashed = await withGarbage(TEXTS);
    beginUpload(hashed.sheets.blobs, archiveKey(HASHED[0] ?? LOG, 0, 'd'.repeat(32)));
    hashed.sheets.nowMs += 100 * DAY_MS;
    const { sent, failures } = await sweepWith(hashed);
    expect(sent.map(({ log }) => log).toSorted()).toEqual(TEXTS.toSorted());
    expect(failures).toEqual([]);
    expect(scansOf(hashed.requests)).toBe(scans + 1);
  });

  test('a sweep of one log needs no scan', async () => {
    const [log = LOG] = HASHED;
    const garbage = await withGarbage(HASHED);
    expect((await sweepWith(garbage, log)).sent).toEqual([{ kind: 'collect', log }]);
    expect(scansOf(garbage.requests)).toBe(0);
  });

  test('a sweep reports a hash that no log has, a day later and with its objects', async () => {
    const { sheets } = await withGarbage([]);
    const missing = textLogId(`${LONG}3`);
    await sheets.blobs.put(condemnedKey(missing), Uint8Array.of(1));
    expect(await sheets.sweep()).toMatchObject({ failed: 0, sent: [] });
    sheets.nowMs += DAY_MS;
    const { failures, failed, sent } = await sheets.sweep();
    expect([failed, sent]).toEqual([1, []]);
    expect(failures).toMatchObject([{ log: undefined, error: { code: 'LOG_NOT_FOUND' } }]);
    for (const where of [logPrefix(missing), condemnedKey(missing)]) {
      expect(failures[0]?.error.advice).toContain(`'${where}'`);
    }
  });
});

describe('policies of logs with any text as their ids', () => {
  test('each log keeps its own, whatever its id', async () => {
    const { blobs } = new SheetLogs();
    for (const [i, log] of TEXTS.entries()) {
      await writePolicy(blobs, DEFAULT_POLICY, { log, change: () => ({ keepDays: i }), parseLog: textLogId });
    }
    const policies = await readPolicies(blobs, DEFAULT_POLICY, textLogId);
    expect(policies.logs()).toEqual(TEXTS.toSorted());
    for (const [i, log] of TEXTS.entries()) expect(policies.ownOf(log)).toEqual({ keepDays: i });
    await expect(readPolicies(blobs, DEFAULT_POLICY)).rejects.toThrow(ObjectInvalidError);
  });
});
