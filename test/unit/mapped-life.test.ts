import { describe, expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { formatPosition, type Position } from '../../src/ids/position.ts';
import { plainItem, type StoredItem } from '../../src/log/attribute.ts';
import type { Entry } from '../../src/log/entry.ts';
import type { LogReader } from '../../src/log/log-store.ts';
import { tailStart } from '../../src/log/query.ts';
import { readEntries } from '../../src/log/read-entries.ts';
import { VIRTUAL_TYPES } from '../../src/log/schedule.ts';
import { MappedLogStore } from '../../src/mapping/mapped-log-store.ts';
import { DEFAULT_POLICY, type RetentionPolicy } from '../../src/retention/retention-policy.ts';
import { loadState } from '../../src/snapshot/load.ts';
import { replay } from '../../src/workers/audit/replay.ts';
import { logStatus } from '../../src/workers/audit/status.ts';
import { verify } from '../../src/workers/audit/verify.ts';
import { type JobDeps, type JobResult, runJob } from '../../src/workers/dispatch/run-job.ts';
import type { Job } from '../../src/workers/jobs/job.ts';
import { restoreSegment } from '../../src/workers/retention/restore-segment.ts';
import { undoExpiry } from '../../src/workers/retention/undo-expiry.ts';
import { sweep } from '../../src/workers/sweep/sweep.ts';
import { MemoryChunks } from '../support/chunks.ts';
import { allEntries, NOON, unarchived } from '../support/logs.ts';
import { versionedSheet } from '../support/models/versioned-sheet.ts';
import { MappedLogs, newMappedLog, ORDERS, orderItem, TENS } from '../support/stores/mapped-logs.ts';
import { testDeployment } from '../support/test-deployment.ts';

const DAY = 24 * 3600;
const EXPIRES: RetentionPolicy = { ...DEFAULT_POLICY, keepSegments: 2, keepDays: 0, expire: 'ttl', graceSeconds: DAY };
const CONSISTENT = { consistent: true };

/** A table of orders with a pipeline, all in memory. */
class MappedLife extends MappedLogs {
  nowMs = (NOON + DAY) * 1000;
  policy: RetentionPolicy = EXPIRES;
  readonly blobs = new MemoryBlobStore(() => this.nowMs);
  readonly reader = testDeployment({ tables: this.store, blobs: this.blobs }).store;

  override create(count: number, sizes = TENS): Promise<LogId> {
    return super.create(count, sizes, newMappedLog());
  }

  get deps(): JobDeps {
    const { store: tables, reader: store, blobs } = this;
    return {
      tables,
      store,
      blobs,
      platform: nativePlatform,
      types: VIRTUAL_TYPES,
      reducer: versionedSheet(1),
      now: () => this.nowMs,
      random: Math.random,
      policyOf: () => this.policy,
      queue: { send: async () => undefined },
    };
  }

  /** Runs one sweep and the jobs that it sends. */
  async sweep(): Promise<Job[]> {
    const jobs: Job[] = [];
    await sweep({
      ...this.deps,
      policyOf: () => this.policy,
      send: async (job) => {
        jobs.push(job);
      },
      onFailure: (_, error) => {
        throw error;
      },
    });
    for (const job of jobs) await this.run(job);
    return jobs;
  }

  run(job: Job): Promise<JobResult> {
    return runJob(this.deps, job);
  }

  /** All items of a log, as the application's table has them. */
  async originals(log: LogId): Promise<StoredItem[]> {
    const pages = await Array.fromAsync(this.items.pages(log, { from: 0, to: 1000 }));
    return pages.flat().map(({ item }) => item);
  }

  async wholeLog(log: LogId): Promise<Entry[]> {
    const from = { segment: 0, entry: 0 };
    return allEntries(readEntries({ store: this.reader, types: VIRTUAL_TYPES }, log, { from, to: 'end' }));
  }

  async stateHash(log: LogId, at?: Position): Promise<string> {
    const { equal, replayed } = await replay({ ...this.deps, scratch: new MemoryChunks() }, log, { at });
    expect(equal).toBe(true);
    return replayed;
  }

  /** A log of 47 items with a snapshot, whose first three segments are archived and expired. */
  async expiredLog(): Promise<{
    readonly log: LogId;
    readonly items: readonly StoredItem[];
    readonly entries: readonly Entry[];
  }> {
    const log = await this.create(47);
    const items = await this.originals(log);
    await this.sweep();
    const entries = await this.wholeLog(log);
    // One sweep archives, and the next one expires.
    await this.sweep();
    await this.sweep();
    this.nowMs += (DAY + 1) * 1000;
    expect(this.items.expireNow(this.nowMs / 1000)).toHaveLength(30);
    return { log, items, entries };
  }
}

const kinds = (jobs: readonly Job[]) =>
  jobs.map((job) => {
    if ('position' in job) return `${job.kind} ${formatPosition(job.position)}`;
    return `${job.kind} ${'segment' in job ? job.segment : ''}`;
  });

describe('a mapped log in a pipeline', () => {
  test('a sweep asks for its newest snapshot only, then archives and expires what that covers', async () => {
    const life = new MappedLife();
    const log = await life.create(47);
    expect(kinds(await life.sweep())).toEqual(['snapshot 4/6']);
    expect(await life.store.getSegment(log, 4, CONSISTENT)).toMatchObject({
      lastSnapshot: { position: { segment: 4, entry: 6 } },
    });
    expect(kinds(await life.sweep())).toEqual(['archive 0', 'archive 1', 'archive 2']);
    expect(kinds(await life.sweep())).toEqual(['expire 0', 'expire 1', 'expire 2']);
    expect(kinds(await life.sweep())).toEqual([]);
    expect((await verify(life.deps, log)).problems).toEqual([]);
  });

  test('its state is the fold of its items, with and without a snapshot', async () => {
    const life = new MappedLife();
    const log = await life.create(47);
    const before = await loadState(life.deps, log);
    await life.sweep();
    const after = await loadState(life.deps, log);
    expect(after.end).toEqual(before.end);
    expect([before.tailEntries, after.tailEntries]).toEqual([4 * 13 + 9, 3]);
    expect(await life.stateHash(log)).toEqual(await life.stateHash(log, { segment: 4, entry: 6 }));
  });

  test('its entries come from the archives when its items have expired', async () => {
    const life = new MappedLife();
    const { log, items, entries } = await life.expiredLog();
    expect(await life.originals(log)).toEqual(items.slice(30));
    expect(await life.wholeLog(log)).toEqual(entries);
    expect((await verify(life.deps, log)).problems).toEqual([]);
    await life.stateHash(log);
    expect(await logStatus(life.deps, log)).toMatchObject({
      segments: 5,
      archived: 3,
      expired: 3,
      entries: 4 * 13 + 9,
    });
  });

  test('a restore brings its items back, byte for byte, and nothing else', async () => {
    const life = new MappedLife();
    const { log, items, entries } = await life.expiredLog();
    for (const segment of [1, 0, 2]) {
      const result = await restoreSegment(life.deps, { log, segment }, { holdSeconds: DAY });
      expect(result).toMatchObject({ entries: 13 });
    }
    expect(await life.originals(log)).toEqual(items);
    expect(await allEntries(life.store.entries(log, { segment: 0, from: 0, to: 100 }, CONSISTENT))).toEqual(
      entries.slice(0, 13),
    );
    expect((await verify(life.deps, log)).problems).toEqual([]);
  });

  test.each([
    { name: 'one Snapshot entry a segment', sizes: { items: 10, snapshotEvery: 10 } },
    { name: 'two Snapshot entries a segment', sizes: TENS },
  ])('a restore fills empty tables, with the roots: $name', async ({ sizes }) => {
    const life = new MappedLife();
    const log = await life.create(0);
    for (let item = 0; item < 40; item++) {
      await life.append(log, 1);
      await life.store.register(log, sizes);
      await life.sweep();
    }
    const items = (await life.originals(log)).map(({ expiresAt: _, ...item }) => item);
    const copy = new MappedLife();
    for (const segment of [0, 1, 2]) {
      await restoreSegment(life.deps, { log, segment }, { into: copy.store, holdSeconds: DAY });
      const restored = await allEntries(copy.store.entries(log, { segment, from: 0, to: 100 }, CONSISTENT));
      expect(restored).toEqual(
        (await allEntries(life.reader.entries(log, { segment, from: 0, to: 100 }, CONSISTENT))).map(
          ({ expires: _, ...entry }) => entry,
        ),
      );
    }
    expect(await copy.originals(log)).toEqual(items.slice(0, 30));
  });

  test('an undo of an expiry removes the stamps of all items', async () => {
    const life = new MappedLife();
    const log = await life.create(47);
    const items = await life.originals(log);
    for (let i = 0; i < 3; i++) await life.sweep();
    expect(await life.originals(log)).not.toEqual(items);
    for (const segment of [0, 1, 2]) {
      expect(await undoExpiry(life.deps, { log, segment })).toEqual({ segment, entries: 10 });
    }
    expect(await life.originals(log)).toEqual(items);
  });

  test('verify finds an item that the application changed after it was stamped', async () => {
    const life = new MappedLife();
    const log = await life.create(47);
    for (let i = 0; i < 3; i++) await life.sweep();
    expect(await verify(life.deps, log)).toMatchObject({ archived: 3, left: 0, problems: [] });
    const item = (await life.originals(log))[12];
    if (item === undefined) throw new Error('the log is empty');
    const payload = { L: [{ L: [{ N: '2' }, { N: '0' }, { S: 'changed' }] }] };
    life.items.replace(plainItem({ ...item, payload }));
    const { problems } = await verify(life.deps, log);
    expect(problems).toMatchObject([{ part: 'archive', code: 'ARCHIVE_DIFFERS', snapshot: { segment: 1, entry: 0 } }]);
    life.nowMs += (DAY + 1) * 1000;
    life.items.expireNow(life.nowMs / 1000);
    expect(await verify(life.deps, log)).toMatchObject({ archived: 3, left: 3, problems: [] });
  });

  test('a job deletes the items of expired segments, but not the newest item of the log', {
    tags: ['I3'],
  }, async () => {
    const life = new MappedLife();
    life.policy = { ...EXPIRES, keepSegments: 1, expire: 'delete' };
    const log = await life.create(30);
    for (let i = 0; i < 6; i++) {
      await life.sweep();
      life.nowMs += (DAY + 1) * 1000;
    }
    expect((await life.originals(log)).map(({ sk }) => sk)).toEqual(
      Array.from({ length: 10 }, (_, i) => ({ N: String(20 + i) })),
    );
    const byHand = life.run({ kind: 'expire', log, segment: 2 });
    await expect(byHand).resolves.toMatchObject({ outcome: 'kept' });
    await life.append(log, 6);
    for (let i = 0; i < 6; i++) {
      await life.sweep();
      life.nowMs += (DAY + 1) * 1000;
    }
    expect((await life.originals(log)).map(({ sk }) => sk)).toEqual(
      Array.from({ length: 6 }, (_, i) => ({ N: String(30 + i) })),
    );
    expect(await life.wholeLog(log)).toHaveLength(3 * 13 + 8);
  });

  test('a collection keeps what its snapshots need', async () => {
    const life = new MappedLife();
    const { log } = await life.expiredLog();
    for (let i = 0; i < 3; i++) {
      expect(await life.run({ kind: 'collect', log })).toMatchObject({ outcome: 'collected' });
      life.nowMs += 2 * DAY * 1000;
    }
    expect((await verify(life.deps, log)).problems).toEqual([]);
    await life.stateHash(log);
  });

  test('it opens while its snapshots lag by segments, and while it has none', async () => {
    const life = new MappedLife();
    const log = await life.create(12);
    expect((await tailStart(life.reader, log)).snapshot).toBeUndefined();
    await life.sweep();
    await life.append(log, 700);
    expect((await tailStart(life.reader, log)).snapshot).toEqual({ segment: 1, entry: 0 });
    const { end } = await loadState(life.deps, log);
    expect(end).toEqual({ segment: 71, entry: 3 });
  });

  test('an item that does not fit stops its log, and no other', async () => {
    const life = new MappedLife();
    const [good, bad] = [await life.create(7), await life.create(7)];
    life.items.delete(orderItem(bad, 3));
    life.items.insert(orderItem(bad, 3, { ts: { S: 'yesterday' } }));
    const failed: string[] = [];
    for (const log of [bad, good]) {
      const job: Job = { kind: 'snapshot', log, position: { segment: 0, entry: 6 } };
      const result = await life.run(job).catch((error: unknown) => String(error));
      failed.push(typeof result === 'string' ? result : result.outcome);
    }
    expect(failed).toEqual(['stopped', 'built']);
  });

  /** A store on the same tables that knows no schedules, and the requests that it makes. */
  function counted({ items, books }: MappedLife): { readonly store: LogReader; readonly requests: string[] } {
    const requests: string[] = [];
    const count = <T extends object>(port: T, name: string): T =>
      new Proxy(port, {
        get: (target, key) => {
          const member: unknown = Reflect.get(target, key, target);
          if (typeof member !== 'function') return member;
          return (...args: unknown[]): unknown => {
            requests.push(`${name}.${String(key)}`);
            return Reflect.apply(member, target, args);
          };
        },
      });
    const options = { items: count(items, 'items'), books: count(books, 'books'), mapping: ORDERS, now: Date.now };
    return { store: unarchived(new MappedLogStore(options)), requests };
  }

  test('opening it takes two requests more than another log, and a range at most one more', async () => {
    const life = new MappedLife();
    const log = await life.create(48);
    await life.sweep();
    const { store, requests } = counted(life);
    await loadState({ ...life.deps, store }, log);
    expect(requests).toEqual(['items.newest', 'books.newestSegments', 'books.items', 'items.pages']);
    const ranges = [
      { from: 1, to: 6, most: ['items.pages'] },
      { from: 2, to: 3, most: ['items.pages'] },
      { from: 1, to: 7, most: ['books.items', 'items.pages'] },
      { from: 0, to: 13, most: ['books.items', 'items.pages'] },
    ];
    for (const { from, to, most } of ranges) {
      requests.length = 0;
      await allEntries(store.entries(log, { segment: 3, from, to }, CONSISTENT));
      expect(requests).toEqual(most);
    }
    requests.length = 0;
    await allEntries(store.entries(log, { segment: 0, from: 1, to: 6 }, CONSISTENT));
    expect(requests).toEqual(['books.getSegment', 'items.pages']);
  });

  test('opening it while its newest segment is not recorded takes up to three more', async () => {
    const life = new MappedLife();
    const log = await life.create(20);
    await life.sweep();
    await life.append(log, 13);
    const { store, requests } = counted(life);
    await loadState({ ...life.deps, store }, log);
    expect(requests.slice(0, 5)).toEqual([
      'items.newest',
      'books.newestSegments',
      'books.newestSegments',
      'items.pages',
      'books.items',
    ]);
  });
});
