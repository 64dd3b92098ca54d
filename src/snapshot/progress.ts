import { ChunkCorruptError, ChunkMissingError, type LogfoldError, RootInvalidError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { comparePositions, type Position } from '../ids/position.ts';
import type { BlobStore } from '../store/blob-store.ts';
import { type ProgressPlace, parseProgressName, progressKey, progressPrefix } from '../store/keys.ts';
import type { EncodedRoot, Root } from './root.ts';
import { loadRoot, type SnapshotStores } from './snapshots.ts';

/**
 * The progress of a build whose time was up: the root of the state at the position that it reached.
 * If it is lost, only time is lost.
 *
 * Each progress is a separate object, stored under the snapshot of the build. All builds of a log
 * may continue from it. Only builds of the same snapshot remove it, after they have come further.
 * So a job never starts before the end of its last run, whatever the order of jobs and their
 * duplicates, and each run comes at least a page further: the number of runs is bounded. With one
 * object per log it would be unbounded: a later snapshot's build overtakes an earlier one's, which
 * starts again and overwrites the progress, and so on.
 *
 * Each progress names the time at which the Snapshot entry of its build was written. If that entry
 * is gone or differs, the tables were restored to an earlier moment and the log continued
 * differently. The progress is then useless.
 */
export interface Progress extends ProgressPlace {
  readonly log: LogId;
}

/** The key of the object that holds the root. */
export function keyOfProgress(progress: Progress): string {
  return progressKey(progress.log, progress);
}

/**
 * The progress of all builds of a log, or of the builds of one snapshot. The furthest comes first.
 */
export async function listProgress(blobs: BlobStore, log: LogId, target?: Position): Promise<Progress[]> {
  const objects = await Array.fromAsync(blobs.list(progressPrefix(log, target)));
  const places = objects.flatMap(({ key }) => parseProgressName(key.slice(key.lastIndexOf('/') + 1)) ?? []);
  return places.map((place) => ({ log, ...place })).sort((a, b) => comparePositions(b.reached, a.reached));
}

/**
 * Loads the root of a progress.
 * @throws ChunkMissingError, ChunkCorruptError, RootInvalidError if the root is missing or damaged;
 * see {@link isDamage}
 */
export function loadProgress(
  stores: Pick<SnapshotStores, 'store' | 'blobs' | 'platform'>,
  progress: Progress,
): Promise<Root> {
  return loadRoot(stores, { log: progress.log, position: progress.reached }, { key: keyOfProgress(progress) });
}

/** Saves a root for the next run of the build of a snapshot. The root's chunks must be saved. */
export async function saveProgress(
  blobs: BlobStore,
  { target, targetCreated }: Pick<Progress, 'target' | 'targetCreated'>,
  { root, encoded }: { readonly root: Root; readonly encoded: EncodedRoot },
): Promise<Progress> {
  const progress: Progress = {
    log: root.log,
    target,
    targetCreated,
    reached: root.position,
    id: encoded.id,
  };
  await blobs.put(keyOfProgress(progress), encoded.stored);
  return progress;
}

/**
 * Removes progress objects. Missing objects are not errors. Garbage collection removes their
 * chunks.
 */
export async function clearProgress(blobs: BlobStore, all: readonly Progress[]): Promise<void> {
  if (all.length > 0) await blobs.delete(all.map(keyOfProgress));
}

/**
 * Whether an error means that stored objects are missing or damaged, so that a build must start
 * from others.
 */
export function isDamage(error: unknown): error is LogfoldError {
  return error instanceof ChunkMissingError || error instanceof ChunkCorruptError || error instanceof RootInvalidError;
}
