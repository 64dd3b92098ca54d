import { comparePositions, type Position, START } from '../ids/position.ts';
import { type CompletedSnapshot, completedSnapshot, type Entry, type ReservedTypes, rootOf } from '../log/entry.ts';
import { guardRoot } from '../log/guard.ts';
import { type BadEntry, untilBadEntry } from '../snapshot/bad-entry.ts';
import { type LoadDeps, type LoadOptions, loadState } from '../snapshot/load.ts';
import type { State } from '../state/state.ts';
import type { StateFolder } from './state-folder.ts';

/** The most entries that a tail holds. Above, it drops the older half. */
const MAX_ENTRIES = 10_000;
/** The memory of an entry without its body, about. */
const ENTRY_BYTES = 1_000;

/**
 * The snapshot on which a client's state stands, and the entries that the client has folded since.
 * When a newer snapshot completes, the tail forks at its entry. Memory is bounded and each entry
 * takes the same time, also if no snapshot ever completes.
 */
export class Tail {
  readonly #types: ReservedTypes;
  #base: CompletedSnapshot | undefined;
  #entries: Entry[] = [];
  #bytes = 0;
  /** Whether the tail holds all entries from that of the base on. */
  #isWhole = true;
  /** The newest entry that asked for a snapshot. */
  #asked: Position | undefined;

  /** The tail without entries at the beginning of a log. */
  constructor(types: ReservedTypes) {
    this.#types = types;
  }

  /** The snapshot on which the state stands; undefined for the beginning of the log. */
  get base(): CompletedSnapshot | undefined {
    return this.#base;
  }

  /** The entries from that of the base on. Undefined if there were too many. */
  get entries(): readonly Entry[] | undefined {
    return this.#isWhole ? this.#entries : undefined;
  }

  /** The memory of the entries, about. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Whether a snapshot on which the state could stand may complete. */
  get isPending(): boolean {
    return this.#asked !== undefined && this.#isNewer(this.#asked);
  }

  /**
   * Adds entries after the others, and forks at the newest complete snapshot among them.
   * @param read the entries as the table has them, Snapshot entries with their roots
   * @returns whether the tail forked
   */
  add(read: readonly Entry[]): boolean {
    for (const entry of read) this.#entries.push(entry);
    this.#bytes += bytesOf(read);
    this.#asked = read.findLast((entry) => this.#asks(entry))?.position ?? this.#asked;
    if (this.#entries.length > MAX_ENTRIES) {
      this.#keep(this.#entries.slice(-MAX_ENTRIES / 2));
      this.#isWhole = false;
    }
    const newest = read.findLast((entry) => this.#asks(entry) && rootOf(entry) !== undefined);
    const snapshot = newest && completedSnapshot(newest);
    return snapshot !== undefined && this.fork(snapshot);
  }

  /**
   * Moves onto a newer complete snapshot, unless its entry is beyond the entries that were read.
   * @returns whether the tail moved
   */
  fork(snapshot: CompletedSnapshot): boolean {
    const index = this.#entries.findIndex(({ position }) => comparePositions(position, snapshot.position) >= 0);
    const found = this.#entries[index];
    const isHeld = found !== undefined && comparePositions(found.position, snapshot.position) === 0;
    // The tail has dropped the snapshot's entry, and others after it.
    const isBefore = index === 0 && !this.#isWhole && this.#isNewer(snapshot.position);
    if (!isHeld && !isBefore) return false;
    this.#base = snapshot;
    this.#isWhole = isHeld;
    this.#keep(this.#entries.slice(index));
    return true;
  }

  #keep(entries: Entry[]): void {
    this.#entries = entries;
    this.#bytes = bytesOf(entries);
  }

  /** Whether an entry asks for a snapshot that is newer than the base and not empty. */
  #asks(entry: Entry): boolean {
    return entry.type === this.#types.snapshot && this.#isNewer(entry.position) && guardRoot(entry) === undefined;
  }

  #isNewer(position: Position): boolean {
    return comparePositions(position, this.#base?.position ?? START) > 0;
  }
}

/** The memory of entries, about. Bodies in other formats than bytes are small. */
function bytesOf(entries: readonly Entry[]): number {
  return entries.reduce((sum, { body }) => sum + ENTRY_BYTES + (body?.format === 'bytes' ? body.bytes.length : 0), 0);
}

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
 * Loads the newest snapshot of a log, and the entries from there, up to a bad one if the load
 * stops there. Throws the errors of {@link loadState}.
 * @param earlier folds the states before, which the new folder does not hold
 */
export async function loadTail(
  deps: LoadDeps,
  earlier: StateFolder,
  { onBadEntry, onSegments }: Pick<LoadOptions, 'onBadEntry' | 'onSegments'>,
): Promise<LoadedTail> {
  const { loaded, badEntry } = await untilBadEntry(onBadEntry, 'end', async (to) => {
    let tail = new Tail(deps.types);
    let last: Entry | undefined;
    const onBegin = (): void => {
      tail = new Tail(deps.types);
      last = undefined;
    };
    const onPage = (page: readonly Entry[]): void => {
      tail.add(page);
      last = page.at(-1) ?? last;
    };
    const folder = earlier.renewed();
    const at = to === 'end' ? undefined : to;
    const options = { at, nodes: folder.nodes, onBegin, onPage, onSegments };
    const { draft, base, end } = await loadState(deps, folder.log, options);
    return { folder, tail, last, state: await draft.state(), base, end };
  });
  return { ...loaded, badEntry };
}
