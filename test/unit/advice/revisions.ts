import { expect } from 'vitest';
import { nativePlatform } from '../../../src/adapters/platform/native.ts';
import { builtInReducer } from '../../../src/adapters/platform/reducer-module.ts';
import type { LogClient } from '../../../src/log/client.ts';
import { itemKey, type KeyNames } from '../../../src/state/items/item-key.ts';
import { spreadsheet } from '../../../src/state/spreadsheet/reducer.ts';
import { COMPARE_KEY } from '../../../src/store/keys.ts';
import { RevisionLogs } from '../../../src/workers/revisions/revision-logs.ts';
import { testLogClient } from '../../support/logs.ts';
import { ownedItem, RevisedTable } from '../../support/stores/revised-table.ts';
import type { Cases } from './case.ts';

const keyNames: KeyNames = ['id'];

/** Advice about the revisions of a plain table. */
export const REVISIONS: Cases = {
  'Give the primary key in DynamoDB JSON, such as {"id":{"S":"a"}}': async (refused) => {
    const advice = await refused(() => itemKey({ keyNames }, { name: { S: 'a' } }));
    const [json = ''] = /\{.*\}/.exec(advice) ?? [];
    itemKey({ keyNames }, JSON.parse(json));
  },
  'Give --reducer items or --reducer items+history': async (refused) => {
    const client: LogClient = testLogClient().client;
    const logs = { client, open: () => Promise.reject(new Error('no log is opened')) };
    const deps = { logs, source: { table: 'Parts', keyNames, per: 'item' as const }, platform: nativePlatform };
    const advice = await refused(() => new RevisionLogs({ ...deps, reducer: spreadsheet }));
    for (const [, name = ''] of advice.matchAll(/--reducer (\S+)/g)) {
      new RevisionLogs({ ...deps, reducer: builtInReducer(name.replace(/\.$/, '')) });
    }
  },
  'Name the table to export with --table NAME': async (refused) => {
    const orders = new RevisedTable();
    const invoices = new RevisedTable({ table: 'invoices' }, orders);
    for (const table of [orders, invoices]) {
      table.put(ownedItem('ann', 1));
      await table.deliver();
    }
    await refused(() => orders.export());
    expect(await orders.export({ table: 'orders' })).toHaveLength(1);
  },
  'Give --per item or --per partition: the newest revisions are in the kind that is recorded now': async (refused) => {
    const items = new RevisedTable();
    for (const table of [items, new RevisedTable({ per: 'partition' }, items)]) {
      table.put(ownedItem('ann', 1));
      await table.deliver();
    }
    await refused(() => items.export());
    expect(await items.export({ per: 'item' })).toHaveLength(1);
    expect(await items.export({ per: 'partition' })).toHaveLength(1);
  },
  'Remove it: the next comparison then begins with the first item, and gaps are found a day later': async (refused) => {
    const table = new RevisedTable();
    await table.blobs.put(COMPARE_KEY, Buffer.from('{'));
    await refused(() => table.compare());
    await table.blobs.delete([COMPARE_KEY]);
    expect(await table.compare()).toMatchObject({ continued: false, complete: true });
  },
};
