import type { ClientMutation } from '../log/entry.ts';
import type { Arrival } from './arrivals.ts';
import { type Branch, type BranchItem, hasNoEffect, type Unsent } from './branch.ts';
import type { Passage, Rebaser } from './passage.ts';

/**
 * The branch of the pending entries of a document: those that it shows, then those that it is going
 * to show. Adding an entry, removing the first one and copying the branch take constant time.
 */
export class PendingBranch {
  #at: Arrival;
  /** Grows at its end. Any other change makes another array. */
  #items: BranchItem[] = [];
  /** Number of items at the beginning of the array that were removed. */
  #removed = 0;
  /** Index before which all items are shown. */
  #shown = 0;
  #entries = 0;

  constructor(at: Arrival) {
    this.#at = at;
  }

  get at(): Arrival {
    return this.#at;
  }

  /** The number of entries that the shown items become. */
  get entries(): number {
    return this.#entries;
  }

  /** The number of items. */
  get length(): number {
    return this.#items.length - this.#removed;
  }

  /** The branch as it is now. @param last its last item; all by default */
  copy(last?: Unsent): () => Branch {
    const { at } = this;
    const [items, from] = [this.#items, this.#removed];
    const to = last === undefined ? items.length : items.findIndex(({ unsent }, i) => i >= from && unsent === last) + 1;
    return () => ({ at, items: items.slice(from, to) });
  }

  add(item: BranchItem): void {
    this.#items.push(item);
  }

  /** The unsent entry that applies a mutation, or the next later one of its client. */
  applying({ client, mutation }: ClientMutation): Unsent | undefined {
    let found: Unsent | undefined;
    for (let i = this.#items.length - 1; i >= this.#removed; i--) {
      const item = this.#items[i];
      const once = item?.unsent.draft.once;
      if (item === undefined || once?.client !== client) continue;
      if (item.unsent.failure !== undefined || hasNoEffect(item)) continue;
      // The mutations that have an effect have ascending numbers.
      if (once.mutation < mutation) return found;
      found = item.unsent;
    }
    return found;
  }

  /** The first item that is not shown, if it is that of an entry. */
  find(unsent: Unsent): BranchItem | undefined {
    for (let i = this.#shown; i < this.#items.length; i++) {
      const item = this.#items[i];
      if (item?.unsent !== unsent) continue;
      this.#shown = i;
      return item;
    }
    return undefined;
  }

  /** Notes that an item is shown, as are those before it. */
  show(item: BranchItem): void {
    this.#shown++;
    this.#entries += countOf(item);
  }

  /** Removes a shown entry that the log got next. @param at the moment after it */
  remove(unsent: Unsent, at: Arrival): void {
    this.#at = at;
    const first = this.#items[this.#removed];
    if (first?.unsent === unsent) {
      this.#removed++;
      this.#entries -= countOf(first);
      this.#shown = Math.max(this.#shown, this.#removed);
      if (this.#removed <= this.#items.length / 2) return;
    }
    const { items } = this.copy()();
    this.replace({ at, items: items.filter((item) => item.unsent !== unsent) }, this.#entries);
  }

  /** @param entries the number of entries that its shown items become */
  replace({ at, items }: Branch, entries: number): void {
    this.#at = at;
    this.#items = [...items];
    this.#removed = 0;
    this.#shown = 0;
    this.#entries = entries;
  }
}

/** The branch of the pending entries on its way to a newer moment of the log. */
export class BranchMove {
  readonly #branch: PendingBranch;
  readonly #passage: Passage;
  readonly #to: Arrival;
  #items: readonly BranchItem[] = [];
  #carried = 0;

  constructor(branch: PendingBranch, rebaser: Rebaser, to: Arrival) {
    this.#branch = branch;
    this.#passage = rebaser.passage(branch.at, to);
    this.#to = to;
  }

  /** The items that were carried and are left. */
  get items(): readonly BranchItem[] {
    return this.#items;
  }

  /** Whether all items were carried, also those that the branch got meanwhile. */
  get isDone(): boolean {
    return this.#carried === this.#branch.length;
  }

  /**
   * Carries the items of the branch that were not carried yet.
   * @throws the errors of {@link Passage.carry}
   */
  async carry(): Promise<void> {
    const items = this.#branch.copy()().items.slice(this.#carried);
    const left = await this.#passage.carry(items);
    this.#carried += items.length;
    this.#items = [...this.#items, ...left];
  }

  /** Leaves out items for which nothing comes into the log. */
  leaveOut(isDone: (item: BranchItem) => boolean): void {
    this.#items = this.#items.filter((item) => !isDone(item));
  }

  /** Leaves out the items that have failed, and those that build on them. */
  async drop(): Promise<void> {
    this.#items = await this.#passage.drop(this.#items);
  }

  /**
   * Takes the place of the branch.
   * @param entries the number of entries that its shown items become
   */
  end(entries: number): void {
    this.#branch.replace({ at: this.#to, items: this.#items }, entries);
  }
}

/** The number of entries that an item becomes. */
function countOf({ pieces }: BranchItem): number {
  return pieces?.length ?? 1;
}
