import type { Arrival } from './arrivals.ts';
import type { Branch, BranchItem } from './branch.ts';

/**
 * The branch of the pending entries that a document shows. Adding an entry, removing the first one
 * and copying the branch take constant time.
 */
export class PendingBranch {
  #at: Arrival;
  /** Grows at its end. Any other change makes another array. */
  #items: BranchItem[] = [];
  /** Number of items at the beginning of the array that were removed. */
  #removed = 0;
  #entries = 0;

  constructor(at: Arrival) {
    this.#at = at;
  }

  get at(): Arrival {
    return this.#at;
  }

  /** The number of entries that the items become. */
  get entries(): number {
    return this.#entries;
  }

  /** The branch as it is now. @param last its last item; all by default */
  copy(last?: BranchItem['unsent']): () => Branch {
    const { at } = this;
    const [items, from] = [this.#items, this.#removed];
    const to = last === undefined ? items.length : items.findIndex(({ unsent }, i) => i >= from && unsent === last) + 1;
    return () => ({ at, items: items.slice(from, to) });
  }

  add(item: BranchItem): void {
    this.#items.push(item);
    this.#entries += countOf(item);
  }

  /** Removes an entry that the log got next. @param at the moment after it */
  remove(unsent: BranchItem['unsent'], at: Arrival): void {
    const first = this.#items[this.#removed];
    if (first?.unsent !== unsent) {
      return this.replace({ at, items: this.copy()().items.filter((item) => item.unsent !== unsent) });
    }
    this.#at = at;
    this.#removed++;
    this.#entries -= countOf(first);
    if (this.#removed > this.#items.length / 2) this.replace(this.copy()());
  }

  replace({ at, items }: Branch): void {
    this.#at = at;
    this.#items = [...items];
    this.#removed = 0;
    this.#entries = items.reduce((sum, item) => sum + countOf(item), 0);
  }
}

/** The number of entries that an item becomes. */
function countOf({ pieces }: BranchItem): number {
  return pieces?.length ?? 1;
}
