import type { Position } from '../ids/position.ts';
import type { NewEntry } from '../log/client.ts';
import type { DraftedEntry } from './drafted-entry.ts';
import { Listeners, type Observable } from './listeners.ts';

/** An entry that the document shows and the log does not have yet. Immutable. */
export interface PendingEntry {
  readonly entry: NewEntry;
  /** The last error of the store; undefined before the first failure. The document tries again. */
  readonly error?: unknown;
}

/** An entry that waits to be sent. */
export interface Pending {
  readonly entry: DraftedEntry;
  /** The entry as readers see it. */
  shown: PendingEntry;
  /** The position at which the visible state folds the entry. */
  foldedAt: Position;
  /** Whether the log has the entry or it was rejected. The next state leaves it out. */
  isSettled: boolean;
  /** Not `PromiseWithResolvers`: applications compile this declaration with older libraries too. */
  readonly settled: {
    readonly promise: Promise<Position | undefined>;
    readonly resolve: (position: Position | undefined) => void;
    readonly reject: (reason: unknown) => void;
  };
}

/** The pending entries of a document, in order. Readers see immutable lists of them. */
export class PendingList implements Observable<readonly PendingEntry[]> {
  readonly #listeners = new Listeners();
  #entries: readonly Pending[] = [];
  #shown: readonly PendingEntry[] = [];
  #announced = this.#shown;

  /** The entries that the visible state includes, also stored and rejected ones. */
  get entries(): readonly Pending[] {
    return this.#entries;
  }

  /** Replaces the entries. Listeners hear of it with {@link announce}. */
  set(entries: readonly Pending[]): void {
    this.#entries = entries;
    this.#show();
  }

  /** Calls the listeners if readers see another list than at the last call. */
  announce(): void {
    this.#show();
    if (this.#announced === this.#shown) return;
    this.#announced = this.#shown;
    this.#listeners.call();
  }

  readonly subscribe = (listener: () => void): (() => void) => this.#listeners.add(listener);

  readonly getSnapshot = (): readonly PendingEntry[] => this.#shown;

  /** Removes the entries and, after a last call, the listeners. */
  close(): void {
    this.set([]);
    this.announce();
    this.#listeners.clear();
  }

  #show(): void {
    const shown = this.#entries.filter(({ isSettled }) => !isSettled).map((pending) => pending.shown);
    const isSame = shown.length === this.#shown.length && shown.every((each, i) => each === this.#shown[i]);
    if (!isSame) this.#shown = Object.freeze(shown);
  }
}
