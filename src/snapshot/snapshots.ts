import type { ChunkId, ChunkPlatform, ChunkStore } from '../codec/chunk.ts';
import { chunkId, unpackChunk } from '../codec/chunk.ts';
import { BlobKeyInvalidError, ChunkMissingError, REBUILD_ADVICE, RootInvalidError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { comparePositions, type Position } from '../ids/position.ts';
import { type RootRef, rootOf } from '../log/entry.ts';
import type { LogReader } from '../log/log-store.ts';
import type { Segment } from '../log/segment.ts';
import { stateTops } from '../state/state.ts';
import type { BlobStore } from '../store/blob-store.ts';
import { chunkKey, parseKey, rootKey } from '../store/keys.ts';
import { NodeStore, type NodeStoreOptions } from '../tree/node-store.ts';
import { walkChunks } from '../tree/walk.ts';
import { decodeRoot, type EncodedRoot, type Root } from './root.ts';

/** A root that is no longer than this, in bytes, travels in its Snapshot entry: writing it costs no more than an object. */
export const INLINE_ROOT_BYTES = 4096;

/** What reading and writing snapshots needs. */
export interface SnapshotStores {
  readonly store: LogReader;
  readonly blobs: BlobStore;
  readonly platform: ChunkPlatform;
  /** How nodes are cached and fetched. */
  readonly nodes?: NodeStoreOptions | undefined;
}

/** One log's chunks in the bucket. */
export function chunkStore(blobs: BlobStore, log: LogId): ChunkStore {
  return {
    get: (id) => blobs.get(chunkKey(log, id)),
    put: (id, stored) => blobs.put(chunkKey(log, id), stored),
  };
}

/** One log's nodes in the bucket. */
export function nodeStore(stores: SnapshotStores, log: LogId): NodeStore {
  return new NodeStore(chunkStore(stores.blobs, log), stores.platform, { ...stores.nodes, where: { log } });
}

/** Writes a root's object where it is too large for its entry, and returns how the entry is to name it. */
export async function saveRoot(
  blobs: BlobStore,
  root: { readonly log: LogId; readonly position: Position },
  encoded: EncodedRoot,
): Promise<RootRef> {
  if (encoded.stored.length <= INLINE_ROOT_BYTES) return { inline: encoded.stored };
  const key = rootKey(root.log, root.position, encoded.id);
  await blobs.put(key, encoded.stored);
  return { key };
}

/**
 * Writes the object of a root that is about to be replaced on its entry, where it has none. Without it nobody would
 * know of its chunks any more, and a build that started from it could lose them to a collection.
 */
export async function keepReplacedRoot(
  { blobs, platform }: Pick<SnapshotStores, 'blobs' | 'platform'>,
  { log, position }: { readonly log: LogId; readonly position: Position },
  replaced: RootRef,
): Promise<void> {
  if ('key' in replaced) return;
  const id = chunkId(platform, unpackChunk(platform, replaced.inline));
  await blobs.put(rootKey(log, position, id), replaced.inline);
}

/**
 * The root that a Snapshot entry names.
 * @throws ChunkMissingError where its object is gone
 * @throws ChunkCorruptError, RootInvalidError where it is damaged or another snapshot's
 */
export async function loadRoot(
  stores: Pick<SnapshotStores, 'blobs' | 'platform'>,
  place: { readonly log: LogId; readonly position: Position },
  ref: RootRef,
): Promise<Root> {
  const { log, position } = place;
  if ('inline' in ref) return decodeRoot(stores.platform, ref.inline, { log, position });
  const stored = await stores.blobs.get(ref.key).catch((error: unknown) => {
    if (!(error instanceof BlobKeyInvalidError)) throw error;
    throw new RootInvalidError(`'${ref.key}' is not the key of a root`, {
      log,
      ...position,
      advice: REBUILD_ADVICE,
    });
  });
  if (stored === undefined) {
    throw new ChunkMissingError(`the root '${ref.key}' is not in the blob store`, {
      log,
      ...position,
      advice: REBUILD_ADVICE,
    });
  }
  const parsed = parseKey(ref.key);
  const named = parsed?.kind === 'root' || parsed?.kind === 'progress';
  return decodeRoot(stores.platform, stored, { log, position, id: named ? parsed.id : undefined });
}

/**
 * Reads a snapshot whole: the root that its entry names, and every chunk below.
 * @param seen nodes that need not be read again; the nodes that were read are added
 * @throws ChunkMissingError, ChunkCorruptError, RootInvalidError if a part is missing or damaged
 */
export async function readWhole(
  stores: SnapshotStores,
  place: { readonly log: LogId; readonly position: Position },
  ref: RootRef,
  seen: Set<ChunkId> = new Set(),
): Promise<Root> {
  const root = await loadRoot(stores, place, ref);
  const nodes = nodeStore(stores, place.log);
  const read = new Set<ChunkId>();
  for (const top of stateTops(root.state)) {
    for await (const { id, holds } of walkChunks(nodes, top, { values: true, skip: (each) => seen.has(each) })) {
      if (holds === 'value') await nodes.loadValue(id);
      else read.add(id);
    }
  }
  for (const id of read) seen.add(id);
  return root;
}

/** A completed snapshot: its Snapshot entry and the root which that carries. */
export interface CompletedSnapshot {
  readonly position: Position;
  readonly ref: RootRef;
}

/**
 * The newest completed snapshot at or before a position that Last Snapshot of some segment leads to. Where Last
 * Snapshot of the position's own segment is past the position, the segment before is asked: between the two there may
 * be others, but finding them would cost as much reading as starting from further back.
 * @returns undefined where there is none, so that one starts from the empty state at the log's beginning
 */
export async function findSnapshot(
  store: LogReader,
  log: LogId,
  notAfter: Position,
): Promise<CompletedSnapshot | undefined> {
  for (let number = notAfter.segment; number >= 0; number--) {
    const segment = await store.getSegment(log, number, { consistent: true });
    if (segment?.lastSnapshot === undefined) continue;
    const position = { segment: number, entry: segment.lastSnapshot };
    if (comparePositions(position, notAfter) > 0) continue;
    const entry = await store.getEntry(log, position, { consistent: true });
    // Entries of old segments expire, and their snapshots with them: then an older one is of no more use.
    if (entry === undefined) return undefined;
    const ref = rootOf(entry);
    if (ref !== undefined) return { position, ref };
    throw lastWithoutRoot(segment);
  }
  return undefined;
}

/** The error if Last Snapshot names an entry that carries no root, or an entry that is not there although it must be. */
export function lastWithoutRoot({ log, segment, lastSnapshot, archive }: Segment): RootInvalidError {
  return new RootInvalidError('Last Snapshot names an entry that carries no root', {
    log,
    segment,
    entry: lastSnapshot,
    advice:
      archive === undefined
        ? "Something else than logfold changed the entry; if it is gone, restore it from a backup of the table. Then run 'logfold sweep --rebuild --log LOG' to write the root again"
        : 'Something else than logfold changed the entry. Delete it from the table: then it is read from its archive',
  });
}
