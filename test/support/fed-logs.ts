import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { MemoryGroupStore } from '../../src/adapters/memory/group-store.ts';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import type { FeedItem } from '../../src/client/feed.ts';
import { Logs } from '../../src/client/logs.ts';
import { FEED_LOG } from '../../src/feed/feed-log.ts';
import { withFeed } from '../../src/feed/feed-log-store.ts';
import { feedReducer } from '../../src/feed/feed-reducer.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { formatPosition } from '../../src/ids/position.ts';
import { RESERVED_TYPES } from '../../src/log/entry.ts';
import type { LogStore } from '../../src/log/log-store.ts';
import { queryNewest } from '../../src/log/newest.ts';
import type { Reducer } from '../../src/state/reducer.ts';
import { FeedWriter } from '../../src/workers/feed/feed-writer.ts';
import { completeSnapshot } from '../../src/workers/snapshot/build-snapshot.ts';
import { NOON, recordRequests } from './logs.ts';
import { Random } from './models/random.ts';
import { testDeployment } from './test-deployment.ts';

/** A clock whose waits end when a test moves it. */
export class TestClock {
  nowMs = NOON * 1000;
  readonly #waits = new Set<{ readonly untilMs: number; readonly end: () => void }>();

  readonly sleep = (ms: number, signal?: AbortSignal): Promise<void> => {
    return new Promise((resolve) => {
      if (signal?.aborted === true) return resolve();
      const wait = { untilMs: this.nowMs + ms, end: resolve };
      this.#waits.add(wait);
      signal?.addEventListener('abort', () => {
        this.#waits.delete(wait);
        resolve();
      });
    });
  };

  /** The number of waits that have not ended. */
  get waits(): number {
    return this.#waits.size;
  }

  /** Moves the clock, in milliseconds, and runs what waited for it. */
  async elapse(ms: number): Promise<void> {
    const untilMs = this.nowMs + ms;
    for (;;) {
      await settled();
      const [next] = [...this.#waits].filter((wait) => wait.untilMs <= untilMs).sort((a, b) => a.untilMs - b.untilMs);
      if (next === undefined) break;
      this.#waits.delete(next);
      this.nowMs = Math.max(this.nowMs, next.untilMs);
      next.end();
    }
    this.nowMs = untilMs;
    await settled();
  }
}

/** Lets everything run that waits for no clock. */
export async function settled(): Promise<void> {
  for (let i = 0; i < 50; i++) await new Promise((resolve) => setImmediate(resolve));
}

/** Logs and their feed in memory. */
export class FedLogs {
  readonly clock = new TestClock();
  readonly groups = new MemoryGroupStore();
  readonly blobs = new MemoryBlobStore();
  /** Names of the requests to the tables of all clients, in order. Clear it with `length = 0`. */
  readonly requests: string[] = [];
  readonly tables: LogStore = recordRequests(withFeed(new MemoryLogStore(), new MemoryLogStore()), this.requests);
  readonly store = testDeployment({ tables: this.tables, blobs: this.blobs }).store;
  readonly logs: Logs = this.open();
  readonly writer = new FeedWriter({ logs: this.logs, sleep: async () => undefined, random: Math.random });

  /**
   * Another client, which shares no cache with the others.
   * @param clockErrorMs how far its clock is ahead, in milliseconds
   */
  open(clockErrorMs = 0, tables: LogStore = this.tables): Logs {
    const random = new Random(clients++);
    const { blobs, clock, groups: feedGroups } = this;
    const time = { now: () => clock.nowMs + clockErrorMs, sleep: clock.sleep };
    return new Logs(testDeployment({ tables, blobs, feedGroups, ...time, random: () => random.next() }));
  }

  /** Creates a log. */
  create(): Promise<LogId> {
    return this.logs.client.createLog();
  }

  /** Appends so many entries to a log. Their bodies are their numbers. */
  async append(log: LogId, count: number): Promise<void> {
    for (let i = 0; i < count; i++) {
      const { number } = await queryNewest({ store: this.store, types: RESERVED_TYPES }, log, { consistent: true });
      await this.logs.client.addEntry(log, { type: 'Set', version: 1, body: (number ?? 0) + 1 });
    }
  }

  /** Makes a snapshot of a log at its end. */
  async snapshot(log: LogId): Promise<void> {
    const { position } = await this.logs.client.addSnapshot(log);
    const { store, tables, blobs } = this;
    const deps = { store, tables, blobs, platform: nativePlatform, types: RESERVED_TYPES, now: () => this.clock.nowMs };
    await completeSnapshot(
      { ...deps, reducer: log === FEED_LOG ? feedReducer : IDLE },
      { kind: 'snapshot', log, position },
    );
  }

  /** Feeds logs up to their newest entries, in one batch. */
  async feed(...logs: readonly LogId[]): Promise<void> {
    const source = { store: this.store, types: RESERVED_TYPES };
    const ends = logs.map(async (log) => {
      const { position } = await queryNewest(source, log, { consistent: true });
      return { log, position };
    });
    await this.writer.add(await Promise.all(ends));
  }
}

let clients = 5_000;

/** Folds any entry to nothing. */
const IDLE: Reducer = { name: 'idle', version: 1, fold: () => undefined };

/** Items as text: the log, the position and the checkpoint. */
export function itemTexts(items: readonly FeedItem[], names: readonly LogId[]): string[] {
  return items.map(({ log, entry, checkpoint }) => {
    return `${'abcdefgh'.charAt(names.indexOf(log))} ${formatPosition(entry.position)} ${checkpoint}`;
  });
}
