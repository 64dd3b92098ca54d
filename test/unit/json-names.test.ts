import { deepStrictEqual } from 'node:assert';
import { expect, test } from 'vitest';
import { decodeItemLine } from '../../src/archive/item-line.ts';
import { parseItemKey } from '../../src/cli/commands/table.ts';
import { parseEditLine } from '../../src/cli/edit-line.ts';
import { decodeBody } from '../../src/log/body.ts';
import { RESERVED_TYPES } from '../../src/log/entry.ts';
import { keyNamesOf, keyText } from '../../src/state/items/item-key.ts';
import { LOG } from '../support/logs.ts';

/** JSON.parse of Node 24 reads some of them as an earlier one. */
const NAMES = ['\\', '\n', '"', '\t', '\\u0', '\u0000', '\u0001', '__proto__', '\\b', '\bc', '~', '~005c', 'toString'];

const target = { log: LOG, types: RESERVED_TYPES, reducer: 'own' };

function entryOf(json: string): Record<string, unknown> {
  const line = parseEditLine(json, 1, target);
  return line.kind === 'entry' ? { ...line.entry } : {};
}

/** Whatever parses names of users: reads an object that has the names `a` and another one. */
test.each<[string, (object: string) => unknown]>([
  ['a body in JSON', (object) => decodeBody({ format: 'json', text: object })],
  ['a body in bytes of JSON', (object) => decodeBody({ format: 'bytes', bytes: Buffer.from(object) })],
  ['a line of an archive', (object) => decodeItemLine(`{"Item":${object.replaceAll('7', '{"S":"x"}')}}`)],
  ['the body of an edit line', (object) => entryOf(`{"type":"Note","body":${object}}`).body],
  ['the metadata of an edit line', (object) => entryOf(`{"type":"Note","metadata":${object}}`).metadata],
  ['the key of an item', (object) => parseItemKey(object)],
])('%s keeps each name, whatever was read before', (_, read) => {
  const known: unknown[] = [];
  for (const name of [...NAMES, ...NAMES]) {
    const object = read(
      JSON.stringify(
        Object.fromEntries([
          ['a', 7],
          [name, 7],
        ]),
      ),
    );
    known.push(object);
    deepStrictEqual(Object.keys(Object(object)).sort(), ['a', name].sort());
  }
});

test('the names in the key of a history are kept, whatever was read before', () => {
  const known: unknown[] = [];
  for (const name of [...NAMES, ...NAMES]) {
    const item = Object.fromEntries([
      ['a', { S: 'x' }],
      [name, { S: 'y' }],
    ]);
    const names = keyNamesOf(keyText(['a', name], item), item);
    known.push(names);
    expect(names).toEqual(['a', name]);
  }
});
