import { describe, expect, test } from 'vitest';
import type { Value } from '../../src/codec/value.ts';
import { type Collection, collectionsOf } from '../../src/state/collections/collections.ts';
import { collections } from '../../src/state/collections/reducer.ts';
import { Draft } from '../../src/state/draft.ts';
import { FrozenState } from '../../src/state/frozen-state.ts';
import { flushState, type State, saveState } from '../../src/state/state.ts';
import type { NodeStore } from '../../src/tree/node-store.ts';
import { MemoryChunks, nodeStore } from '../support/chunks.ts';
import { foldEntryAt } from '../support/logs.ts';
import { reloaded } from '../support/models/reloaded.ts';

const ITEM_BYTES = 100_000;

async function fold(nodes: NodeStore, state: State | undefined, bodies: readonly Value[]): Promise<State> {
  const draft = new Draft(nodes, state);
  for (const [entry, body] of bodies.entries()) {
    await collections.fold(draft, foldEntryAt(entry, 'Put', body));
  }
  return draft.state();
}

function item(id: number, content: string): Value {
  return { collection: 'charts', id: `chart-${id}`, value: { title: content, points: content.padEnd(ITEM_BYTES) } };
}

/** A stored project with two collections of a number of items, and its chunks. */
async function project(items: number): Promise<{ readonly chunks: MemoryChunks; readonly state: State }> {
  const chunks = new MemoryChunks();
  const nodes = nodeStore({}, chunks);
  const charts = Array.from({ length: items }, (_, i) => item(i, `chart ${i}`));
  const notes = Array.from({ length: items }, (_, i) => ({ collection: 'notes', id: `note-${i}`, value: `note ${i}` }));
  const state = await fold(nodes, undefined, [{ name: 'title', value: 'My project' }, ...charts, ...notes]);
  return { chunks, state: await reloaded(nodes, await flushState(nodes, state), 1) };
}

/** Reads a collection in a process that has loaded only the root. @returns the chunks it fetched */
async function fetched(
  { chunks, state }: { readonly chunks: MemoryChunks; readonly state: State },
  read: (charts: Collection) => Promise<unknown>,
): Promise<number> {
  const nodes = nodeStore({}, chunks);
  await read(collectionsOf(new FrozenState(nodes, state)).collection('charts'));
  return nodes.counts.read;
}

describe('a project with rich items', () => {
  test('a changed item is the only large chunk that a snapshot writes, and no item is read', async () => {
    const { chunks, state } = await project(200);
    const nodes = nodeStore({}, chunks);
    await saveState(nodes, await fold(nodes, state, [item(7, 'changed')]));
    const { read, written } = nodes.counts;
    expect({ read, written }).toEqual({ read: 0, written: 1 });
  });

  test('reading what changed fetches the changed items and nothing else', async () => {
    const { chunks, state } = await project(200);
    const nodes = nodeStore({}, chunks);
    const changed = await fold(nodes, state, [item(7, 'changed'), item(150, 'changed'), item(7, 'again')]);
    const next = { chunks, state: await reloaded(nodes, changed, 2) };
    const ids = async (charts: Collection, since: number) =>
      (await Array.fromAsync(charts.changesSince(since))).map(({ id }) => id);
    expect(
      await fetched(next, async (charts) => expect(await ids(charts, 200)).toEqual(['chart-150', 'chart-7'])),
    ).toBe(2);
    expect(await fetched(next, async (charts) => expect(await ids(charts, 203)).toEqual([]))).toBe(0);
    expect(await fetched(next, (charts) => charts.get('chart-7'))).toBe(1);
    expect(await fetched(next, (charts) => charts.version())).toBe(0);
  });

  test('in a collection of 20,000 items it fetches a few chunks more', async () => {
    const chunks = new MemoryChunks();
    const nodes = nodeStore({}, chunks);
    const bodies = Array.from({ length: 20_000 }, (_, id) => ({
      collection: 'charts',
      id: `chart-${id}`,
      value: { id },
    }));
    const state = await reloaded(nodes, await flushState(nodes, await fold(nodes, undefined, bodies)), 1);
    const writer = nodeStore({}, chunks);
    const changed = await reloaded(writer, await fold(writer, state, [item(7, 'changed')]), 2);
    // The version of the item.
    expect(writer.counts).toMatchObject({ read: 1, written: 1 });
    const next = { chunks, state: changed };
    const changes = (charts: Collection) => Array.fromAsync(charts.changesSince(20_000));
    expect(await fetched(next, async (charts) => expect(await changes(charts)).toHaveLength(1))).toBe(2);
    // The value and the version.
    expect(await fetched(next, (charts) => charts.get('chart-9'))).toBe(2);
  });

  test('the scalars come with the root', async () => {
    const { chunks, state } = await project(20);
    const nodes = nodeStore({}, chunks);
    expect(await collectionsOf(new FrozenState(nodes, state)).scalars()).toEqual({ title: 'My project' });
    expect(nodes.counts.read).toBe(0);
  });
});
