import { MemoryGroupStore } from '../../../src/adapters/memory/group-store.ts';
import { MemoryLogStore } from '../../../src/adapters/memory/log-store.ts';
import { nativePlatform } from '../../../src/adapters/platform/native.ts';
import type { Feed } from '../../../src/client/feed.ts';
import { Logs } from '../../../src/client/logs.ts';
import { checkpointOf } from '../../../src/feed/checkpoint.ts';
import { FEED_LOG } from '../../../src/feed/feed-log.ts';
import { withFeed } from '../../../src/feed/feed-log-store.ts';
import type { GroupStore } from '../../../src/feed/group-store.ts';
import type { LogId } from '../../../src/ids/log-id.ts';
import { comparePositions, formatPosition, type Position } from '../../../src/ids/position.ts';
import type { Entry } from '../../../src/log/entry.ts';
import { MAX_BATCH_ITEMS } from '../../../src/log/log-store.ts';
import { FeedWriter } from '../../../src/workers/feed/feed-writer.ts';
import type { Random } from '../models/random.ts';
import { interceptGroupStore } from '../stores/interceptor.ts';
import { RecordedLogStore } from '../stores/recorded-log-store.ts';
import { testDeployment } from '../test-deployment.ts';
import { type Ports, World } from './world.ts';

/** The ports of one process in a deployment with a feed. */
export interface FeedPorts extends Ports {
  readonly groups: GroupStore;
}

/** A world whose deployment has a feed. */
export class FeedWorld extends World {
  readonly groups = new MemoryGroupStore();
  /** The feed's table, without faults. */
  readonly feedTable: RecordedLogStore;
  /** The highest checkpoint that was published. */
  published = 0;
  /** A log that went back to an earlier state, and how often the feed had begun again by then. */
  back: { readonly log: LogId; readonly pass: number } | undefined;

  constructor(random: Random) {
    super(random);
    this.feedTable = new RecordedLogStore({
      inner: new MemoryLogStore({ pageItems: 7 }),
      random,
      now: this.scheduler.now,
      // The feed's table has no stream.
      onRecord: () => undefined,
    });
  }

  override start(name: string): FeedPorts {
    // Workers delete what is old by their clocks.
    const ports = super.start(name, name === 'worker' ? 0 : this.clockErrorMs);
    const { intercept } = ports.process;
    const tables = withFeed(ports.tables, this.feedTable.through(intercept));
    const { store } = testDeployment({ tables, blobs: ports.blobs });
    return { ...ports, tables, store, groups: interceptGroupStore(this.groups, intercept) };
  }

  /** The ports of an operator, without faults. */
  operator(): FeedPorts {
    const tables = withFeed(this.tables, this.feedTable);
    const { store } = testDeployment({ tables, blobs: this.blobs });
    const { blobs, queue, groups, now } = this;
    return { ...this.start('operator'), tables, store, blobs, queue, groups, now };
  }

  writer(ports: FeedPorts): FeedWriter {
    const { scheduler, random } = this;
    const sleep = (ms: number): Promise<void> => scheduler.sleep(ms);
    return new FeedWriter({ logs: this.#logs(ports), sleep, random: () => random.next() });
  }

  reader(ports: FeedPorts): Feed {
    return this.#logs(ports).feed;
  }

  #logs({ store, tables, blobs, groups, now }: FeedPorts): Logs {
    const { scheduler, random } = this;
    return new Logs({
      store,
      tables,
      blobs,
      feedGroups: groups,
      now,
      platform: nativePlatform,
      random: () => random.next(),
      sleep: async (ms, signal) => {
        const aborted = new Promise<void>((resolve) => signal?.addEventListener('abort', () => resolve()));
        await Promise.race([scheduler.sleep(ms), aborted]);
      },
      newLogId: () => {
        throw new Error('nobody creates logs here');
      },
    });
  }

  /** Every entry of a log, in order. */
  entriesOf(log: LogId): Entry[] {
    return this.tables.history(log).map(({ entry }) => entry);
  }

  /** The number of a position in its log, from 0: how many entries are before it. */
  numberOf(log: LogId, position: Position): number {
    const number = this.entriesOf(log).findIndex((entry) => comparePositions(entry.position, position) === 0);
    if (number < 0) throw new Error(`the feed has ${log}/${formatPosition(position)}, which does not exist`);
    return number;
  }

  /** Whether the feed has entries that a log lacks, since the log went back. */
  get isAhead(): boolean {
    return this.back?.pass === this.restarts.length;
  }

  wentBack(log: LogId, pass: number): boolean {
    return this.back?.log === log && pass <= this.back.pass;
  }

  /**
   * Takes a log back to an earlier state: removes entries at its end that no snapshot has, at most
   * one batch.
   * @returns how many
   */
  async goBack(log: LogId): Promise<number> {
    const entries = this.entriesOf(log);
    const [newest] = await this.tables.newestSegments(log, 1, { consistent: true });
    if (newest === undefined) return 0;
    const { lastSnapshot, segment } = newest;
    const kept = entries.findLastIndex(({ type, position }) => {
      return (
        type !== 'Counted' || position.segment !== segment || position.entry <= (lastSnapshot?.position.entry ?? 0)
      );
    });
    const most = Math.min(entries.length - 1 - kept, MAX_BATCH_ITEMS);
    if (most === 0) return 0;
    const lost = entries.slice(-this.random.integer(1, most)).map(({ position }) => position);
    this.back = { log, pass: this.restarts.length };
    await this.tables.deleteEntries(
      log,
      segment,
      lost.map(({ entry }) => entry),
    );
    for (const position of lost) this.tables.lose(log, position);
    this.trace(`${this.scheduler.now()} ${log} goes back by ${lost.length} entries`);
    return lost.length;
  }

  /** The checkpoints at which the feed began again, in order. */
  get restarts(): number[] {
    const entries = this.feedTable.history(FEED_LOG).filter(({ entry }) => entry.type === 'Restart');
    return entries.map(({ entry }) => checkpointOf(entry.position));
  }
}
