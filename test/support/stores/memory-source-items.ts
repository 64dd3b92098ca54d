import { scanPartOf } from '../../../src/adapters/memory/table.ts';
import { encodeItemLine } from '../../../src/archive/item-line.ts';
import { type Item, plainItem } from '../../../src/log/attribute.ts';
import { checkWriteSize } from '../../../src/log/item-size.ts';
import type { SourceItems, SourcePage } from '../../../src/revisions/source-table.ts';
import type { ItemScanPart } from '../../../src/store/scan-places.ts';

export interface MemorySourceItemsOptions {
  /** Attributes of the primary key. */
  readonly keyNames: readonly string[];
  /** Items per page, 1000 by default. */
  readonly pageItems?: number;
  /** Epoch milliseconds by the clock of the table, which is always right; 0 by default. */
  readonly now?: () => number;
}

/** A plain table in memory: the reference for every other one. Every read is consistent. */
export class MemorySourceItems implements SourceItems {
  readonly #keyNames: readonly string[];
  readonly #pageItems: number;
  readonly #items = new Map<string, Item>();
  readonly serviceTime: () => number;

  constructor({ keyNames, pageItems = 1000, now = () => 0 }: MemorySourceItemsOptions) {
    this.#keyNames = keyNames;
    this.#pageItems = pageItems;
    this.serviceTime = now;
  }

  /**
   * Writes an item as the application does.
   * @returns the item before the change
   */
  put(item: Item): Item | undefined {
    checkWriteSize([item]);
    return this.#replace(item, structuredClone(item));
  }

  /**
   * Deletes an item as the application does, or as TTL does.
   * @returns the item before the change
   */
  delete(keys: Item): Item | undefined {
    return this.#replace(keys, undefined);
  }

  async *scan({ index, of, after }: ItemScanPart): AsyncGenerator<SourcePage> {
    for (let start = after ?? ''; ; ) {
      const from = start;
      const keys = [...this.#items.keys()].filter((key) => scanPartOf(key, of) === index && from < key).sort();
      const page = keys.slice(0, this.#pageItems);
      const last = page.at(-1);
      if (last === undefined) return;
      yield { items: page.flatMap((key) => this.#copiesOf(key)), next: last };
      start = last;
    }
  }

  async get(keys: readonly Item[]): Promise<readonly (Item | undefined)[]> {
    return keys.map((each) => structuredClone(this.#items.get(this.#keyOf(each))));
  }

  #copiesOf(key: string): Item[] {
    const item = this.#items.get(key);
    return item === undefined ? [] : [structuredClone(item)];
  }

  #replace(keys: Item, item: Item | undefined): Item | undefined {
    const key = this.#keyOf(keys);
    const before = this.#items.get(key);
    if (item === undefined) this.#items.delete(key);
    else this.#items.set(key, item);
    return before;
  }

  #keyOf(item: Item): string {
    return encodeItemLine(plainItem(item, this.#keyNames));
  }
}
