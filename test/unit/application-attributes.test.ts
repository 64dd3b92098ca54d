import { describe, expect, test } from 'vitest';
import { TooLargeError, UsageError, ValueUnsupportedError } from '../../src/errors.ts';
import { type AttributeChange, MAX_UPDATED_ATTRIBUTES } from '../../src/log/application-attributes.ts';
import { RESERVED_TYPES } from '../../src/log/entry.ts';
import { encodeEntry } from '../../src/log/item-codec.ts';
import { query } from '../../src/log/query.ts';
import { restoreSegment } from '../../src/workers/retention/restore-segment.ts';
import { allEntries, entryAt, testLogClient } from '../support/logs.ts';
import { SheetLog, set } from '../support/sheet-log.ts';

const at = (segment: number, entry: number) => ({ segment, entry });
const PLACE = at(0, 1);

async function logWithEntry() {
  const test = testLogClient();
  const log = await test.client.createLog();
  await test.client.addEntry(log, { type: 'Set', version: 1, body: [] });
  test.requests.length = 0;
  const update = (change: AttributeChange) => test.client.updateAttributes(log, PLACE, change);
  const attributes = async (range = {}) => {
    const { entries } = await test.client.query(log, { from: PLACE, attributes: true, ...range });
    return (await allEntries(entries))[0]?.attributes;
  };
  return { ...test, log, update, attributes };
}

describe('application attributes', () => {
  test('they change in one request, and a query that asks for them returns them', async () => {
    const { client, log, requests, update, attributes } = await logWithEntry();
    const values = { status: 'sent', tries: 3, größe: 1.5, big: 2n ** 60n, list: [true, null, { a: 'x' }] };
    expect(await update({ set: { ...values, bytes: Buffer.from([1, 2]) } })).toEqual({ updated: true });
    expect(requests).toEqual(['updateAttributes']);
    expect(await attributes()).toEqual({ ...values, bytes: Uint8Array.of(1, 2) });
    const { entries } = await client.query(log, { from: PLACE });
    expect((await allEntries(entries))[0]).not.toHaveProperty('attributes');
    expect(await update({ remove: ['list', 'big', 'none'], set: { tries: 4 } })).toEqual({ updated: true });
    expect(await attributes()).toEqual({ status: 'sent', tries: 4, größe: 1.5, bytes: Uint8Array.of(1, 2) });
  });

  test('an entry that has none returns none', async () => {
    const { attributes } = await logWithEntry();
    expect(await attributes()).toEqual({});
  });

  test('they change only if the current ones are as expected', async () => {
    const { update, attributes } = await logWithEntry();
    expect(await update({ set: { status: 'open' }, if: { status: undefined } })).toEqual({ updated: true });
    const refused = await update({ set: { status: 'done' }, if: { status: 'sent' } });
    expect(refused).toEqual({ updated: false, attributes: { status: 'open' } });
    expect(await attributes()).toEqual({ status: 'open' });
    expect(await update({ remove: ['status'], if: { status: 'open', by: undefined } })).toEqual({ updated: true });
    expect(await attributes()).toEqual({});
  });

  test.each<[string, AttributeChange, new (...args: never[]) => Error]>([
    ['nothing to change', { set: {}, if: { a: 1 } }, UsageError],
    ['an attribute of logfold', { set: { B: 1 } }, UsageError],
    ['a reserved letter', { remove: ['Z'] }, UsageError],
    ['a reserved letter as a condition', { set: { a: 1 }, if: { L: 1 } }, UsageError],
    ['an empty name', { set: { '': 1 } }, UsageError],
    ['a name with half a character', { set: { '\ud800': 1 } }, ValueUnsupportedError],
    ['an attribute that is set and removed', { set: { a: 1 }, remove: ['a'] }, UsageError],
    ['an attribute that is removed twice', { remove: ['a', 'a'] }, UsageError],
    ['a date', { set: { a: new Date(0) } }, ValueUnsupportedError],
    ['a number that is none', { set: { a: Number.NaN } }, ValueUnsupportedError],
    ['half a character', { set: { a: ['\ud800'] } }, ValueUnsupportedError],
    ['an empty key', { set: { a: { '': 1 } } }, ValueUnsupportedError],
    ['deep nesting', { set: { a: JSON.parse(`${'['.repeat(20)}${']'.repeat(20)}`) } }, ValueUnsupportedError],
    ['a large value', { set: { a: 'x'.repeat(400 * 1024) } }, TooLargeError],
    [
      'too many attributes',
      { remove: Array.from({ length: MAX_UPDATED_ATTRIBUTES + 1 }, (_, i) => `a${i}`) },
      TooLargeError,
    ],
  ])('%s is refused, and nothing changes', async (_, change, type) => {
    const { store, log, update } = await logWithEntry();
    const before = await Array.fromAsync(store.items(log, { segment: 0, from: 0, to: 9 }, { consistent: true }));
    const refused = update(change);
    await expect(refused).rejects.toThrow(type);
    const after = await Array.fromAsync(store.items(log, { segment: 0, from: 0, to: 9 }, { consistent: true }));
    expect(after).toEqual(before);
  });

  test('one letter that is not a capital letter is free', async () => {
    const { update, attributes } = await logWithEntry();
    const free = { a: 1, '1': 2, É: 3, _: 4 };
    expect(await update({ set: free, if: { z: undefined } })).toEqual({ updated: true });
    expect(await attributes()).toEqual(free);
  });

  test('attributes that other programs wrote come back in one form', async () => {
    const { store, log, attributes } = await logWithEntry();
    const own = encodeEntry(entryAt(log, PLACE));
    await store.putItems([{ ...own, tags: { SS: ['b', 'a'] }, sizes: { NS: ['2', '10'] }, Q: { S: 'reserved' } }]);
    expect(await attributes()).toEqual({ tags: ['a', 'b'], sizes: [10, 2] });
    const wide = `0.${'12345'.repeat(6)}`;
    await store.putItems([{ ...own, fine: { N: '1' }, wide: { N: wide } }]);
    expect(await attributes()).toEqual({ fine: 1, wide });
    await store.putItems([{ ...own, bad: { N: '1e999' } }]);
    await expect(attributes()).rejects.toMatchObject({ code: 'ITEM_INVALID', log, ...PLACE });
  });

  test('they stay after a snapshot, in an archive and after a restore', async () => {
    const sheet = await SheetLog.create();
    const { client } = testLogClient({ store: sheet.tables });
    const edited = await sheet.edit(set(0, 0, 'a'));
    await client.updateAttributes(sheet.log, edited, { set: { status: 'sent' } });
    const snapshot = await sheet.snapshot();
    await client.updateAttributes(sheet.log, snapshot, { set: { reason: 'nightly' } });
    await sheet.complete(snapshot);
    const hash = await sheet.stateHash(snapshot);
    await client.updateAttributes(sheet.log, edited, { set: { status: 'read' }, if: { status: 'sent' } });
    await sheet.covered();
    const items = await sheet.items();
    await sheet.archive(0);
    await sheet.tables.deleteEntries(sheet.log, 0, [0, 1, 2, 3]);
    const read = async () => {
      const source = { store: sheet.deps.store, types: RESERVED_TYPES };
      const { entries } = await query(source, sheet.log, { from: 'start', to: at(1, 0), attributes: true });
      return (await allEntries(entries)).map(({ attributes }) => attributes);
    };
    const expected = [{}, { status: 'read' }, { reason: 'nightly' }, {}];
    expect(await read()).toEqual(expected);
    await restoreSegment(sheet.deps, { log: sheet.log, segment: 0 }, { holdSeconds: 3600 });
    expect(await sheet.items()).toEqual(items);
    expect(await read()).toEqual(expected);
    expect(await sheet.stateHash(snapshot)).toBe(hash);
    const refused = client.updateAttributes(sheet.log, edited, { set: { status: 'lost' } });
    await expect(refused).rejects.toMatchObject({ code: 'SEGMENT_CLOSED', log: sheet.log, ...edited });
  });
});
