import { type Archive, openArchive } from '../../archive/reader.ts';
import { firstDifference } from '../../archive/verify-archive.ts';
import type { ChunkId } from '../../codec/chunk.ts';
import { ArchiveDiffersError, LogfoldError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import { formatPosition, MAX_NUMBER, type Position } from '../../ids/position.ts';
import { type Entry, type ReservedTypes, rootOf } from '../../log/entry.ts';
import {
  countParts,
  type ForeignPart,
  guardArchive,
  guardPointer,
  guardRoot,
  type PartCounts,
} from '../../log/guard.ts';
import { lastWithoutRoot } from '../../log/last-snapshot.ts';
import type { TableReader } from '../../log/log-store.ts';
import { querySegments, requireDense } from '../../log/newest.ts';
import { readEntries } from '../../log/read-entries.ts';
import { isFrozen, mayLackEntries, type Segment } from '../../log/segment.ts';
import type { RetentionPolicy } from '../../retention/retention-policy.ts';
import { loadRoot, nodeStore, type SnapshotStores } from '../../snapshot/snapshots.ts';
import { stateTops } from '../../state/state.ts';
import { at } from '../../tree/array.ts';
import { isLeaf, type Node, valueBytes } from '../../tree/node.ts';
import type { NodeStore } from '../../tree/node-store.ts';
import { referencedId } from '../../tree/read.ts';
import { readRecords } from '../gc/collection-record.ts';
import { IdSet } from '../gc/id-set.ts';
import { keepsRoot } from '../gc/kept-roots.ts';

export interface VerifyDeps extends SnapshotStores {
  /** The tables alone, whose items are compared with the archives. */
  readonly tables: Pick<TableReader, 'items'>;
  readonly types: ReservedTypes;
  /** The snapshots that the policy keeps of segments in the table; all by default. */
  readonly keepSnapshots?: RetentionPolicy['keepSnapshots'] | undefined;
  /** Called as chunks are checked, with their number so far. */
  readonly onProgress?: (chunks: number) => void;
}

/** A missing or damaged part of a snapshot, or a missing or damaged archive. */
export interface Problem {
  /** The snapshot's position; for an archive, the position of the segment's first entry. */
  readonly snapshot: Position;
  /** A chunk's id, or the kind of another object. */
  readonly part: ChunkId | 'root' | 'archive';
  readonly code: string;
  readonly message: string;
}

export interface Verified {
  /** Kept snapshots. */
  readonly snapshots: number;
  /** Archives, each of which was read completely. */
  readonly archived: number;
  /**
   * Archived segments with entries that have left the table. Time to Live removes an entry a few
   * days after it was compared with its archive. If another program changed it in between, the
   * change is lost, and nothing shows it.
   */
  readonly left: number;
  /** Segments with entries that expired without an archive and cannot be checked. */
  readonly expired: number;
  /** Distinct chunks that were read and match their hashes. */
  readonly chunks: number;
  readonly bytes: number;
  readonly problems: readonly Problem[];
  /** Parts that another program wrote. It is not checked. */
  readonly foreign: PartCounts;
}

/**
 * Reads every chunk of every kept snapshot of a log, and every entry, including archived ones.
 * Checks that all parts exist, and that chunks and archives match their hashes. Compares archives
 * with the entries that are still in the table: another program may have changed one, and its
 * change would be lost when the entry expires. Goes on after a problem, to find all problems. If a
 * segment expires without an archive, checks only the entries that are left.
 * @throws LogNotFoundError if the log has no segment
 * @throws SegmentGapError if a segment is missing
 * @throws EntryGapError if an entry is neither in the table nor in an archive
 */
export async function verify(deps: VerifyDeps, log: LogId): Promise<Verified> {
  const segments = await querySegments(deps.store, log, { consistent: true });
  requireDense(log, segments);
  const { dropped } = await readRecords(deps.blobs, log);
  const run = new Verification(deps, log, dropped);
  for (const [i, segment] of segments.entries()) await run.segment(segment, segments[i + 1]);
  return run.result;
}

class Verification {
  readonly #deps: VerifyDeps;
  readonly #log: LogId;
  /** Snapshots that collections have dropped. */
  readonly #dropped: ReadonlyMap<string, number>;
  readonly #types: ReservedTypes;
  readonly #nodes: NodeStore;
  /**
   * Nodes and values are separate, because a value may have the same bytes as a node and has no
   * children.
   */
  readonly #seen: Seen = { nodes: new IdSet(), values: new IdSet() };
  readonly #problems: Problem[] = [];
  #snapshots = 0;
  #archived = 0;
  #left = 0;
  #expired = 0;
  readonly #passedOver: ForeignPart[] = [];

  constructor(deps: VerifyDeps, log: LogId, dropped: ReadonlyMap<string, number>) {
    this.#deps = deps;
    this.#log = log;
    this.#dropped = dropped;
    this.#types = deps.types;
    this.#nodes = nodeStore(deps, log);
  }

  get result(): Verified {
    const { read: chunks, bytesRead: bytes } = this.#nodes.counts;
    const [snapshots, archived, left, expired] = [this.#snapshots, this.#archived, this.#left, this.#expired];
    const foreign = countParts(this.#passedOver);
    return { snapshots, archived, left, expired, chunks, bytes, problems: this.#problems, foreign };
  }

  async segment(segment: Segment, next: Segment | undefined): Promise<void> {
    await this.#entries(segment, next);
    await this.#last(segment);
  }

  async #entries(segment: Segment, next: Segment | undefined): Promise<void> {
    if (segment.archive !== undefined) await this.#archive(segment);
    else if (isFrozen(segment)) await this.#expiring(segment);
    else {
      const to = next === undefined ? 'end' : { segment: next.segment, entry: 0 };
      const range = { from: { segment: segment.segment, entry: 0 }, to, newestSegment: segment.segment } as const;
      for await (const page of readEntries({ store: this.#deps.store, types: this.#types }, this.#log, range)) {
        for (const entry of page) await this.#entry(segment, entry);
      }
    }
  }

  /**
   * Checks that Last Snapshot names a Snapshot entry with a root, because a load starts there, or
   * counts it if another program wrote it.
   */
  async #last(segment: Segment): Promise<void> {
    const { lastSnapshot } = segment;
    const pointer = await guardPointer(this.#deps.store, segment);
    for (const part of [guardArchive(segment), pointer]) if (part !== undefined) this.#passedOver.push(part);
    if (lastSnapshot === undefined || pointer !== undefined || mayLackEntries(segment)) return;
    if (this.#problems.some(({ part, snapshot }) => part === 'archive' && snapshot.segment === segment.segment)) return;
    const snapshot = lastSnapshot.position;
    await this.#check({ snapshot, part: 'root' }, async () => {
      const entry = await this.#deps.store.getEntry(this.#log, snapshot, { consistent: true });
      const isNamed = entry?.type === this.#types.snapshot && rootOf(entry) !== undefined;
      if (!isNamed) throw lastWithoutRoot(segment);
    });
  }

  /** Checks the entries that are left of a segment without an archive. */
  async #expiring(segment: Segment): Promise<void> {
    const range = { segment: segment.segment, from: 0, to: MAX_NUMBER + 1 };
    let entries = 0;
    let last: Entry | undefined;
    for await (const page of this.#deps.store.entries(this.#log, range, { consistent: true })) {
      for (const entry of page) await this.#entry(segment, entry);
      entries += page.length;
      last = page.at(-1) ?? last;
    }
    const whole = last?.type === this.#types.endSegment && last.position.entry === entries - 1;
    if (!whole) this.#expired++;
  }

  async #archive(segment: Segment): Promise<void> {
    const place = { segment: segment.segment, entry: 0 };
    await this.#check({ snapshot: place, part: 'archive' }, async () => {
      const archive = await openArchive({ ...this.#deps, tables: this.#deps.store }, segment);
      for await (const page of archive.entries(0, archive.end)) {
        for (const entry of page) await this.#entry(segment, entry);
      }
      this.#archived++;
      await this.#compareWithTable(segment, archive);
    });
  }

  /** Compares the entries of a segment that are still in the table with its archive. */
  async #compareWithTable(segment: Segment, archive: Archive): Promise<void> {
    const range = { segment: segment.segment, from: 0, to: MAX_NUMBER + 1 };
    const types = this.#types;
    let present = 0;
    let changed: number | undefined;
    for await (const page of this.#deps.tables.items(this.#log, range, { consistent: true })) {
      present += page.length;
      // The root of a Snapshot entry may have changed since, and is checked by itself.
      const entries = page.filter(({ T }) => T?.S !== types.snapshot);
      changed ??= await firstDifference(archive, entries, { segment, types });
    }
    if (present < archive.end) this.#left++;
    if (changed === undefined) return;
    throw new ArchiveDiffersError('another program changed the entry after it was archived', {
      ...{ log: this.#log, segment: segment.segment, entry: changed },
      advice: `Append its change to the log again before the entry expires; 'logfold expire LOG ${segment.segment} --undo' keeps it until then`,
    });
  }

  async #entry(segment: Segment, entry: Entry): Promise<void> {
    if (entry.type !== this.#types.snapshot) return;
    const part = guardRoot(entry);
    if (part !== undefined) this.#passedOver.push(part);
    const ref = rootOf(entry);
    if (ref === undefined) return;
    const { keepSnapshots = 'all' } = this.#deps;
    const snapshot = entry.position;
    if (!keepsRoot(segment, snapshot.entry, { keepSnapshots, dropped: this.#dropped })) return;
    this.#snapshots++;
    await this.#check({ snapshot, part: 'root' }, async () => {
      const root = await loadRoot(this.#deps, { log: this.#log, position: snapshot }, ref);
      const check: Check = (part, read) => this.#check({ snapshot, part }, read);
      for (const top of stateTops(root.state)) await checkBelow(this.#nodes, top, this.#seen, check);
    });
    this.#deps.onProgress?.(this.#nodes.counts.read);
  }

  async #check(where: Pick<Problem, 'snapshot' | 'part'>, read: () => Promise<void>): Promise<void> {
    try {
      await read();
    } catch (error) {
      const isFound = error instanceof LogfoldError && (error.stopsLog || error instanceof ArchiveDiffersError);
      if (!isFound) throw error;
      this.#problems.push({ ...where, code: error.code, message: error.message });
    }
  }
}

interface Seen {
  readonly nodes: IdSet;
  readonly values: IdSet;
}

type Check = (chunk: ChunkId, read: () => Promise<void>) => Promise<void>;

async function checkBelow(nodes: NodeStore, node: Node, seen: Seen, check: Check): Promise<void> {
  if (isLeaf(node)) {
    for (let i = 0; i < node.keys.length; i++) {
      const id = referencedId(valueBytes(node, i));
      if (id === undefined || !seen.values.add(id)) continue;
      await check(id, async () => {
        await nodes.loadValue(id);
      });
    }
    return;
  }
  for (let i = 0; i < node.children.length; i++) {
    const child = at(node.children, i);
    if (child.id === undefined || !seen.nodes.add(child.id)) continue;
    await check(child.id, async () => checkBelow(nodes, await nodes.load(child), seen, check));
  }
}

/** One line for an operator. */
export function describeProblem({ snapshot, part, code, message }: Problem): string {
  if (part === 'archive') return `segment ${snapshot.segment}, archive: ${code}: ${message}`;
  return `snapshot ${formatPosition(snapshot)}, ${part === 'root' ? part : `chunk ${part}`}: ${code}: ${message}`;
}
