import { openArchive } from '../../archive/reader.ts';
import type { ChunkId } from '../../codec/chunk.ts';
import {
  ArchiveCorruptError,
  ArchiveDiffersError,
  ArchiveMissingError,
  EntryGapError,
  SegmentStateError,
} from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import { comparePositions, MAX_NUMBER, type Position } from '../../ids/position.ts';
import { type Entry, type RootRef, rootOf, sameRoot } from '../../log/entry.ts';
import { querySegments } from '../../log/newest.ts';
import { snapshotEntries } from '../../log/read-entries.ts';
import { mayLackEntries, type Segment } from '../../log/segment.ts';
import { buildState, otherReducer } from '../../snapshot/build.ts';
import { type FlushDue, flushDue } from '../../snapshot/flush-due.ts';
import { clearProgress, isDamage, listProgress, saveProgress } from '../../snapshot/progress.ts';
import { type EncodedRoot, encodeRoot, type Root } from '../../snapshot/root.ts';
import { keepReplacedRoot, loadRoot, readWhole, saveRoot } from '../../snapshot/snapshots.ts';
import { clearStop } from '../../snapshot/stop.ts';
import type { RebuildJob } from '../jobs/job.ts';
import { rearchiveSegment } from '../retention/archive-segment.ts';
import type { ArchiveDeps } from '../retention/write-archive.ts';
import type { SnapshotDeps } from './build-snapshot.ts';
import { advanceToCarried, carriedRoot, requireSnapshotEntry, type SnapshotPlace } from './snapshot-entry.ts';
import { type Stopped, withStopGuard } from './stop-guard.ts';

interface RebuildCounts {
  /** Snapshots that this job rebuilt. */
  readonly snapshots: number;
  /** Those whose stored bytes were different. */
  readonly replaced: number;
  /** Those whose stored state was different, although the same reducer had made it. */
  readonly differed: readonly Position[];
  readonly entries: number;
}

/** The result of a rebuild job. */
export type RebuildResult =
  | (RebuildCounts & Newest & { readonly outcome: 'rebuilt' })
  /** The time was up; the job needs a continuation. */
  | (RebuildCounts & { readonly outcome: 'progress'; readonly after: Position | undefined; readonly reached: Position })
  | (Stopped & Partial<Newest>);

interface Newest {
  /** The newest snapshot that was rebuilt; undefined if there is none. */
  readonly newest: Position | undefined;
  /** Why a flush of it is due; undefined if it is not. */
  readonly flushDue: FlushDue | undefined;
}

export type RebuildDeps = SnapshotDeps & Pick<ArchiveDeps, 'tables' | 'random'>;

/**
 * Rebuilds the snapshots of a log from its entries: the first one from the log's beginning, each
 * further one from the one before. It reads stored snapshots only to compare them. It replaces
 * roots that differ. It writes all chunks again, which repairs missing and damaged ones.
 *
 * An archived segment has one snapshot, whose root does not change. If a part of this snapshot is
 * still missing after its chunks were written, the segment gets another archive with the new root.
 * If an archive is missing and all entries are in the table, it is written again.
 *
 * It throws transient errors too; the job is then retried.
 * @throws LogNotFoundError if the log has no segment
 * @throws SegmentStateError if entries expired without an archive; nothing is changed then
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
  const expiring = segments.find(mayLackEntries);
  if (expiring === undefined) return segments;
  throw new SegmentStateError('a rebuild needs entries of the segment that expire without an archive', {
    log,
    segment: expiring.segment,
    advice:
      'Nothing was changed. While all of them are in the table, ' +
      `run 'logfold expire LOG ${expiring.segment} --undo' to keep them, then rebuild again`,
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
  const counts = (): RebuildCounts => ({ snapshots, replaced, differed, entries });
  const seen = new Set<ChunkId>();
  for await (const { position, created, archived } of targets(deps, { log, segments }, after)) {
    const { now, deadline } = deps;
    const built = await buildState(deps, log, {
      at: position,
      only: base ?? 'beginning',
      progress: 'always',
      shouldStop: deadline === undefined ? undefined : () => now() >= deadline,
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
    const ref = await saveRoot(deps.blobs, { log, position }, encoded);
    const carried = await deps.tables.completeSnapshot(log, position, ref);
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
    if (isNamed) await deps.tables.advanceLastSnapshot(log, position);
    else await advanceToCarried(deps, { log, position }, await requireRoot(deps, { log, position }, carried));
    await clearProgress(deps.blobs, await listProgress(deps.blobs, log, position));
    onRebuilt(root);
  }
  return { outcome: 'rebuilt', ...counts() };
}

/** A snapshot to rebuild. */
interface Target extends Pick<Entry, 'position' | 'created'> {
  /** Its segment, if the segment is archived. */
  readonly archived?: Segment;
}

/**
 * The snapshots to rebuild after a position, in order. Reads each archive completely before entries
 * of its segment are folded.
 */
async function* targets(
  deps: RebuildDeps,
  { log, segments }: Pick<WholeLog, 'log' | 'segments'>,
  after: Position | undefined,
): AsyncGenerator<Target> {
  const { types } = deps;
  for (const segment of segments) {
    if (segment.segment < (after?.segment ?? 0)) continue;
    const from = segment.segment === after?.segment ? after.entry + 1 : 0;
    if (segment.archive !== undefined) {
      const archived = await requireArchive(deps, segment);
      if (archived.lastSnapshot === undefined || archived.lastSnapshot < from) continue;
      const position = { segment: archived.segment, entry: archived.lastSnapshot };
      const { created } = await requireSnapshotEntry(deps, { log, position });
      yield { position, created, archived };
      continue;
    }
    const range = { segment: segment.segment, from, to: MAX_NUMBER + 1 };
    const entries: Target[] = [];
    const found = snapshotEntries({ store: deps.store, types }, log, range, { consistent: true });
    for await (const entry of found) {
      // Throws if the entry carries a body that is not a root: a rebuild replaces only roots.
      carriedRoot(entry);
      entries.push({ position: entry.position, created: entry.created });
    }
    yield* entries;
  }
}

/**
 * Reads a segment's archive completely. If it is missing or damaged, writes it again from the
 * table.
 * @returns the current segment
 * @throws ArchiveMissingError, ArchiveCorruptError if the table lacks entries of the segment
 */
async function requireArchive(deps: RebuildDeps, segment: Segment): Promise<Segment> {
  try {
    const archive = await openArchive(deps, segment);
    for await (const items of archive.items(0, archive.entries)) items.length;
    return segment;
  } catch (lost) {
    if (!(lost instanceof ArchiveMissingError || lost instanceof ArchiveCorruptError)) throw lost;
    try {
      return await rearchiveSegment(deps, segment, { source: deps.tables });
    } catch (error) {
      throw error instanceof EntryGapError ? lost : error;
    }
  }
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
  const frozen = carriedRoot(await requireSnapshotEntry(deps, { log, position }));
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

/** The root that a Snapshot entry carries now; `before` if it carries none. */
async function requireRoot(deps: SnapshotDeps, place: SnapshotPlace, before: RootRef): Promise<RootRef> {
  return carriedRoot(await requireSnapshotEntry(deps, place)) ?? before;
}

async function loadUnlessDamaged(deps: SnapshotDeps, own: Root, carried: RootRef): Promise<Root | undefined> {
  try {
    return await loadRoot(deps, own, carried);
  } catch (error) {
    if (isDamage(error)) return undefined;
    throw error;
  }
}

/**
 * Whether the stored root certainly has another state of the same reducer. False if one has
 * buffered edits.
 */
function isOtherState({ reducer }: SnapshotDeps, own: Root, stored: Root): boolean {
  if (otherReducer(stored, reducer) !== undefined) return false;
  return stored.stateHash !== undefined && own.stateHash !== undefined && stored.stateHash !== own.stateHash;
}
