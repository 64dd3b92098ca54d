import type { Value } from '../../codec/value.ts';
import { at } from '../../tree/array.ts';
import type { Item } from '../../tree/read.ts';
import { keyColumn, keyRow } from './cell-key.ts';

/** Restores the order of a binary heap of walks after its first walk moved. */
export function siftDown(heap: StripeWalk[]): void {
  const item = at(heap, 0);
  let index = 0;
  for (;;) {
    let child = 2 * index + 1;
    const [left, right] = [heap[child], heap[child + 1]];
    if (left === undefined) break;
    if (right !== undefined && isBefore(right, left)) child++;
    if (!isBefore(at(heap, child), item)) break;
    heap[index] = at(heap, child);
    index = child;
  }
  heap[index] = item;
}

/** Whether a walk comes first in the heap: it has the lesser row, or the lesser stripe of a tie. */
export function isBefore(a: StripeWalk, b: StripeWalk): boolean {
  return a.row < b.row || (a.row === b.row && a.stripe < b.stripe);
}

/** The cells of one stripe in order of row. `row` is infinite past the last cell. */
export class StripeWalk {
  readonly stripe: number;
  row = Number.POSITIVE_INFINITY;
  column = 0;
  value: Value = null;
  readonly #items: AsyncGenerator<Item>;

  constructor(stripe: number, items: AsyncGenerator<Item>) {
    this.stripe = stripe;
    this.#items = items;
  }

  async advance(): Promise<void> {
    const next = await this.#items.next();
    if (next.done === true) {
      this.row = Number.POSITIVE_INFINITY;
      return;
    }
    const key = Number(next.value.key);
    this.row = keyRow(key);
    this.column = keyColumn(key);
    this.value = next.value.value;
  }
}
