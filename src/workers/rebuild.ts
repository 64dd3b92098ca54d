import { SegmentStateError } from '../errors.ts';
import { type Entry, RESERVED_TYPES } from '../log/entry.ts';
import type { LogId } from '../log/log-id.ts';
import { querySegments } from '../log/newest.ts';
import { comparePositions, MAX_NUMBER, type Position } from '../log/position.ts';
import { type RootRef, rootOf, sameRoot } from '../log/root-ref.ts';
import type { Segment } from '../log/segment.ts';
import { snapshotEntries } from '../log/snapshot-entries.ts';
import { buildState, otherReducer } from '../snapshot/build.ts';
import { type CompactionDue, compactionDue } from '../snapshot/compaction.ts';
import { clearProgress, isDamage, listProgress, saveProgress } from '../snapshot/progress.ts';
import { encodeRoot, type Root } from '../snapshot/root.ts';
import { keepReplacedRoot, loadRoot, saveRoot } from '../snapshot/snapshots.ts';
import { clearStop } from '../snapshot/stop.ts';
import type { RebuildJob } from './job.ts';
import type { SnapshotDeps } from './snapshot.ts';
import { requireSnapshotEntry } from './snapshot-entry.ts';
import { type Stopped, unlessStopped } from './stopping.ts';

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
  readonly compaction: CompactionDue | undefined;
}

/**
 * Makes every snapshot of a log's segments in the table anew, from the log alone: the first from the log's beginning,
 * each further one from the one before. What is stored is not read but to be compared. A root that differs is replaced;
 * chunks are written whether or not they exist, so what was lost or damaged is whole again. Roots of archived
 * segments stay as they are, being part of their archives.
 * @throws LogNotFoundError
 * @throws SegmentStateError where entries have left the tables without an archive; then nothing is changed
 * @throws whatever may pass: the job is to be delivered again
 */
export async function rebuildLog(deps: SnapshotDeps, { log, after, turn }: RebuildJob): Promise<RebuildResult> {
  const end = { segment: MAX_NUMBER, entry: MAX_NUMBER };
  let newest: Root | undefined;
  const onRebuilt = (root: Root): void => {
    newest = root;
  };
  const result = await unlessStopped(deps, { log, position: end, again: true }, async (stop) => {
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
  return { ...result, newest: newest?.position, compaction: newest && compactionDue(newest.state) };
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
  deps: SnapshotDeps,
  { log, segments, onRebuilt }: WholeLog,
  after: Position | undefined,
): Promise<Rebuilt> {
  const differed: Position[] = [];
  let [snapshots, replaced, entries] = [0, 0, 0];
  let base = after === undefined ? undefined : await carriedRoot(deps, log, after);
  if (base !== undefined) onRebuilt(base);
  const counts = (): RebuildCounts => ({ snapshots, replaced, differed, entries });
  for await (const { position, created } of replaceableEntries(deps, { log, segments }, after)) {
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
      return { outcome: 'progress', after: base?.position, reached: root.position, ...counts() };
    }
    const ref = await saveRoot(deps.blobs, { log, position }, encoded);
    const carried = await deps.store.completeSnapshot(log, position, ref);
    if (!sameRoot(ref, carried)) {
      const stored = await loadUnlessDamaged(deps, root, carried);
      if (stored !== undefined) {
        if (isOtherState(deps, root, stored)) differed.push(position);
        await keepReplacedRoot(deps, root, carried);
      }
      if (await deps.store.replaceRoot(log, position, carried, ref)) replaced++;
    }
    await deps.store.advanceLastSnapshot(log, position);
    await clearProgress(deps.blobs, await listProgress(deps.blobs, log, position));
    snapshots++;
    base = root;
    onRebuilt(root);
  }
  return { outcome: 'rebuilt', ...counts() };
}

/** The Snapshot entries that can be given another root, in order, from after a position on. */
async function* replaceableEntries(
  deps: SnapshotDeps,
  { log, segments }: Pick<WholeLog, 'log' | 'segments'>,
  after: Position | undefined,
): AsyncGenerator<Pick<Entry, 'position' | 'created'>> {
  const types = deps.types ?? RESERVED_TYPES;
  for (const { segment, archive } of segments) {
    if (archive !== undefined || segment < (after?.segment ?? 0)) continue;
    const from = segment === after?.segment ? after.entry + 1 : 0;
    const range = { segment, from, to: MAX_NUMBER + 1 };
    const entries: Pick<Entry, 'position' | 'created'>[] = [];
    const found = snapshotEntries({ store: deps.store, types }, log, range, { consistent: true });
    for await (const { position, created } of found) entries.push({ position, created });
    yield* entries;
  }
}

async function carriedRoot(deps: SnapshotDeps, log: LogId, position: Position): Promise<Root | undefined> {
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

/** Whether what was stored surely is another state of the same reducer; where edits wait, nobody knows. */
function isOtherState({ reducer }: SnapshotDeps, own: Root, stored: Root): boolean {
  if (otherReducer(stored, reducer) !== undefined) return false;
  return stored.stateHash !== undefined && own.stateHash !== undefined && stored.stateHash !== own.stateHash;
}
