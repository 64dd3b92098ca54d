import { HistoryGoneError } from '../../errors.ts';
import { comparePositions, type Position } from '../../ids/position.ts';
import { type RootRef, rootOf, sameRoot } from '../../log/entry.ts';
import {
  describePart,
  guardArchive,
  guardMove,
  guardRoot,
  type PassedOver,
  passOver,
  removeBody,
} from '../../log/guard.ts';
import { advanceTo, nameRoot, newestSnapshot, type PublishDeps, type SnapshotSearch } from '../../log/last-snapshot.ts';
import { isFrozen } from '../../log/segment.ts';
import { type BuildDeps, type Built, buildState, searchBase } from '../../snapshot/build.ts';
import { clearProgress, listProgress, type Progress, saveProgress } from '../../snapshot/progress.ts';
import { type EncodedRoot, encodeRoot, type FlushDue, flushDue, otherReducer, type Root } from '../../snapshot/root.ts';
import { loadRoot, saveRoot } from '../../snapshot/snapshots.ts';
import { clearStop, contains, isStopAt, type Stopped, withStopGuard } from '../../snapshot/stop.ts';
import type { NodeCache } from '../../tree/node-cache.ts';
import { isTimeUp } from '../jobs/deadline.ts';
import type { SnapshotJob } from '../jobs/job.ts';
import {
  bytesMetric,
  countEntries,
  countMetric,
  IN_PART,
  type Metric,
  NOTHING_TO_DO,
  passedOverText,
  type Report,
  reportUndone,
  secondsMetric,
  type Written,
  writtenMetrics,
  writtenText,
} from '../jobs/report.ts';
import { advanceToCarried, checkSnapshotEntry, loadDuplicate } from './snapshot-entry.ts';

/**
 * The memory of the nodes that a function keeps between snapshot jobs, in bytes. A snapshot with
 * scattered edits reads a whole write buffer and writes all of it again. The largest one has 64
 * chunks, each of about 200 kB when it is decoded. So the old and the new one take less than half.
 */
export const KEPT_NODE_BYTES = 64 * 1024 * 1024;

export interface SnapshotDeps extends BuildDeps, PublishDeps {
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
}

/** The work of a complete or partial build. */
interface Work extends Written {
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
}

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
  | PassedOver<{ readonly position: Position }>
  | Stopped;

/** How far a snapshot was behind its log when it was completed. */
export interface SnapshotLag {
  /** Entries that were appended to its segment after it. */
  readonly entries: number;
  /**
   * Time since the client wrote its entry, by the client's clock. Undefined if items of a scheduled
   * log have no time.
   */
  readonly seconds: number | undefined;
}

/** The run of a snapshot job. */
export interface SnapshotRun {
  readonly ms: number;
  /** Undefined unless the snapshot was built. */
  readonly lag?: SnapshotLag | undefined;
}

export function reportSnapshot(result: SnapshotResult, { ms, lag }: SnapshotRun): Report {
  switch (result.outcome) {
    case 'built': {
      const { entries, rebuiltBecause } = result;
      const why = rebuiltBecause === undefined ? '' : `, from the beginning because ${rebuiltBecause}`;
      const text = `${countEntries(entries)}, ${writtenText(result)}${why}${passedOverText(result.passedOver)}`;
      const metrics = [...buildMetrics(result, ms), ...lagMetrics(lag)];
      return { text, level: 'info', metrics, makesDue: true };
    }
    case 'progress':
      return { ...IN_PART, metrics: buildMetrics(result, ms) };
    case 'present':
    case 'obsolete':
      return NOTHING_TO_DO;
    default:
      return reportUndone(result);
  }
}

/**
 * Chunks that were read from earlier snapshots count as reused: their entries are not folded again.
 */
function buildMetrics(work: Work, ms: number): readonly Metric[] {
  return [
    secondsMetric('BuildSeconds', ms / 1000),
    countMetric('EntriesFolded', work.entries),
    countMetric('ChunksReused', work.chunksRead),
    bytesMetric('BytesReused', work.bytesRead),
    ...writtenMetrics(work),
  ];
}

function lagMetrics(lag: SnapshotLag | undefined): readonly Metric[] {
  if (lag === undefined) return [];
  const seconds = lag.seconds === undefined ? [] : [secondsMetric('SnapshotLagSeconds', lag.seconds)];
  return [countMetric('SnapshotLagEntries', lag.entries), ...seconds];
}

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
      if (!(error instanceof HistoryGoneError)) throw error;
      const isNeeded = (await newestSnapshot(deps.store, job.log, job.position)) === undefined;
      if (isNeeded) throw error;
      return { outcome: 'obsolete', position: job.position };
    });
    const folded = result.outcome === 'progress' ? result.reached : job.position;
    if (
      stop !== undefined &&
      (contains(folded, stop) || (result.outcome === 'built' && isStopAt(job.position, stop)))
    ) {
      await clearStop(deps.blobs, job.log);
    }
    return result;
  });
}

async function complete(deps: SnapshotDeps, { log, position, continuation }: SnapshotJob): Promise<SnapshotResult> {
  const place = { log, position };
  const { store, blobs, replaceForeign = false } = deps;
  const entry = await store.getEntry(log, position, { consistent: true });
  const present = entry && rootOf(entry);
  const segment =
    present === undefined ? await store.getSegment(log, position.segment, { consistent: true }) : undefined;
  // A pending snapshot of an archived or expiring segment stays pending.
  if (segment !== undefined && isFrozen(segment)) {
    const archive = guardArchive(segment);
    return archive === undefined ? { outcome: 'obsolete', position } : passOver({ position }, archive);
  }
  const snapshotEntry = checkSnapshotEntry(deps, place, entry);
  const moveToOther = (root: RootRef) => advanceToCarried(deps, place, root);
  if (present !== undefined) {
    // A worker died after it named the root and before it moved Last Snapshot or asked for a flush.
    const pointer = await moveToOther(present);
    if (pointer !== undefined) return passOver({ position }, pointer);
    await clearProgress(blobs, await listProgress(blobs, log, position));
    const isNewest = (await newestSnapshot(store, log, position)) === undefined;
    const root = isNewest ? await loadRoot(deps, place, present) : undefined;
    return { outcome: 'present', position, flushDue: root && due(deps, root) };
  }

  const body = guardRoot(snapshotEntry);
  if (body !== undefined && !replaceForeign) return passOver({ position }, body);
  const search = await searchBase(deps, log, position);
  const pointer = await guardMove(store, segment, { entry: position.entry, ...search });
  if (pointer !== undefined && !replaceForeign) return passOver({ position }, pointer);

  const nodes = { ...deps.nodes, ...(deps.keptNodes && { cache: deps.keptNodes }) };
  const built = await buildState({ ...deps, nodes }, log, {
    at: position,
    search,
    shouldStop: () => isTimeUp(deps),
    progress: continuation === undefined ? 'if far' : 'always',
  });
  const { root } = built;
  const encoded = encodeRoot(deps.platform, root);
  const done = work(built, encoded, search);
  if (comparePositions(root.position, position) < 0) {
    await saveProgress(blobs, { target: position, targetCreated: snapshotEntry.created }, { root, encoded });
    await clearProgress(blobs, obsoleteProgress(built, position));
    return { outcome: 'progress', position, reached: root.position, ...done };
  }

  const ref = await saveRoot(blobs, place, encoded);
  if (body !== undefined) await removeBody(deps, body);
  const carried = await nameRoot(deps, place, ref, snapshotEntry.id);
  if ('kind' in carried) return passOver({ position }, carried);
  const other = sameRoot(ref, carried) ? undefined : await loadDuplicate(deps, root, carried);
  const seen = pointer === undefined ? segment?.lastSnapshot : undefined;
  const inTheWay = await (other === undefined ? advanceTo(deps, place, seen) : moveToOther(carried));
  await clearProgress(blobs, obsoleteProgress(built, position));
  if (inTheWay !== undefined) return passOver({ position }, inTheWay);
  if (other !== undefined) return { outcome: 'present', position, flushDue: due(deps, other) };
  const { created: requestedAt } = snapshotEntry;
  return { outcome: 'built', position, requestedAt, stateHash: root.stateHash, ...done, flushDue: due(deps, root) };
}

function work(
  { base, rebuiltBecause, ignored, entries, chunks }: Built,
  { stored }: EncodedRoot,
  { passedOver }: SnapshotSearch,
): Work {
  return {
    base,
    rebuiltBecause,
    ...(passedOver.length > 0 && { passedOver: passedOver.map(describePart) }),
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

function due({ reducer }: SnapshotDeps, root: Root): FlushDue | undefined {
  return otherReducer(root, reducer) === undefined ? flushDue(root.state) : undefined;
}
