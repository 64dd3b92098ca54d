import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { encodeItemLine } from '../../src/archive/item-line.ts';
import { MAX_NUMBER, type Position } from '../../src/ids/position.ts';
import type { Item } from '../../src/log/attribute.ts';
import { LogClient, type NewEntry } from '../../src/log/client.ts';
import { type RootRef, rootOf } from '../../src/log/entry.ts';
import type { LogReader, LogStore } from '../../src/log/log-store.ts';
import type { Segment } from '../../src/log/segment.ts';
import type { Root } from '../../src/snapshot/root.ts';
import { chunkStore, loadRoot, nodeStore } from '../../src/snapshot/snapshots.ts';
import { Draft } from '../../src/state/draft.ts';
import { type SheetEdit, sheetBody } from '../../src/state/spreadsheet/reducer.ts';
import type { BlobStore } from '../../src/store/blob-store.ts';
import type { JobDeps } from '../../src/workers/dispatch/run-job.ts';
import { type ArchiveResult, archiveSegment } from '../../src/workers/retention/archive-segment.ts';
import { completeSnapshot, type SnapshotDeps, type SnapshotResult } from '../../src/workers/snapshot/build-snapshot.ts';
import { type FlushResult, flushSnapshot } from '../../src/workers/snapshot/flush-snapshot.ts';
import { LOG, NOON, unarchived } from './logs.ts';
import { flushedHash } from './models/flushed-hash.ts';
import { Random } from './models/random.ts';
import { readRows } from './models/versioned-sheet.ts';
import { type Interceptor, interceptBlobStore, interceptLogStore } from './stores/interceptor.ts';
import { testDeployment } from './test-deployment.ts';

/** Everything that the stores hold of one log, each item as text, so that comparing is fast. */
export interface Contents {
  readonly entries: readonly string[];
  readonly segments: readonly Segment[];
  /** Objects by key. */
  readonly objects: Readonly<Record<string, string>>;
}

/**
 * One log of a sheet on memory adapters, and a worker for it. The log id is always the same, and
 * all parts share one clock.
 */
export class SheetLog {
  readonly log = LOG;
  /** Epoch milliseconds. Only tests move it. */
  nowMs = NOON * 1000;
  readonly tables: MemoryLogStore;
  readonly blobs: BlobStore = new MemoryBlobStore(() => this.nowMs);
  readonly deps: Omit<JobDeps, 'queue'>;
  readonly #client: LogClient;
  readonly #random = new Random(1);

  private constructor(nodes: SnapshotDeps['nodes'], tables: MemoryLogStore) {
    this.tables = tables;
    const { blobs } = this;
    const ports = { now: () => this.nowMs, random: () => this.#random.next(), newLogId: () => LOG };
    const deployment = testDeployment({ tables, blobs, nodes, ...ports });
    this.deps = deployment;
    this.#client = new LogClient({ ...deployment, store: unarchived(tables) });
  }

  static async create(nodes?: SnapshotDeps['nodes'], tables = new MemoryLogStore()): Promise<SheetLog> {
    const sheet = new SheetLog(nodes, tables);
    await sheet.#client.createLog();
    return sheet;
  }

  /** Appends edits, and returns the position of the last one. */
  async edit(...edits: readonly SheetEdit[]): Promise<Position> {
    let last: Position = { segment: 0, entry: 0 };
    for (const edit of edits) last = await this.append({ type: edit.type, version: 1, body: sheetBody(edit) });
    return last;
  }

  /** Appends any entry. */
  async append(entry: NewEntry): Promise<Position> {
    return (await this.#client.addEntry(this.log, entry)).position;
  }

  /** Writes a file for an entry, and returns its key. */
  saveFile(bytes: Uint8Array): Promise<string> {
    return this.#client.saveFile(this.log, async function* () {
      yield bytes;
    });
  }

  /** Appends a text for each cell of some rows. Texts have `length` random characters. */
  fill(rows: number, columns: number, length = 7): Promise<Position> {
    const cells = Array.from({ length: rows * columns }, (_, i) => {
      return [Math.floor(i / columns), i % columns, this.#random.text(length)] as const;
    });
    return this.edit({ type: 'Set', cells });
  }

  /** Appends a Snapshot entry. */
  async snapshot(): Promise<Position> {
    return (await this.#client.addSnapshot(this.log)).position;
  }

  /** Starts a segment, and returns the position of its Snapshot entry. */
  async segment(): Promise<Position> {
    return (await this.#client.startSegment(this.log)).position;
  }

  /** Starts a segment and completes its first snapshot, so that the previous segment is covered. */
  async covered(): Promise<Position> {
    const position = await this.segment();
    await this.complete(position);
    return position;
  }

  /**
   * Archives a segment in a single run.
   * @throws Error if the archive is not finished before the deadline
   */
  async archive(
    segment = 0,
    deps: Partial<JobDeps> = {},
  ): Promise<Exclude<ArchiveResult, { outcome: 'archiving' | 'foreign' }>> {
    const result = await archiveSegment({ ...this.deps, ...deps }, { log: this.log, segment });
    if (result.outcome === 'archiving') throw new Error('the archive was not finished before the deadline');
    if (result.outcome === 'foreign') throw new Error(result.reason);
    return result;
  }

  /** Completes the snapshot of a Snapshot entry. */
  complete(position: Position, deps: Partial<SnapshotDeps> = {}): Promise<SnapshotResult> {
    return completeSnapshot({ ...this.deps, ...deps }, { kind: 'snapshot', log: this.log, position });
  }

  /** Appends a Snapshot entry and completes its snapshot. */
  async completed(deps: Partial<SnapshotDeps> = {}): Promise<Position> {
    const position = await this.snapshot();
    await this.complete(position, deps);
    return position;
  }

  /** Flushes a complete snapshot. */
  flush(position: Position, deps: Partial<SnapshotDeps> = {}): Promise<FlushResult> {
    return flushSnapshot({ ...this.deps, ...deps }, { kind: 'flush', log: this.log, position });
  }

  /** The root reference on a Snapshot entry. */
  async ref(position: Position): Promise<RootRef | undefined> {
    const entry = await this.tables.getEntry(this.log, position);
    return entry && rootOf(entry);
  }

  /** The state hash of a complete snapshot, see {@link flushedHash}. */
  async stateHash(position: Position): Promise<string> {
    const { state } = await this.root(position);
    return flushedHash(chunkStore(this.blobs, this.log), state, this.deps.nodes);
  }

  /** The root that a Snapshot entry names. */
  async root(position: Position): Promise<Root> {
    const ref = await this.ref(position);
    if (ref === undefined) throw new Error(`no snapshot at ${position.segment}/${position.entry}`);
    return loadRoot(this.deps, { log: this.log, position }, ref);
  }

  /** The rows of a complete snapshot. */
  async rows(position: Position): Promise<string[][]> {
    const { state } = await this.root(position);
    return readRows(new Draft(nodeStore(this.deps, this.log), state));
  }

  /**
   * The item of a segment.
   * @throws Error if there is no such segment
   */
  async segmentItem(segment = 0): Promise<Segment> {
    const found = await this.tables.getSegment(this.log, segment);
    if (found === undefined) throw new Error(`no segment ${segment}`);
    return found;
  }

  /** The items of a segment's entries in the table. */
  async items(segment = 0): Promise<Item[]> {
    const pages = await Array.fromAsync(this.tables.items(this.log, { segment, from: 0, to: MAX_NUMBER + 1 }));
    return pages.flat();
  }

  /** Keys of all objects with a prefix. */
  async keys(prefix = ''): Promise<string[]> {
    return (await Array.fromAsync(this.blobs.list(prefix))).map(({ key }) => key);
  }

  /** Last Snapshot of a segment. */
  async lastSnapshot(segment = 0): Promise<number | undefined> {
    return (await this.tables.getSegment(this.log, segment))?.lastSnapshot?.position.entry;
  }

  async contents(): Promise<Contents> {
    const segments = await Array.fromAsync(this.tables.segments(this.log));
    const entries: string[] = [];
    for (const { segment } of segments) entries.push(...(await this.items(segment)).map(encodeItemLine));
    const objects: Record<string, string> = {};
    for await (const { key } of this.blobs.list('')) {
      objects[key] = Buffer.from((await this.blobs.get(key)) ?? []).toString('base64');
    }
    return { entries, segments, objects };
  }
}

/** The ports of a worker of one log. */
export interface SheetPorts {
  readonly store: LogReader;
  readonly tables: LogStore;
  readonly blobs: BlobStore;
}

/** The stores of a log, with an interceptor for each operation. */
export function interceptPorts(sheet: SheetLog, intercept: Interceptor): SheetPorts {
  const tables = interceptLogStore(sheet.tables, intercept);
  return { store: unarchived(tables), tables, blobs: interceptBlobStore(sheet.blobs, intercept) };
}

/** The dependencies of a log's worker, with an interceptor for each operation of its stores. */
export function interceptDeps(sheet: SheetLog, intercept: Interceptor): SheetLog['deps'] {
  const { tables, blobs } = interceptPorts(sheet, intercept);
  const { store } = testDeployment({ tables, blobs });
  return { ...sheet.deps, tables, blobs, store };
}

/**
 * The stores of a log, and the names of their writing operations in the order in which they took
 * effect.
 */
export function recordWrites(sheet: SheetLog): {
  readonly writes: string[];
  readonly ports: SheetPorts;
} {
  const writes: string[] = [];
  const intercept: Interceptor = async (name, effect) => {
    const answer = await effect();
    if (name === 'put' || name === 'delete' || name === 'completeSnapshot' || name === 'replaceRoot') writes.push(name);
    if (name === 'advanceLastSnapshot' && answer === true) writes.push(name);
    return answer;
  };
  return { writes, ports: interceptPorts(sheet, intercept) };
}

/** The edit of one cell. */
export function set(row: number, column: number, value: string): SheetEdit {
  return { type: 'Set', cells: [[row, column, value]] };
}
