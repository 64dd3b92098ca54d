import { isDeepStrictEqual } from 'node:util';
import {
  type ConsumedCapacity,
  type DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  QueryCommand,
  type QueryCommandInput,
  type QueryCommandOutput,
  ScanCommand,
  type ScanCommandOutput,
  type TransactWriteItem,
  TransactWriteItemsCommand,
  UpdateItemCommand,
  type UpdateItemCommandInput,
} from '@aws-sdk/client-dynamodb';
import { EntryExistsError, EntryNotFoundError, ItemInvalidError, SegmentNotFoundError, type Where } from '../errors.ts';
import type { AttributeValue, Item, StoredItem } from '../log/attribute.ts';
import type { Entry } from '../log/entry.ts';
import {
  decodeEntry,
  decodeSegment,
  encodeEntry,
  encodeSegment,
  entryKey,
  type PrimaryKey,
  segmentKey,
} from '../log/item-codec.ts';
import { checkWriteSize } from '../log/item-size.ts';
import type { LogId } from '../log/log-id.ts';
import type { Consistency, LogStore } from '../log/log-store.ts';
import type { Position } from '../log/position.ts';
import { type RootRef, rootOf, sameRoot } from '../log/root-ref.ts';
import type { Segment } from '../log/segment.ts';
import { conditionFailed, isRetryable, sentMoreThanOnce, translateDynamoDbError } from './dynamodb-error.ts';

export { isRetryable } from './dynamodb-error.ts';

/** What requests cost, in request units: told once for each request that succeeded, with DynamoDB's name for it. */
export type Meter = (op: string, consumed: { readonly readUnits: number; readonly writeUnits: number }) => void;

export interface DynamoDbLogStoreOptions {
  readonly client: DynamoDBClient;
  readonly entryTable: string;
  readonly segmentTable: string;
  readonly meter?: Meter | undefined;
}

const NOT_EXISTS = 'attribute_not_exists(S)';

/**
 * The log in DynamoDB. Retries after throttling and lost connections are the client's.
 *
 * Every method throws ResourceMissingError where a table does not exist, and CredentialsError where there are no
 * credentials or AWS refuses them.
 */
export class DynamoDbLogStore implements LogStore {
  readonly #client: DynamoDBClient;
  readonly #entryTable: string;
  readonly #segmentTable: string;
  readonly #meter: Meter | undefined;

  constructor(options: DynamoDbLogStoreOptions) {
    this.#client = options.client;
    this.#entryTable = options.entryTable;
    this.#segmentTable = options.segmentTable;
    this.#meter = options.meter;
  }

  async createLog(segment: Segment, first: Entry): Promise<void> {
    const puts = [
      this.#put(this.#segmentTable, encodeSegment(segment)),
      this.#put(this.#entryTable, encodeEntry(first)),
    ];
    await this.#transact(puts, 'The log exists already', { log: segment.log });
  }

  async newestSegments(log: LogId, limit: number, { consistent }: Consistency): Promise<Segment[]> {
    const items = await this.#newest(this.#segmentTable, segmentKey(log, 0), { limit, consistent });
    return items.map(decodeSegment);
  }

  async getSegment(log: LogId, segment: number, { consistent }: Consistency): Promise<Segment | undefined> {
    const item = await this.#get(this.#segmentTable, segmentKey(log, segment), consistent);
    return item && decodeSegment(item);
  }

  async *segments(log: LogId): AsyncGenerator<Segment> {
    const values = { ':s': segmentKey(log, 0).S };
    const pages = this.#queryPages({
      TableName: this.#segmentTable,
      KeyConditionExpression: 'S = :s',
      ExpressionAttributeValues: values,
    });
    for await (const items of pages) yield* items.map(decodeSegment);
  }

  async *allSegments(): AsyncGenerator<Segment> {
    let start: ScanCommandOutput['LastEvaluatedKey'];
    do {
      const input = {
        TableName: this.#segmentTable,
        ExclusiveStartKey: start,
        ReturnConsumedCapacity: 'TOTAL',
      } as const;
      const output = await this.#send([this.#segmentTable], () => this.#client.send(new ScanCommand(input)));
      this.#count('Scan', 'read', [output.ConsumedCapacity]);
      yield* (output.Items ?? []).map(decodeSegment);
      start = output.LastEvaluatedKey;
    } while (start !== undefined);
  }

  async newestEntry(log: LogId, segment: number, { consistent }: Consistency): Promise<Entry | undefined> {
    const key = entryKey(log, { segment, entry: 0 });
    const [item] = await this.#newest(this.#entryTable, key, { limit: 1, consistent });
    return item && decodeEntry(item);
  }

  async getEntry(log: LogId, position: Position, { consistent }: Consistency): Promise<Entry | undefined> {
    const item = await this.#get(this.#entryTable, entryKey(log, position), consistent);
    return item && decodeEntry(item);
  }

  async *entries(
    log: LogId,
    range: { readonly segment: number; readonly from: number; readonly to: number },
    { consistent }: Consistency,
  ): AsyncGenerator<Entry[]> {
    const { segment, from, to } = range;
    if (from >= to) return;
    const first = entryKey(log, { segment, entry: from });
    const last = entryKey(log, { segment, entry: to - 1 });
    const pages = this.#queryPages({
      TableName: this.#entryTable,
      KeyConditionExpression: 'S = :s AND N BETWEEN :first AND :last',
      ExpressionAttributeValues: { ':s': first.S, ':first': first.N, ':last': last.N },
      ConsistentRead: consistent,
    });
    for await (const items of pages) if (items.length > 0) yield items.map(decodeEntry);
  }

  async putEntries(entries: readonly Entry[]): Promise<void> {
    const items = entries.map(encodeEntry);
    checkWriteSize(items);
    const [entry] = entries;
    const [item] = items;
    if (entry === undefined || item === undefined) return;
    if (items.length === 1) return this.#putEntry(entry, item);
    const puts = items.map((each) => this.#put(this.#entryTable, each));
    const { segment, entry: number } = entry.position;
    await this.#transact(puts, 'One of the entries exists already', { log: entry.log, segment, entry: number });
  }

  async startSegment(items: { readonly end: Entry; readonly segment: Segment; readonly first: Entry }): Promise<void> {
    const { end, segment, first } = items;
    const puts = [
      this.#put(this.#entryTable, encodeEntry(end)),
      this.#put(this.#segmentTable, encodeSegment(segment)),
      this.#put(this.#entryTable, encodeEntry(first)),
    ];
    await this.#transact(puts, 'The segment has gone on or ended already', {
      log: end.log,
      segment: end.position.segment,
    });
  }

  async completeSnapshot(log: LogId, position: Position, root: RootRef): Promise<RootRef> {
    const { name, value } = rootAttribute(root);
    const written = await this.#update({
      TableName: this.#entryTable,
      Key: entryKey(log, position),
      UpdateExpression: `SET ${name} = :root`,
      ConditionExpression:
        'attribute_exists(S) AND attribute_not_exists(E) AND (attribute_not_exists(B) OR attribute_type(B, :null))',
      ExpressionAttributeValues: { ':root': value, ':null': { S: 'NULL' } },
    });
    if (written) return root;
    const where = { log, segment: position.segment, entry: position.entry };
    const entry = await this.getEntry(log, position, { consistent: true });
    if (entry === undefined) throw new EntryNotFoundError('There is no such entry', where);
    const existing = rootOf(entry);
    if (existing === undefined) throw new ItemInvalidError("Attribute 'B' of a Snapshot entry is no root", where);
    return existing;
  }

  async replaceRoot(log: LogId, position: Position, from: RootRef, to: RootRef): Promise<boolean> {
    const [old, fresh] = [rootAttribute(from), rootAttribute(to)];
    const written = await this.#update({
      TableName: this.#entryTable,
      Key: entryKey(log, position),
      // An item that has both attributes has two bodies, and is invalid.
      UpdateExpression: old.name === fresh.name ? 'SET #to = :to' : 'SET #to = :to REMOVE #from',
      ConditionExpression: '#from = :from',
      ExpressionAttributeNames: { '#from': old.name, '#to': fresh.name },
      ExpressionAttributeValues: { ':from': old.value, ':to': fresh.value },
    });
    if (written) return true;
    const entry = await this.getEntry(log, position, { consistent: true });
    if (entry === undefined) {
      const where = { log, segment: position.segment, entry: position.entry };
      throw new EntryNotFoundError('There is no such entry', where);
    }
    // It does where an answer was lost and the SDK sent the request again.
    const carried = rootOf(entry);
    return carried !== undefined && sameRoot(carried, to);
  }

  async advanceLastSnapshot(log: LogId, position: Position): Promise<boolean> {
    const written = await this.#update({
      TableName: this.#segmentTable,
      Key: segmentKey(log, position.segment),
      UpdateExpression: 'SET L = :n',
      ConditionExpression: 'attribute_exists(S) AND (attribute_not_exists(L) OR L < :n)',
      ExpressionAttributeValues: { ':n': { N: String(position.entry) } },
    });
    if (written) return true;
    const segment = await this.getSegment(log, position.segment, { consistent: true });
    if (segment === undefined) {
      throw new SegmentNotFoundError('There is no such segment', { log, segment: position.segment });
    }
    return false;
  }

  isRetryable(error: unknown): boolean {
    return isRetryable(error);
  }

  async #putEntry(entry: Entry, item: Item): Promise<void> {
    const input = {
      TableName: this.#entryTable,
      Item: item,
      ConditionExpression: NOT_EXISTS,
      ReturnConsumedCapacity: 'TOTAL',
    } as const;
    const { log, position } = entry;
    try {
      const output = await this.#send([this.#entryTable], () => this.#client.send(new PutItemCommand(input)));
      this.#count('PutItem', 'write', [output.ConsumedCapacity]);
    } catch (error) {
      if (!conditionFailed(error)) throw error;
      // Where an answer was lost and the SDK sent the request again, the entry that stands in the way is our own.
      // Without this the caller would append it a second time. (A transaction has a token for the same purpose.)
      if (sentMoreThanOnce(error)) {
        const stored = await this.getEntry(log, position, { consistent: true });
        if (isDeepStrictEqual(stored, decodeEntry(item))) return;
      }
      const where = { log, segment: position.segment, entry: position.entry };
      throw new EntryExistsError('The entry exists already', { ...where, cause: error });
    }
  }

  #put(table: string, item: Item): TransactWriteItem {
    return { Put: { TableName: table, Item: item, ConditionExpression: NOT_EXISTS } };
  }

  async #transact(writes: TransactWriteItem[], conflict: string, where: Where): Promise<void> {
    const input = { TransactItems: writes, ReturnConsumedCapacity: 'TOTAL' } as const;
    try {
      const output = await this.#send([this.#entryTable, this.#segmentTable], () =>
        this.#client.send(new TransactWriteItemsCommand(input)),
      );
      this.#count('TransactWriteItems', 'write', output.ConsumedCapacity ?? []);
    } catch (error) {
      throw conditionFailed(error) ? new EntryExistsError(conflict, { ...where, cause: error }) : error;
    }
  }

  /** Whether the condition held. */
  async #update(input: UpdateItemCommandInput & { readonly TableName: string }): Promise<boolean> {
    try {
      const command = new UpdateItemCommand({ ...input, ReturnConsumedCapacity: 'TOTAL' });
      const output = await this.#send([input.TableName], () => this.#client.send(command));
      this.#count('UpdateItem', 'write', [output.ConsumedCapacity]);
      return true;
    } catch (error) {
      if (conditionFailed(error)) return false;
      throw error;
    }
  }

  async #get(table: string, key: Item, consistent: boolean): Promise<StoredItem | undefined> {
    const input = { TableName: table, Key: key, ConsistentRead: consistent, ReturnConsumedCapacity: 'TOTAL' } as const;
    const output = await this.#send([table], () => this.#client.send(new GetItemCommand(input)));
    this.#count('GetItem', 'read', [output.ConsumedCapacity]);
    return output.Item;
  }

  /** The items with the highest sort keys beside the given one, highest first. */
  async #newest(
    table: string,
    key: PrimaryKey,
    { limit, consistent }: { readonly limit: number; readonly consistent: boolean },
  ): Promise<StoredItem[]> {
    const output = await this.#query({
      TableName: table,
      KeyConditionExpression: 'S = :s',
      ExpressionAttributeValues: { ':s': key.S },
      ScanIndexForward: false,
      Limit: limit,
      ConsistentRead: consistent,
    });
    return output.Items ?? [];
  }

  async *#queryPages(input: QueryCommandInput & { readonly TableName: string }): AsyncGenerator<StoredItem[]> {
    let start: QueryCommandOutput['LastEvaluatedKey'];
    do {
      const output = await this.#query({ ...input, ExclusiveStartKey: start });
      yield output.Items ?? [];
      start = output.LastEvaluatedKey;
    } while (start !== undefined);
  }

  async #query(input: QueryCommandInput & { readonly TableName: string }): Promise<QueryCommandOutput> {
    const command = new QueryCommand({ ...input, ReturnConsumedCapacity: 'TOTAL' });
    const output = await this.#send([input.TableName], () => this.#client.send(command));
    this.#count('Query', 'read', [output.ConsumedCapacity]);
    return output;
  }

  async #send<T>(tables: readonly string[], request: () => Promise<T>): Promise<T> {
    try {
      return await request();
    } catch (error) {
      throw translateDynamoDbError(error, tables);
    }
  }

  #count(op: string, kind: 'read' | 'write', consumed: readonly (ConsumedCapacity | undefined)[]): void {
    const units = consumed.reduce((sum, table) => sum + (table?.CapacityUnits ?? 0), 0);
    this.#meter?.(op, kind === 'read' ? { readUnits: units, writeUnits: 0 } : { readUnits: 0, writeUnits: units });
  }
}

/** The attribute of a Snapshot entry's item that carries a root. */
function rootAttribute(root: RootRef): { readonly name: 'B' | 'E'; readonly value: AttributeValue } {
  return 'key' in root ? { name: 'E', value: { S: root.key } } : { name: 'B', value: { B: root.inline } };
}
