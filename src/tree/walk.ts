import type { ChunkId } from './chunk.ts';
import { isLeaf, type Node, valueBytes } from './node.ts';
import type { NodeStore } from './node-store.ts';
import { referencedId } from './read.ts';

/** A chunk that a tree reaches, and what kind of thing it holds. */
export interface ReachedChunk {
  readonly id: ChunkId;
  readonly holds: 'inner' | 'leaf' | 'value';
}

/**
 * Every chunk that a tree reaches, parents before children. Reads inner nodes, and leaves too where `values` is asked
 * for, since only they name value chunks. A chunk for which `skip` says true is neither yielded nor opened: that is how
 * several snapshots that share chunks are walked once.
 */
export async function* walkChunks(
  store: NodeStore,
  top: Node,
  options: { readonly values: boolean; readonly skip?: (id: ChunkId) => boolean },
): AsyncGenerator<ReachedChunk> {
  if (isLeaf(top)) {
    if (!options.values) return;
    for (let i = 0; i < top.keys.length; i++) {
      const id = referencedId(valueBytes(top, i));
      if (id !== undefined && !(options.skip?.(id) ?? false)) yield { id, holds: 'value' };
    }
    return;
  }
  for (const child of top.children) {
    if (child.id === undefined || (options.skip?.(child.id) ?? false)) continue;
    yield { id: child.id, holds: top.level === 1 ? 'leaf' : 'inner' };
    if (top.level > 1 || options.values) yield* walkChunks(store, await store.load(child), options);
  }
}
