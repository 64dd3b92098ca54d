import { ItemInvalidError } from '../../src/errors.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import type { Position } from '../../src/ids/position.ts';
import { rootOf } from '../../src/log/entry.ts';
import type { Root } from '../../src/snapshot/root.ts';
import { loadRoot, nodeStore, type SnapshotStores } from '../../src/snapshot/snapshots.ts';
import { stateTops } from '../../src/state/state.ts';
import { chunkKey, chunkPrefix } from '../../src/store/keys.ts';
import { walkChunks } from '../../src/tree/walk.ts';
import type { BuiltSnapshot } from './pipeline-watch.ts';

/** Loads the root of the complete snapshot at a position. */
export async function rootAt(stores: SnapshotStores, log: LogId, position: Position): Promise<Root> {
  const entry = await stores.store.getEntry(log, position, { consistent: true });
  const ref = entry && rootOf(entry);
  if (ref === undefined) throw new ItemInvalidError('there is no complete snapshot', { log, ...position });
  return loadRoot(stores, { log, position }, ref);
}

/** Totals of all snapshots. */
export interface SnapshotTotals {
  readonly snapshots: number;
  readonly chunksWritten: number;
  /** Chunks that snapshots share with the snapshots before them. */
  readonly chunksReused: number;
  /** Bytes of written chunks and roots. */
  readonly bytesWritten: number;
  /** Bytes to write if every snapshot were a full copy. */
  readonly bytesAsCopies: number;
  /** Mean time of a build, in milliseconds. */
  readonly msPerSnapshot: number;
}

/** Adds up the writes of all builds, and walks the trees to count what chunk reuse saved. */
export async function totalSnapshots(
  stores: SnapshotStores,
  log: LogId,
  built: readonly BuiltSnapshot[],
): Promise<SnapshotTotals> {
  const sizes = new Map<string, number>();
  for await (const { key, bytes } of stores.blobs.list(chunkPrefix(log))) sizes.set(key, bytes);
  const store = nodeStore(stores, log);
  let [chunks, chunkBytes] = [0, 0];
  for (const { position } of built) {
    const { state } = await rootAt(stores, log, position);
    for (const top of stateTops(state)) {
      for await (const { id } of walkChunks(store, top, { values: false })) {
        chunks++;
        chunkBytes += sizes.get(chunkKey(log, id)) ?? 0;
      }
    }
  }
  const rootBytes = total(built, ({ rootBytes }) => rootBytes);
  const chunksWritten = total(built, (snapshot) => snapshot.chunksWritten);
  return {
    snapshots: built.length,
    chunksWritten,
    chunksReused: chunks - chunksWritten,
    bytesWritten: total(built, ({ bytesWritten }) => bytesWritten) + rootBytes,
    bytesAsCopies: chunkBytes + rootBytes,
    msPerSnapshot: built.length === 0 ? 0 : total(built, ({ ms }) => ms) / built.length,
  };
}

function total<T>(items: readonly T[], number: (item: T) => number): number {
  return items.reduce((sum, item) => sum + number(item), 0);
}
