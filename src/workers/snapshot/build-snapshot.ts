import { HistoryGoneError } from '../../errors.ts';
import { comparePositions, type Position } from '../../ids/position.ts';
import { type RootRef, rootOf, sameRoot } from '../../log/entry.ts';
import type { SnapshotPublisher } from '../../log/log-store.ts';
import { isFrozen } from '../../log/segment.ts';
import { type BuildDeps, type Built, buildState, otherReducer } from '../../snapshot/build.ts';
import { type FlushDue, flushDue } from '../../snapshot/flush-due.ts';
import { clearProgress, listProgress, type Progress, saveProgress } from '../../snapshot/progress.ts';
import { type EncodedRoot, encodeRoot, type Root } from '../../snapshot/root.ts';
import { loadRoot, saveRoot } from '../../snapshot/snapshots.ts';
import { clearStop, contains, isAt } from '../../snapshot/stop.ts';
import type { SnapshotJob } from '../jobs/job.ts';
import {
  advanceToCarried,
  carriedRoot,
  checkSnapshotEntry,
  loadDuplicate,
  newestSnapshot,
  type SnapshotPlace,
} from './snapshot-entry.ts';
import { type Stopped, withStopGuard } from './stop-guard.ts';

export interface SnapshotDeps extends BuildDeps {
  readonly tables: SnapshotPublisher;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /**
   * After this time a build finishes its page of entries, saves its progress and leaves the rest to
   * a continuation. Epoch milliseconds; none by default.
   */
  readonly deadline?: number | undefined;
}

/** The work of a complete or partial build. */
interface Work {
  /** The snapshot or progress on which the build is based; undefined for the log's beginning. */
  readonly base: Position | undefined;
  readonly rebuiltBecause?: string | undefined;
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
  | Stopped;

/**
 * Completes a pending snapshot: builds it, writes its chunks, then its root, then the root's name
 * onto the entry, then moves Last Snapshot. Each step is safe to repeat and to run beside a
 * duplicate, so a job that died anywhere can run again.
 *
 * An error of the log itself stops the log. It throws all other errors; the job is then retried. If
 * the time is up, it saves its progress instead. Every run gets further than the one before.
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
  const entry = await deps.store.getEntry(log, position, { consistent: true });
  if (entry === undefined && (await isObsolete(deps, { log, position }))) return { outcome: 'obsolete', position };
  const snapshotEntry = checkSnapshotEntry(deps, { log, position }, entry);
  // A pending snapshot of an archived or expiring segment stays pending, even if its entry has a
  // foreign attribute.
  if (rootOf(snapshotEntry) === undefined && (await isObsolete(deps, { log, position })))
    return { outcome: 'obsolete', position };
  const present = carriedRoot(snapshotEntry);
  if (present !== undefined) {
    await advanceToCarried(deps, { log, position }, present);
    await clearProgress(deps.blobs, await listProgress(deps.blobs, log, position));
    return { outcome: 'present', position, flushDue: await dueIfNewest(deps, { log, position }, present) };
  }
  const { now, deadline } = deps;
  const built = await buildState(deps, log, {
    at: position,
    shouldStop: deadline === undefined ? undefined : () => now() >= deadline,
    progress: continuation === undefined ? 'if far' : 'always',
  });
  const encoded = encodeRoot(deps.platform, built.root);
  const { root } = built;
  if (comparePositions(root.position, position) < 0) {
    await saveProgress(deps.blobs, { target: position, targetCreated: snapshotEntry.created }, { root, encoded });
    await clearProgress(deps.blobs, obsoleteProgress(built, position));
    return { outcome: 'progress', position, reached: root.position, ...work(built, encoded) };
  }
  const ref = await saveRoot(deps.blobs, { log, position }, encoded);
  const carried = await deps.tables.completeSnapshot(log, position, ref);
  const other = sameRoot(ref, carried) ? undefined : await loadDuplicate(deps, root, carried);
  if (other === undefined) await deps.tables.advanceLastSnapshot(log, position);
  else await advanceToCarried(deps, { log, position }, carried);
  await clearProgress(deps.blobs, obsoleteProgress(built, position));
  if (other !== undefined) return { outcome: 'present', position, flushDue: due(deps, other) };
  return {
    outcome: 'built',
    position,
    requestedAt: snapshotEntry.created,
    stateHash: root.stateHash,
    ...work(built, encoded),
    flushDue: due(deps, root),
  };
}

async function isObsolete({ store }: SnapshotDeps, { log, position }: SnapshotPlace): Promise<boolean> {
  const segment = await store.getSegment(log, position.segment, { consistent: true });
  return segment !== undefined && isFrozen(segment);
}

function work({ base, rebuiltBecause, ignored, entries, chunks }: Built, { stored }: EncodedRoot): Work {
  return {
    base,
    rebuiltBecause,
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
  const newest = await newestSnapshot(store, log);
  return newest !== undefined && comparePositions(newest, position) > 0;
}

function due(deps: SnapshotDeps, root: Root): FlushDue | undefined {
  return otherReducer(root, deps.reducer) === undefined ? flushDue(root.state) : undefined;
}
