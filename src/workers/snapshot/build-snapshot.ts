import { HistoryGoneError } from '../../errors.ts';
import { comparePositions, type Position } from '../../ids/position.ts';
import { isForeignRoot, isRootForm, type RootRef, rootOf, sameRoot } from '../../log/entry.ts';
import { describeForeign, type ForeignPart } from '../../log/foreign.ts';
import { foreignPointer, type SnapshotSearch } from '../../log/last-snapshot.ts';
import type { SnapshotPublisher } from '../../log/log-store.ts';
import { hasForeignArchive, isFrozen, type Segment } from '../../log/segment.ts';
import { type BuildDeps, type Built, buildState, otherReducer, searchBase } from '../../snapshot/build.ts';
import { type FlushDue, flushDue } from '../../snapshot/flush-due.ts';
import { clearProgress, listProgress, type Progress, saveProgress } from '../../snapshot/progress.ts';
import { type EncodedRoot, encodeRoot, type Root } from '../../snapshot/root.ts';
import { loadRoot, saveRoot } from '../../snapshot/snapshots.ts';
import { clearStop, contains, isAt } from '../../snapshot/stop.ts';
import type { NodeCache } from '../../tree/node-cache.ts';
import type { SnapshotJob } from '../jobs/job.ts';
import {
  advanceTo,
  advanceToCarried,
  checkSnapshotEntry,
  foreignRoot,
  loadDuplicate,
  newestSnapshot,
  type PassedOver,
  passedOver,
  removeForeignRoot,
  type SnapshotPlace,
} from './snapshot-entry.ts';
import { type Stopped, withStopGuard } from './stop-guard.ts';

/**
 * The memory of the nodes that a function keeps between snapshot jobs, in bytes. A snapshot with
 * scattered edits reads a whole write buffer and writes all of it again. The largest one has 64
 * chunks, each of about 200 kB when it is decoded. So the old and the new one take less than half.
 */
export const KEPT_NODE_BYTES = 64 * 1024 * 1024;

export interface SnapshotDeps extends BuildDeps {
  readonly tables: SnapshotPublisher;
  /**
   * Keeps nodes between snapshot jobs of any logs, so that the next snapshot of a log fetches none
   * that an earlier job of this process read or wrote. By default each job has its own cache.
   * Checks of stored chunks never use it.
   */
  readonly keptNodes?: NodeCache | undefined;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /**
   * After this time a build finishes its step of entries, saves its progress and leaves the rest to
   * a continuation. Epoch milliseconds; none by default.
   */
  readonly deadline?: number | undefined;
  /**
   * Whether to replace a root and a Last Snapshot that another program wrote. False by default: the
   * job passes over them.
   */
  readonly replaceForeign?: boolean | undefined;
}

/** The work of a complete or partial build. */
interface Work {
  /** The snapshot or progress on which the build is based; undefined for the log's beginning. */
  readonly base: Position | undefined;
  readonly rebuiltBecause?: string | undefined;
  /** Parts that another program wrote, and the search for the base passed over. */
  readonly passedOver?: readonly string[] | undefined;
  /** Why progress of earlier runs was ignored, if it was. */
  readonly ignored?: readonly string[] | undefined;
  readonly entries: number;
  /** Chunks of earlier snapshots that were read, and their stored size. */
  readonly chunksRead: number;
  readonly bytesRead: number;
  readonly chunksWritten: number;
  readonly bytesWritten: number;
  readonly rootBytes: number;
}

/** The result of a snapshot job. */
export type SnapshotResult =
  | (Work & {
      readonly outcome: 'built';
      readonly position: Position;
      /** Creation time of the Snapshot entry, by its client's clock, in epoch seconds. */
      readonly requestedAt: number;
      /** Undefined if edits are buffered. */
      readonly stateHash: string | undefined;
      /** Why a flush is due; undefined if it is not. */
      readonly flushDue: FlushDue | undefined;
    })
  /** The time was up. A continuation goes on from `reached`. */
  | (Work & { readonly outcome: 'progress'; readonly position: Position; readonly reached: Position })
  | {
      readonly outcome: 'present';
      readonly position: Position;
      /** As above; also undefined if there is a newer snapshot. */
      readonly flushDue: FlushDue | undefined;
    }
  /**
   * The snapshot is no longer needed. Its segment is archived or expiring, or the entries before it
   * expired without an archive and there is a newer snapshot.
   */
  | { readonly outcome: 'obsolete'; readonly position: Position }
  | PassedOver
  | Stopped;

/**
 * Completes a pending snapshot: builds it, writes its chunks, then its root, then the root's name
 * onto the entry, then moves Last Snapshot. Each step is safe to repeat and to run alongside a
 * duplicate, so a job that died anywhere can run again.
 *
 * An error of the log itself stops the log. It throws all other errors; the job is then retried. If
 * the time is up, it saves its progress instead. Every run gets further than the previous one.
 */
export async function completeSnapshot(deps: SnapshotDeps, job: SnapshotJob): Promise<SnapshotResult> {
  return withStopGuard(deps, job, async (stop) => {
    const result = await complete(deps, job).catch(async (error: unknown): Promise<SnapshotResult> => {
      if (!(error instanceof HistoryGoneError && (await hasNewer(deps, job)))) throw error;
      return { outcome: 'obsolete', position: job.position };
    });
    const folded = result.outcome === 'progress' ? result.reached : job.position;
    if (stop !== undefined && (contains(folded, stop) || (result.outcome === 'built' && isAt(job.position, stop)))) {
      await clearStop(deps.blobs, job.log);
    }
    return result;
  });
}

async function complete(deps: SnapshotDeps, { log, position, continuation }: SnapshotJob): Promise<SnapshotResult> {
  const place = { log, position };
  const entry = await deps.store.getEntry(log, position, { consistent: true });
  const present = entry && rootOf(entry);
  const segment =
    present === undefined ? await deps.store.getSegment(log, position.segment, { consistent: true }) : undefined;
  // A pending snapshot of an archived or expiring segment stays pending.
  if (segment !== undefined && isFrozen(segment)) {
    if (!hasForeignArchive(segment)) return { outcome: 'obsolete', position };
    return passedOver(position, { kind: 'archive', log, segment: position.segment });
  }
  const snapshotEntry = checkSnapshotEntry(deps, place, entry);
  if (present !== undefined) {
    const foreign = await advanceToCarried(deps, place, present);
    if (foreign !== undefined) return passedOver(position, foreign);
    await clearProgress(deps.blobs, await listProgress(deps.blobs, log, position));
    return { outcome: 'present', position, flushDue: await dueIfNewest(deps, { log, position }, present) };
  }
  const { now, deadline, replaceForeign = false } = deps;
  const isForeign = isForeignRoot(snapshotEntry);
  if (isForeign && !replaceForeign) return passedOver(position, foreignRoot(place));
  const search = await searchBase(deps, log, position);
  const pointer = await pointerInTheWay(deps, place, { segment, search });
  if (pointer !== undefined && !replaceForeign) return passedOver(position, pointer);
  const nodes = { ...deps.nodes, ...(deps.keptNodes && { cache: deps.keptNodes }) };
  const built = await buildState({ ...deps, nodes }, log, {
    at: position,
    search,
    shouldStop: deadline === undefined ? undefined : () => now() >= deadline,
    progress: continuation === undefined ? 'if far' : 'always',
  });
  const encoded = encodeRoot(deps.platform, built.root);
  const { root } = built;
  if (comparePositions(root.position, position) < 0) {
    await saveProgress(deps.blobs, { target: position, targetCreated: snapshotEntry.created }, { root, encoded });
    await clearProgress(deps.blobs, obsoleteProgress(built, position));
    return { outcome: 'progress', position, reached: root.position, ...work(built, encoded, search) };
  }
  const ref = await saveRoot(deps.blobs, place, encoded);
  if (isForeign) await removeForeignRoot(deps, place);
  const carried = await deps.tables.completeSnapshot(log, position, ref, snapshotEntry.id);
  if (carried === undefined || !isRootForm(log, carried)) return passedOver(position, foreignRoot(place));
  const other = sameRoot(ref, carried) ? undefined : await loadDuplicate(deps, root, carried);
  const seen = pointer === undefined ? segment?.lastSnapshot : undefined;
  const foreign =
    other === undefined ? await advanceTo(deps, place, seen) : await advanceToCarried(deps, place, carried);
  await clearProgress(deps.blobs, obsoleteProgress(built, position));
  if (foreign !== undefined) return passedOver(position, foreign);
  if (other !== undefined) return { outcome: 'present', position, flushDue: due(deps, other) };
  return {
    outcome: 'built',
    position,
    requestedAt: snapshotEntry.created,
    stateHash: root.stateHash,
    ...work(built, encoded, search),
    flushDue: due(deps, root),
  };
}

/**
 * The Last Snapshot of another program, which the snapshot of this position would have to move. The
 * search has read its entry, unless it names this or a later position.
 */
async function pointerInTheWay(
  { store }: SnapshotDeps,
  { position }: SnapshotPlace,
  { segment, search }: { readonly segment: Segment | undefined; readonly search: SnapshotSearch },
): Promise<ForeignPart | undefined> {
  // If it names this entry, nothing moves: the root completes the snapshot that it names.
  const last = segment?.lastSnapshot?.position.entry ?? -1;
  if (last === position.entry) return undefined;
  const isLate = last > position.entry;
  if (segment !== undefined && (isLate || segment.foreign !== undefined)) return foreignPointer(store, segment);
  return search.foreign.find((part) => part.kind === 'pointer' && part.segment === position.segment);
}

function work(
  { base, rebuiltBecause, ignored, entries, chunks }: Built,
  { stored }: EncodedRoot,
  { foreign }: SnapshotSearch,
): Work {
  return {
    base,
    rebuiltBecause,
    ...(foreign.length > 0 && { passedOver: foreign.map(describeForeign) }),
    ignored: ignored.length === 0 ? undefined : ignored.map(({ reason }) => reason),
    entries,
    chunksRead: chunks.read,
    bytesRead: chunks.bytesRead,
    chunksWritten: chunks.written,
    bytesWritten: chunks.bytesWritten,
    rootBytes: stored.length,
  };
}

/**
 * Progress that is no longer needed: damaged progress, and earlier progress towards the same
 * snapshot.
 */
function obsoleteProgress({ progress, ignored, root }: Built, target: Position): Progress[] {
  const damaged = new Set(ignored.filter((each) => each.damaged).map((each) => each.progress));
  return progress.filter((each) => {
    const passed = comparePositions(each.reached, root.position) < 0 || comparePositions(root.position, target) === 0;
    return damaged.has(each) || (passed && comparePositions(each.target, target) === 0);
  });
}

/**
 * A worker may have died after it completed the snapshot and before it sent a flush job. This
 * checks again.
 */
async function dueIfNewest(deps: SnapshotDeps, place: SnapshotPlace, carried: RootRef): Promise<FlushDue | undefined> {
  if (await hasNewer(deps, place)) return undefined;
  return due(deps, await loadRoot(deps, place, carried));
}

async function hasNewer({ store }: SnapshotDeps, { log, position }: SnapshotPlace): Promise<boolean> {
  return (await newestSnapshot(store, log, position)) !== undefined;
}

function due(deps: SnapshotDeps, root: Root): FlushDue | undefined {
  return otherReducer(root, deps.reducer) === undefined ? flushDue(root.state) : undefined;
}
