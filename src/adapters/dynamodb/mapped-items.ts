import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { decodeItemLine, encodeItemLine } from '../../archive/item-line.ts';
import { ItemInvalidError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import type { Item, StoredItem } from '../../log/attribute.ts';
import { encodeSegment, segmentKey } from '../../log/item-codec.ts';
import { parsedItems, storedItems } from '../../log/item-json.ts';
import { checkBatchItems } from '../../log/item-size.ts';
import type { Consistency, ExpiringSegment, RangeOptions, SegmentPlace } from '../../log/log-store.ts';
import type { Segment } from '../../log/segment.ts';
import { indexOfKey, keyOf, logOfKey, maxIndex, partitionKeyOf, sortKeyOf } from '../../mapping/key-pattern.ts';
import {
  type IndexedItem,
  type IndexRange,
  type LogPage,
  type MappedItems,
  ttlOf,
} from '../../mapping/mapped-items.ts';
import type { SchemaMapping } from '../../mapping/schema-mapping.ts';
import type { ItemScanPart } from '../../store/scan-places.ts';
import { type ChangedItem, type ChangingSegment, changeTogether } from './changes-together.ts';
import { DynamoDbRequests, type Meter } from './requests.ts';

export interface DynamoDbMappedItemsOptions {
  readonly client: DynamoDBClient;
  /** The application's table. */
  readonly table: string;
  readonly segmentTable: string;
  readonly mapping: SchemaMapping;
  readonly meter?: Meter;
}

/** The application's table in DynamoDB. */
export class DynamoDbMappedItems implements MappedItems {
  readonly #requests: DynamoDbRequests;
  readonly #table: string;
  readonly #segmentTable: string;
  readonly #mapping: SchemaMapping;

  constructor(options: DynamoDbMappedItemsOptions) {
    this.#requests = new DynamoDbRequests(options);
    this.#table = options.table;
    this.#segmentTable = options.segmentTable;
    this.#mapping = options.mapping;
  }

  async newest(log: LogId, below: number, consistency: Consistency): Promise<IndexedItem | undefined> {
    // An item of something else may lie between those of the log, so the first one may not count.
    for await (const [item] of this.#query(log, { from: 0, to: below }, consistency, { newestFirst: true })) {
      if (item !== undefined) return item;
    }
    return undefined;
  }

  async *pages(log: LogId, range: IndexRange, options: RangeOptions): AsyncGenerator<IndexedItem[]> {
    for await (const items of this.#query(log, range, options)) if (items.length > 0) yield items;
  }

  async *logs(part: ItemScanPart, onInvalid: (error: ItemInvalidError) => void): AsyncGenerator<LogPage> {
    const { partitionKey, sortKey } = this.#mapping;
    const input = {
      TableName: this.#table,
      Segment: part.index,
      TotalSegments: part.of,
      ProjectionExpression: '#p, #s',
      ExpressionAttributeNames: { '#p': partitionKey.name, '#s': sortKey.name },
      ExclusiveStartKey: part.after === undefined ? undefined : decodeItemLine(part.after),
    };
    for await (const { items } of this.#requests.scanPages(input, storedItems)) {
      const last = items.at(-1);
      if (last === undefined) continue;
      const logs = new Map<LogId, StoredItem>();
      for (const item of items) {
        try {
          const log = logOfKey(this.#mapping, item);
          if (log === undefined) continue;
          indexOfKey(this.#mapping, item);
          logs.set(log, item);
        } catch (error) {
          if (!(error instanceof ItemInvalidError)) throw error;
          onInvalid(error);
        }
      }
      const found = Array.from(logs, ([log, item]) => ({ log, after: encodeItemLine(item) }));
      yield { logs: found, next: encodeItemLine(last) };
    }
  }

  putSegment(segment: Segment): Promise<boolean> {
    return this.#requests.transact([
      {
        Put: {
          TableName: this.#segmentTable,
          Item: encodeSegment(segment),
          ConditionExpression: 'attribute_not_exists(S)',
        },
      },
      {
        ConditionCheck: {
          TableName: this.#table,
          Key: keyOf(this.#mapping, segment.log, segment.schedule?.first ?? 0),
          ConditionExpression: 'attribute_not_exists(#p)',
          ExpressionAttributeNames: { '#p': this.#mapping.partitionKey.name },
        },
      },
    ]);
  }

  async beginSegment({ log, segment, created }: Segment): Promise<void> {
    await this.#requests.update({
      TableName: this.#segmentTable,
      Key: segmentKey(log, segment),
      UpdateExpression: 'SET C = :created',
      ConditionExpression: 'C = :none',
      ExpressionAttributeValues: { ':created': { N: String(created) }, ':none': { N: '0' } },
    });
  }

  async put(items: readonly Item[]): Promise<void> {
    checkBatchItems(items.length);
    const { name: partitionKey } = this.#mapping.partitionKey;
    await Promise.all(items.map((item) => this.#requests.create([{ table: this.#table, item, partitionKey }])));
  }

  expire(segment: ExpiringSegment, indexes: readonly number[], how: 'delete' | 'ttl'): Promise<boolean> {
    return this.#changeTogether(segment, indexes, how);
  }

  unexpire(place: SegmentPlace, indexes: readonly number[]): Promise<boolean> {
    return this.#changeTogether({ ...place, expiry: { state: 'on hold' } }, indexes, 'ttl');
  }

  setExpiry(log: LogId, index: number, expires: number | undefined): Promise<boolean> {
    return this.#requests.update({
      TableName: this.#table,
      Key: keyOf(this.#mapping, log, index),
      ...this.#stamp(expires),
    });
  }

  #changeTogether(segment: ChangingSegment, indexes: readonly number[], how: 'delete' | 'ttl'): Promise<boolean> {
    checkBatchItems(indexes.length);
    const { log, expiry } = segment;
    const expires = expiry.state === 'on hold' ? undefined : expiry.at;
    const changes = [...new Set(indexes)].map((index): ChangedItem => {
      const place = { table: this.#table, key: keyOf(this.#mapping, log, index) };
      const item = { TableName: place.table, Key: place.key };
      return {
        ...place,
        write: how === 'delete' ? { Delete: item } : { Update: { ...item, ...this.#stamp(expires) } },
      };
    });
    return changeTogether(this.#requests, { segmentTable: this.#segmentTable, segment }, changes);
  }

  /** The update that stamps an existing item, or removes its stamp. */
  #stamp(expires: number | undefined) {
    const { partitionKey } = this.#mapping;
    return {
      UpdateExpression: expires === undefined ? 'REMOVE #x' : 'SET #x = :x',
      ConditionExpression: 'attribute_exists(#p)',
      ExpressionAttributeNames: { '#p': partitionKey.name, '#x': ttlOf(this.#mapping) },
      ...(expires !== undefined && { ExpressionAttributeValues: { ':x': { N: String(expires) } } }),
    };
  }

  /** Pages of a log's items, without items of something else between them. */
  async *#query(
    log: LogId,
    { from, to }: IndexRange,
    { consistent, onPage, isChecked = false }: RangeOptions,
    { newestFirst = false } = {},
  ): AsyncGenerator<IndexedItem[]> {
    const last = Math.min(to - 1, maxIndex(this.#mapping));
    if (from > last) return;
    // The range of the first item begins at the number 0. If the mapping counts from 1, an item
    // with that number is refused. Otherwise nothing would show that the log lacks it.
    const first = from === 0 ? -this.#mapping.sortKey.first : from;
    const input = {
      TableName: this.#table,
      KeyConditionExpression: '#p = :p AND #s BETWEEN :first AND :last',
      ExpressionAttributeNames: { '#p': this.#mapping.partitionKey.name, '#s': this.#mapping.sortKey.name },
      ExpressionAttributeValues: {
        ':p': partitionKeyOf(this.#mapping, log),
        ':first': sortKeyOf(this.#mapping, first),
        ':last': sortKeyOf(this.#mapping, last),
      },
      ConsistentRead: consistent,
      ...(newestFirst && { ScanIndexForward: false, Limit: 1 }),
    };
    const decoder = isChecked ? parsedItems : storedItems;
    for await (const { items, bytes, attempts } of this.#requests.queryPages(input, decoder)) {
      const own = items.filter((item) => logOfKey(this.#mapping, item) === log);
      if (bytes !== undefined) onPage?.({ items: own.length, bytes, attempts });
      yield own.map((item) => ({ index: indexOfKey(this.#mapping, item), item }));
    }
  }
}
