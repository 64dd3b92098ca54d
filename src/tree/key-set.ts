import { at, keyAt } from './array.ts';
import { type Key, lowerBound, lowerBoundFrom } from './key.ts';
import { isLeaf, type Tree } from './node.ts';
import type { NodeStore } from './node-store.ts';
import { LevelCursor } from './read.ts';

/** The keys `from` up to but not including `to`. */
export interface KeySpan {
  readonly from: Key;
  readonly to: Key;
}

/**
 * A set of keys, kept as non-overlapping spans. A walk over a tree asks for the next span and jumps
 * there.
 */
export interface KeySet {
  /**
   * The span that holds the key, otherwise the first span after the key; undefined if there is
   * none.
   */
  next(key: Key): KeySpan | undefined;
}

export interface KeysInSetOptions {
  /** Yield only the first key of each span. */
  readonly firsts?: boolean;
}

/**
 * The keys of a tree that are in a set, in ascending order, leaf by leaf. Reads only leaves that
 * overlap a span. With `firsts`, stops reading a span at its first key.
 */
export async function* keysInSet(
  store: NodeStore,
  tree: Tree,
  set: KeySet,
  { firsts = false }: KeysInSetOptions = {},
): AsyncGenerator<Key[]> {
  if (tree.top === undefined) return;
  const cursor = new LevelCursor(store, tree.top, 0);
  let from = keyAt(tree.top.keys, 0);
  for (let span = set.next(from); span !== undefined; span = set.next(from)) {
    const { node } = await cursor.seek(laterKey(span.from, from));
    if (!isLeaf(node)) throw new Error('a level cursor at level 0 is at an inner node');
    const found: Key[] = [];
    let current: KeySpan | undefined = span;
    let index = lowerBound(node.keys, from);
    while (index < node.keys.length) {
      const key = keyAt(node.keys, index);
      if (key >= current.to) current = set.next(key);
      if (current === undefined) break;
      if (key < current.from) index = lowerBoundFrom(node.keys, current.from, index);
      else {
        found.push(key);
        index = firsts ? lowerBoundFrom(node.keys, current.to, index) : index + 1;
      }
    }
    if (found.length > 0) yield found;
    const end = cursor.nextKey();
    if (end === undefined || current === undefined) return;
    const isFound = firsts && found.length > 0 && at(found, found.length - 1) >= current.from;
    from = isFound ? laterKey(current.to, end) : end;
  }
}

export function laterKey(a: Key, b: Key): Key {
  return a > b ? a : b;
}
