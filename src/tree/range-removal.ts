import { keyAt } from './array.ts';
import type { BufferedTree } from './buffered-tree.ts';
import { childIndex, LevelCursor } from './cursor.ts';
import { EDITS_AT_ONCE, editTree, type LeafEdits, removeChildren } from './edit.ts';
import { type Key, sortedUnique } from './key.ts';
import { type KeySet, keysInSet, laterKey } from './key-set.ts';
import { isLeaf } from './node.ts';
import type { NodeStore } from './node-store.ts';
import type { Tree } from './tree.ts';
import { type ApplyOptions, applyEdits, flushSmall } from './write-buffer.ts';

/** The result of {@link removeSets}: a map without most of the keys to delete. */
export interface Removed {
  readonly map: BufferedTree;
  /**
   * Keys that the caller must still delete: ascending, unique, and at most {@link EDITS_AT_ONCE}.
   */
  readonly rest: readonly Key[];
}

/**
 * Removes sets of keys from a map's tree and write buffer. Nodes that lie completely in a set are
 * removed unread. Keys at the borders are deleted like single keys, so these deletions may be
 * buffered. The caller gets the last of these keys and applies them with other edits.
 */
export async function removeSets(
  store: NodeStore,
  map: BufferedTree,
  sets: readonly KeySet[],
  options: ApplyOptions = {},
): Promise<Removed> {
  if (sets.length === 0) return { map, rest: [] };
  const atOnce = options.editsAtOnce ?? EDITS_AT_ONCE;
  let { tree, buffer } = map;
  for (const set of sets) {
    tree = await removeWholeNodes(store, tree, set);
    buffer = await removeSet(store, buffer, set, atOnce);
  }
  let remaining = await flushSmall(store, { kind: map.kind, tree, buffer }, options);
  let rest: Key[] = [];
  for (const set of sets) {
    for await (const keys of keysInSet(store, remaining.tree, set)) {
      for (const key of keys) rest.push(key);
      if (rest.length < atOnce) continue;
      remaining = await applyEdits(store, remaining, deletions(sortedUnique(rest)), options);
      rest = [];
    }
  }
  return { map: remaining, rest: sets.length > 1 ? sortedUnique(rest) : rest };
}

async function removeSet(store: NodeStore, tree: Tree, set: KeySet, atOnce: number): Promise<Tree> {
  let remaining = await removeWholeNodes(store, tree, set);
  let keys: Key[] = [];
  const removeKeys = async (): Promise<void> => {
    remaining = await editTree(store, remaining, deletions(keys));
    keys = [];
  };
  for await (const found of keysInSet(store, remaining, set)) {
    for (const key of found) keys.push(key);
    if (keys.length >= atOnce) await removeKeys();
  }
  await removeKeys();
  return remaining;
}

function deletions(keys: readonly Key[]): LeafEdits {
  const none = new Float64Array(keys.length);
  return { keys, bytes: new Uint8Array(), starts: none, ends: none, weights: undefined };
}

/**
 * Removes the nodes that lie completely in a set of keys. The rest of the set is in leaves at the
 * borders of its spans. The time is proportional to the nodes at the borders: a removed node is
 * never read, and takes all nodes below it along. The result equals a tree built from the remaining
 * items, since the chunk boundaries stay.
 */
async function removeWholeNodes(store: NodeStore, tree: Tree, set: KeySet): Promise<Tree> {
  let remaining = tree;
  for (let level = tree.top?.level ?? 0; level > 0; level--) {
    // After the upper levels are done, few nodes of this level touch a span.
    level = Math.min(level, remaining.top?.level ?? 0);
    const keys = await wholeChildren(store, remaining, level, set);
    if (keys.length > 0) remaining = await removeChildren(store, remaining, level, keys);
  }
  return remaining;
}

/** The keys of the children of a level's nodes that contain only keys of a set. */
async function wholeChildren(store: NodeStore, { top }: Tree, level: number, set: KeySet): Promise<Key[]> {
  const whole: Key[] = [];
  if (top === undefined || level === 0) return whole;
  const cursor = new LevelCursor(store, top, level);
  let from: Key | undefined = keyAt(top.keys, 0);
  while (from !== undefined) {
    const first = set.next(from);
    if (first === undefined) break;
    const start = laterKey(first.from, from);
    const { node } = await cursor.seek(start);
    if (isLeaf(node)) throw new Error('a level cursor above the leaves stands on a leaf');
    const end = cursor.nextKey();
    for (let i = childIndex(node, start); i < node.keys.length; ) {
      const key = keyAt(node.keys, i);
      const next = node.keys[i + 1] ?? end;
      const span = set.next(key);
      // Only the last child itself knows where it ends.
      if (span === undefined || next === undefined) return whole;
      if (span.from <= key && span.to >= next) whole.push(key);
      i = span.from >= next ? Math.max(i + 1, childIndex(node, span.from)) : i + 1;
    }
    from = end;
  }
  return whole;
}
