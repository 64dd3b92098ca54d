import { fromHex, toHex } from './bytes.ts';
import type { ChunkId } from './chunk.ts';
import type { Node } from './node.ts';

/**
 * A node as its parent sees it. A node that is in the store has an id; one that is only in memory yet has `node`, and
 * gets its id when the tree is saved.
 */
export class NodeRef {
  node: Node | undefined;
  /** Items in the leaves below. */
  readonly count: number;
  /** Sum of their weights. */
  readonly weight: number;
  #hash: Uint8Array | undefined;
  #id: ChunkId | undefined;

  private constructor(hash: Uint8Array | undefined, node: Node | undefined, count: number, weight: number) {
    this.#hash = hash;
    this.node = node;
    this.count = count;
    this.weight = weight;
  }

  /** A reference to a node in memory. */
  static to(node: Node): NodeRef {
    return new NodeRef(undefined, node, node.count, node.weight);
  }

  /** A reference to a node in the store, by the 32 bytes of its hash. */
  static stored(hash: Uint8Array, sums: { readonly count: number; readonly weight: number }): NodeRef {
    return new NodeRef(hash, undefined, sums.count, sums.weight);
  }

  /** The 32 bytes that the id is the text of; undefined as long as the node is in memory only. */
  get hash(): Uint8Array | undefined {
    return this.#hash;
  }

  // Made when asked for: of the hundreds of children of a node, most are neither read nor written.
  get id(): ChunkId | undefined {
    if (this.#id === undefined && this.#hash !== undefined) this.#id = toHex(this.#hash) as ChunkId;
    return this.#id;
  }

  /** The node has been written under this id, and need not be kept in memory. */
  wasSaved(id: ChunkId): void {
    this.#id = id;
    this.#hash = fromHex(id);
    this.node = undefined;
  }
}
