import type { ChunkId, ChunkPlatform } from '../codec/chunk.ts';
import { chunkId } from '../codec/chunk.ts';
import type { KeyKind } from './key.ts';
import { encodeNode, type Node } from './node.ts';

/**
 * One map as a persistent tree: a value that is never changed, whose parts later versions share. `top` is the highest
 * node, in memory; undefined where the map is empty.
 */
export interface Tree {
  readonly kind: KeyKind;
  readonly top: Node | undefined;
}

export function emptyTree(kind: KeyKind): Tree {
  return { kind, top: undefined };
}

/** How many items the map has. */
export function treeCount(tree: Tree): number {
  return tree.top?.count ?? 0;
}

/** The sum of the items' weights. */
export function treeWeight(tree: Tree): number {
  return tree.top?.weight ?? 0;
}

/** The id of a saved tree's top: equal maps have equal ids, and different ones do not. */
export function treeId(platform: ChunkPlatform, top: Node): ChunkId {
  return chunkId(platform, encodeNode(top));
}
