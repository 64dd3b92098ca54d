import { isDeepStrictEqual } from 'node:util';
import type { AttributeValue as SdkAttributeValue, TransactWriteItem, Update } from '@aws-sdk/client-dynamodb';
import type { LogId } from '../../ids/log-id.ts';
import type { Position } from '../../ids/position.ts';
import type { Item } from '../../log/attribute.ts';
import type { RootRef } from '../../log/entry.ts';
import {
  decodeSegment,
  encodeSegment,
  entryKey,
  LAST_SNAPSHOT_NAMES,
  rootAttribute,
  segmentKey,
} from '../../log/item-codec.ts';
import { checkBatchItems } from '../../log/item-size.ts';
import type {
  ExpiringSegment,
  NewArchive,
  ReplacementArchive,
  SegmentLifecycle,
  SegmentOrEntryPlace,
  SegmentPlace,
} from '../../log/log-store.ts';
import { type ArchiveRef, type Expiry, type Segment, sameArchive } from '../../log/segment.ts';
import { isRetryable } from '../aws/dynamodb-error.ts';
import { type ChangedItem, type ChangingSegment, changeTogether } from './changes-together.ts';
import type { DynamoDbRequests } from './requests.ts';

/** The attributes of a segment that may change. */
const CHANGING = [...LAST_SNAPSHOT_NAMES, 'A', 'H', 'G', 'D'];

/** A change to several entries: delete them, or add or remove their expiry. */
type Change = 'delete' | 'ttl' | 'keep';

/** Archives, expires and restores closed segments in DynamoDB. */
export class DynamoDbSegmentLife implements SegmentLifecycle {
  protected readonly requests: DynamoDbRequests;
  protected readonly entryTable: string;
  protected readonly segmentTable: string;

  constructor(
    requests: DynamoDbRequests,
    { entryTable, segmentTable }: { readonly entryTable: string; readonly segmentTable: string },
  ) {
    this.requests = requests;
    this.entryTable = entryTable;
    this.segmentTable = segmentTable;
  }

  removeAttributes({ log, segment, entry }: SegmentOrEntryPlace, attributes: Item): Promise<boolean> {
    const names = Object.keys(attributes);
    const same = sameAttributes(attributes, names);
    return this.requests.update({
      TableName: entry === undefined ? this.segmentTable : this.entryTable,
      Key: entry === undefined ? segmentKey(log, segment) : entryKey(log, { segment, entry }),
      UpdateExpression: changeAttributes({}, names).expression,
      ConditionExpression: same.condition,
      ExpressionAttributeValues: same.values,
    });
  }

  async setArchive(segment: Segment, { root, ...archive }: NewArchive): Promise<boolean> {
    const { log, lastSnapshot } = segment;
    const writes: TransactWriteItem[] = [];
    if (lastSnapshot !== undefined && root !== undefined) {
      const { name, value } = rootAttribute(root);
      writes.push({
        ConditionCheck: {
          TableName: this.entryTable,
          Key: entryKey(log, lastSnapshot.position),
          ConditionExpression: `${name} = :root`,
          ExpressionAttributeValues: { ':root': value },
        },
      });
    }
    return this.#nameArchive({ ...segment, archive: undefined }, archive, writes);
  }

  async replaceArchive(segment: Segment, { root, ...archive }: ReplacementArchive): Promise<boolean> {
    const { log, lastSnapshot } = segment;
    if (segment.archive === undefined) return false;
    const writes: TransactWriteItem[] = [];
    if (lastSnapshot !== undefined && root !== undefined) {
      const entry = entryKey(log, lastSnapshot.position);
      // A concurrent restore may put the entry back with the old root. The next rebuild replaces
      // that root too.
      if ((await this.requests.get(this.entryTable, entry, true)) !== undefined) {
        writes.push({ Update: { TableName: this.entryTable, Key: entry, ...rootChange(root.from, root.to) } });
      }
    }
    return this.#nameArchive(segment, archive, writes);
  }

  /**
   * Names an archive on a segment whose Last Snapshot and archive are as given.
   * @param others writes of the same transaction
   */
  async #nameArchive(
    segment: Segment,
    { key, hash }: ArchiveRef,
    others: readonly TransactWriteItem[],
  ): Promise<boolean> {
    const hasNone = segment.archive === undefined;
    const same = sameAttributes(encodeSegment(segment), [...LAST_SNAPSHOT_NAMES, ...(hasNone ? [] : ['A', 'H'])]);
    const update = {
      TableName: this.segmentTable,
      Key: segmentKey(segment.log, segment.segment),
      UpdateExpression: 'SET A = :a, H = :h',
      ConditionExpression: `attribute_exists(S) AND ${hasNone ? 'attribute_not_exists(A) AND ' : ''}${same.condition}`,
      ExpressionAttributeValues: { ...same.values, ':a': { S: key }, ':h': { B: hash } },
    };
    if (await this.requests.transact([{ Update: update }, ...others])) return true;
    const stored = await this.#stored(segment);
    return stored?.archive !== undefined && sameArchive(stored.archive, { key, hash });
  }

  async setExpiration(segment: Segment, to: Expiry | undefined): Promise<boolean> {
    const same = sameAttributes(encodeSegment(segment), CHANGING);
    const wanted = encodeSegment({ ...segment, expiry: to });
    const change = changeAttributes(wanted, ['G', 'D']);
    const update = () =>
      this.requests.update({
        TableName: this.segmentTable,
        Key: segmentKey(segment.log, segment.segment),
        UpdateExpression: change.expression,
        ConditionExpression: `attribute_exists(S) AND ${same.condition}`,
        ExpressionAttributeValues: valuesOrNone({ ...same.values, ...change.values }),
      });
    const failure = `Writing the expiry of segment ${segment.segment} failed`;
    // The write may conflict with the transactions that expire entries.
    if (await this.requests.retry({ failure, retryable: isRetryable }, update)) return true;
    const stored = await this.#stored(segment);
    return stored !== undefined && isDeepStrictEqual(encodeSegment(stored), wanted);
  }

  async setEntryExpiry(log: LogId, position: Position, expires: number | undefined): Promise<boolean> {
    const change = changeAttributes(expires === undefined ? {} : { X: { N: String(expires) } }, ['X']);
    return this.requests.update({
      TableName: this.entryTable,
      Key: entryKey(log, position),
      UpdateExpression: change.expression,
      ConditionExpression: 'attribute_exists(S)',
      ExpressionAttributeValues: valuesOrNone(change.values),
    });
  }

  async deleteEntries(log: LogId, segment: number, entries: readonly number[]): Promise<void> {
    checkBatchItems(entries.length);
    // DynamoDB refuses a batch that names an item twice.
    const keys = [...new Set(entries)].map((entry) => entryKey(log, { segment, entry }));
    await this.requests.batchWrite(
      this.entryTable,
      keys.map((Key) => ({ DeleteRequest: { Key } })),
    );
  }

  expireEntries(leaving: ExpiringSegment, entries: readonly number[], how: 'delete' | 'ttl'): Promise<boolean> {
    return this.#changeTogether(leaving, entries, how);
  }

  unexpireEntries(place: SegmentPlace, entries: readonly number[]): Promise<boolean> {
    return this.#changeTogether({ ...place, expiry: { state: 'on hold' } }, entries, 'keep');
  }

  /** Changes entries in one transaction that checks the expiry of the segment. */
  async #changeTogether(place: ChangingSegment, entries: readonly number[], how: Change): Promise<boolean> {
    checkBatchItems(entries.length);
    const changes = [...new Set(entries)].map((entry) => this.#change(place, entry, how));
    return changeTogether(this.requests, { segmentTable: this.segmentTable, segment: place }, changes);
  }

  #change({ log, segment, expiry }: ChangingSegment, entry: number, how: Change): ChangedItem {
    const place = { table: this.entryTable, key: entryKey(log, { segment, entry }) };
    const item = { TableName: place.table, Key: place.key };
    if (how === 'delete') return { ...place, write: { Delete: item } };
    const { expression, values } = changeAttributes(expiry.state === 'on hold' ? {} : { X: { N: String(expiry.at) } }, [
      'X',
    ]);
    const update = {
      ...item,
      UpdateExpression: expression,
      ConditionExpression: 'attribute_exists(S)',
      ExpressionAttributeValues: valuesOrNone(values),
    };
    return { ...place, write: { Update: update } };
  }

  async putItems(items: readonly Item[]): Promise<void> {
    checkBatchItems(items.length);
    await this.requests.batchWrite(
      this.entryTable,
      items.map((item) => ({ PutRequest: { Item: item } })),
    );
  }

  async putSegment(segment: Segment): Promise<boolean> {
    return (await this.requests.create([{ table: this.segmentTable, item: encodeSegment(segment) }])).written;
  }

  async #stored({ log, segment }: Pick<Segment, 'log' | 'segment'>): Promise<Segment | undefined> {
    const item = await this.requests.get(this.segmentTable, segmentKey(log, segment), true);
    return item && decodeSegment(item);
  }
}

/**
 * The update that replaces one root of a Snapshot entry with another, if the entry carries the old
 * one.
 */
export function rootChange(
  from: RootRef,
  to: RootRef,
): Pick<Update, 'ConditionExpression' | 'ExpressionAttributeNames' | 'ExpressionAttributeValues'> & {
  readonly UpdateExpression: string;
} {
  const [old, fresh] = [rootAttribute(from), rootAttribute(to)];
  return {
    // An item with both attributes would be invalid.
    UpdateExpression: old.name === fresh.name ? 'SET #to = :to' : 'SET #to = :to REMOVE #from',
    ConditionExpression: '#from = :from',
    ExpressionAttributeNames: { '#from': old.name, '#to': fresh.name },
    ExpressionAttributeValues: { ':from': old.value, ':to': fresh.value },
  };
}

/**
 * A condition that the named attributes are as in `item`; those that `item` lacks must be absent.
 */
export function sameAttributes(
  item: Item,
  names: readonly string[],
): { readonly condition: string; readonly values: Item } {
  const values: Item = {};
  const conditions = names.map((name) => {
    const value = item[name];
    if (value === undefined) return `attribute_not_exists(${name})`;
    values[`:was${name}`] = value;
    return `${name} = :was${name}`;
  });
  return { condition: conditions.join(' AND '), values };
}

/** An update that sets the named attributes as in `item`, and removes those that `item` lacks. */
export function changeAttributes(
  item: Item,
  names: readonly string[],
): { readonly expression: string; readonly values: Item } {
  const values: Item = {};
  const sets: string[] = [];
  const removals: string[] = [];
  for (const name of names) {
    const value = item[name];
    if (value === undefined) {
      removals.push(name);
    } else {
      sets.push(`${name} = :to${name}`);
      values[`:to${name}`] = value;
    }
  }
  const clauses = [sets.length > 0 && `SET ${sets.join(', ')}`, removals.length > 0 && `REMOVE ${removals.join(', ')}`];
  return { expression: clauses.filter((clause) => clause !== false).join(' '), values };
}

/** DynamoDB refuses an empty map of values. */
function valuesOrNone(values: Item): Record<string, SdkAttributeValue> | undefined {
  return Object.keys(values).length === 0 ? undefined : values;
}
