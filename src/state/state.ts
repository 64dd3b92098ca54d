import { equalBytes, toHex } from '../codec/bytes.ts';
import { encodeValue } from '../codec/canonical.ts';
import type { ChunkPlatform } from '../codec/chunk.ts';
import type { Value } from '../codec/value.ts';
import { type BufferedTree, isFlushed, mapTops } from '../tree/buffered-tree.ts';
import type { EditOptions } from '../tree/edit.ts';
import { MAX_STRING_KEY_LENGTH } from '../tree/key.ts';
import { type Node, treeId, unsavedBytes } from '../tree/node.ts';
import type { NodeStore } from '../tree/node-store.ts';
import { flush } from '../tree/write-buffer.ts';

/**
 * The result of folding a log's entries: non-empty maps in order of name, and a small metadata
 * record.
 */
export interface State {
  readonly meta: { readonly [name: string]: Value };
  readonly maps: ReadonlyMap<string, BufferedTree>;
}

/** The map with the highest applied mutation of each client. Reducers cannot use it. */
export const MUTATIONS_MAP = 'logfold:mutations';

/** The map with the changes that `withHistory` recorded. Reducers cannot use it. */
export const HISTORY_MAP = 'logfold:history';

/**
 * The most UTF-16 code units of a key in {@link HISTORY_MAP}. Such a key contains the name of a map
 * and a key of that map, each twice as long if every character is escaped, and two numbers.
 */
export const MAX_HISTORY_KEY_LENGTH = 4 * MAX_STRING_KEY_LENGTH + 64;

/** The maps that only logfold uses. */
export const RESERVED_MAPS: ReadonlySet<string> = new Set([MUTATIONS_MAP, HISTORY_MAP]);

/**
 * Whether a map is for bookkeeping, so that readers of contents do not see it: its name begins with
 * `logfold:`.
 */
export function isHiddenMap(name: string): boolean {
  return name.startsWith('logfold:');
}

export const EMPTY_STATE: State = { meta: {}, maps: new Map() };

/** Writes all chunks of a state that are only in memory. */
export async function saveState(store: NodeStore, state: State): Promise<void> {
  await store.save(stateTops(state));
}

/** The top nodes of all trees of a state, including write buffers. */
export function stateTops(state: State): Node[] {
  return [...state.maps.values()].flatMap(mapTops);
}

/**
 * Approximate memory of the nodes of a state that are only in memory, in bytes, without the top
 * nodes. Large values are in the store: see {@link NodeStore.heldValueBytes}.
 */
export function unsavedStateBytes(state: State): number {
  return stateTops(state).reduce((total, top) => total + unsavedBytes(top), 0);
}

export interface FlushOptions extends EditOptions {
  /** Called after each flushed map. True leaves the other maps as they are. */
  readonly shouldStop?: () => boolean;
}

/**
 * Flushes all maps of a state. The result is only in memory, unless the options save leaves early.
 * @returns the same object if the state is flushed already
 */
export async function flushState(store: NodeStore, state: State, options: FlushOptions = {}): Promise<State> {
  if (isStateFlushed(state)) return state;
  const { shouldStop, ...edits } = options;
  const maps: [string, BufferedTree][] = [];
  let stops = false;
  for (const [name, map] of state.maps) {
    if (stops || isFlushed(map)) {
      maps.push([name, map]);
      continue;
    }
    const tree = await flush(store, map, edits);
    if (tree.tree.top !== undefined) maps.push([name, tree]);
    stops = shouldStop?.() === true;
  }
  return { meta: state.meta, maps: new Map(maps) };
}

/**
 * Whether two states are certainly the same: one was made from the other, without a change. False
 * does not mean that their contents differ.
 */
export function isSameState(a: State, b: State): boolean {
  if (a === b) return true;
  if (a.maps.size !== b.maps.size) return false;
  for (const [name, map] of a.maps) if (b.maps.get(name) !== map) return false;
  return equalBytes(encodeValue(a.meta), encodeValue(b.meta));
}

export function isStateFlushed(state: State): boolean {
  return state.maps.values().every(isFlushed);
}

/**
 * The hash of a saved state as a root describes it, in hexadecimal: SHA-256 over the canonical
 * encoding of `[meta, [[name, kind, top id], …]]`. The id of the write buffer's top follows as a
 * fourth item if a map has buffered edits.
 */
export function hashFlushedState(platform: ChunkPlatform, state: State): string {
  const maps = [...state.maps].map(([name, map]) => [
    name,
    map.kind,
    ...mapTops(map).map((top) => treeId(platform, top)),
  ]);
  return toHex(platform.sha256(encodeValue([state.meta, maps])));
}

/**
 * The hash of a saved, flushed state, in hexadecimal. Equal states have equal hashes, regardless of
 * their history.
 * @returns undefined if edits are buffered: the split between tree and buffer is not part of the
 * state
 */
export function stateHash(platform: ChunkPlatform, state: State): string | undefined {
  return isStateFlushed(state) ? hashFlushedState(platform, state) : undefined;
}
