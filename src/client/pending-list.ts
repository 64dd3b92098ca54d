import type { Position } from '../ids/position.ts';
import type { NewEntry } from '../log/new-entry.ts';
import type { Unsent } from './branch.ts';
import { Listeners, type Observable } from './listeners.ts';
import type { SendCondition } from './send-condition.ts';

/** An entry that the document shows and the log does not have yet. Immutable. */
export interface PendingEntry {
  readonly entry: NewEntry;
  /** The last error of the store; undefined before the first failure. The document tries again. */
  readonly error?: unknown;
}

/** The place of an entry of `mutate`. */
export interface StoredMutation extends Position {
  /**
   * The parts of the body that were dropped, by index, such as the cells of a Set: others removed
   * what they change. Absent if there are none.
   */
  readonly dropped?: readonly number[];
}

/** An entry that waits to be sent. */
export interface Pending extends Unsent {
  /** Without it, the entry is sent whatever others append. */
  readonly condition: SendCondition | undefined;
  /** The entry as readers see it. */
  shown: PendingEntry;
  /** The position at which the visible state folds the entry. */
  foldedAt: Position;
  /** Whether the log has the entry or it was rejected. The next state leaves it out. */
  isSettled: boolean;
  /** Not `PromiseWithResolvers`: applications compile this declaration with older libraries too. */
  readonly settled: {
    readonly promise: Promise<StoredMutation | undefined>;
    readonly resolve: (position: StoredMutation | undefined) => void;
    readonly reject: (reason: unknown) => void;
  };
}

/** The pending entries of a document, in order. Readers see immutable lists of them. */
export class PendingList implements Observable<readonly PendingEntry[]> {
  readonly #listeners = new Listeners();
  #entries: Pending[] = [];
  /** Number of entries at the beginning of the array that were removed. */
  #removed = 0;
  /** The list as readers see it; undefined until one of them asks. */
  #shown: readonly PendingEntry[] | undefined;
  #isAnnounced = true;

  /** The entries that the visible state includes, also stored and rejected ones. */
  get entries(): readonly Pending[] {
    return this.#entries.slice(this.#removed);
  }

  /** The number of {@link entries}. */
  get length(): number {
    return this.#entries.length - this.#removed;
  }

  /** The first entry that waits to be sent. */
  get next(): Pending | undefined {
    for (let i = this.#removed; i < this.#entries.length; i++)
      if (this.#entries[i]?.isSettled === false) return this.#entries[i];
    return undefined;
  }

  add(pending: Pending): void {
    this.#entries.push(pending);
    this.#changed();
  }

  /** Shows the error of an entry that is sent again later. */
  postpone(pending: Pending, error: unknown): void {
    pending.shown = Object.freeze({ entry: pending.shown.entry, error });
    this.#changed();
  }

  /** Notes that the log has an entry or that it was rejected, so that readers no longer see it. */
  settle(pending: Pending): void {
    if (pending.isSettled) return;
    pending.isSettled = true;
    this.#changed();
  }

  /** Removes an entry that no longer waits. The time to remove the first one is constant. */
  remove(pending: Pending): void {
    if (this.#entries[this.#removed] !== pending) return this.replace(this.entries.filter((each) => each !== pending));
    this.#removed++;
    if (this.#removed > this.#entries.length / 2) this.replace(this.entries);
  }

  /** Keeps only the entries that still wait. */
  replace(entries: readonly Pending[]): void {
    this.#entries = [...entries];
    this.#removed = 0;
  }

  /** Calls the listeners if readers see another list than at the last call. */
  announce(): void {
    if (this.#isAnnounced) return;
    this.#isAnnounced = true;
    this.#listeners.call();
  }

  readonly subscribe = (listener: () => void): (() => void) => this.#listeners.add(listener);

  readonly getSnapshot = (): readonly PendingEntry[] => {
    this.#shown ??= Object.freeze(this.entries.filter(({ isSettled }) => !isSettled).map(({ shown }) => shown));
    return this.#shown;
  };

  /** Removes the entries and, after a last call, the listeners. */
  close(): void {
    if (this.next !== undefined) this.#changed();
    this.replace([]);
    this.announce();
    this.#listeners.clear();
  }

  #changed(): void {
    this.#shown = undefined;
    this.#isAnnounced = false;
  }
}
