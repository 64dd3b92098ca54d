import type { ConditionCheck, DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { EntryExistsError, EntryNotFoundError, type ItemInvalidError, SegmentNotFoundError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import type { Position } from '../../ids/position.ts';
import { segmentClosed } from '../../log/application-attributes.ts';
import type { Item, StoredItem } from '../../log/attribute.ts';
import type { RetryLimits } from '../../log/backoff.ts';
import { carriedRef, type Entry, type EntryHead, hasId, type RootRef, sameRoot } from '../../log/entry.ts';
import { entryDecoder } from '../../log/entry-json.ts';
import {
  decodeEntry,
  decodeEntryHead,
  decodeSegment,
  decodeSegments,
  encodeEntry,
  encodeSegment,
  entryKey,
  entryPlace,
  HEAD_ATTRIBUTES,
  isOwnItem,
  LAST_SNAPSHOT_NAMES,
  lastSnapshotAttributes,
  rootAttribute,
  segmentKey,
} from '../../log/item-codec.ts';
import { type ItemDecoder, parsedItems, storedItems } from '../../log/item-json.ts';
import { checkWriteSize } from '../../log/item-size.ts';
import type {
  AttributeUpdate,
  Consistency,
  LogStore,
  NewItems,
  NextSegment,
  RangeOptions,
  ScanPart,
  SegmentPlace,
  SegmentRange,
  StartedSegment,
  UnreadEntries,
} from '../../log/log-store.ts';
import { idUsedTwice } from '../../log/new-entry.ts';
import { endAfter } from '../../log/newest.ts';
import type { LastSnapshot, Segment } from '../../log/segment.ts';
import { isRetryable } from '../aws/dynamodb-error.ts';
import { attributeChange } from './attribute-change.ts';
import { DynamoDbRequests, type Meter, type NewItem } from './requests.ts';
import { changeAttributes, DynamoDbSegmentLife, rootChange, sameAttributes } from './segment-life.ts';

export { isRetryable } from '../aws/dynamodb-error.ts';
export { type Meter, TableMeter } from './requests.ts';

export interface DynamoDbLogStoreOptions {
  readonly client: DynamoDBClient;
  readonly entryTable: string;
  /** May be the Entry table: no entry has the key of a segment. */
  readonly segmentTable: string;
  readonly meter?: Meter;
  /**
   * Attempts to send what DynamoDB leaves unprocessed. Ten by default, which take up to ten
   * seconds.
   */
  readonly batchRetries?: RetryLimits;
}

/**
 * The tables in DynamoDB. The SDK client retries after throttling and lost connections, as
 * `sdkConfig` configures it.
 *
 * Every method throws ResourceMissingError if a table does not exist, and CredentialsError if there
 * are no credentials or AWS refuses them.
 */
export class DynamoDbLogStore extends DynamoDbSegmentLife implements LogStore {
  readonly reads = 'tables';

  constructor(options: DynamoDbLogStoreOptions) {
    super(new DynamoDbRequests(options), options);
  }

  async createLog(segment: Segment, first: Entry): Promise<void> {
    const created = await this.#create([this.#newSegment(segment), this.#newEntry(first)], [first]);
    if (!created) throw new EntryExistsError('the log already exists', { log: segment.log });
  }

  async newestSegments(log: LogId, limit: number, { consistent }: Consistency): Promise<Segment[]> {
    const items = await this.requests.newest(this.segmentTable, segmentKey(log, 0), { limit, consistent });
    return items.map(decodeSegment);
  }

  async getSegment(log: LogId, segment: number, { consistent }: Consistency): Promise<Segment | undefined> {
    const item = await this.requests.get(this.segmentTable, segmentKey(log, segment), consistent);
    return item && decodeSegment(item);
  }

  async *segments(log: LogId, { consistent }: Consistency = { consistent: false }): AsyncGenerator<Segment> {
    const input = {
      TableName: this.segmentTable,
      KeyConditionExpression: 'S = :s',
      ExpressionAttributeValues: { ':s': segmentKey(log, 0).S },
      ConsistentRead: consistent,
    };
    const pages = this.requests.queryPages(input, storedItems);
    for await (const { items } of pages) yield* items.map(decodeSegment);
  }

  async *allSegments(
    part: ScanPart = { index: 0, of: 1 },
    onInvalid?: (error: ItemInvalidError) => void,
  ): AsyncGenerator<Segment> {
    const { index: Segment, of: TotalSegments, after } = part;
    const isShared = this.segmentTable === this.entryTable;
    const input = {
      TableName: this.segmentTable,
      Segment,
      TotalSegments,
      ExclusiveStartKey: after && segmentKey(after.log, after.segment),
      // Entries have a type, segments have none.
      FilterExpression: isShared ? 'attribute_not_exists(T)' : undefined,
    };
    for await (const { items } of this.requests.scanPages(input, storedItems))
      yield* decodeSegments(items, onInvalid, isShared);
  }

  async newestEntry(log: LogId, segment: number, { consistent }: Consistency): Promise<EntryHead | undefined> {
    const key = entryKey(log, { segment, entry: 0 });
    const only = { limit: 1, consistent, attributes: HEAD_ATTRIBUTES };
    const [item] = await this.requests.newest(this.entryTable, key, only);
    return item && decodeEntryHead(item);
  }

  async getEntry(log: LogId, position: Position, { consistent }: Consistency): Promise<Entry | undefined> {
    const item = await this.requests.get(this.entryTable, entryKey(log, position), consistent);
    return item && decodeEntry(item);
  }

  entries(log: LogId, range: SegmentRange, options: RangeOptions): AsyncGenerator<Entry[]> {
    return this.#range(log, range, options, entryDecoder());
  }

  items(log: LogId, range: SegmentRange, options: RangeOptions): AsyncGenerator<StoredItem[]> {
    return this.#range(log, range, options, options.isChecked === true ? parsedItems : storedItems);
  }

  async putEntries(entries: readonly Entry[]): Promise<void> {
    const items = entries.map((entry) => this.#newEntry(entry));
    checkWriteSize(items.map(({ item }) => item));
    const creation = await this.requests.create(items);
    if (creation.written) return;
    const own = entries.filter((entry) => hasOwn(creation, [entry]));
    if (own.length === 0) throw conflictOf(entries, creation.existing);
    // A transaction names each item that exists, but DynamoDB does not promise it.
    for (const entry of entries.filter((each) => !own.includes(each))) {
      const item = await this.requests.get(this.entryTable, entryKey(entry.log, entry.position), true);
      if (item === undefined || !isOwnItem(item, entry)) throw idUsedTwice(entry, own);
    }
  }

  async startSegment({ end, first, ...started }: NextSegment): Promise<void> {
    const puts = [this.#newEntry(end), this.#newSegment(started.segment), this.#newEntry(first)];
    const creation = await this.requests.create(puts, this.#sameAttributes(started));
    if (creation.written || hasOwn(creation, [end, first])) return;
    const where = { log: end.log, segment: end.position.segment };
    if (creation.isFree) throw new EntryExistsError('the attributes of the log changed just now', where);
    throw new EntryExistsError('the segment already has other entries or is closed', where);
  }

  async putAhead({ entries, segment, endedAttributes }: NewItems, unread: UnreadEntries): Promise<void> {
    const puts = entries.map((entry) => this.#newEntry(entry));
    checkWriteSize(puts.map(({ item }) => item));
    const checks = unreadEntries(this.entryTable, unread);
    const creation =
      segment === undefined
        ? await this.requests.create(puts, checks)
        : await this.requests.create(
            [...puts, this.#newSegment(segment)],
            [...checks, ...this.#sameAttributes({ segment, endedAttributes })],
          );
    if (creation.written || hasOwn(creation, entries)) return;
    const [{ position } = unread.after] = entries;
    const where = { log: unread.log, ...position };
    if (creation.isFree) throw new EntryNotFoundError('the entries before are not as expected', where);
    throw new EntryExistsError('one of the entries already exists, or the segment is closed', where);
  }

  async replaceAttributes({ log, segment }: SegmentPlace, from: Item | undefined, to: Item): Promise<boolean> {
    const same = sameLogAttributes(from);
    const change = {
      TableName: this.segmentTable,
      Key: segmentKey(log, segment),
      UpdateExpression: 'SET M = :to',
      ConditionExpression: `attribute_exists(S) AND ${same.condition}`,
      ExpressionAttributeValues: { ...same.values, ':to': { M: to } },
    };
    const open = {
      TableName: this.segmentTable,
      Key: segmentKey(log, segment + 1),
      ConditionExpression: 'attribute_not_exists(S)',
    };
    return this.requests.transact([{ Update: change }, { ConditionCheck: open }]);
  }

  async updateAttributes(log: LogId, position: Position, update: AttributeUpdate): Promise<StoredItem | undefined> {
    const key = entryKey(log, position);
    const change = { TableName: this.entryTable, Key: key, ...attributeChange(update) };
    const open = {
      TableName: this.segmentTable,
      Key: segmentKey(log, position.segment + 1),
      ConditionExpression: 'attribute_not_exists(S)',
    };
    const failed = await this.requests.transactOrFail([{ Update: change }, { ConditionCheck: open }]);
    if (failed.length === 0) return undefined;
    if (failed.some(({ write }) => write === 1)) throw segmentClosed(log, position);
    const [{ item } = {}] = failed;
    if (item === undefined) throw new EntryNotFoundError('the entry does not exist', { log, ...position });
    return item;
  }

  async completeSnapshot(log: LogId, position: Position, root: RootRef, id?: Uint8Array): Promise<RootRef | undefined> {
    const { name, value } = rootAttribute(root);
    const isEntry = id === undefined ? '' : ' AND I = :id';
    const written = await this.requests.update({
      TableName: this.entryTable,
      Key: entryKey(log, position),
      UpdateExpression: `SET ${name} = :root`,
      ConditionExpression: `attribute_exists(S) AND attribute_not_exists(E) AND (attribute_not_exists(B) OR attribute_type(B, :null))${isEntry}`,
      ExpressionAttributeValues: {
        ':root': value,
        ':null': { S: 'NULL' },
        ...(id !== undefined && { ':id': { B: id } }),
      },
    });
    if (written) return root;
    const where = { log, segment: position.segment, entry: position.entry };
    const entry = await this.getEntry(log, position, { consistent: true });
    if (entry === undefined || !hasId(entry, id)) throw new EntryNotFoundError('the entry does not exist', where);
    return carriedRef(entry);
  }

  async replaceRoot(log: LogId, position: Position, from: RootRef, to: RootRef): Promise<boolean> {
    const replace = { TableName: this.entryTable, Key: entryKey(log, position), ...rootChange(from, to) };
    const notArchived = {
      TableName: this.segmentTable,
      Key: segmentKey(log, position.segment),
      ConditionExpression: 'attribute_exists(S) AND attribute_not_exists(A)',
    };
    if (await this.requests.transact([{ Update: replace }, { ConditionCheck: notArchived }])) return true;
    const entry = await this.getEntry(log, position, { consistent: true });
    if (entry === undefined) {
      const where = { log, segment: position.segment, entry: position.entry };
      throw new EntryNotFoundError('the entry does not exist', where);
    }
    // Another process may have written the same root.
    const carried = carriedRef(entry);
    return carried !== undefined && sameRoot(carried, to);
  }

  async advanceLastSnapshot(log: LogId, to: LastSnapshot, from?: LastSnapshot): Promise<boolean> {
    const { segment } = to.position;
    const same = sameAttributes(from === undefined ? {} : lastSnapshotAttributes(from), LAST_SNAPSHOT_NAMES);
    const change = changeAttributes(lastSnapshotAttributes(to), LAST_SNAPSHOT_NAMES);
    const written = await this.requests.update({
      TableName: this.segmentTable,
      Key: segmentKey(log, segment),
      UpdateExpression: change.expression,
      ConditionExpression: `attribute_exists(S) AND ${same.condition} AND attribute_not_exists(A)`,
      ExpressionAttributeValues: { ...same.values, ...change.values },
    });
    if (written) return true;
    if ((await this.getSegment(log, segment, { consistent: true })) !== undefined) return false;
    throw new SegmentNotFoundError('the segment does not exist', { log, segment });
  }

  isRetryable(error: unknown): boolean {
    return isRetryable(error);
  }

  /** The items of a range of entries, page by page, without empty pages. */
  async *#range<T>(
    log: LogId,
    { segment, from, to }: SegmentRange,
    { consistent, onPage }: RangeOptions,
    decoder: ItemDecoder<T>,
  ): AsyncGenerator<T[]> {
    if (from >= to) return;
    const first = entryKey(log, { segment, entry: from });
    const last = entryKey(log, { segment, entry: to - 1 });
    const input = {
      TableName: this.entryTable,
      KeyConditionExpression: 'S = :s AND N BETWEEN :first AND :last',
      ExpressionAttributeValues: { ':s': first.S, ':first': first.N, ':last': last.N },
      ConsistentRead: consistent,
    };
    for await (const { items, bytes, attempts } of this.requests.queryPages(input, decoder)) {
      if (bytes !== undefined) onPage?.({ items: items.length, bytes, attempts });
      if (items.length > 0) yield items;
    }
  }

  /**
   * Creates items. An earlier attempt of the same request may have created them and lost its
   * answer. One entry with its own id proves that for all items, since a transaction writes all or
   * nothing. The token of a transaction cannot replace the id, because DynamoDB forgets it after
   * ten minutes.
   * @returns whether this request created the items, in this or an earlier attempt
   */
  async #create(items: readonly NewItem[], entries: readonly Entry[]): Promise<boolean> {
    const creation = await this.requests.create(items);
    return creation.written || hasOwn(creation, entries);
  }

  /** The condition that a segment does not carry attributes of the log that have changed. */
  #sameAttributes({ segment, endedAttributes }: StartedSegment): ConditionCheck[] {
    if (segment.attributes === undefined) return [];
    const { condition, values } = sameLogAttributes(endedAttributes);
    return [
      {
        TableName: this.segmentTable,
        Key: segmentKey(segment.log, segment.segment - 1),
        ConditionExpression: condition,
        ...(endedAttributes !== undefined && { ExpressionAttributeValues: values }),
      },
    ];
  }

  #newEntry(entry: Entry): NewItem {
    return { table: this.entryTable, item: encodeEntry(entry) };
  }

  #newSegment(segment: Segment): NewItem {
    return { table: this.segmentTable, item: encodeSegment(segment) };
  }
}

/** The condition that a segment has these attributes of its log. */
function sameLogAttributes(attributes: Item | undefined): { readonly condition: string; readonly values: Item } {
  if (attributes === undefined) return { condition: 'attribute_not_exists(M)', values: {} };
  return { condition: 'M = :same', values: { ':same': { M: attributes } } };
}

/** Whether one of the existing items is one of the entries. */
function hasOwn({ existing }: { readonly existing: readonly StoredItem[] }, entries: readonly Entry[]): boolean {
  return existing.some((item) => entries.some((entry) => isOwnItem(item, entry)));
}

/** The error if entries of others exist: it names the first entry of the log that has one. */
function conflictOf(entries: readonly Entry[], existing: readonly StoredItem[]): EntryExistsError {
  const taken = existing.map(entryPlace);
  const [first] = entries.filter(({ log }) => taken.length === 0 || taken.some((place) => place.log === log));
  const reason = entries.length === 1 ? 'the entry already exists' : 'one of the entries already exists';
  return new EntryExistsError(reason, { log: first?.log, ...first?.position });
}

/** Conditions under which entries that were not read are as expected. */
function unreadEntries(table: string, { log, after, count, types }: UnreadEntries): ConditionCheck[] {
  return Array.from({ length: count }, (_, i) => {
    const { position, number } = endAfter(after, i + 1);
    return {
      TableName: table,
      Key: entryKey(log, position),
      ConditionExpression: `attribute_exists(S) AND NOT (T IN (:snapshot, :end)) AND ${number === undefined ? 'attribute_not_exists(Q)' : 'Q = :number'}`,
      ExpressionAttributeValues: {
        ':snapshot': { S: types.snapshot },
        ':end': { S: types.endSegment },
        ...(number !== undefined && { ':number': { N: String(number) } }),
      },
    };
  });
}
