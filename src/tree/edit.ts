import { at, float64At, keyAt, uint32At } from './array.ts';
import { type Key, lowerBound, lowerBoundFrom } from './key.ts';
import { type Inner, isLeaf, itemWeight, type Leaf, type Node, type NodeRef, type Tree } from './node.ts';
import { type EmitNode, InnerBuilder, LeafBuilder, type NodeShape } from './node-builder.ts';
import type { NodeStore } from './node-store.ts';
import { LevelCursor, type NodePlace, READ_AHEAD } from './read.ts';

/** Changes to a map's items: ascending, unique keys. */
export interface LeafEdits {
  readonly keys: readonly Key[];
  /**
   * Encoded values. The value of edit i is `bytes` from `starts[i]` to `ends[i]`. If these are
   * equal, the edit deletes the key.
   */
  readonly bytes: Uint8Array;
  readonly starts: Float64Array;
  readonly ends: Float64Array;
  /** Absent if every item weighs 1. */
  readonly weights: ArrayLike<number> | undefined;
}

/**
 * Changes to the items of an inner level: ascending, unique keys. An undefined child deletes the
 * key.
 */
interface InnerEdits {
  readonly keys: readonly Key[];
  readonly children: readonly (NodeRef | undefined)[];
}

/** New nodes, each with its first key. */
interface MadeNodes {
  readonly keys: Key[];
  readonly children: NodeRef[];
}

export interface EditOptions {
  /**
   * Writes new leaves immediately, which bounds memory. For callers who will save the tree anyway.
   */
  readonly savesEarly?: boolean;
  /** Approximate number of edits read from a tree and held in memory. Tests set another number. */
  readonly editsAtOnce?: number;
}

export const EDITS_AT_ONCE = 100_000;

/**
 * Merges edits into the nodes of one level. `merge` passes the node's items and the edits from
 * index `from` to `to` to the builder, and returns whether anything changed.
 */
interface LevelEditor {
  readonly level: number;
  readonly keys: readonly Key[];
  readonly open: () => boolean;
  readonly merge: (node: Node | undefined, from: number, to: number) => boolean;
  readonly finish: () => void;
}

/**
 * Applies edits to a tree. Reads only the nodes that an edit touches, and makes new nodes in
 * memory; {@link NodeStore.save} writes them.
 *
 * The result equals, node for node, a tree built from the resulting items alone. For this, each
 * touched run of nodes is cut again until a new chunk boundary meets an old one. Then the same
 * routine edits the parents' level; its edits are the removed and the new nodes.
 */
export async function editTree(
  store: NodeStore,
  tree: Tree,
  edits: LeafEdits,
  options: EditOptions = {},
): Promise<Tree> {
  if (edits.keys.length === 0) return tree;
  const made: MadeNodes = { keys: [], children: [] };
  const emit = (key: Key, ref: NodeRef): void => {
    made.keys.push(key);
    made.children.push(ref);
  };
  const save = options.savesEarly === true ? (refs: readonly NodeRef[]) => store.saveEarly(refs) : undefined;
  const changes = await editLevel(store, tree.top, leafEditor(store.shape, edits, emit), { ...made, save });
  return editFrom(store, tree, 1, changes);
}

/**
 * Removes the children of one level that have these keys (ascending), with all items below them.
 * Reads none of the removed children.
 */
export async function removeChildren(store: NodeStore, tree: Tree, level: number, keys: readonly Key[]): Promise<Tree> {
  return editFrom(store, tree, level, { keys, children: keys.map(() => undefined) });
}

/** Edits a tree from one inner level up to its top. */
async function editFrom(store: NodeStore, tree: Tree, firstLevel: number, edits: InnerEdits): Promise<Tree> {
  const topLevel = tree.top?.level ?? 0;
  const made: MadeNodes = { keys: [], children: [] };
  const emit = (key: Key, ref: NodeRef): void => {
    made.keys.push(key);
    made.children.push(ref);
  };
  let changes = edits;
  for (let level = firstLevel; level <= topLevel && changes.keys.length > 0; level++) {
    changes = await editLevel(store, tree.top, innerEditor(store.shape, level, changes, emit), made);
  }
  if (changes.keys.length === 0) return tree;
  return { kind: tree.kind, top: await growTop(store, changes, topLevel + 1) };
}

/**
 * Edits one level. `made` collects the nodes that the editor's builder emits, and is empty
 * afterwards. Its `save` gets the nodes that cannot become the top.
 * @returns the edits for the level above
 */
async function editLevel(
  store: NodeStore,
  top: Node | undefined,
  editor: LevelEditor,
  made: MadeNodes & { readonly save?: ((refs: readonly NodeRef[]) => Promise<void>) | undefined },
): Promise<InnerEdits> {
  const keys: Key[] = [];
  const children: (NodeRef | undefined)[] = [];
  if (top === undefined) {
    editor.merge(undefined, 0, editor.keys.length);
    editor.finish();
    if (made.children.length > 1) await made.save?.(made.children);
    return takeAll(made);
  }
  const cursor = new LevelCursor(store, top, editor.level);
  for (let edited = 0; edited < editor.keys.length; ) {
    const gone: Key[] = [];
    let place: NodePlace | undefined = await cursor.seek(keyAt(editor.keys, edited));
    let changed = false;
    while (place !== undefined) {
      const end = cursor.nextKey();
      const to = end === undefined ? editor.keys.length : lowerBound(editor.keys, end);
      cursor.requestFor(editor.keys, to, READ_AHEAD);
      gone.push(place.key);
      changed = editor.merge(place.node, edited, to) || changed;
      edited = to;
      if (end === undefined) editor.finish();
      // If a new chunk boundary meets an old one, all following boundaries are the old ones.
      place = editor.open() ? await cursor.next() : undefined;
    }
    const came = takeAll(made);
    if (!changed) continue;
    mergeChanges(gone, came, keys, children);
    if (top.level > editor.level || came.children.length > 1) await made.save?.(came.children);
  }
  return { keys, children };
}

function takeAll(made: MadeNodes): MadeNodes {
  return { keys: made.keys.splice(0), children: made.children.splice(0) };
}

/**
 * Appends, in order of key, a deletion for each removed key and a put for each new key; a put wins.
 */
function mergeChanges(gone: readonly Key[], came: MadeNodes, keys: Key[], children: (NodeRef | undefined)[]): void {
  let next = 0;
  for (const [i, key] of came.keys.entries()) {
    while (next < gone.length && at(gone, next) < key) {
      keys.push(at(gone, next++));
      children.push(undefined);
    }
    if (gone[next] === key) next++;
    keys.push(key);
    children.push(came.children[i]);
  }
  for (; next < gone.length; next++) {
    keys.push(at(gone, next));
    children.push(undefined);
  }
}

/**
 * Adds levels above these nodes until one node is left.
 * @returns the top of the tree
 */
async function growTop(store: NodeStore, changes: InnerEdits, firstLevel: number): Promise<Node | undefined> {
  let nodes = changes.children.filter((child) => child !== undefined);
  let keys = changes.keys.filter((_, i) => changes.children[i] !== undefined);
  for (let level = firstLevel; nodes.length > 1; level++) {
    const made: MadeNodes = { keys: [], children: [] };
    const builder = new InnerBuilder(store.shape, level, (key, ref) => {
      made.keys.push(key);
      made.children.push(ref);
    });
    for (const [i, ref] of nodes.entries()) builder.add(keyAt(keys, i), ref);
    builder.finish();
    ({ keys, children: nodes } = made);
  }
  const only = nodes[0];
  if (only === undefined) return undefined;
  let top = await store.load(only);
  // A top never has a single child. A tree built from the items alone would end one level below.
  while (!isLeaf(top) && top.children.length === 1) top = await store.load(at(top.children, 0));
  return top;
}

function leafEditor(shape: NodeShape, edits: LeafEdits, emit: EmitNode): LevelEditor {
  const builder = new LeafBuilder(shape, emit);
  const put = (edit: number): void =>
    builder.add(
      keyAt(edits.keys, edit),
      edits.bytes,
      float64At(edits.starts, edit),
      float64At(edits.ends, edit),
      edits.weights?.[edit] ?? 1,
    );
  return {
    level: 0,
    keys: edits.keys,
    open: () => builder.open,
    finish: () => builder.finish(),
    merge: (node, from, to) => {
      const leaf = node === undefined || !isLeaf(node) ? undefined : node;
      let changed = false;
      let copied = 0;
      for (let edit = from; edit < to; edit++) {
        const key = keyAt(edits.keys, edit);
        const deletes = float64At(edits.starts, edit) === float64At(edits.ends, edit);
        const index = leaf === undefined ? 0 : lowerBoundFrom(leaf.keys, key, copied);
        // A read past the end of an array is slow.
        const found = leaf !== undefined && index < leaf.keys.length && leaf.keys[index] === key;
        if (leaf !== undefined) builder.copy(leaf, copied, index);
        copied = found ? index + 1 : index;
        if (!deletes) put(edit);
        changed =
          changed || (found && leaf !== undefined ? deletes || !isSameEdit(leaf, index, edits, edit) : !deletes);
      }
      if (leaf !== undefined) builder.copy(leaf, copied, leaf.keys.length);
      return changed;
    },
  };
}

function isSameEdit(leaf: Leaf, index: number, edits: LeafEdits, edit: number): boolean {
  const from = index === 0 ? 0 : uint32At(leaf.ends, index - 1);
  const length = uint32At(leaf.ends, index) - from;
  const start = float64At(edits.starts, edit);
  if (float64At(edits.ends, edit) - start !== length) return false;
  if ((edits.weights?.[edit] ?? 1) !== itemWeight(leaf, index)) return false;
  for (let i = 0; i < length; i++) if (leaf.bytes[from + i] !== edits.bytes[start + i]) return false;
  return true;
}

function innerEditor(shape: NodeShape, level: number, edits: InnerEdits, emit: EmitNode): LevelEditor {
  const builder = new InnerBuilder(shape, level, emit);
  return {
    level,
    keys: edits.keys,
    open: () => builder.open,
    finish: () => builder.finish(),
    merge: (node, from, to) => {
      const inner: Inner | undefined = node === undefined || isLeaf(node) ? undefined : node;
      let copied = 0;
      for (let edit = from; edit < to; edit++) {
        const key = keyAt(edits.keys, edit);
        const child = edits.children[edit];
        if (inner !== undefined) {
          const index = lowerBoundFrom(inner.keys, key, copied);
          builder.copy(inner, copied, index);
          copied = inner.keys[index] === key ? index + 1 : index;
        }
        if (child !== undefined) builder.add(key, child);
      }
      if (inner !== undefined) builder.copy(inner, copied, inner.keys.length);
      return to > from;
    },
  };
}
