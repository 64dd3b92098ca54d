import type { ChunkId } from '../codec/chunk.ts';
import { isLeaf, type Node, valueBytes } from './node.ts';
import type { NodeStore } from './node-store.ts';
import { referencedId } from './read.ts';

/** Chunks of each level that are asked for before it is their turn. */
const AHEAD = 16;

/** A chunk that a tree reaches, and what kind of thing it holds. */
export interface ReachedChunk {
  readonly id: ChunkId;
  readonly holds: 'inner' | 'leaf' | 'value';
}

export interface WalkOptions {
  /** Whether leaves are read too, since only they name value chunks. */
  readonly values: boolean;
  /**
   * A chunk for which this says true is neither yielded nor opened: that is how several snapshots that share chunks are
   * walked once. It is asked a little before the chunk's turn; within one tree no node occurs twice.
   */
  readonly skip?: (id: ChunkId) => boolean;
}

interface Step {
  readonly reached: ReachedChunk;
  /** On its way; absent where nothing below is asked for, or what is below follows. */
  readonly node?: Promise<Node>;
}

/**
 * Every chunk that a tree reaches, parents before children and in order of key, however many are on their way at once: a
 * few of each level, so that memory does not grow with the tree.
 * @throws ChunkMissingError, ChunkCorruptError where a node cannot be opened, after all that comes before what is below it
 */
export async function* walkChunks(store: NodeStore, top: Node, options: WalkOptions): AsyncGenerator<ReachedChunk> {
  let steps = stepsBelow(store, top, options);
  for (let level = top.level; level > 0; level--) steps = opened(store, lookAhead(steps), options);
  for await (const { reached, node } of steps) {
    yield reached;
    // Only below nodes whose levels are not what they should be: nothing is to be missed there either.
    if (node !== undefined) yield* walkChunks(store, await node, options);
  }
}

/** What is right below a node, on its way. */
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
      // Awaited in its turn: a failure before that must not count as unhandled.
      node.catch(() => undefined);
      yield { reached, node };
    }
  }
}

/** The same steps, each followed by those below it. */
async function* opened(store: NodeStore, steps: AsyncIterable<Step>, options: WalkOptions): AsyncGenerator<Step> {
  for await (const { reached, node } of steps) {
    yield { reached };
    if (node !== undefined) yield* stepsBelow(store, await node, options);
  }
}

/** The same steps, the next few of them asked for already. */
async function* lookAhead(steps: AsyncGenerator<Step>): AsyncGenerator<Step> {
  const asked: Promise<IteratorResult<Step>>[] = [];
  for (;;) {
    while (asked.length < AHEAD) {
      const next = steps.next();
      next.catch(() => undefined);
      asked.push(next);
    }
    const next = await asked.shift();
    if (next === undefined || next.done === true) return;
    yield next.value;
  }
}
