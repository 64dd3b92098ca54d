import { toHex } from '../codec/bytes.ts';
import { encodeValue } from '../codec/canonical.ts';
import type { ChunkPlatform } from '../codec/chunk.ts';
import type { Value } from '../codec/value.ts';
import { type BufferedTree, isFlushed } from '../tree/buffered-tree.ts';
import type { EditOptions } from '../tree/edit.ts';
import type { Node } from '../tree/node.ts';
import type { NodeStore } from '../tree/node-store.ts';
import { treeId } from '../tree/tree.ts';
import { flush } from '../tree/write-buffer.ts';

/** What a log's entries fold to: named maps in order of name, none of them empty, and a small metadata record. */
export interface State {
  readonly meta: { readonly [name: string]: Value };
  readonly maps: ReadonlyMap<string, BufferedTree>;
}

export const EMPTY_STATE: State = { meta: {}, maps: new Map() };

/** Writes every chunk of a state that is only in memory yet. */
export async function saveState(store: NodeStore, state: State): Promise<void> {
  await store.save(stateTops(state));
}

/** The top nodes of all trees of a state, those of waiting edits included. */
export function stateTops(state: State): Node[] {
  return [...state.maps.values()].flatMap(({ tree, buffer }) =>
    [tree.top, buffer.top].filter((top) => top !== undefined),
  );
}

export interface FlushOptions extends EditOptions {
  /** Asked after each map that is settled: true leaves the others as they are. */
  readonly shouldStop?: (() => boolean) | undefined;
}

/**
 * The state with no edits waiting anywhere; the very same state if none are. It is in memory, unless the options have
 * leaves saved early.
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

export function isStateFlushed(state: State): boolean {
  return state.maps.values().every(isFlushed);
}

/**
 * A hash over what a root says of a saved state, in hexadecimal: SHA-256 over the canonical encoding of
 * `[meta, [[name, kind, top id], …]]`, with the id of the top of waiting edits as a fourth item where a map has some.
 */
export function hashFlushedState(platform: ChunkPlatform, state: State): string {
  const maps = [...state.maps].map(([name, { kind, tree, buffer }]) => {
    const tops = [tree.top, buffer.top].filter((top) => top !== undefined);
    return [name, kind, ...tops.map((top) => treeId(platform, top))];
  });
  return toHex(platform.sha256(encodeValue([state.meta, maps])));
}

/**
 * The hash of a saved state, in hexadecimal. Equal states have equal hashes, however they came about. Undefined where
 * edits wait: which do and which do not is no part of the state, so it has to be settled first.
 */
export function stateHash(platform: ChunkPlatform, state: State): string | undefined {
  return isStateFlushed(state) ? hashFlushedState(platform, state) : undefined;
}
