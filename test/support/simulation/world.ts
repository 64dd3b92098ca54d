import { MemoryBlobStore } from '../../../src/adapters/memory/blob-store.ts';
import { MemoryJobQueue } from '../../../src/adapters/memory/job-queue.ts';
import { MemoryLogStore } from '../../../src/adapters/memory/log-store.ts';
import { nativePlatform } from '../../../src/adapters/platform/native.ts';
import { type LogId, parseLogId } from '../../../src/ids/log-id.ts';
import { comparePositions, formatPosition, type Position } from '../../../src/ids/position.ts';
import { LogClient, type NewEntry } from '../../../src/log/client.ts';
import { type DivisionPolicy, NO_DIVISION } from '../../../src/log/division-policy.ts';
import { type Entry, RESERVED_TYPES, type ReservedTypes } from '../../../src/log/entry.ts';
import type { EntryPlace } from '../../../src/log/item-codec.ts';
import type { LogReader, LogStore } from '../../../src/log/log-store.ts';
import { VIRTUAL_TYPES } from '../../../src/log/schedule.ts';
import { DEFAULT_POLICY, type RetentionPolicy } from '../../../src/retention/retention-policy.ts';
import type { Reducer } from '../../../src/state/reducer.ts';
import type { SheetEdit } from '../../../src/state/spreadsheet/reducer.ts';
import type { BlobStore } from '../../../src/store/blob-store.ts';
import type { JobQueue } from '../../../src/store/job-queue.ts';
import type { StreamRecord } from '../../../src/workers/dispatch/route-stream-records.ts';
import type { JobDeps } from '../../../src/workers/dispatch/run-job.ts';
import type { SnapshotDeps } from '../../../src/workers/snapshot/build-snapshot.ts';
import { SMALL_SHAPE } from '../chunks.ts';
import { NOON } from '../logs.ts';
import type { Random } from '../models/random.ts';
import { versionedSheet } from '../models/versioned-sheet.ts';
import { interceptBlobStore, interceptJobQueue } from '../stores/interceptor.ts';
import { type MappedStore, MappedTables } from '../stores/mapped-tables.ts';
import { RecordedLogStore, type WatchedTables } from '../stores/recorded-log-store.ts';
import { testDeployment } from '../test-deployment.ts';
import type { ApplicationSchema } from './application-items.ts';
import { type FaultRates, NO_FAULTS, Process } from './process.ts';
import type { Rivals } from './rivals.ts';
import { Scheduler } from './scheduler.ts';
import { WatchedBlobStore } from './watched-blob-store.ts';

/** The ports of one process, with its faults. */
export interface Ports {
  readonly process: Process;
  /** The tables, without archives. */
  readonly tables: LogStore;
  /** The same tables if they are mapped. */
  readonly mapped: MappedStore | undefined;
  /** The tables with their archives. */
  readonly store: LogReader;
  readonly blobs: BlobStore;
  readonly queue: JobQueue;
  /** Epoch milliseconds. */
  readonly now: () => number;
}

/** The ports that reading and building need. */
export type View = Pick<Ports, 'tables' | 'mapped' | 'store' | 'blobs' | 'now'>;

/** An entry that stops every snapshot after it. */
export interface Poison {
  readonly code: string;
  /** The first version of the reducer that can fold it. */
  readonly curedBy: number;
}

/** The ids of the second and the third log of a history, which their application chose. */
const CHOSEN_IDS = [undefined, '../a%2F\u{0}\\é', `~${'B'.repeat(255)}`];

/** A small cloud: tables, bucket and queue in memory, one clock, and their faults. */
export class World {
  readonly random: Random;
  readonly scheduler = new Scheduler(NOON * 1000);
  readonly tables: WatchedTables;
  /** The same tables if the logs of this world are mapped. */
  readonly mapped: MappedTables | undefined;
  readonly types: ReservedTypes;
  readonly store: LogReader;
  readonly blobs: WatchedBlobStore;
  readonly queue: MemoryJobQueue;
  /** Every insertion, in order. */
  readonly records: StreamRecord[] = [];
  /** Records that the router has not received yet. */
  stream: StreamRecord[] = [];
  readonly logs: LogId[] = [];
  /** The edit of each entry, by the unique number that the entry carries as its creation time. */
  readonly edits = new Map<number, SheetEdit>();
  readonly poisons = new Map<number, Poison>();
  /** The client that was told it wrote the entry, by position. */
  readonly #told = new Map<string, string>();
  /** The attributes that clients were told they set. */
  readonly attributes: (EntryPlace & { readonly name: string })[] = [];
  /** The highest mutation of each client that the client was told to be in the log. */
  readonly confirmed = new Map<string, number>();
  /** Entries that a client is adding to a log. Another client may add equal ones. */
  readonly adding = new Map<LogId, readonly NewEntry[]>();
  /** Snapshot entries with a damaged root, until an operator deletes them. */
  damagedRoots: EntryPlace[] = [];
  /** Snapshot entries on which another program wrote. */
  readonly foreign: Entry[] = [];
  /** The trace: one line for each event. */
  readonly lines: string[] = [];
  /** The deployed version of the reducer. */
  version = 1;
  faults: FaultRates = NO_FAULTS;
  policy: RetentionPolicy = { ...DEFAULT_POLICY, graceSeconds: 3600 };
  /** Decides where Snapshot and End Segment entries are due without being asked for. */
  division: DivisionPolicy = NO_DIVISION;
  /** Whether the sweep looks for mapped logs that are not registered. */
  adopts = false;
  /** Who acts between the requests of workers; undefined if nobody does. */
  rivals: Rivals | undefined;
  /** Largest error of clocks in either direction, in milliseconds. */
  clockErrorMs = 0;
  /** Entries that are gone from the table and not yet checked. */
  removed: EntryPlace[] = [];
  /** Probability that a stream record is lost, and that it comes twice. */
  streamFaults = { lost: 0, twice: 0 };
  /** The shape of trees. */
  readonly nodes: SnapshotDeps['nodes'];
  /** Entries per page. A build may stop after each page. */
  readonly rangeEntries: number | undefined;
  readonly #processes = new Map<string, number>();
  // Far from clock times, so that no other entry has the same creation time.
  #serial = 1_000_000;

  /** @param schema how an application writes the logs of this world; logfold's own by default */
  constructor(random: Random, schema?: ApplicationSchema) {
    const { now } = this.scheduler;
    this.random = random;
    this.queue = new MemoryJobQueue({ now, maxReceives: 6 });
    this.blobs = new WatchedBlobStore(new MemoryBlobStore(now));
    const onRecord = (record: StreamRecord): void => this.#record(record);
    const onGone = (place: EntryPlace): void => {
      this.removed.push(place);
    };
    const memory = new MemoryLogStore({ pageItems: 7 });
    this.mapped = schema && new MappedTables({ schema, random, now, onRecord, onGone });
    this.tables = this.mapped ?? new RecordedLogStore({ inner: memory, random, now, onRecord, onGone });
    this.types = this.mapped === undefined ? RESERVED_TYPES : VIRTUAL_TYPES;
    this.store = testDeployment({ tables: this.tables, blobs: this.blobs }).store;
    this.nodes = random.chance(0.6) ? { shape: SMALL_SHAPE } : {};
    this.rangeEntries = random.pick([undefined, 2, 5]);
  }

  /** The true time, in epoch milliseconds. */
  get now(): () => number {
    return this.scheduler.now;
  }

  /**
   * Deletes expired items, as DynamoDB eventually does.
   * @param share share of the expired items to delete
   */
  fireTtl(share: number): void {
    const gone = this.tables.expireNow(Math.floor(this.scheduler.now() / 1000), () => this.random.chance(share));
    if (gone > 0) this.trace(`${this.scheduler.now()} TTL removes ${gone} entries`);
  }

  /**
   * Records that a client was told it wrote some entries, starting at a position.
   * @throws Error if one of them does not exist, differs, or belongs to another client
   */
  tell(name: string, log: LogId, first: Position, entries: readonly Pick<NewEntry, 'type' | 'created'>[]): void {
    for (const [i, { type, created }] of entries.entries()) {
      const position = { segment: first.segment, entry: first.entry + i };
      const place = `${log}/${formatPosition(position)}`;
      const other = this.#told.get(place);
      if (other !== undefined) throw new Error(`both ${name} and ${other} were told that they wrote ${place}`);
      this.#told.set(place, name);
      const written = this.tables.history(log).find(({ entry }) => comparePositions(entry.position, position) === 0);
      if (written === undefined) throw new Error(`${name} was told that it wrote ${place}, which does not exist`);
      if (written.entry.type === type && (created === undefined || written.entry.created === created)) continue;
      throw new Error(`${name} was told that it wrote ${place}, which holds another entry`);
    }
  }

  /** The logs that logfold knows: of the mapped ones, those that are registered. */
  get registered(): readonly LogId[] {
    const { mapped, logs } = this;
    return mapped === undefined ? logs : logs.filter((log) => mapped.isRegistered(log));
  }

  /** A number that identifies one entry. */
  nextSerial(): number {
    return ++this.#serial;
  }

  readonly trace = (line: string): void => {
    this.lines.push(line);
  };

  /**
   * Starts a process with its own view of the ports.
   * @param clockErrorMs largest error of its clock in either direction, in milliseconds
   */
  start(name: string, clockErrorMs = this.clockErrorMs): Ports {
    const number = (this.#processes.get(name) ?? 0) + 1;
    this.#processes.set(name, number);
    const process = new Process({
      name: `${name}.${number}`,
      scheduler: this.scheduler,
      random: this.random,
      faults: () => this.faults,
      trace: this.trace,
      clockErrorMs,
    });
    const mapped = this.mapped?.through(process.intercept);
    const tables = mapped ?? this.tables.through(process.intercept);
    const blobs = interceptBlobStore(this.blobs, process.intercept);
    const { store } = testDeployment({ tables, blobs });
    return {
      process,
      tables,
      mapped,
      store,
      blobs,
      queue: interceptJobQueue(this.queue, process.intercept),
      now: process.now,
    };
  }

  client({ store, tables, blobs, now }: View): LogClient {
    return new LogClient({
      store,
      tables,
      blobs,
      now,
      random: () => this.random.next(),
      sleep: this.scheduler.sleep,
      newLogId: () => {
        const number = this.logs.length;
        const uuid = `0192f7a0-0000-7000-8000-${String(number + 1).padStart(12, '0')}`;
        const log = parseLogId(CHOSEN_IDS[number] ?? uuid);
        this.logs.push(log);
        return log;
      },
    });
  }

  /** The dependencies of a snapshot worker, a loading client or a check. */
  deps(ports: View = this, reducer: Reducer = versionedSheet(this.version)): Omit<JobDeps, 'queue'> {
    const { tables, mapped, store, blobs, now } = ports;
    const { nodes, rangeEntries, policy, division } = this;
    const random = (): number => this.random.next();
    const stores = { tables, store, blobs, platform: nativePlatform, types: this.types, nodes, rangeEntries };
    return { ...stores, scheduler: mapped, reducer, now, random, division, policyOf: () => policy };
  }

  #record(record: StreamRecord): void {
    if (record.eventName === 'INSERT') this.records.push(record);
    if (this.random.chance(this.streamFaults.lost)) return;
    this.stream.push(record);
    if (this.random.chance(this.streamFaults.twice)) this.stream.push(record);
  }
}
