import { isDeepStrictEqual } from 'node:util';
import {
  type AttributeValue,
  DescribeTableCommand,
  type DynamoDBClient,
  PutItemCommand,
  paginateScan,
  UpdateTableCommand,
  UpdateTimeToLiveCommand,
} from '@aws-sdk/client-dynamodb';
import { type LogId, textLogId } from '../../../src/ids/log-id.ts';
import type { MappingDocument } from '../../../src/mapping/schema-mapping.ts';
import { SheetModel } from '../models/sheet-model.ts';
import { createItemTable } from '../stores/item-table.ts';

type DynamoDbItem = Readonly<Record<string, AttributeValue>>;

/** The mapping of {@link OrderTable}. */
export const ORDERS_DOCUMENT = {
  partitionKey: { name: 'pk', type: 'S', pattern: 'order#{id}' },
  sortKey: { name: 'sk', type: 'N', first: 0 },
  type: 'type',
  version: { constant: 1 },
  time: { name: 'ts', format: 'iso' },
  body: 'payload',
  ttl: 'expiresAt',
} as const satisfies MappingDocument;

/** An attribute that an item has otherwise than its application wrote it. */
export interface Difference {
  readonly log: string;
  readonly index: number;
  /** The attributes of the item in the table that differ from the written ones. */
  readonly attributes: DynamoDbItem;
}

/**
 * The table of an application that knows nothing of logfold. Its writer appends to sheets, beside
 * items of something else. It remembers what it wrote.
 */
export class OrderTable {
  readonly name = 'orders';
  /** A log whose items are older than the stream. */
  readonly old = textLogId('an old one');
  readonly #written = new Map<string, DynamoDbItem>();
  readonly #sheets = new Map<LogId, SheetModel>();
  #dynamodb: DynamoDBClient | undefined;

  /**
   * Creates the table, with an old log, and switches its stream on.
   * @returns the ARN of the stream, whose records have only keys
   */
  async create(dynamodb: DynamoDBClient): Promise<string> {
    this.#dynamodb = dynamodb;
    await createItemTable(dynamodb, this.name);
    await dynamodb.send(
      new UpdateTimeToLiveCommand({
        TableName: this.name,
        TimeToLiveSpecification: { Enabled: true, AttributeName: 'expiresAt' },
      }),
    );
    await this.put(this.old, { from: 0, to: 45 });
    const StreamSpecification = { StreamEnabled: true, StreamViewType: 'KEYS_ONLY' } as const;
    await dynamodb.send(new UpdateTableCommand({ TableName: this.name, StreamSpecification }));
    await this.#write({ pk: { S: 'user#1' }, sk: { N: '0' }, name: { S: 'Ada' } });
    const { Table } = await dynamodb.send(new DescribeTableCommand({ TableName: this.name }));
    return Table?.LatestStreamArn ?? '';
  }

  /** Appends the items with these indexes, each of which sets a cell. */
  async put(log: LogId, { from, to }: { readonly from: number; readonly to: number }): Promise<void> {
    const sheet = this.#sheets.get(log) ?? new SheetModel();
    this.#sheets.set(log, sheet);
    for (let index = from; index < to; index++) {
      const text = `${log}, item ${index}`;
      sheet.apply({ type: 'Set', cells: [[index, 0, text]] });
      await this.#write({
        pk: { S: `order#${log}` },
        sk: { N: String(index) },
        type: { S: 'Set' },
        ts: { S: new Date(Date.UTC(2026, 0, 1, 0, index)).toISOString() },
        payload: { L: [{ L: [{ N: String(index) }, { N: '0' }, { S: text }] }] },
        customer: { M: { name: { S: 'Grace' }, tags: { SS: ['a', 'b'] } } },
      });
    }
  }

  /** The rows that all items of a log make. */
  rows(log: LogId): string[][] {
    return this.#sheets.get(log)?.trimmed() ?? [];
  }

  /** Compares every item with the written one. @throws Error if there are other items */
  async differences(): Promise<Difference[]> {
    const items: DynamoDbItem[] = [];
    for await (const { Items = [] } of paginateScan({ client: this.#client }, { TableName: this.name })) {
      items.push(...Items);
    }
    if (items.length !== this.#written.size) throw new Error(`${items.length} items of ${this.#written.size}`);
    return items.flatMap((item) => {
      const written = this.#written.get(nameOf(item)) ?? {};
      const names = new Set([...Object.keys(item), ...Object.keys(written)]);
      const changed = [...names].filter((name) => !isDeepStrictEqual(item[name], written[name]));
      if (changed.length === 0) return [];
      const attributes = Object.fromEntries(changed.map((name) => [name, item[name] ?? { NULL: true }]));
      return { log: (item.pk?.S ?? '').replace('order#', ''), index: Number(item.sk?.N), attributes };
    });
  }

  get #client(): DynamoDBClient {
    if (this.#dynamodb === undefined) throw new Error('the table does not exist');
    return this.#dynamodb;
  }

  async #write(Item: DynamoDbItem): Promise<void> {
    await this.#client.send(new PutItemCommand({ TableName: this.name, Item }));
    this.#written.set(nameOf(Item), Item);
  }
}

function nameOf({ pk, sk }: DynamoDbItem): string {
  return `${pk?.S} ${sk?.N}`;
}
