import type { Value } from '../log/value.ts';
import { toHex } from '../tree/bytes.ts';
import { encodeValue } from '../tree/canonical.ts';
import type { ChunkPlatform } from '../tree/chunk.ts';
import type { Node } from '../tree/node.ts';
import type { NodeStore } from '../tree/node-store.ts';
import { type Tree, treeId } from '../tree/tree.ts';

/** What a log's entries fold to: named maps in order of name, none of them empty, and a small metadata record. */
export interface State {
  readonly meta: { readonly [name: string]: Value };
  readonly maps: ReadonlyMap<string, Tree>;
}

export const EMPTY_STATE: State = { meta: {}, maps: new Map() };

/** Writes every chunk of a state that is only in memory yet. */
export async function saveState(store: NodeStore, state: State): Promise<void> {
  await store.save(tops(state));
}

function tops(state: State): Node[] {
  return [...state.maps.values()].flatMap(({ top }) => (top === undefined ? [] : [top]));
}

/**
 * The hash of a saved state, in hexadecimal: SHA-256 over the canonical encoding of
 * `[meta, [[name, kind, top id], …]]`. Equal states have equal hashes, however they came about.
 */
export function stateHash(platform: ChunkPlatform, state: State): string {
  const maps = [...state.maps].flatMap(([name, { kind, top }]) =>
    top === undefined ? [] : [[name, kind, treeId(platform, top)]],
  );
  return toHex(platform.sha256(encodeValue([state.meta, maps])));
}
