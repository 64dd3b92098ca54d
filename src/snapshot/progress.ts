import { ChunkCorruptError, ChunkMissingError, type LogfoldError, RootInvalidError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { comparePositions, type Position } from '../ids/position.ts';
import type { BlobStore } from '../store/blob-store.ts';
import { formatKey, type ProgressKey, parseKey, progressPrefix } from '../store/keys.ts';
import type { EncodedRoot, Root } from './root.ts';
import { loadRoot, type SnapshotStores } from './snapshots.ts';

/**
 * What a build left behind whose time was up: the root of the state at the place that it reached. Nothing is lost with
 * it but time.
 *
 * Each is an object of its own, under the snapshot that the build was for. All builds of a log may go on from it, but
 * only those for the same snapshot remove it, and only once they have come further. So whatever the order of jobs, and
 * whatever their twins do, a job starts no earlier than its own last turn ended, and every turn takes it a page further
 * at least: it needs a bounded number of turns. (With one object for a whole log it might need them without end: a
 * later snapshot's build passes an earlier one's, which has to begin anew and puts its own progress in the place, from
 * where the later one passes it again.)
 *
 * Each says when the Snapshot entry that it was for was written. Where that entry is another one now, or is none, the
 * tables were put back to an earlier moment and the log went on differently: then it is of no use to anybody.
 */
export type Progress = ProgressKey;

/** All that is left behind of a log's builds, or of those for one snapshot; that which reached furthest comes first. */
export async function listProgress(blobs: BlobStore, log: LogId, target?: Position): Promise<Progress[]> {
  const all: Progress[] = [];
  for await (const { key } of blobs.list(progressPrefix(log, target))) {
    const parsed = parseKey(key);
    if (parsed?.kind === 'progress') all.push(parsed);
  }
  return all.sort((a, b) => comparePositions(b.reached, a.reached));
}

/**
 * The root that a build left behind.
 * @throws ChunkMissingError, ChunkCorruptError, RootInvalidError: see {@link isDamage}
 */
export function loadProgress(stores: Pick<SnapshotStores, 'blobs' | 'platform'>, progress: Progress): Promise<Root> {
  return loadRoot(stores, { log: progress.log, position: progress.reached }, { key: formatKey(progress) });
}

/** Leaves a root behind for the next turn of the build for a snapshot. Its chunks must be saved. */
export async function saveProgress(
  blobs: BlobStore,
  { target, asked }: Pick<Progress, 'target' | 'asked'>,
  { root, encoded }: { readonly root: Root; readonly encoded: EncodedRoot },
): Promise<Progress> {
  const progress: Progress = { kind: 'progress', log: root.log, target, asked, reached: root.position, id: encoded.id };
  await blobs.put(formatKey(progress), encoded.stored);
  return progress;
}

/** Removes what builds left behind; no error where it is gone. The chunks below it are the collector's. */
export async function clearProgress(blobs: BlobStore, all: readonly Progress[]): Promise<void> {
  if (all.length > 0) await blobs.delete(all.map(formatKey));
}

/** Whether an error says that stored objects are missing or damaged, so that a build has to start from others. */
export function isDamage(error: unknown): error is LogfoldError {
  return error instanceof ChunkMissingError || error instanceof ChunkCorruptError || error instanceof RootInvalidError;
}
