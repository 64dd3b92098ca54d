import { describe, expect, test } from 'vitest';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { UsageError } from '../../src/errors.ts';
import { parseLogId } from '../../src/ids/log-id.ts';
import type { Item } from '../../src/log/attribute.ts';
import { revisionLog, type SourceTable } from '../../src/revisions/source-table.ts';
import { itemKey, type KeyNames, keyNamesOf } from '../../src/state/items/item-key.ts';

const keyNames = ['id', 'at'] as const;
const source: SourceTable = { table: 'Parts', keyNames, per: 'item' };

function keyOf(id: Item[string], at: Item[string] = { N: '0' }): string {
  return itemKey(source, { id, at, other: { S: 'not a part of the key' } });
}

function logOf(changes: Partial<SourceTable>, id = 'a', at = '1'): string {
  return revisionLog(nativePlatform, { ...source, ...changes }, { id: { S: id }, at: { N: at } });
}

describe('the key of an item', () => {
  test('is its primary key in DynamoDB JSON, partition key first', () => {
    expect(itemKey(source, { at: { N: '7' }, id: { S: 'a "b"' } })).toBe('{"id":{"S":"a \\"b\\""},"at":{"N":"7"}}');
    expect(keyOf({ B: Uint8Array.of(251, 255) })).toBe('{"id":{"B":"+/8="},"at":{"N":"0"}}');
    expect(itemKey({ keyNames: ['id'] }, { id: { S: '' } })).toBe('{"id":{"S":""}}');
  });

  test.each([
    ['0', ['-0', '+0', '0.00', '0e5', '.0', '00']],
    ['100', ['1e2', '1E+2', '100.0', '0100', '10.0e1', '.1e3']],
    ['-15', ['-15.0', '-1.5e1', '-0015', '-150e-1']],
    ['0.005', ['.005', '5e-3', '0.00500', '0.5e-2']],
    ['12.5', ['12.50', '1.25e1', '012.5', '125e-1']],
    ['98765432109876543210987654321098765432', ['9.8765432109876543210987654321098765432e37']],
    [`1${'0'.repeat(125)}`, ['1e125', '1E125']],
    [`0.${'0'.repeat(129)}1`, ['1e-130', '0.1E-129']],
  ])('has the number %s in one form', (plain, others) => {
    for (const other of [plain, ...others]) expect(keyOf({ N: other })).toBe(`{"id":{"N":"${plain}"},"at":{"N":"0"}}`);
  });

  test.each<[string, KeyNames, Item]>([
    ['a partition key', ['id'], { at: { S: 'a' }, id: { S: 'a' } }],
    ['both keys', ['id', 'at'], { at: { N: '1.0' }, id: { S: 'a' }, other: { L: [] } }],
    ['names that JavaScript sorts', ['2', '1'], { 1: { S: 'a' }, 2: { S: 'b' } }],
    ['names of prototypes', ['constructor', '__proto__'], { constructor: { S: 'a' }, ['__proto__']: { S: 'b' } }],
    ['a hash', ['id', 'at'], { at: { S: 'b' }, flag: { BOOL: true }, id: { S: 'a'.repeat(1100) }, other: { S: 'b' } }],
  ])('states the names of its attributes: %s', (_, names, item) => {
    expect(keyNamesOf(itemKey({ keyNames: names }, item), item)).toEqual(names);
    expect(keyNamesOf('{"gone":{"S":"a"}}', item)).toBe(undefined);
  });

  test('is a hash if it is too long for a map', () => {
    const [long, longer] = [keyOf({ S: 'x'.repeat(2048) }), keyOf({ S: 'x'.repeat(2047) })];
    expect(long).toMatch(/^sha256:[0-9a-f]{64}$/);
    expect(longer).not.toBe(long);
  });

  test.each<[string, Item]>([
    ['a missing attribute', { id: { S: 'a' } }],
    ['an attribute of another type', { id: { S: 'a' }, at: { BOOL: true } }],
    ['a text that is not a number', { id: { S: 'a' }, at: { N: 'one' } }],
    ['an attribute of every object', { id: { S: 'a' }, constructor: { S: 'a' } }],
  ])('is refused with %s', (_, keys) => {
    expect(() => itemKey({ keyNames: ['id', 'constructor' in keys ? 'toString' : 'at'] }, keys)).toThrow(UsageError);
  });
});

describe('the log of an item', () => {
  test('is a UUID of version 8 that follows from the table and the key', () => {
    expect(parseLogId(logOf({}))).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    const logs = [
      logOf({}),
      logOf({ table: 'Others' }),
      logOf({ per: 'partition' }),
      logOf({}, 'b'),
      logOf({}, 'a', '2'),
    ];
    expect(new Set(logs).size).toBe(logs.length);
    expect(logOf({}, 'a', '1.0')).toBe(logOf({}));
  });

  test('is shared by the items of a partition key if there is one per partition key', () => {
    expect(logOf({ per: 'partition' }, 'a', '2')).toBe(logOf({ per: 'partition' }));
    expect(logOf({ per: 'partition' }, 'b')).not.toBe(logOf({ per: 'partition' }));
  });
});
