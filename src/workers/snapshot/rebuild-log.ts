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
import type { Segment } from '../../log/segment.ts';
import { buildState, otherReducer } from '../../snapshot/build.ts';
import { type FlushDue, flushDue } from '../../snapshot/flush-due.ts';
import { clearProgress, isDamage, listProgress, saveProgress } from '../../snapshot/progress.ts';
import { type EncodedRoot, encodeRoot, type Root } from '../../snapshot/root.ts';
import { keepReplacedRoot, loadRoot, readWhole, saveRoot } from '../../snapshot/snapshots.ts';
import { clearStop } from '../../snapshot/stop.ts';
import type { RebuildJob } from '../jobs/job.ts';
import { type ArchiveDeps, rearchiveSegment } from '../retention/archive-segment.ts';
import type { SnapshotDeps } from './build-snapshot.ts';
import { advanceToCarried, carriedRoot, requireSnapshotEntry, type SnapshotPlace } from './snapshot-entry.ts';
import { type Stopped, withStopGuard } from './stop-guard.ts';

interface RebuildCounts {
  /** Snapshots that were built anew by this job. */
  readonly snapshots: number;
  /** How many of them were not what was stored, byte for byte. */
  readonly replaced: number;
  /** Those whose stored state was another one, made by the very same reducer. */
  readonly differed: readonly Position[];
  readonly entries: number;
}

/** How a rebuild job ended. */
export type RebuildResult =
  | (RebuildCounts & Newest & { readonly outcome: 'rebuilt' })
  /** Its time was up: the job is to have another turn. */
  | (RebuildCounts & { readonly outcome: 'progress'; readonly after: Position | undefined; readonly reached: Position })
  | (Stopped & Partial<Newest>);

interface Newest {
  /** The newest snapshot that was built anew; undefined where there is none. */
  readonly newest: Position | undefined;
  /** Why settling it is due; undefined where it is not. */
  readonly compaction: FlushDue | undefined;
}

export type RebuildDeps = SnapshotDeps & Pick<ArchiveDeps, 'tables' | 'random'>;

/**
 * Makes the snapshots of a log again, from the log alone: the first from the log's beginning, each further one from the one
 * before. Stored snapshots are read only to be compared. A root that differs is replaced; chunks are written even if they
 * exist, so that lost and damaged ones are whole again.
 *
 * An archived segment has one snapshot. Its root stays as it is, unless a part of that snapshot is still missing after
 * its chunks were written: then the segment gets another archive, with the root that was made now. An archive that is lost
 * is written again, if all entries are in the table.
 * @throws LogNotFoundError
 * @throws SegmentStateError where entries have left the tables without an archive; then nothing is changed
 * @throws ArchiveDiffersError if the table's entry of an archived snapshot has lost its root
 * @throws whatever may pass: the job is to be delivered again
 */
export async function rebuildLog(deps: RebuildDeps, { log, after, turn }: RebuildJob): Promise<RebuildResult> {
  const end = { segment: MAX_NUMBER, entry: MAX_NUMBER };
  let newest: Root | undefined;
  const onRebuilt = (root: Root): void => {
    newest = root;
  };
  const result = await withStopGuard(deps, { log, position: end, again: true }, async (stop) => {
    const segments = await requireWhole(deps, log);
    // What other builds have left behind was not made anew.
    if (turn === undefined) await clearProgress(deps.blobs, await listProgress(deps.blobs, log));
    const whole = { log, segments, onRebuilt };
    const rebuilt = await rebuild(deps, whole, after).catch((error: unknown) => {
      // What an earlier turn made anew is only a shortcut, and may have been collected since.
      if (after === undefined || !isDamage(error)) throw error;
      return rebuild(deps, whole, undefined);
    });
    if (rebuilt.outcome === 'rebuilt' && stop !== undefined) await clearStop(deps.blobs, log);
    return rebuilt;
  });
  if (result.outcome === 'progress') return result;
  // Where something stopped it, what lies before that is to be settled all the same.
  return { ...result, newest: newest?.position, compaction: newest && flushDue(newest.state) };
}

/**
 * All segments of a log that can still be folded from its beginning. Entries that left by the log's policy are no fault
 * of the log's, so its snapshots must not be stopped by their absence.
 */
async function requireWhole({ store }: SnapshotDeps, log: LogId): Promise<readonly Segment[]> {
  const segments = await querySegments(store, log, { consistent: true });
  const leaving = segments.find(({ archive, expires }) => archive === undefined && expires !== undefined);
  if (leaving === undefined) return segments;
  throw new SegmentStateError('entries of the segment leave the table without an archive, or have left it', {
    log,
    segment: leaving.segment,
    advice:
      'Nothing was changed: without them no snapshot can be made anew. While all of them are there, expire --undo takes it back',
  });
}

interface WholeLog {
  readonly log: LogId;
  readonly segments: readonly Segment[];
  /** Told of each snapshot once it is rebuilt, and before of the one that another turn rebuilt last. */
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
      await saveProgress(deps.blobs, { target: position, asked: created }, { root, encoded });
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

/** A snapshot to be made again. */
interface Target extends Pick<Entry, 'position' | 'created'> {
  /** Its segment, if that is archived. */
  readonly archived?: Segment;
}

/**
 * The snapshots to be made again, in order, from after a position on. Each archive is read whole before anything of
 * its segment is folded.
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
      // Only the root of an entry is replaced, never what else it may have.
      carriedRoot(entry);
      entries.push({ position: entry.position, created: entry.created });
    }
    yield* entries;
  }
}

/**
 * Reads a segment's archive whole. If it is lost or damaged, writes it again from the table.
 * @returns the segment as it is now
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
 * Sees to it that the snapshot of an archived segment can be read whole, after the chunks of the same state were
 * written. The archived root stays if that is possible.
 * @param seen chunks that were read and need not be read again
 * @returns the archived root; undefined if it, or its object, had to be written again
 */
async function keepFrozenRoot(
  deps: RebuildDeps,
  segment: Segment,
  { root, encoded, seen }: { readonly root: Root; readonly encoded: EncodedRoot; readonly seen: Set<ChunkId> },
): Promise<Root | undefined> {
  const { log, position } = root;
  const frozen = carriedRoot(await requireSnapshotEntry(deps, { log, position }));
  if (frozen === undefined) {
    throw new ArchiveDiffersError('the table holds the entry of the archived snapshot without its root', {
      log,
      ...position,
      advice: 'Delete the entry from the table: then it is read from its archive',
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
 * The root with which a later turn goes on; undefined if that is not known to be made again: an archived segment may have
 * kept another one.
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

/** The root that a Snapshot entry carries now, where another one was found a moment ago. */
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

/** Whether what was stored surely is another state of the same reducer; where edits wait, nobody knows. */
function isOtherState({ reducer }: SnapshotDeps, own: Root, stored: Root): boolean {
  if (otherReducer(stored, reducer) !== undefined) return false;
  return stored.stateHash !== undefined && own.stateHash !== undefined && stored.stateHash !== own.stateHash;
}
