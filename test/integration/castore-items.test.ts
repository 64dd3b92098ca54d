import { CreateTableCommand, type DynamoDBClient, PutItemCommand, ScanCommand } from '@aws-sdk/client-dynamodb';
import { EventStore, EventType } from '@castore/core';
import { DynamoDBSingleTableEventStorageAdapter } from '@castore/event-storage-adapter-dynamodb';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DynamoDbLogStore } from '../../src/adapters/dynamodb/log-store.ts';
import { DynamoDbMappedItems } from '../../src/adapters/dynamodb/mapped-items.ts';
import { decodeItemLine, encodeItemLine } from '../../src/archive/item-line.ts';
import { findDynoxide } from '../../src/local/engine-program.ts';
import { segmentTableInput } from '../../src/local/tables.ts';
import type { StoredItem } from '../../src/log/attribute.ts';
import { decodeEntryBody } from '../../src/log/body.ts';
import { VIRTUAL_TYPES } from '../../src/log/schedule.ts';
import { indexOfKey, logOfKey, parseMappedLog } from '../../src/mapping/key-pattern.ts';
import { MappedLogStore } from '../../src/mapping/mapped-log-store.ts';
import { readMapping, type SchemaMapping } from '../../src/mapping/schema-mapping.ts';
import { toApplicationItem, toEntryItem } from '../../src/mapping/translate.ts';
import { createCastoreTable } from '../support/stores/castore.ts';
import { startTestEngine, type TestEngine } from '../support/stores/engine.ts';

interface Placed {
  readonly customer: string;
  readonly lines: readonly { readonly name: string; readonly price: number }[];
}

const PLACED = new EventType<'ORDER:PLACED', Placed>({ type: 'ORDER:PLACED' });
const PAID = new EventType<'ORDER:PAID', { readonly amount: number }, { readonly user: string }>({
  type: 'ORDER:PAID',
});
const CLOSED = new EventType({ type: 'ORDER:CLOSED' });
const NAMED = new EventType<'CUSTOMER:NAMED', string>({ type: 'CUSTOMER:NAMED' });
const ORDER = 'a7f5e9c2';
const FIRST = '2026-01-02T03:04:05.678Z';
const OTHER_TIME = '2026-01-03T00:00:00.000Z';

/** An engine whose table has the events of two event stores, written by Castore. */
class CastoreTable {
  readonly engine: TestEngine;
  readonly table: string;
  readonly orders;
  readonly customers;

  constructor(engine: TestEngine, table: string) {
    this.engine = engine;
    this.table = table;
    const eventStorageAdapter = new DynamoDBSingleTableEventStorageAdapter({
      tableName: table,
      dynamoDBClient: engine.client,
    });
    this.orders = new EventStore({
      eventStoreId: 'ORDERS',
      eventTypes: [PLACED, PAID, CLOSED],
      eventStorageAdapter,
      reducer: (order: { aggregateId: string; version: number; paid: number }, event) => ({
        aggregateId: event.aggregateId,
        version: event.version,
        paid: (order?.paid ?? 0) + (event.type === 'ORDER:PAID' ? event.payload.amount : 0),
      }),
    });
    this.customers = new EventStore({
      eventStoreId: 'CUSTOMERS',
      eventTypes: [NAMED],
      eventStorageAdapter,
      reducer: (_: { aggregateId: string; version: number }, { aggregateId, version }) => ({ aggregateId, version }),
    });
  }

  async write(): Promise<void> {
    const { orders, customers } = this;
    const lines = [
      { name: 'tea "green"', price: 4.5 },
      { name: 'Käse', price: 1e-7 },
    ];
    await orders.pushEvent({
      aggregateId: ORDER,
      version: 1,
      type: 'ORDER:PLACED',
      timestamp: FIRST,
      payload: { customer: 'c#1', lines },
    });
    await EventStore.pushEventGroup(
      orders.groupEvent({
        aggregateId: ORDER,
        version: 2,
        type: 'ORDER:PAID',
        timestamp: OTHER_TIME,
        payload: { amount: 9_007_199_254_740_991 },
        metadata: { user: 'ada' },
      }),
      customers.groupEvent({
        aggregateId: 'c#1',
        version: 1,
        type: 'CUSTOMER:NAMED',
        timestamp: OTHER_TIME,
        payload: 'Ada',
      }),
    );
    await orders.pushEvent({ aggregateId: ORDER, version: 3, type: 'ORDER:CLOSED' });
  }

  async items(): Promise<StoredItem[]> {
    const { Items = [] } = await this.engine.client.send(new ScanCommand({ TableName: this.table }));
    return Items;
  }
}

function mappingNamed(name: string): SchemaMapping {
  const mapping = readMapping(name);
  if (mapping === undefined) throw new Error(`${name} is logfold's own schema`);
  return mapping;
}

describe.skipIf(findDynoxide() === undefined)('events that Castore wrote', () => {
  let castore: CastoreTable;
  let engine: TestEngine;
  let client: DynamoDBClient;

  beforeAll(async () => {
    engine = await startTestEngine();
    client = engine.client;
    castore = new CastoreTable(engine, 'events');
    await createCastoreTable(client, castore.table);
    await castore.write();
  });
  afterAll(() => engine.stop());

  test('belong to logs with the ids of their aggregates, and those of other event stores to none', async () => {
    const mapping = mappingNamed('castore:ORDERS');
    const found = (await castore.items()).map((item) => {
      const log = logOfKey(mapping, item);
      return log === undefined ? [item.aggregateId?.S] : [log, indexOfKey(mapping, item)];
    });
    expect(found.sort()).toEqual([['CUSTOMERS#c#1'], [ORDER, 0], [ORDER, 1], [ORDER, 2]]);
  });

  test.each(['castore', 'castore:ORDERS', 'castore+metadata'])(
    'are translated back byte for byte by %s',
    async (name) => {
      const mapping = mappingNamed(name);
      const items = await castore.items();
      const back = items.map((item) => {
        const log = logOfKey(mapping, item);
        if (log === undefined) return item;
        const index = indexOfKey(mapping, item);
        const translated = toEntryItem(mapping, item, { log, position: { segment: 0, entry: index + 1 }, index });
        return toApplicationItem(mapping, decodeItemLine(encodeItemLine(translated)));
      });
      expect(back.map(encodeItemLine)).toEqual(items.map(encodeItemLine));
    },
  );

  test('are the entries of a log', async () => {
    const mapping = mappingNamed('castore:ORDERS');
    const segmentTable = 'castore-segments';
    await client.send(new CreateTableCommand(segmentTableInput(segmentTable)));
    const store = new MappedLogStore({
      items: new DynamoDbMappedItems({ client, table: castore.table, segmentTable, mapping }),
      books: new DynamoDbLogStore({ client, entryTable: segmentTable, segmentTable }),
      mapping,
      now: Date.now,
    });
    const before = await castore.items();
    const log = parseMappedLog(mapping, ORDER);
    await store.register(log, { items: 10, snapshotEvery: 10 });
    const range = { segment: 0, from: 0, to: 100 };
    const entries = [];
    for await (const page of store.entries(log, range, { consistent: true })) entries.push(...page);
    const own = entries.filter(({ type }) => !VIRTUAL_TYPES.includes(type));
    const { events } = await castore.orders.getEvents(ORDER);
    expect(events).toHaveLength(3);
    expect(own.map((entry) => ({ type: entry.type, payload: decodeEntryBody(entry), number: entry.number }))).toEqual(
      events.map((event) => ({
        type: event.type,
        payload: 'payload' in event ? event.payload : null,
        number: event.version,
      })),
    );
    expect(own.map(({ created }) => created)).toEqual(
      events.map(({ timestamp }) => Math.floor(Date.parse(timestamp) / 1000)),
    );
    expect(await castore.items()).toEqual(before);
  });

  test('are the same aggregate for Castore after they were restored from their translations', async () => {
    const mapping = mappingNamed('castore');
    const copy = new CastoreTable(engine, 'restored');
    await createCastoreTable(client, copy.table);
    for (const item of await castore.items()) {
      const log = logOfKey(mapping, item) ?? parseMappedLog(mapping, '');
      const index = indexOfKey(mapping, item);
      const translated = toEntryItem(mapping, item, { log, position: { segment: 0, entry: index + 1 }, index });
      const Item = toApplicationItem(mapping, decodeItemLine(encodeItemLine(translated)));
      await client.send(new PutItemCommand({ TableName: copy.table, Item }));
    }
    expect(await copy.orders.getEvents(ORDER)).toEqual(await castore.orders.getEvents(ORDER));
    expect(await copy.orders.getAggregate(ORDER)).toEqual(await castore.orders.getAggregate(ORDER));
    expect(await copy.orders.listAggregateIds()).toEqual(await castore.orders.listAggregateIds());
    expect(await copy.customers.getEvents('c#1')).toEqual(await castore.customers.getEvents('c#1'));
  });
});
