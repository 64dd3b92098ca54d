import { setTimeout as sleep } from 'node:timers/promises';
import {
  type AttributeValue,
  BatchGetItemCommand,
  BatchWriteItemCommand,
  type ConditionCheck,
  type ConsumedCapacity,
  type DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  QueryCommand,
  type QueryCommandInput,
  type QueryCommandOutput,
  ScanCommand,
  type ScanCommandInput,
  type TransactWriteItem,
  TransactWriteItemsCommand,
  UpdateItemCommand,
  type UpdateItemCommandInput,
  type WriteRequest,
} from '@aws-sdk/client-dynamodb';
import { StoreUnavailableError } from '../../errors.ts';
import type { Item, StoredItem } from '../../log/attribute.ts';
import { type RetryLimits, type RetryOptions, retry } from '../../log/backoff.ts';
import type { PrimaryKey } from '../../log/item-codec.ts';
import { type ItemDecoder, storedItems } from '../../log/item-json.ts';
import {
  conditionFailed,
  existingItems,
  type FailedWrite,
  failedWrites,
  namesOfTables,
  translateDynamoDbError,
} from '../aws/dynamodb-error.ts';
import { exactAnswer } from './exact-answer.ts';
import { type ItemPage, pageReader } from './page-reader.ts';

/**
 * Called once for each successful request, with DynamoDB's name of the operation and the request
 * units.
 */
export type Meter = (op: string, consumed: { readonly readUnits: number; readonly writeUnits: number }) => void;

type OfTable<T> = T & { readonly TableName: string };

export interface DynamoDbRequestsOptions {
  readonly client: DynamoDBClient;
  readonly meter?: Meter;
  /**
   * Attempts to send what DynamoDB leaves unprocessed or delays. Ten by default, which take up to
   * ten seconds.
   */
  readonly batchRetries?: RetryLimits;
}

/** Operations that use read units; all others use write units. */
const READS: ReadonlySet<string> = new Set(['GetItem', 'Query', 'Scan', 'BatchGetItem']);

const NOT_EXISTS = 'attribute_not_exists(S)';
/** The most items that a query of the newest ones asks for. */
const MAX_NEWEST_ITEMS = 1000;
const BATCH_RETRIES: RetryLimits = { attempts: 10, baseMs: 50, capMs: 2_000 };

/** DynamoDB processed only part of a batch because throughput was short. */
class UnprocessedError extends StoreUnavailableError {}

export interface NewItem {
  readonly table: string;
  readonly item: Item;
  /** Attribute of the partition key; `S` by default. */
  readonly partitionKey?: string;
}

/**
 * The result of creating items: all were written, or none because some of them exist or a further
 * condition does not hold.
 */
export type Creation =
  | { readonly written: true }
  | {
      readonly written: false;
      readonly existing: readonly StoredItem[];
      /** Whether none of the items exists, so that only a further condition does not hold. */
      readonly isFree: boolean;
    };

/**
 * Sends requests to DynamoDB and meters them. Translates errors, and returns failed conditions as
 * results.
 */
export class DynamoDbRequests {
  readonly #client: DynamoDBClient;
  readonly #meter: Meter | undefined;
  readonly #batchRetries: RetryLimits;

  constructor(options: DynamoDbRequestsOptions) {
    this.#client = options.client;
    this.#meter = options.meter;
    this.#batchRetries = options.batchRetries ?? BATCH_RETRIES;
  }

  async get(table: string, key: Item, consistent: boolean): Promise<StoredItem | undefined> {
    const input = { TableName: table, Key: key, ConsistentRead: consistent, ReturnConsumedCapacity: 'TOTAL' } as const;
    const command = new GetItemCommand(input);
    exactAnswer(command, namesOfTables([table]));
    const output = await this.#metered('GetItem', [table], () => this.#client.send(command));
    return output.Item;
  }

  /**
   * The items with the highest sort keys in the partition of `key`, highest first, with all or the
   * named attributes.
   */
  async newest(
    table: string,
    key: PrimaryKey,
    {
      limit,
      consistent,
      attributes,
    }: { readonly limit: number; readonly consistent: boolean; readonly attributes?: readonly string[] },
  ): Promise<StoredItem[]> {
    const input = {
      TableName: table,
      KeyConditionExpression: 'S = :s',
      ExpressionAttributeValues: { ':s': key.S },
      ProjectionExpression: attributes?.join(', '),
      ScanIndexForward: false,
      Limit: Math.min(limit, MAX_NEWEST_ITEMS),
      ConsistentRead: consistent,
    };
    const found: StoredItem[] = [];
    for await (const { items } of this.queryPages(input, storedItems)) {
      found.push(...items);
      if (found.length >= limit) break;
    }
    return found.slice(0, limit);
  }

  /** The pages of a partition, as many as the caller takes. */
  async *queryPages<T>(
    input: OfTable<QueryCommandInput>,
    decoder: ItemDecoder<T>,
  ): AsyncGenerator<ItemPage<T>, undefined> {
    let start = input.ExclusiveStartKey;
    do {
      const { page, next } = await this.#query({ ...input, ExclusiveStartKey: start }, decoder);
      yield page;
      start = next;
    } while (start !== undefined);
  }

  /** The pages of a table or of one part of it, as many as the caller takes. */
  async *scanPages<T>(
    input: OfTable<ScanCommandInput>,
    decoder: ItemDecoder<T>,
  ): AsyncGenerator<ItemPage<T>, undefined> {
    let start = input.ExclusiveStartKey;
    do {
      const command = new ScanCommand({ ...input, ExclusiveStartKey: start, ReturnConsumedCapacity: 'TOTAL' });
      const page = pageReader(command, decoder);
      const output = await this.#metered('Scan', [input.TableName], () => this.#client.send(command));
      yield page(output);
      start = output.LastEvaluatedKey;
    } while (start !== undefined);
  }

  /**
   * Creates items if none of their keys exists: a single one by itself, several in one transaction.
   * DynamoDB returns the existing items, which costs no read units.
   * @param checks further conditions, in the same transaction
   */
  async create(items: readonly NewItem[], checks: readonly ConditionCheck[] = []): Promise<Creation> {
    try {
      await this.#putNew(items, checks);
      return { written: true };
    } catch (error) {
      if (!(error instanceof Error && conditionFailed(error))) throw error;
      const failed = failedWrites(error);
      const isFree = failed.length > 0 && failed.every(({ write }) => write >= items.length);
      return { written: false, existing: existingItems(error), isFree };
    }
  }

  async #putNew(items: readonly NewItem[], checks: readonly ConditionCheck[]): Promise<void> {
    const puts = items.map(({ table, item, partitionKey }) => ({
      TableName: table,
      Item: item,
      ...(partitionKey === undefined
        ? { ConditionExpression: NOT_EXISTS }
        : {
            ConditionExpression: 'attribute_not_exists(#p)',
            ExpressionAttributeNames: { '#p': partitionKey },
          }),
      ReturnValuesOnConditionCheckFailure: 'ALL_OLD' as const,
    }));
    const [put, ...others] = puts;
    if (put === undefined) return;
    if (others.length + checks.length > 0) {
      return this.#transact([...puts.map((Put) => ({ Put })), ...checks.map((ConditionCheck) => ({ ConditionCheck }))]);
    }
    const command = new PutItemCommand({ ...put, ReturnConsumedCapacity: 'TOTAL' });
    exactAnswer(command, namesOfTables([put.TableName]));
    await this.#metered('PutItem', [put.TableName], () => this.#client.send(command));
  }

  /** @returns whether the condition held */
  async update(input: OfTable<UpdateItemCommandInput>): Promise<boolean> {
    const command = new UpdateItemCommand({ ...input, ReturnConsumedCapacity: 'TOTAL' });
    exactAnswer(command, namesOfTables([input.TableName]));
    return this.#ifConditionsHold(async () => {
      await this.#metered('UpdateItem', [input.TableName], () => this.#client.send(command));
    });
  }

  /**
   * Updates an item if the condition holds.
   * @returns the item afterwards, which is empty if the condition requires an item that does not
   * exist
   */
  async change(input: OfTable<UpdateItemCommandInput>): Promise<StoredItem> {
    const command = new UpdateItemCommand({
      ...input,
      ReturnValues: 'ALL_NEW',
      ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
      ReturnConsumedCapacity: 'TOTAL',
    });
    exactAnswer(command, namesOfTables([input.TableName]));
    try {
      const output = await this.#metered('UpdateItem', [input.TableName], () => this.#client.send(command));
      return output.Attributes ?? {};
    } catch (error) {
      if (conditionFailed(error)) return existingItems(error)[0] ?? {};
      throw error;
    }
  }

  /** All of the writes or none. @returns whether all conditions held */
  async transact(writes: TransactWriteItem[]): Promise<boolean> {
    return this.#ifConditionsHold(() => this.#transact(writes));
  }

  /** All of the writes or none. @returns the writes whose conditions did not hold */
  async transactOrFail(writes: TransactWriteItem[]): Promise<readonly FailedWrite[]> {
    try {
      await this.#transact(writes);
      return [];
    } catch (error) {
      if (error instanceof Error && conditionFailed(error)) return failedWrites(error);
      throw error;
    }
  }

  async #transact(writes: TransactWriteItem[]): Promise<void> {
    const names = writes.map(({ Put, Update, Delete, ConditionCheck }) => {
      return (Put ?? Update ?? Delete ?? ConditionCheck)?.TableName ?? '';
    });
    const tables = [...new Set(names)];
    const command = new TransactWriteItemsCommand({ TransactItems: writes, ReturnConsumedCapacity: 'TOTAL' });
    exactAnswer(command, namesOfTables(tables));
    await this.#metered('TransactWriteItems', tables, () => this.#client.send(command));
  }

  /**
   * Puts and deletes items without conditions, in no order. Sends unprocessed items again.
   * @throws AttemptsExhaustedError if items stay unprocessed; the caller may repeat the whole batch
   */
  async batchWrite(table: string, writes: readonly WriteRequest[]): Promise<void> {
    let left = [...writes];
    const retryable = (error: unknown) => error instanceof UnprocessedError;
    const failure = `Writing ${writes.length} items to table '${table}' failed`;
    await this.retry({ retryable, failure }, async () => {
      if (left.length === 0) return;
      const command = new BatchWriteItemCommand({ RequestItems: { [table]: left }, ReturnConsumedCapacity: 'TOTAL' });
      exactAnswer(command, namesOfTables([table]));
      const output = await this.#metered('BatchWriteItem', [table], () => this.#client.send(command));
      left = output.UnprocessedItems?.[table] ?? [];
      if (left.length > 0) throw new UnprocessedError(`DynamoDB left ${left.length} items unprocessed`);
    });
  }

  /**
   * The items of up to 100 different keys, in no order; missing ones are left out. Consistent. An
   * answer has at most 16 MB, so many large items take several requests.
   * @throws AttemptsExhaustedError if DynamoDB leaves keys unprocessed in every attempt
   */
  async batchGet(table: string, keys: readonly Item[]): Promise<StoredItem[]> {
    const items: StoredItem[] = [];
    let left: Record<string, AttributeValue>[] = [...keys];
    const retryable = (error: unknown) => error instanceof UnprocessedError;
    const failure = `Reading ${keys.length} items of table '${table}' failed`;
    await this.retry({ retryable, failure }, async () => {
      if (left.length === 0) return;
      const RequestItems = { [table]: { Keys: left, ConsistentRead: true } };
      const command = new BatchGetItemCommand({ RequestItems, ReturnConsumedCapacity: 'TOTAL' });
      exactAnswer(command, namesOfTables([table]));
      const output = await this.#metered('BatchGetItem', [table], () => this.#client.send(command));
      items.push(...(output.Responses?.[table] ?? []));
      left = output.UnprocessedKeys?.[table]?.Keys ?? [];
      if (left.length > 0) throw new UnprocessedError(`DynamoDB left ${left.length} keys unprocessed`);
    });
    return items;
  }

  /**
   * Repeats an operation with growing pauses if it fails with a retryable error.
   * @throws AttemptsExhaustedError if every attempt fails
   */
  retry<T>(what: Pick<RetryOptions, 'retryable' | 'failure'>, attempt: () => Promise<T>): Promise<T> {
    return retry({ ...this.#batchRetries, sleep, random: Math.random, ...what }, attempt);
  }

  async #ifConditionsHold(write: () => Promise<void>): Promise<boolean> {
    try {
      await write();
      return true;
    } catch (error) {
      if (conditionFailed(error)) return false;
      throw error;
    }
  }

  async #query<T>(
    input: OfTable<QueryCommandInput>,
    decoder: ItemDecoder<T>,
  ): Promise<{ readonly page: ItemPage<T>; readonly next: QueryCommandOutput['LastEvaluatedKey'] }> {
    const command = new QueryCommand({ ...input, ReturnConsumedCapacity: 'TOTAL' });
    const page = pageReader(command, decoder);
    const output = await this.#metered('Query', [input.TableName], () => this.#client.send(command));
    return { page: page(output), next: output.LastEvaluatedKey };
  }

  /** Sends one request, translates its error, and reports the request units of its answer. */
  async #metered<T extends { readonly ConsumedCapacity?: ConsumedCapacity | ConsumedCapacity[] | undefined }>(
    op: string,
    tables: readonly string[],
    request: () => Promise<T>,
  ): Promise<T> {
    const output = await request().catch((error: unknown) => {
      throw translateDynamoDbError(error, tables);
    });
    const consumed = [output.ConsumedCapacity ?? []].flat();
    const units = consumed.reduce((sum, table) => sum + (table.CapacityUnits ?? 0), 0);
    this.#meter?.(op, READS.has(op) ? { readUnits: units, writeUnits: 0 } : { readUnits: 0, writeUnits: units });
    return output;
  }
}

/** Counts requests to DynamoDB and their request units. */
export class TableMeter {
  requests = 0;
  readUnits = 0;
  writeUnits = 0;

  readonly meter: Meter = (_, { readUnits, writeUnits }) => {
    this.requests++;
    this.readUnits += readUnits;
    this.writeUnits += writeUnits;
  };
}
