import { comparePositions, type Position, START } from '../ids/position.ts';
import { type CompletedSnapshot, type Entry, isForeignRoot, type ReservedTypes, rootOf } from '../log/entry.ts';
import { type BadEntry, type OnBadEntry, untilBadEntry } from '../snapshot/bad-entry.ts';
import { type LoadDeps, loadState } from '../snapshot/load.ts';
import type { State } from '../state/state.ts';
import type { StateFolder } from './state-folder.ts';

/** The most entries that a tail holds. */
const MAX_ENTRIES = 10_000;

/**
 * The snapshot on which a client's state stands, and the entries that the client has folded since.
 * When a newer snapshot completes, the tail forks at its entry. Immutable.
 */
export class Tail {
  /** The snapshot on which the state stands; undefined for the beginning of the log. */
  readonly base: CompletedSnapshot | undefined;
  /**
   * The entries from that of the base on. Undefined if there were too many: then only those from
   * the oldest pending Snapshot entry on are known.
   */
  readonly entries: readonly Entry[] | undefined;
  readonly #known: readonly Entry[];
  readonly #types: ReservedTypes;

  private constructor(
    types: ReservedTypes,
    base: CompletedSnapshot | undefined,
    known: readonly Entry[],
    whole: boolean,
  ) {
    this.#types = types;
    this.base = base;
    const fits = known.length <= MAX_ENTRIES;
    this.#known = fits ? known : known.slice(this.#firstPending(known));
    this.entries = whole && fits ? known : undefined;
  }

  /** The tail without entries at the beginning of a log. */
  static empty(types: ReservedTypes): Tail {
    return new Tail(types, undefined, [], true);
  }

  /** Whether a snapshot on which the state could stand may complete. */
  get isPending(): boolean {
    return this.#firstPending(this.#known) < this.#known.length;
  }

  /**
   * The tail with further entries, on the newest complete snapshot among them. `read` has the
   * entries as the table has them, Snapshot entries with their roots.
   */
  with(read: readonly Entry[]): Tail {
    const whole = new Tail(this.#types, this.base, [...this.#known, ...read], this.entries !== undefined);
    const newest = read.findLast((entry) => this.#isPending(entry) && rootOf(entry) !== undefined);
    const root = newest && rootOf(newest);
    return newest && root ? (whole.fork({ position: newest.position, root }) ?? whole) : whole;
  }

  /**
   * The tail on a newer complete snapshot.
   * @returns undefined if the tail does not hold the snapshot's entry: the entry lies beyond the
   * entries that were read, or the tail has dropped it
   */
  fork(snapshot: CompletedSnapshot): Tail | undefined {
    const index = this.#known.findIndex(({ position }) => comparePositions(position, snapshot.position) === 0);
    return index === -1 ? undefined : new Tail(this.#types, snapshot, this.#known.slice(index), true);
  }

  #firstPending(entries: readonly Entry[]): number {
    const index = entries.findIndex((entry) => this.#isPending(entry));
    return index === -1 ? entries.length : index;
  }

  /** Whether an entry asks for a snapshot that is newer than the base and not empty. */
  #isPending(entry: Entry): boolean {
    const { type, position } = entry;
    const isNewer = type === this.#types.snapshot && comparePositions(position, this.base?.position ?? START) > 0;
    return isNewer && !isForeignRoot(entry);
  }
}

/** A state with its tail. */
export interface LoadedTail {
  readonly folder: StateFolder;
  readonly tail: Tail;
  /** The last entry that was read. */
  readonly last: Entry | undefined;
  readonly state: State;
  /** The snapshot from which the state was loaded. */
  readonly base: CompletedSnapshot | undefined;
  /** The position after the last entry in the state. */
  readonly end: Position;
  /** The entry at which the load stopped. */
  readonly badEntry: BadEntry | undefined;
}

/**
 * Loads the newest snapshot of a log, and the entries from there on, up to a bad one if the load
 * stops there. Throws the errors of {@link loadState}.
 * @param earlier folds the states before, which the new folder does not hold
 */
export async function loadTail(
  deps: LoadDeps,
  earlier: StateFolder,
  { onBadEntry }: { readonly onBadEntry?: OnBadEntry | undefined },
): Promise<LoadedTail> {
  const { loaded, badEntry } = await untilBadEntry(onBadEntry, 'end', async (to) => {
    let tail = Tail.empty(deps.types);
    let last: Entry | undefined;
    const onBegin = (): void => {
      tail = Tail.empty(deps.types);
      last = undefined;
    };
    const onPage = (page: readonly Entry[]): void => {
      tail = tail.with(page);
      last = page.at(-1) ?? last;
    };
    const folder = earlier.renewed();
    const at = to === 'end' ? undefined : to;
    const { draft, base, end } = await loadState(deps, folder.log, { at, nodes: folder.nodes, onBegin, onPage });
    return { folder, tail, last, state: await draft.state(), base, end };
  });
  return { ...loaded, badEntry };
}
