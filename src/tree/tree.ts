import type { ChunkId, ChunkPlatform } from '../codec/chunk.ts';
import { chunkId } from '../codec/chunk.ts';
import type { KeyKind } from './key.ts';
import { encodeNode, type Node } from './node.ts';

/**
 * One map as an immutable tree. Later versions share its nodes. `top` is the highest node, in
 * memory; undefined if the map is empty.
 */
export interface Tree {
  readonly kind: KeyKind;
  readonly top: Node | undefined;
}

export function emptyTree(kind: KeyKind): Tree {
  return { kind, top: undefined };
}

/** Number of items. */
export function treeCount(tree: Tree): number {
  return tree.top?.count ?? 0;
}

/** The sum of the items' weights. */
export function treeWeight(tree: Tree): number {
  return tree.top?.weight ?? 0;
}

/** The id of a saved tree's top. Two maps have equal ids if and only if they are equal. */
export function treeId(platform: ChunkPlatform, top: Node): ChunkId {
  return chunkId(platform, encodeNode(top));
}
