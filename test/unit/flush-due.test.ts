import { describe, expect, test } from 'vitest';
import { bufferedEdits, flushDue, ITEMS_PER_BUFFERED_EDIT, MAX_BUFFER_CHUNKS } from '../../src/snapshot/root.ts';
import type { State } from '../../src/state/state.ts';
import { type Node, NodeRef, type Tree } from '../../src/tree/node.ts';

interface Sizes {
  readonly items: number;
  readonly level?: number;
  readonly children?: number;
}

/** A tree of this many items: only its top, as in a root. */
function treeOf({ items, level = 0, children = 1 }: Sizes): Tree {
  return { kind: 'number', top: items === 0 ? undefined : topOf(items, level, children) };
}

function topOf(count: number, level: number, children: number): Node {
  const keys = Array.from({ length: level === 0 ? count : children }, (_, i) => i);
  if (level > 0) {
    const child = () => NodeRef.stored(new Uint8Array(32), { count: count / children, weight: count / children });
    return { level, keys, children: keys.map(child), count, weight: count };
  }
  const bytes = new Uint8Array(count);
  return {
    level: 0,
    keys,
    bytes,
    ends: Uint32Array.from(keys, (i) => i + 1),
    weights: undefined,
    count,
    weight: count,
  };
}

function stateOf(maps: Readonly<Record<string, { readonly tree: Sizes; readonly buffer: Sizes }>>): State {
  const buffered = Object.entries(maps).map(
    ([name, { tree, buffer }]) => [name, { kind: 'number', tree: treeOf(tree), buffer: treeOf(buffer) }] as const,
  );
  return { meta: {}, maps: new Map(buffered) };
}

const MILLION = { items: 1_000_000, level: 1, children: 70 };
const EIGHTH = MILLION.items / ITEMS_PER_BUFFERED_EDIT;

describe('a flush', () => {
  test.each<[string, Sizes, Sizes, string | undefined]>([
    ['an empty buffer', MILLION, { items: 0 }, undefined],
    ['a buffer that the root contains', MILLION, { items: 500 }, undefined],
    ['one buffered edit per eight items', MILLION, { items: EIGHTH, level: 1, children: 10 }, undefined],
    ['one more buffered edit than that', MILLION, { items: EIGHTH + 1, level: 1, children: 10 }, 'buffer share'],
    ['more buffered edits than items', { items: 3 }, { items: 5 }, 'buffer share'],
    ['buffered edits and no items', { items: 0 }, { items: 1 }, 'buffer share'],
    ['one buffer level below the top', MILLION, { items: 50_000, level: 1, children: 5 }, undefined],
    ['two buffer levels below the top', MILLION, { items: 50_000, level: 2, children: 5 }, 'buffer depth'],
    ['the maximum of buffer chunks', MILLION, { items: 64_000, level: 1, children: MAX_BUFFER_CHUNKS }, undefined],
    [
      'one buffer chunk more than the maximum',
      MILLION,
      { items: 65_000, level: 1, children: MAX_BUFFER_CHUNKS + 1 },
      'buffer chunks',
    ],
  ])('flushDue gives the right reason for %s', (_case, tree, buffer, reason) => {
    const quiet = { tree: MILLION, buffer: { items: 0 } };
    const state = stateOf({ axis: quiet, cells: { tree, buffer }, more: quiet });
    expect(flushDue(state)).toEqual(reason === undefined ? undefined : { map: 'cells', reason });
    expect(bufferedEdits(state)).toBe(buffer.items);
  });

  test('a state without maps is not due', () => {
    expect(flushDue(stateOf({}))).toBeUndefined();
  });

  test('flushDue looks at each map separately', () => {
    const some = { tree: { items: 80 }, buffer: { items: 11 } };
    const state = stateOf({ a: { tree: MILLION, buffer: { items: 100 } }, b: some, c: some });
    expect(flushDue(state)).toEqual({ map: 'b', reason: 'buffer share' });
    expect(bufferedEdits(state)).toBe(122);
  });
});
