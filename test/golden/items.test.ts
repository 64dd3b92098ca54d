import { expect, test } from 'vitest';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { toHex } from '../../src/codec/bytes.ts';
import { encodeValue } from '../../src/codec/canonical.ts';
import { decodeValue } from '../../src/codec/message-pack.ts';
import type { Item } from '../../src/log/attribute.ts';
import { revisionLog } from '../../src/revisions/source-table.ts';
import { Draft } from '../../src/state/draft.ts';
import { type ItemEdit, itemBody, parseItemEdit } from '../../src/state/items/edit.ts';
import { itemKey, type KeyNames } from '../../src/state/items/item-key.ts';
import { items } from '../../src/state/items/reducer.ts';
import { flushState, saveState, stateHash } from '../../src/state/state.ts';
import { mergedValues } from '../../src/tree/buffered-tree.ts';
import { nodeStore } from '../support/chunks.ts';
import { expectGoldenText } from '../support/golden.ts';
import { LOG } from '../support/logs.ts';

const STREAM = '2024-11-20T11:00:00.000';
const KEY_NAMES: KeyNames = ['id', 'part'];

/** The keys of section 19 of `docs/format.md`, each type at least once, and one that is hashed. */
const KEYS: readonly Item[] = [
  { id: { S: 'bolt "M5"' }, part: { N: '1' } },
  { id: { S: 'bolt "M5"' }, part: { N: '-1.50E+1' } },
  { id: { B: Uint8Array.of(0, 255) }, part: { S: 'Łódź' } },
  { id: { S: 'x'.repeat(1100) }, part: { N: '0' } },
];
const [bolt = '', half = '', bytes = ''] = KEYS.map((keys) => itemKey({ keyNames: KEY_NAMES }, keys));

const EVERY_TYPE: Item = {
  id: { S: 'bolt "M5"' },
  part: { N: '1' },
  size: { N: '0.12345678901234567890123456789012345678' },
  bytes: { B: Uint8Array.of(1, 2) },
  flag: { BOOL: false },
  none: { NULL: true },
  list: { L: [{ S: '' }, { M: { deep: { BS: [Uint8Array.of(1), Uint8Array.of(2)] } } }] },
  texts: { SS: ['a', 'b'] },
  numbers: { NS: ['10', '9'] },
};

/** The bodies of section 19, each form at least once. */
const EDITS: readonly ItemEdit[] = [
  edit({ key: bolt, revision: 1, change: 'Put', item: EVERY_TYPE, actor: 'ann', stream: STREAM, sequence: '1' }),
  edit({ key: half, revision: 1, change: 'Gap', item: { id: { S: 'bolt' }, part: { N: '-15' } }, actor: 'bob' }),
  edit({ key: bolt, revision: 2, change: 'Delete', stream: STREAM, sequence: '20' }),
  edit({ key: half, revision: 2, change: 'Expire', stream: STREAM, sequence: '21' }),
  edit({
    key: bytes,
    revision: 1,
    change: 'Put',
    item: { id: { B: Uint8Array.of(0, 255) } },
    stream: STREAM,
    sequence: '22',
  }),
  edit({ key: bolt, revision: 3, change: 'Gap', item: { id: { S: 'bolt "M5"' }, part: { N: '1' } } }),
  edit({ key: bolt, revision: 4, change: 'Gap' }),
];

function edit(given: Omit<ItemEdit, 'table'>): ItemEdit {
  return { table: 'Parts', ...given };
}

test('logs of revisions have the ids, bodies, maps and the state hash of the golden file', async () => {
  const lines = KEYS.flatMap((keys) => {
    const ids = (['item', 'partition'] as const).map((per) =>
      revisionLog(nativePlatform, { table: 'Parts', keyNames: KEY_NAMES, per }, keys),
    );
    return [`key ${itemKey({ keyNames: KEY_NAMES }, keys)}`, `  logs ${ids.join(' ')}`];
  });
  const nodes = nodeStore();
  const draft = new Draft(nodes);
  for (const [entry, each] of EDITS.entries()) {
    const bytesOf = encodeValue(itemBody(each));
    const body = decodeValue(bytesOf);
    expect(parseItemEdit(each.change, body)).toEqual(each);
    await items.fold(draft, {
      position: { segment: 0, entry },
      log: LOG,
      created: 100 + entry,
      createdMs: (100 + entry) * 1000,
      type: each.change,
      version: 1,
      body,
    });
    lines.push(`${each.change} ${toHex(bytesOf)}`);
  }
  const state = await flushState(nodes, await draft.state());
  await saveState(nodes, state);
  lines.push(`state hash ${stateHash(nativePlatform, state)}`);
  for (const [name, value] of draft.meta) lines.push(`meta ${name} ${JSON.stringify(value)}`);
  for (const [name, map] of state.maps) {
    for await (const { key, value } of mergedValues(nodes, map)) lines.push(`${name} ${key} ${JSON.stringify(value)}`);
  }
  await expectGoldenText('items.txt', `${lines.join('\n')}\n`);
});
