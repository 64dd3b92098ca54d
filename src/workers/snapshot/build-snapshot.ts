import { HistoryGoneError } from '../../errors.ts';
import { comparePositions, type Position } from '../../ids/position.ts';
import { type RootRef, rootOf, sameRoot } from '../../log/entry.ts';
import type { SnapshotPublisher } from '../../log/log-store.ts';
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
   * From then on a build saves where it is, after the page of entries that it is at, and leaves the rest to another
   * turn. Epoch milliseconds; none by default.
   */
  readonly deadline?: number | undefined;
}

/** What a build has done, be it all or a part. */
interface Work {
  /** The snapshot, or the progress, it was built from; undefined where it was built from the log's beginning. */
  readonly base: Position | undefined;
  readonly rebuiltBecause?: string | undefined;
  /** Why what an earlier turn left behind was of no use, where that is so. */
  readonly ignored?: readonly string[] | undefined;
  readonly entries: number;
  /** Chunks of earlier snapshots that were read, and their stored size. */
  readonly chunksRead: number;
  readonly bytesRead: number;
  readonly chunksWritten: number;
  readonly bytesWritten: number;
  readonly rootBytes: number;
}

/** How a snapshot job ended. */
export type SnapshotResult =
  | (Work & {
      readonly outcome: 'built';
      readonly position: Position;
      /** When the Snapshot entry was written, by its client's clock, in epoch seconds. */
      readonly asked: number;
      /** Undefined where edits wait: see {@link stateHash}. */
      readonly stateHash: string | undefined;
      /** Why settling is due; undefined where it is not. */
      readonly compaction: FlushDue | undefined;
    })
  /** Its time was up: the job is to have another turn, which goes on from where it has come to. */
  | (Work & { readonly outcome: 'progress'; readonly position: Position; readonly reached: Position })
  | {
      readonly outcome: 'present';
      readonly position: Position;
      /** As above; undefined also where there is a newer snapshot. */
      readonly compaction: FlushDue | undefined;
    }
  /**
   * Its segment's entries are in an archive, or have left the table: nobody needs a further snapshot of it. Or what it
   * would have to be built from has left the table without an archive, and there is a newer snapshot.
   */
  | { readonly outcome: 'gone'; readonly position: Position }
  | Stopped;

/**
 * Completes the snapshot that a Snapshot entry asks for: builds it, writes its chunks, then its root, then the root's
 * name onto the entry, then moves Last Snapshot. Each step leaves everything before it right, and may be done twice or
 * beside its twin, so a job that died anywhere is simply done again. What is wrong with the log itself stops the log.
 * Past the deadline it saves how far it has come instead, and every turn comes further than the one before.
 * @throws whatever may pass: the job is to be delivered again
 */
export async function completeSnapshot(deps: SnapshotDeps, job: SnapshotJob): Promise<SnapshotResult> {
  return withStopGuard(deps, job, async (stop) => {
    const result = await complete(deps, job).catch(async (error: unknown): Promise<SnapshotResult> => {
      if (!(error instanceof HistoryGoneError && (await hasNewer(deps, job)))) throw error;
      return { outcome: 'gone', position: job.position };
    });
    const folded = result.outcome === 'progress' ? result.reached : job.position;
    if (stop !== undefined && (contains(folded, stop) || (result.outcome === 'built' && isAt(job.position, stop)))) {
      await clearStop(deps.blobs, job.log);
    }
    return result;
  });
}

async function complete(deps: SnapshotDeps, { log, position, turn }: SnapshotJob): Promise<SnapshotResult> {
  const entry = await deps.store.getEntry(log, position, { consistent: true });
  if (entry === undefined && (await isGone(deps, { log, position }))) return { outcome: 'gone', position };
  const snapshotEntry = checkSnapshotEntry(deps, { log, position }, entry);
  // No worker completes a snapshot of a segment that is archived or leaves, whatever its entry carries instead of a root.
  if (rootOf(snapshotEntry) === undefined && (await isGone(deps, { log, position })))
    return { outcome: 'gone', position };
  const present = carriedRoot(snapshotEntry);
  if (present !== undefined) {
    await advanceToCarried(deps, { log, position }, present);
    await clearProgress(deps.blobs, await listProgress(deps.blobs, log, position));
    return { outcome: 'present', position, compaction: await dueIfNewest(deps, { log, position }, present) };
  }
  const { now, deadline } = deps;
  const built = await buildState(deps, log, {
    at: position,
    shouldStop: deadline === undefined ? undefined : () => now() >= deadline,
    progress: turn === undefined ? 'if far' : 'always',
  });
  const encoded = encodeRoot(deps.platform, built.root);
  const { root } = built;
  if (comparePositions(root.position, position) < 0) {
    await saveProgress(deps.blobs, { target: position, asked: snapshotEntry.created }, { root, encoded });
    await clearProgress(deps.blobs, obsoleteProgress(built, position));
    return { outcome: 'progress', position, reached: root.position, ...work(built, encoded) };
  }
  const ref = await saveRoot(deps.blobs, { log, position }, encoded);
  const carried = await deps.tables.completeSnapshot(log, position, ref);
  const twin = sameRoot(ref, carried) ? undefined : await loadDuplicate(deps, root, carried);
  if (twin === undefined) await deps.tables.advanceLastSnapshot(log, position);
  else await advanceToCarried(deps, { log, position }, carried);
  await clearProgress(deps.blobs, obsoleteProgress(built, position));
  if (twin !== undefined) return { outcome: 'present', position, compaction: due(deps, twin) };
  return {
    outcome: 'built',
    position,
    asked: snapshotEntry.created,
    stateHash: root.stateHash,
    ...work(built, encoded),
    compaction: due(deps, root),
  };
}

async function isGone({ store }: SnapshotDeps, { log, position }: SnapshotPlace): Promise<boolean> {
  const segment = await store.getSegment(log, position.segment, { consistent: true });
  return segment?.archive !== undefined || segment?.expires !== undefined;
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

/** What nobody needs any more: what is damaged, and what turns for the same snapshot left behind on the way. */
function obsoleteProgress({ progress, ignored, root }: Built, target: Position): Progress[] {
  const damaged = new Set(ignored.filter((each) => each.damaged).map((each) => each.progress));
  return progress.filter((each) => {
    const passed = comparePositions(each.reached, root.position) < 0 || comparePositions(root.position, target) === 0;
    return damaged.has(each) || (passed && comparePositions(each.target, target) === 0);
  });
}

/** Whoever completed a snapshot may have died before settling could be asked for, so it is looked at once more. */
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
