import { expect, test } from 'vitest';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { type CollectionsEdit, collections, parseCollectionsEdit } from '../../src/state/collections/reducer.ts';
import { Draft } from '../../src/state/draft.ts';
import { flushState, saveState, stateHash } from '../../src/state/state.ts';
import { mergedValues } from '../../src/tree/buffered-tree.ts';
import { nodeStore } from '../support/chunks.ts';
import { expectGoldenText } from '../support/golden.ts';
import { foldEntryAt } from '../support/logs.ts';

/** The bodies of section 17 of `docs/format.md`, each form at least once. */
const EDITS: readonly CollectionsEdit[] = [
  { type: 'Put', name: 'title', value: 'My project' },
  { type: 'Put', name: 'draft', value: true },
  { type: 'Put', collection: 'charts', id: 'a', value: { kind: 'bar', rows: [1, 2], since: new Date(0) } },
  { type: 'Put', collection: 'charts', id: 'b', value: { kind: 'line', bytes: Uint8Array.of(1, 2) } },
  { type: 'Put', collection: 'notes', id: 'a/b', value: 'Łódź' },
  { type: 'Patch', patch: { title: 'My project (edited)', size: { rows: 3, none: null } } },
  { type: 'Patch', collection: 'charts', id: 'a', patch: { kind: null, rows: [3], since: { at: 1 } } },
  { type: 'Patch', collection: 'charts', id: 'c', patch: null },
  { type: 'Delete', name: 'draft' },
  { type: 'Delete', collection: 'charts', id: 'b' },
  { type: 'Delete', collection: 'charts', id: 'none' },
];

test('a document of collections has the maps and the state hash of the golden file', async () => {
  const nodes = nodeStore();
  const draft = new Draft(nodes);
  for (const [entry, { type, ...body }] of EDITS.entries()) {
    expect(parseCollectionsEdit(type, body)).toEqual({ type, ...body });
    await collections.fold(draft, foldEntryAt(entry, type, body));
  }
  const state = await flushState(nodes, await draft.state());
  await saveState(nodes, state);
  const lines = [`state hash ${stateHash(nativePlatform, state)}`];
  for (const [name, map] of state.maps) {
    for await (const { key, value } of mergedValues(nodes, map)) lines.push(`${name} ${key} ${JSON.stringify(value)}`);
  }
  await expectGoldenText('collections.txt', `${lines.join('\n')}\n`);
});
