import { type ChunkId, type ChunkPlatform, type ChunkStore, chunkId, unpackChunk } from '../codec/chunk.ts';
import { BlobKeyInvalidError, ChunkMissingError, REBUILD_ADVICE, RootInvalidError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import type { Position } from '../ids/position.ts';
import type { RootRef } from '../log/entry.ts';
import type { LogReader } from '../log/log-store.ts';
import { type MeaningSource, requireSameMeaning } from '../log/meaning.ts';
import { stateTops } from '../state/state.ts';
import type { BlobStore } from '../store/blob-store.ts';
import { chunkKey, parseKey, rootKey } from '../store/keys.ts';
import { NodeStore, type NodeStoreOptions } from '../tree/node-store.ts';
import { walkChunks } from '../tree/walk.ts';
import { decodeRoot, type EncodedRoot, type Root } from './root.ts';

/**
 * A root of at most this many bytes is stored in its Snapshot entry: writing it there costs no more
 * than an object.
 */
export const INLINE_ROOT_BYTES = 4096;

/** Ports for reading and writing snapshots. */
export interface SnapshotStores {
  readonly store: LogReader;
  readonly blobs: BlobStore;
  readonly platform: ChunkPlatform;
  /** Options for the cache and the requests of nodes. */
  readonly nodes?: NodeStoreOptions | undefined;
}

/** One log's chunks in the bucket. */
export function chunkStore(blobs: BlobStore, log: LogId): ChunkStore {
  return {
    where: { log },
    get: (id) => blobs.get(chunkKey(log, id)),
    put: (id, stored) => blobs.put(chunkKey(log, id), stored),
  };
}

/**
 * One log's nodes in the bucket.
 * @param chunks another store of the log's chunks
 */
export function nodeStore(
  { blobs, platform, nodes }: Omit<SnapshotStores, 'store'>,
  log: LogId,
  chunks: ChunkStore = chunkStore(blobs, log),
): NodeStore {
  return new NodeStore(chunks, platform, nodes);
}

/**
 * Writes a root's object if it is too large for its entry.
 * @returns the reference for the entry
 */
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
 * Writes the object of an inline root that is about to be replaced on its entry. Otherwise no root
 * would name its chunks any more, and garbage collection could remove them under a build that
 * started from it.
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
 * Loads the root that a Snapshot entry names.
 * @param stores without a store, nothing is checked against a mapping
 * @throws ChunkMissingError if its object is missing
 * @throws ChunkCorruptError, RootInvalidError if it is damaged or belongs to another snapshot
 * @throws MappingDiffersError if another mapping gave the entries that it folds
 */
export async function loadRoot(
  stores: Pick<SnapshotStores, 'blobs' | 'platform'> & Pick<MeaningSource, 'store'>,
  place: { readonly log: LogId; readonly position: Position },
  ref: RootRef,
): Promise<Root> {
  const { log, position } = place;
  const root = await readRoot(stores, { log, position }, ref);
  const where = { log, ...position };
  await requireSameMeaning(stores, { what: 'the snapshot', where, mapping: root.mapping });
  return root;
}

async function readRoot(
  stores: Pick<SnapshotStores, 'blobs' | 'platform'>,
  { log, position }: { readonly log: LogId; readonly position: Position },
  ref: RootRef,
): Promise<Root> {
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
 * Reads a whole snapshot: the root that its entry names, and every chunk below it.
 * @param seen nodes to skip; the function adds the nodes that it reads
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
