import { fromHex, toHex } from '../codec/bytes.ts';
import { encodeValue } from '../codec/canonical.ts';
import { type ChunkId, type ChunkPlatform, chunkId, MAX_CHUNK_BYTES, packChunk, unpackChunk } from '../codec/chunk.ts';
import { decodeValue } from '../codec/message-pack.ts';
import { isObject, type Value, type ValueObject } from '../codec/value.ts';
import {
  ChunkCorruptError,
  LogfoldError,
  REBUILD_ADVICE,
  RootInvalidError,
  StateUnsupportedError,
  textOf,
  type Where,
} from '../errors.ts';
import { type LogId, logIdBytes, logIdFromBytes } from '../ids/log-id.ts';
import { comparePositions, formatPosition, type Position } from '../ids/position.ts';
import type { Fingerprint } from '../log/meaning.ts';
import { hashFlushedState, isStateFlushed, type State, stateTops } from '../state/state.ts';
import { type BufferedTree, mapTops } from '../tree/buffered-tree.ts';
import type { KeyKind } from '../tree/key.ts';
import { decodeNode, emptyTree, encodeNode, isLeaf, type Tree, treeCount } from '../tree/node.ts';

/** Version of the root's format. Readers refuse other versions. */
const ROOT_FORMAT = 1;

/** The reducer that made a snapshot. */
export interface ReducerId {
  readonly name: string;
  readonly version: number;
}

/** The small object that describes one snapshot. */
export interface Root {
  readonly log: LogId;
  /** The state folds all entries before this position. */
  readonly position: Position;
  readonly reducer: ReducerId;
  /**
   * The mapping that gave the folded entries; undefined for logs in logfold's own schema, and in
   * roots of older releases.
   */
  readonly mapping?: Fingerprint | undefined;
  /**
   * The hash of the last item that it folds, see `lastItemHash`; only in scheduled logs and in
   * progress. Undefined in roots of older releases.
   */
  readonly lastItem?: Uint8Array | undefined;
  /** Hash of the state; undefined if a write buffer has edits: see {@link stateHash}. */
  readonly stateHash: string | undefined;
  readonly state: State;
}

export interface EncodedRoot {
  /** SHA-256 of the canonical bytes, in hexadecimal. */
  readonly id: ChunkId;
  readonly stored: Uint8Array;
}

/**
 * A root in its stored form. It contains the top node of every tree, so a small state is one object
 * and a large state saves a fetch. The state must be saved. The result has been read back, so that
 * no unreadable root is published.
 * @throws StateUnsupportedError if the root is too large, or cannot be read back
 */
export function encodeRoot(platform: ChunkPlatform, root: Omit<Root, 'stateHash'>): EncodedRoot {
  try {
    const canonical = rootBytes(platform, root);
    if (canonical.length > MAX_CHUNK_BYTES) throw rootTooLarge(root, canonical.length);
    const encoded = { id: chunkId(platform, canonical), stored: packChunk(platform, canonical) };
    requireReadable(platform, root, encoded);
    return encoded;
  } catch (error) {
    throw error instanceof LogfoldError ? error.at(lastFolded(root)) : error;
  }
}

function rootTooLarge({ state }: Pick<Root, 'state'>, length: number): StateUnsupportedError {
  return new StateUnsupportedError(
    `the root of the ${state.maps.size} maps and the metadata takes ${length} bytes and exceeds the limit of ${MAX_CHUNK_BYTES}`,
    { advice: 'Correct the reducer so that it uses fewer maps and less metadata, raise its version, and deploy it' },
  );
}

function requireReadable(platform: ChunkPlatform, written: Omit<Root, 'stateHash'>, { id, stored }: EncodedRoot): void {
  let reason: string;
  try {
    const read = decodeRoot(platform, stored, { log: written.log, position: written.position, id });
    const [found, expected] = [factsOf(read), factsOf(written)];
    if (found.every((each, index) => each === expected[index])) return;
    reason = 'its reducer or the counts and weights of its maps come back different';
  } catch (error) {
    if (!(error instanceof LogfoldError)) throw error;
    reason = error.reason;
  }
  throw new StateUnsupportedError(`the root of the new snapshot cannot be read back: ${reason}`, {
    advice: 'No snapshot was published. Correct the reducer, raise its version, and deploy it',
  });
}

/** The parts of a root that its hash does not cover. Numbers that lost precision show here. */
function factsOf({ reducer, mapping, state }: Omit<Root, 'stateHash'>): readonly (string | number | undefined)[] {
  return [reducer.name, reducer.version, mapping, ...stateTops(state).flatMap(({ count, weight }) => [count, weight])];
}

/** The last entry that a state folds, as far as its position shows. */
function lastFolded({ log, position: { segment, entry } }: Pick<Root, 'log' | 'position'>): Where {
  return { log, segment, entry: Math.max(0, entry - 1) };
}

function rootBytes(platform: ChunkPlatform, root: Omit<Root, 'stateHash'>): Uint8Array {
  const maps = [...root.state.maps].map(([name, map]) => [name, map.kind, ...mapTops(map).map(encodeNode)]);
  return encodeValue({
    format: ROOT_FORMAT,
    ...(root.lastItem !== undefined && { lastItem: root.lastItem }),
    log: logIdBytes(root.log),
    position: [root.position.segment, root.position.entry],
    reducer: [root.reducer.name, root.reducer.version],
    hash: fromHex(hashFlushedState(platform, root.state)),
    ...(root.mapping !== undefined && { mapping: fromHex(root.mapping) }),
    meta: root.state.meta,
    maps,
  });
}

/**
 * Decodes a stored root. Checks its log, its position, its state hash and, if known, its id.
 * @throws ChunkCorruptError, RootInvalidError if a check fails
 */
export function decodeRoot(
  platform: ChunkPlatform,
  stored: Uint8Array,
  expected: { readonly log: LogId; readonly position: Position; readonly id?: string | undefined },
): Root {
  try {
    const canonical = unpackChunk(platform, stored);
    if (expected.id !== undefined && chunkId(platform, canonical) !== expected.id) {
      throw new ChunkCorruptError('the root does not have the hash in its name', { advice: REBUILD_ADVICE });
    }
    const { hash, ...root } = parseRoot(decodeValue(canonical));
    if (root.log !== expected.log || comparePositions(root.position, expected.position) !== 0) {
      throw new RootInvalidError(`the root belongs to log ${root.log} at ${formatPosition(root.position)}`, {
        advice: REBUILD_ADVICE,
      });
    }
    if (hashFlushedState(platform, root.state) !== hash)
      throw invalid('its state does not have the hash that it states');
    return { ...root, stateHash: isStateFlushed(root.state) ? hash : undefined };
  } catch (error) {
    throw error instanceof LogfoldError ? error.at({ log: expected.log, ...expected.position }) : error;
  }
}

function parseRoot(value: Value): Omit<Root, 'stateHash'> & { readonly hash: string } {
  const fields = asObject(value);
  if (fields.format !== ROOT_FORMAT) {
    throw new RootInvalidError(
      `the root has format ${String(fields.format)}, and only format ${ROOT_FORMAT} is known`,
      {
        advice: 'Read it with the release of logfold that wrote it, or a newer one',
      },
    );
  }
  const { log, hash, mapping, lastItem } = fields;
  const [segment, entry] = asArray(fields.position);
  const [name, version] = asArray(fields.reducer);
  if (!(log instanceof Uint8Array) || !(hash instanceof Uint8Array)) throw invalid('log or hash is missing');
  if (!isNatural(segment) || !isNatural(entry)) throw invalid('the position is missing');
  if (typeof name !== 'string' || typeof version !== 'number') throw invalid('the reducer is missing');
  if (mapping !== undefined && !(mapping instanceof Uint8Array)) throw invalid('the mapping is malformed');
  if (lastItem !== undefined && !(lastItem instanceof Uint8Array)) throw invalid('the last item is malformed');
  return {
    log: logId(log),
    position: { segment, entry },
    reducer: { name, version },
    ...(mapping !== undefined && { mapping: toHex(mapping) }),
    ...(lastItem !== undefined && { lastItem }),
    hash: toHex(hash),
    state: { meta: asObject(fields.meta), maps: new Map(asArray(fields.maps).map(parseMap)) },
  };
}

function parseMap(value: Value): [string, BufferedTree] {
  const [name, kind, treeTop, bufferTop, ...rest] = asArray(value);
  if (typeof name !== 'string' || !isKind(kind) || rest.length > 0) throw invalid('a map is malformed');
  const parseTop = (top: Value | undefined): Tree => {
    if (!(top instanceof Uint8Array)) throw invalid(`map '${name}' has no top`);
    const node = decodeNode(top);
    if (typeof node.keys[0] !== kind) throw invalid(`the keys of map '${name}' are not ${kind}s`);
    return { kind, top: node };
  };
  const tree = parseTop(treeTop);
  return [name, { kind, tree, buffer: bufferTop === undefined ? emptyTree(kind) : parseTop(bufferTop) }];
}

function logId(bytes: Uint8Array): LogId {
  try {
    return logIdFromBytes(bytes);
  } catch (cause) {
    throw invalid(`its log id cannot be read: ${textOf(cause)}`);
  }
}

function isKind(value: Value | undefined): value is KeyKind {
  return value === 'number' || value === 'string';
}

function isNatural(value: Value | undefined): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0;
}

function asArray(value: Value | undefined): readonly Value[] {
  if (!Array.isArray(value)) throw invalid('an array is missing');
  return value;
}

function asObject(value: Value | undefined): ValueObject {
  if (!isObject(value)) throw invalid('a record is missing');
  return value;
}

function invalid(reason: string): RootInvalidError {
  return new RootInvalidError(`the root cannot be read: ${reason}`, { advice: REBUILD_ADVICE });
}

/** Why a reducer cannot continue from a snapshot; undefined if it can. */
export function otherReducer(root: Root, reducer: ReducerId): string | undefined {
  if (root.reducer.name === reducer.name && root.reducer.version === reducer.version) return undefined;
  return `the snapshot was made by reducer ${root.reducer.name} ${root.reducer.version}, and this is ${reducer.name} ${reducer.version}`;
}

/** Why a map is due for a flush: see {@link flushDue}. */
export type FlushReason = 'buffer share' | 'buffer depth' | 'buffer chunks';

/** A map that is due for a flush, with the reason. */
export interface FlushDue {
  readonly map: string;
  readonly reason: FlushReason;
}

/** A map may buffer at most one edit per this many items. */
export const ITEMS_PER_BUFFERED_EDIT = 8;

/**
 * The most chunks in the write buffer of one map. A snapshot with scattered edits rewrites all of
 * them, so this bounds what a snapshot writes besides leaves. At 45 kB each, the chunks take less
 * than 3 MB, in four rounds of 16 PUTs, for $0.0003 at S3's list prices.
 *
 * The buffer holds up to a seventh of a leaf for each leaf. So a map with this many buffer chunks
 * has some 450 leaves, and a flush costs $0.0023, as much as seven such snapshots. If 10,000 edits
 * add a chunk, a flush comes once in 64 snapshots.
 */
export const MAX_BUFFER_CHUNKS = 64;

/**
 * The first map of a state whose write buffer is worth a flush, with the reason:
 *
 * - `buffer share`: the buffer has more than one edit per eight items. A reader of the whole map
 *   reads the buffer too, and the number of items is only known up to the number of edits. The
 *   threshold of a leaf alone allows a seventh of its bytes in the buffer. These may be many more
 *   edits if they are deletions, which take less room than the items they delete.
 * - `buffer depth`: the buffer has two or more levels below its top. Reading a key or a short range
 *   then fetches more than one chunk of it.
 * - `buffer chunks`: the buffer has more than {@link MAX_BUFFER_CHUNKS}.
 *
 * Looks only at the tops, which the root contains.
 * @returns undefined if no map is due
 */
export function flushDue({ maps }: State): FlushDue | undefined {
  for (const [map, buffered] of maps) {
    const reason = dueReason(buffered);
    if (reason !== undefined) return { map, reason };
  }
  return undefined;
}

function dueReason({ tree, buffer }: BufferedTree): FlushReason | undefined {
  const top = buffer.top;
  if (top === undefined) return undefined;
  if (treeCount(buffer) * ITEMS_PER_BUFFERED_EDIT > treeCount(tree)) return 'buffer share';
  if (top.level > 1) return 'buffer depth';
  if (!isLeaf(top) && top.children.length > MAX_BUFFER_CHUNKS) return 'buffer chunks';
  return undefined;
}

/** Number of buffered edits in a state. */
export function bufferedEdits({ maps }: State): number {
  let total = 0;
  for (const { buffer } of maps.values()) total += treeCount(buffer);
  return total;
}
