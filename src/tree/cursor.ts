import { at, keyAt } from './array.ts';
import { type Key, lowerBound, lowerBoundFrom } from './key.ts';
import { type Inner, isLeaf, type Node, type NodeRef } from './node.ts';
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

/** The nodes to request ahead of a cursor. */
export interface NodesAhead {
  /** The most nodes. */
  readonly nodes: number;
  /** No node that starts at or after this key. */
  readonly to?: Key | undefined;
  /** No node after this many items. */
  readonly items: number;
}

/**
 * Walks the nodes of one level of a tree in order of key. Loads only nodes on its path, and nodes
 * that the caller requests ahead.
 */
export class LevelCursor {
  readonly #store: NodeStore;
  readonly #top: Node;
  readonly #level: number;
  #path: Step[] = [];
  /** The cursor holds requested nodes, since the cache may evict them before they are read. */
  readonly #requested = new Map<NodeRef, Promise<Node>>();

  constructor(store: NodeStore, top: Node, level: number) {
    this.#store = store;
    this.#top = top;
    this.#level = level;
  }

  /**
   * Goes to the last node that starts at or before the key, or else to the first node.
   * @param ahead nodes to request together with this one; its items count as if all were wanted
   */
  async seek(key: Key, ahead?: NodesAhead): Promise<NodePlace> {
    this.#path = [];
    let node = this.#top;
    while (node.level > this.#level && !isLeaf(node)) {
      const index = childIndex(node, key);
      this.#path.push({ node, index });
      const child = at(node.children, index);
      const loading = this.#load(child);
      if (ahead !== undefined && node.level === this.#level + 1) {
        this.requestAhead({ ...ahead, items: ahead.items - child.count });
      }
      node = await loading;
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
    let node = await this.#load(at(step.node.children, step.index));
    while (node.level > this.#level && !isLeaf(node)) {
      this.#path.push({ node, index: 0 });
      node = await this.#load(at(node.children, 0));
    }
    return this.#place(node);
  }

  /**
   * The first key of the node after the current one; undefined at the end of the level. Loads
   * nothing.
   */
  nextKey(): Key | undefined {
    return this.#nextKey(this.#path.length - 1);
  }

  #nextKey(deepest: number): Key | undefined {
    for (let depth = deepest; depth >= 0; depth--) {
      const { node, index } = at(this.#path, depth);
      if (index + 1 < node.keys.length) return at(node.keys, index + 1);
    }
    return undefined;
  }

  /**
   * Requests the next nodes of the level, as far as their parents are in memory. Otherwise requests
   * the next parent, so that a later call finds it.
   */
  requestAhead(ahead: NodesAhead): void {
    let [nodes, items] = [ahead.nodes, ahead.items];
    /** Requests nodes below the children from an index onward. Returns whether more are wanted. */
    const request = (parent: Inner, from: number): boolean => {
      for (let i = from; i < parent.children.length; i++) {
        if (nodes <= 0 || items <= 0 || (ahead.to !== undefined && at(parent.keys, i) >= ahead.to)) return false;
        const child = at(parent.children, i);
        const inner = parent.level > this.#level + 1 ? this.#store.peek(child) : undefined;
        if (inner !== undefined && !isLeaf(inner)) {
          if (!request(inner, 0)) return false;
          continue;
        }
        this.#request(child);
        if (parent.level > this.#level + 1) return false;
        nodes--;
        items -= child.count;
      }
      return true;
    };
    for (const { node, index } of this.#path.toReversed()) if (!request(node, index + 1)) return;
  }

  /**
   * Requests the next nodes into whose ranges keys fall, as far as they have the same parent as the
   * current node. The caller must go to each of them.
   * @param keys ascending; those from index `from` on count
   */
  requestFor(keys: readonly Key[], from: number, nodes: number): void {
    const parent = this.#path.at(-1)?.node;
    if (parent === undefined) return;
    const parentEnd = this.#nextKey(this.#path.length - 2);
    for (let i = from, left = nodes; i < keys.length && left > 0; left--) {
      const key = keyAt(keys, i);
      if (parentEnd !== undefined && key >= parentEnd) return;
      const index = childIndex(parent, key);
      this.#request(at(parent.children, index));
      const end = parent.keys[index + 1];
      if (end === undefined) return;
      i = lowerBoundFrom(keys, end, i);
    }
  }

  #request(ref: NodeRef): void {
    if (this.#requested.has(ref)) return;
    const loading = this.#store.load(ref);
    // A failure of a node that is never read must not count as unhandled.
    loading.catch(() => undefined);
    this.#requested.set(ref, loading);
  }

  #load(ref: NodeRef): Promise<Node> {
    const loading = this.#requested.get(ref) ?? this.#store.load(ref);
    this.#requested.delete(ref);
    return loading;
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
