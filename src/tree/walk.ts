import type { ChunkId } from '../codec/chunk.ts';
import { isLeaf, type Node, valueBytes } from './node.ts';
import type { NodeStore } from './node-store.ts';
import { referencedId } from './read.ts';

/** Number of chunks per level that are fetched ahead. */
const AHEAD = 16;

/** A chunk that a tree reaches, with the kind of its content. */
export interface ReachedChunk {
  readonly id: ChunkId;
  readonly holds: 'inner' | 'leaf' | 'value';
}

export interface WalkOptions {
  /** Whether to read leaves too. Only leaves name value chunks. */
  readonly values: boolean;
  /**
   * Skips a chunk: it is neither yielded nor opened. So a walk over several snapshots visits shared
   * chunks once. The walk calls this a little before it reaches the chunk. No node occurs twice in
   * one tree.
   */
  readonly skip?: (id: ChunkId) => boolean;
}

interface Step {
  readonly reached: ReachedChunk;
  /**
   * The node, which is being fetched; absent if the walk does not go below it, or the steps below
   * follow separately.
   */
  readonly node?: Promise<Node>;
}

/**
 * Every chunk that a tree reaches, in order of key, parents before children. Fetches a few chunks
 * of each level ahead, so memory does not grow with the tree.
 * @throws ChunkMissingError, ChunkCorruptError if a node cannot be opened; all chunks before its
 * children are yielded first
 */
export async function* walkChunks(store: NodeStore, top: Node, options: WalkOptions): AsyncGenerator<ReachedChunk> {
  let steps = stepsBelow(store, top, options);
  for (let level = top.level; level > 0; level--) steps = opened(store, lookAhead(steps), options);
  for await (const { reached, node } of steps) {
    yield reached;
    // Only below nodes with a wrong level. The walk must visit all chunks there too.
    if (node !== undefined) yield* walkChunks(store, await node, options);
  }
}

/** The steps directly below a node, whose nodes are being fetched. */
async function* stepsBelow(store: NodeStore, parent: Node, { values, skip }: WalkOptions): AsyncGenerator<Step> {
  if (isLeaf(parent)) {
    if (!values) return;
    for (let i = 0; i < parent.keys.length; i++) {
      const id = referencedId(valueBytes(parent, i));
      if (id !== undefined && !(skip?.(id) ?? false)) yield { reached: { id, holds: 'value' } };
    }
    return;
  }
  for (const child of parent.children) {
    if (child.id === undefined || (skip?.(child.id) ?? false)) continue;
    const reached = { id: child.id, holds: parent.level === 1 ? 'leaf' : 'inner' } as const;
    if (reached.holds === 'leaf' && !values) yield { reached };
    else {
      const node = store.load(child);
      // Awaited later. A failure before that must not count as unhandled.
      node.catch(() => undefined);
      yield { reached, node };
    }
  }
}

/** The same steps, each followed by the steps below it. */
async function* opened(store: NodeStore, steps: AsyncIterable<Step>, options: WalkOptions): AsyncGenerator<Step> {
  for await (const { reached, node } of steps) {
    yield { reached };
    if (node !== undefined) yield* stepsBelow(store, await node, options);
  }
}

/** The same steps. Requests the next few in advance. */
async function* lookAhead(steps: AsyncGenerator<Step>): AsyncGenerator<Step> {
  const requested: Promise<IteratorResult<Step>>[] = [];
  for (;;) {
    while (requested.length < AHEAD) {
      const next = steps.next();
      next.catch(() => undefined);
      requested.push(next);
    }
    const next = await requested.shift();
    if (next === undefined || next.done === true) return;
    yield next.value;
  }
}
