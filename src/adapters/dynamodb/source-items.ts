import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { decodeItemLine, encodeItemLine } from '../../archive/item-line.ts';
import { type Item, plainItem, type StoredItem } from '../../log/attribute.ts';
import { storedItems } from '../../log/item-json.ts';
import type { SourceItems, SourcePage } from '../../revisions/source-table.ts';
import type { ItemScanPart } from '../../store/scan-places.ts';
import { DynamoDbRequests, type Meter } from './requests.ts';

export interface DynamoDbSourceItemsOptions {
  readonly client: DynamoDBClient;
  readonly table: string;
  /** Attributes of the primary key. */
  readonly keyNames: readonly string[];
  readonly meter?: Meter;
}

/** A plain table in DynamoDB. */
export class DynamoDbSourceItems implements SourceItems {
  readonly #client: DynamoDBClient;
  readonly #requests: DynamoDbRequests;
  readonly #table: string;
  readonly #keyNames: readonly string[];

  constructor(options: DynamoDbSourceItemsOptions) {
    this.#client = options.client;
    this.#requests = new DynamoDbRequests(options);
    this.#table = options.table;
    this.#keyNames = options.keyNames;
  }

  async *scan({ index, of, after }: ItemScanPart): AsyncGenerator<SourcePage> {
    const input = {
      TableName: this.#table,
      Segment: index,
      TotalSegments: of,
      ExclusiveStartKey: after === undefined ? undefined : decodeItemLine(after),
    };
    for await (const { items } of this.#requests.scanPages(input, storedItems)) {
      const last = items.at(-1);
      if (last !== undefined) yield { items: items.map((item) => plainItem(item)), next: this.#keyOf(last) };
    }
  }

  async get(keys: readonly Item[]): Promise<readonly (Item | undefined)[]> {
    const names = keys.map((each) => this.#keyOf(each));
    // DynamoDB refuses a key that is named twice.
    const different = [...new Map(keys.map((each, i) => [names[i], plainItem(each, this.#keyNames)])).values()];
    const items = await this.#requests.batchGet(this.#table, different);
    const found = new Map(items.map((item) => [this.#keyOf(item), plainItem(item)]));
    return names.map((name) => found.get(name));
  }

  serviceTime(): number {
    // The SDK learns the difference from the date of each answer, because DynamoDB refuses requests
    // of a machine whose clock is wrong by a few minutes.
    return Date.now() + this.#client.config.systemClockOffset;
  }

  #keyOf(item: StoredItem): string {
    return encodeItemLine(plainItem(item, this.#keyNames));
  }
}
