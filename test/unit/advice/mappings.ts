import { parseMappedLog } from '../../../src/mapping/key-pattern.ts';
import { parseMapping } from '../../../src/mapping/schema-mapping.ts';
import { toEntryItem } from '../../../src/mapping/translate.ts';
import { type Cases, numbersOf } from './case.ts';

const ORDERS = {
  partitionKey: { name: 'pk', type: 'S', pattern: 'order#{id}' },
  sortKey: { name: 'sk', type: 'N', first: 0 },
  type: 'type',
  version: { constant: 1 },
  time: { name: 'ts', format: 'iso' },
  body: 'payload',
};

/** Advice on schema mappings and on items that do not fit them. */
export const MAPPINGS: Cases = {
  'Correct it as docs/format.md describes schema mappings': async (refused) => {
    await refused(() => parseMapping({ ...ORDERS, sortKey: { ...ORDERS.sortKey, pattern: 'event#{n:6}' } }));
    parseMapping({ ...ORDERS, sortKey: { name: 'sk', type: 'S', first: 0, pattern: 'event#{n:6}' } });
  },
  "Correct the item, or change '…' of the mapping": async (refused) => {
    const mapping = parseMapping(ORDERS);
    const log = parseMappedLog(mapping, '17');
    const item = { pk: { S: 'order#17' }, sk: { N: '0' }, type: { S: 'Placed' }, ts: { S: '2026-01-02T03:04:05Z' } };
    const place = { log, position: { segment: 0, entry: 1 }, index: 0 };
    const inSeconds = { ...item, ts: { N: '1767323045' } };
    const advice = await refused(() => toEntryItem(mapping, inSeconds, place));
    toEntryItem(mapping, item, place);
    const part = /change '(\w+)'/.exec(advice)?.[1] ?? '';
    const changed = parseMapping({ ...ORDERS, [part]: { name: 'ts', format: 's' } });
    toEntryItem(changed, inSeconds, place);
  },
  'Give the id of a log whose key has at most … bytes': async (refused) => {
    const pattern = `${'tenant#'.repeat(100)}{id}`;
    const mapping = parseMapping({ ...ORDERS, partitionKey: { name: 'pk', type: 'S', pattern } });
    const [bytes = 0] = numbersOf(await refused(() => parseMappedLog(mapping, 'x'.repeat(1999))));
    parseMappedLog(mapping, 'x'.repeat(bytes - 'tenant#'.length * 100));
  },
};
