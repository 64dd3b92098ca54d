import { describe, expect, test } from 'vitest';
import { bufferedEdits, flushDue, ITEMS_PER_BUFFERED_EDIT, MAX_BUFFER_CHUNKS } from '../../src/snapshot/flush-due.ts';
import type { State } from '../../src/state/state.ts';
import type { Node } from '../../src/tree/node.ts';
import { NodeRef } from '../../src/tree/node.ts';
import type { Tree } from '../../src/tree/tree.ts';

interface Sizes {
  readonly items: number;
  readonly level?: number;
  readonly children?: number;
}

/** A tree of so many items: its top alone, as a root carries it. */
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
  const layers = Object.entries(maps).map(
    ([name, { tree, buffer }]) => [name, { kind: 'number', tree: treeOf(tree), buffer: treeOf(buffer) }] as const,
  );
  return { meta: {}, maps: new Map(layers) };
}

const MILLION = { items: 1_000_000, level: 1, children: 70 };
const EIGHTH = MILLION.items / ITEMS_PER_BUFFERED_EDIT;

describe('settling', () => {
  test.each<[string, Sizes, Sizes, string | undefined]>([
    ['nothing waits', MILLION, { items: 0 }, undefined],
    ['what waits travels in the root', MILLION, { items: 500 }, undefined],
    ['one item in eight waits', MILLION, { items: EIGHTH, level: 1, children: 10 }, undefined],
    ['one more than that waits', MILLION, { items: EIGHTH + 1, level: 1, children: 10 }, 'buffer share'],
    ['more waits than is left of the map', { items: 3 }, { items: 5 }, 'buffer share'],
    ['nothing is left but what waits', { items: 0 }, { items: 1 }, 'buffer share'],
    ['below the top wait leaves', MILLION, { items: 50_000, level: 1, children: 5 }, undefined],
    ['below the top wait two levels', MILLION, { items: 50_000, level: 2, children: 5 }, 'buffer depth'],
    ['as many chunks wait as may', MILLION, { items: 64_000, level: 1, children: MAX_BUFFER_CHUNKS }, undefined],
    ['one more waits', MILLION, { items: 65_000, level: 1, children: MAX_BUFFER_CHUNKS + 1 }, 'buffer chunks'],
  ])('where %s', (_where, tree, buffer, reason) => {
    const quiet = { tree: MILLION, buffer: { items: 0 } };
    const state = stateOf({ axis: quiet, cells: { tree, buffer }, more: quiet });
    expect(flushDue(state)).toEqual(reason === undefined ? undefined : { map: 'cells', reason });
    expect(bufferedEdits(state)).toBe(buffer.items);
  });

  test('of a state without maps is not due', () => {
    expect(flushDue(stateOf({}))).toBeUndefined();
  });

  test('looks at each map by itself', () => {
    const some = { tree: { items: 80 }, buffer: { items: 11 } };
    const state = stateOf({ a: { tree: MILLION, buffer: { items: 100 } }, b: some, c: some });
    expect(flushDue(state)).toEqual({ map: 'b', reason: 'buffer share' });
    expect(bufferedEdits(state)).toBe(122);
  });
});
