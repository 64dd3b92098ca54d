import type { StoredItem } from '../log/attribute.ts';
import type { ItemKind } from './item-kinds.ts';
import { shownItemKey, type TableKeys } from './table-sample.ts';

/** Items that a mapping cannot turn into entries, with one reason. */
export interface Misfit {
  readonly reason: string;
  /** How many items of the sample. */
  readonly count: number;
  /** Keys of some of the items, at most {@link SHOWN_ITEMS}. */
  readonly items: readonly string[];
  /** Whether the mapping works for other logs. */
  readonly othersGoOn: boolean;
}

const SHOWN_ITEMS = 5;

/** Collects items by reason. */
export class Misfits {
  readonly #keys: TableKeys;
  readonly #found = new Map<string, { readonly items: StoredItem[]; readonly othersGoOn: boolean }>();

  constructor(keys: TableKeys) {
    this.#keys = keys;
  }

  add(reason: string, items: readonly StoredItem[], { othersGoOn = true } = {}): void {
    const found = this.#found.get(reason) ?? { items: [], othersGoOn };
    this.#found.set(reason, found);
    found.items.push(...items);
  }

  list(): Misfit[] {
    return Array.from(this.#found, ([reason, { items, othersGoOn }]) => ({
      reason,
      count: items.length,
      items: items.slice(0, SHOWN_ITEMS).map((item) => shownItemKey(this.#keys, item)),
      othersGoOn,
    }));
  }
}

/** The numbers of a log as its sort keys say. */
export interface NumberedItem {
  readonly number: number;
  readonly item: StoredItem;
}

/** The items of a whole partition with their numbers, in order; items without one are left out. */
export function numberedItems(
  items: readonly StoredItem[],
  numberOf: (item: StoredItem) => number | undefined,
): NumberedItem[] {
  return items
    .flatMap((item) => {
      const number = numberOf(item);
      return number === undefined ? [] : [{ number, item }];
    })
    .sort((a, b) => a.number - b.number);
}

/** Reads the number out of the sort key of an item. */
export function numberReader(keys: TableKeys, { sort }: ItemKind): (item: StoredItem) => number | undefined {
  const { name } = keys.sort ?? keys.partition;
  return (item) => {
    const text = sort.form === 'digits' ? digitsIn(item[name]?.S ?? '', sort) : item[name]?.N;
    const number = Number(text);
    return text !== undefined && Number.isSafeInteger(number) && number >= 0 ? number : undefined;
  };
}

/** The digits of a text sort key. */
export function digitsIn(
  text: string,
  { prefix, suffix }: { readonly prefix: string; readonly suffix: string },
): string {
  return text.slice(prefix.length, text.length - suffix.length);
}
