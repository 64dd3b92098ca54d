import type { ChunkId } from '../../codec/chunk.ts';
import { ArchiveDiffersError, HistoryGoneError, SegmentStateError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import { comparePositions, formatPosition, MAX_NUMBER, type Position } from '../../ids/position.ts';
import { type RootRef, rootOf, sameRoot } from '../../log/entry.ts';
import { describePart, type OnForeign, removeBody } from '../../log/guard.ts';
import { advanceTo, nameRoot } from '../../log/last-snapshot.ts';
import { querySegments } from '../../log/newest.ts';
import type { Segment } from '../../log/segment.ts';
import { buildState } from '../../snapshot/build.ts';
import { clearProgress, isDamage, listProgress, saveProgress } from '../../snapshot/progress.ts';
import { type EncodedRoot, encodeRoot, type FlushDue, flushDue, otherReducer, type Root } from '../../snapshot/root.ts';
import { keepReplacedRoot, loadRoot, readWhole, saveRoot } from '../../snapshot/snapshots.ts';
import { clearStop, type Stopped, withStopGuard } from '../../snapshot/stop.ts';
import { isTimeUp } from '../jobs/deadline.ts';
import type { RebuildJob } from '../jobs/job.ts';
import { count, countEntries, IN_PART, passedOverText, type Report, reportUndone } from '../jobs/report.ts';
import { rearchiveSegment } from '../retention/archive-segment.ts';
import type { ArchiveDeps } from '../retention/write-archive.ts';
import type { SnapshotDeps } from './build-snapshot.ts';
import { rebuildTargets } from './rebuild-targets.ts';
import { advanceToCarried, isOtherState, requireSnapshotEntry } from './snapshot-entry.ts';

interface RebuildCounts {
  /** Snapshots that this job rebuilt. */
  readonly snapshots: number;
  /** Those whose stored bytes were different. */
  readonly replaced: number;
  /** Those whose stored state was different, although the same reducer had made it. */
  readonly differed: readonly Position[];
  readonly entries: number;
  /** Parts that another program wrote, and the rebuild left alone; absent if there is nothing. */
  readonly passedOver?: readonly string[] | undefined;
}

export type RebuildResult =
  | (RebuildCounts & NewestSnapshot & { readonly outcome: 'rebuilt' })
  /** The time was up; the job needs a continuation. */
  | (RebuildCounts & { readonly outcome: 'progress'; readonly after: Position | undefined; readonly reached: Position })
  | (Stopped & Partial<NewestSnapshot>);

interface NewestSnapshot {
  /** The newest snapshot that was rebuilt; undefined if there is none. */
  readonly newest: Position | undefined;
  /** Why a flush of it is due; undefined if it is not. */
  readonly flushDue: FlushDue | undefined;
}

export function reportRebuild(result: RebuildResult): Report {
  switch (result.outcome) {
    case 'rebuilt': {
      const { snapshots, replaced, differed, entries, passedOver } = result;
      const places = differed.map(formatPosition).join(', ');
      const difference = differed.length === 0 ? '' : `; ${differed.length} HAD A DIFFERENT STATE: ${places}`;
      const counts = `${count(snapshots, 'snapshot')} from ${countEntries(entries)}, ${replaced} replaced`;
      return { text: `${counts}${difference}${passedOverText(passedOver)}`, level: 'info', makesDue: true };
    }
    case 'progress':
      return IN_PART;
    default:
      return reportUndone(result);
  }
}

export type RebuildDeps = SnapshotDeps & Pick<ArchiveDeps, 'tables' | 'random'>;

/**
 * Rebuilds the snapshots of a log from its entries: the first one from the log's beginning, each
 * further one from the previous one. It reads stored snapshots only to compare them. It replaces
 * roots that differ. It writes all chunks again, which repairs missing and damaged ones.
 *
 * An archived segment has one snapshot, whose root does not change. If a part of this snapshot is
 * still missing after its chunks were written, the segment gets another archive with the new root.
 * If an archive is missing and all entries are in the table, it is written again.
 *
 * It passes over what another program wrote: roots, and the snapshots of segments of which it wrote
 * the archive or Last Snapshot. `replaceForeign` lets it replace roots and Last Snapshots.
 *
 * It throws transient errors too; the job is then retried.
 * @throws LogNotFoundError if the log has no segment
 * @throws SegmentStateError if entries expired without an archive; nothing is changed then. Also if
 * only the archive of another program has the entries of a segment
 * @throws ArchiveDiffersError if the table's entry of an archived snapshot has lost its root
 */
export async function rebuildLog(deps: RebuildDeps, { log, after, continuation }: RebuildJob): Promise<RebuildResult> {
  const end = { segment: MAX_NUMBER, entry: MAX_NUMBER };
  let newest: Root | undefined;
  const onRebuilt = (root: Root): void => {
    newest = root;
  };
  const result = await withStopGuard(deps, { log, position: end, force: true }, async (stop) => {
    const segments = await requireWhole(deps, log);
    // Progress of other builds was not rebuilt.
    if (continuation === undefined) await clearProgress(deps.blobs, await listProgress(deps.blobs, log));
    const whole = { log, segments, onRebuilt };
    const rebuilt = await rebuild(deps, whole, after).catch((error: unknown) => {
      if (error instanceof HistoryGoneError) throw movedAway(log, error);
      // The snapshot of an earlier run is only a shortcut, and may have been collected since.
      if (after === undefined || !isDamage(error)) throw error;
      return rebuild(deps, whole, undefined);
    });
    if (rebuilt.outcome === 'rebuilt' && stop !== undefined) await clearStop(deps.blobs, log);
    return rebuilt;
  });
  if (result.outcome === 'progress') return result;
  // If the log was stopped, the newest snapshot before the stop may still need a flush.
  return { ...result, newest: newest?.position, flushDue: newest && flushDue(newest.state) };
}

/**
 * All segments of a log that can still be folded from its beginning. Entries that expired by the
 * log's policy are not an error of the log, so this does not stop it.
 */
async function requireWhole({ store }: SnapshotDeps, log: LogId): Promise<readonly Segment[]> {
  const segments = await querySegments(store, log, { consistent: true });
  const expiring = segments.find(({ archive, expiry }) => archive === undefined && expiry !== undefined);
  if (expiring === undefined) return segments;
  throw new SegmentStateError('a rebuild needs entries of the segment that expire without an archive', {
    log,
    segment: expiring.segment,
    advice:
      'Nothing was changed. While all of them are in the table, ' +
      `run 'logfold expire LOG ${expiring.segment} --undo' to keep them, then rebuild again`,
  });
}

/** The error if another program archived entries of a segment and removed them from the table. */
function movedAway(log: LogId, { segment, cause, reason }: HistoryGoneError): SegmentStateError {
  return new SegmentStateError(`a rebuild needs all entries of the log: ${reason}`, {
    log,
    segment,
    advice: 'Put the missing entries back into the table with the other program, then rebuild again',
    cause,
  });
}

interface WholeLog {
  readonly log: LogId;
  readonly segments: readonly Segment[];
  /** Called after each snapshot was rebuilt, and before with the last one of the earlier run. */
  readonly onRebuilt: (root: Root) => void;
}

type Rebuilt =
  | (RebuildCounts & { readonly outcome: 'rebuilt' })
  | Extract<RebuildResult, { readonly outcome: 'progress' }>;

async function rebuild(
  deps: RebuildDeps,
  { log, segments, onRebuilt }: WholeLog,
  after: Position | undefined,
): Promise<Rebuilt> {
  const differed: Position[] = [];
  let [snapshots, replaced, entries] = [0, 0, 0];
  let base = after === undefined ? undefined : await rebuiltRoot(deps, { log, segments }, after);
  if (base !== undefined) onRebuilt(base);
  const passed: string[] = [];
  const pass: OnForeign = (part) => void passed.push(describePart(part));
  const counts = (): RebuildCounts => {
    const counted = { snapshots, replaced, differed, entries };
    return passed.length === 0 ? counted : { ...counted, passedOver: passed };
  };
  const seen = new Set<ChunkId>();
  for await (const target of rebuildTargets(deps, { log, segments }, { after, pass })) {
    const { position, created, archived } = target;
    const place = { log, position };
    const built = await buildState(deps, log, {
      at: position,
      only: base ?? 'beginning',
      progress: 'always',
      shouldStop: () => isTimeUp(deps),
    });
    entries += built.entries;
    const { root } = built;
    const encoded = encodeRoot(deps.platform, root);
    if (comparePositions(root.position, position) < 0) {
      await saveProgress(deps.blobs, { target: position, targetCreated: created }, { root, encoded });
      return { outcome: 'progress', after: base?.position ?? after, reached: root.position, ...counts() };
    }
    snapshots++;
    base = root;
    if (archived !== undefined) {
      const kept = await keepFrozenRoot(deps, archived, { root, encoded, seen });
      if (kept === undefined) replaced++;
      else if (isOtherState(deps, root, kept)) differed.push(position);
      await clearProgress(deps.blobs, await listProgress(deps.blobs, log, position));
      continue;
    }
    const ref = await saveRoot(deps.blobs, place, encoded);
    if (target.replaces !== undefined) await removeBody(deps, target.replaces);
    const carried = await nameRoot(deps, place, ref);
    if ('kind' in carried) {
      pass(carried);
      continue;
    }
    let isNamed = sameRoot(ref, carried);
    if (!isNamed) {
      const stored = await loadUnlessDamaged(deps, root, carried);
      if (stored !== undefined) {
        if (isOtherState(deps, root, stored)) differed.push(position);
        await keepReplacedRoot(deps, root, carried);
      }
      isNamed = await deps.tables.replaceRoot(log, position, carried, ref);
      if (isNamed) replaced++;
    }
    const present = isNamed ? ref : rootOf(await requireSnapshotEntry(deps, place));
    if (present === undefined) {
      pass({ kind: 'root', log, ...position });
      continue;
    }
    const pointer = isNamed ? await advanceTo(deps, place, target.last) : await advanceToCarried(deps, place, present);
    if (pointer !== undefined) pass(pointer);
    await clearProgress(deps.blobs, await listProgress(deps.blobs, log, position));
    onRebuilt(root);
  }
  return { outcome: 'rebuilt', ...counts() };
}

/**
 * Ensures that the snapshot of an archived segment is readable, after the chunks of the same state
 * were written. Keeps the archived root if possible.
 * @param seen chunks that were read already
 * @returns the archived root; undefined if the root or its object was written again
 */
async function keepFrozenRoot(
  deps: RebuildDeps,
  segment: Segment,
  { root, encoded, seen }: { readonly root: Root; readonly encoded: EncodedRoot; readonly seen: Set<ChunkId> },
): Promise<Root | undefined> {
  const { log, position } = root;
  const frozen = rootOf(await requireSnapshotEntry(deps, { log, position }));
  if (frozen === undefined) {
    throw new ArchiveDiffersError("the table's entry of the archived snapshot has no root", {
      log,
      ...position,
      advice: 'Delete the entry from the table. Readers then read it from its archive',
    });
  }
  try {
    return await readWhole(deps, root, frozen, seen);
  } catch (error) {
    if (!isDamage(error)) throw error;
  }
  const to = await saveRoot(deps.blobs, root, encoded);
  if (!sameRoot(frozen, to)) await rearchiveSegment(deps, segment, { source: deps.store, root: { from: frozen, to } });
  return undefined;
}

/**
 * The root from which a continuation goes on; undefined if it may not be a rebuilt one, because an
 * archived segment may have kept another root.
 */
async function rebuiltRoot(
  deps: SnapshotDeps,
  { log, segments }: Pick<WholeLog, 'log' | 'segments'>,
  position: Position,
): Promise<Root | undefined> {
  if (segments[position.segment]?.archive !== undefined) return undefined;
  const ref = rootOf(await requireSnapshotEntry(deps, { log, position }));
  const root = ref && (await loadRoot(deps, { log, position }, ref));
  return root !== undefined && otherReducer(root, deps.reducer) === undefined ? root : undefined;
}

async function loadUnlessDamaged(deps: SnapshotDeps, own: Root, carried: RootRef): Promise<Root | undefined> {
  try {
    return await loadRoot(deps, own, carried);
  } catch (error) {
    if (isDamage(error)) return undefined;
    throw error;
  }
}
