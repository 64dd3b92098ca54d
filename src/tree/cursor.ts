import { at } from './array.ts';
import { type Key, lowerBound } from './key.ts';
import { type Inner, isLeaf, type Node } from './node.ts';
import type { NodeStore } from './node-store.ts';

interface Step {
  readonly node: Inner;
  index: number;
}

/** The place of a node among the nodes of its level. */
export interface NodePlace {
  /** The node's key in its parent; the first key of the node if it is the top. */
  readonly key: Key;
  readonly node: Node;
}

/** Walks the nodes of one level of a tree in order of key. Loads only nodes on its path. */
export class LevelCursor {
  readonly #store: NodeStore;
  readonly #top: Node;
  readonly #level: number;
  #path: Step[] = [];

  constructor(store: NodeStore, top: Node, level: number) {
    this.#store = store;
    this.#top = top;
    this.#level = level;
  }

  /** Goes to the last node that starts at or before the key, or else to the first node. */
  async seek(key: Key): Promise<NodePlace> {
    this.#path = [];
    let node = this.#top;
    while (node.level > this.#level && !isLeaf(node)) {
      const index = childIndex(node, key);
      this.#path.push({ node, index });
      node = await this.#store.load(at(node.children, index));
    }
    return this.#place(node);
  }

  /**
   * Goes to the next node of the level.
   * @returns undefined at the end
   */
  async next(): Promise<NodePlace | undefined> {
    let step = this.#path.pop();
    while (step !== undefined && step.index + 1 >= step.node.children.length) step = this.#path.pop();
    if (step === undefined) return undefined;
    step.index++;
    this.#path.push(step);
    let node = await this.#store.load(at(step.node.children, step.index));
    while (node.level > this.#level && !isLeaf(node)) {
      this.#path.push({ node, index: 0 });
      node = await this.#store.load(at(node.children, 0));
    }
    return this.#place(node);
  }

  /**
   * The first key of the node after the current one; undefined at the end of the level. Loads
   * nothing.
   */
  nextKey(): Key | undefined {
    for (let depth = this.#path.length - 1; depth >= 0; depth--) {
      const { node, index } = at(this.#path, depth);
      if (index + 1 < node.keys.length) return at(node.keys, index + 1);
    }
    return undefined;
  }

  #place(node: Node): NodePlace {
    const parent = this.#path.at(-1);
    return { key: parent === undefined ? at(node.keys, 0) : at(parent.node.keys, parent.index), node };
  }
}

/** Index of the child whose range contains a key. */
export function childIndex(node: Inner, key: Key): number {
  const index = lowerBound(node.keys, key);
  return node.keys[index] === key ? index : Math.max(0, index - 1);
}
