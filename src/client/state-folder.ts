import {
  ChunkCorruptError,
  ChunkMissingError,
  EntryRejectedError,
  FoldFailedError,
  isLogfoldError,
  type LogfoldError,
  UsageError,
} from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import type { Position } from '../ids/position.ts';
import { decodeEntryBody } from '../log/body.ts';
import type { CompletedSnapshot, Entry, ReservedTypes } from '../log/entry.ts';
import { openFile } from '../log/file.ts';
import { readUpTo } from '../log/read-entries.ts';
import { type BadEntry, type OnBadEntry, untilBadEntry } from '../snapshot/bad-entry.ts';
import { foldEntries, toFoldEntry } from '../snapshot/fold.ts';
import { otherReducer, type Root } from '../snapshot/root.ts';
import { loadRoot, nodeStore, type SnapshotStores } from '../snapshot/snapshots.ts';
import { appliedMutation, Draft } from '../state/draft.ts';
import { whyRefused } from '../state/fold-failure.ts';
import { FrozenState } from '../state/frozen-state.ts';
import type { FoldEntry, Reducer } from '../state/reducer.ts';
import { type State, unsavedStateBytes } from '../state/state.ts';
import type { NodeStore } from '../tree/node-store.ts';

/** Chunks that a client has downloaded, and their stored bytes. */
export interface Downloads {
  readonly chunks: number;
  readonly bytes: number;
}

/** How far a follower may be behind before it loads the newest snapshot instead of all entries. */
export interface ReloadLimits {
  readonly entries: number;
  readonly segments: number;
}

/** The state of a log up to a position. */
export interface Confirmed {
  readonly state: State;
  /** The position after the last entry in the state. */
  readonly end: Position;
  /** The number of that entry, if it has one. */
  readonly number?: number | undefined;
  /** The entry at which the follower has stopped. */
  readonly badEntry?: BadEntry | undefined;
}

/** There are more new entries than the limits allow. */
export class FarBehind extends Error {}

/** Entries to read and fold. */
export interface NewRange {
  readonly to: Position | 'end';
  readonly limits?: ReloadLimits | undefined;
  readonly onBadEntry?: OnBadEntry | undefined;
}

/** Entries and the draft into which they are folded. */
export interface Folded {
  readonly draft: Draft;
  readonly entries: readonly Entry[];
  /** Those that took effect, as the reducer saw them. */
  readonly effective: readonly FoldEntry[];
  readonly badEntry: BadEntry | undefined;
}

/**
 * Folds entries of one log onto its states, which stay as they are. Holds the large values of these
 * states that are in no chunk yet.
 */
export class StateFolder {
  readonly log: LogId;
  readonly nodes: NodeStore;
  readonly #deps: SnapshotStores & { readonly types: ReservedTypes };
  readonly #reducer: Reducer;
  readonly #earlier: Downloads;

  constructor(
    deps: SnapshotStores & { readonly types: ReservedTypes },
    log: LogId,
    reducer: Reducer,
    earlier: Downloads = { chunks: 0, bytes: 0 },
  ) {
    this.nodes = nodeStore(deps, log);
    this.#earlier = earlier;
    this.#deps = deps;
    this.#reducer = reducer;
    this.log = log;
  }

  /** A folder for other states of the log, without the large values that this one holds. */
  renewed(): StateFolder {
    return new StateFolder(this.#deps, this.log, this.#reducer, this.downloads);
  }

  /** The downloads of this folder and of those before it. */
  get downloads(): Downloads {
    const { read, bytesRead } = this.nodes.counts;
    return { chunks: this.#earlier.chunks + read, bytes: this.#earlier.bytes + bytesRead };
  }

  /** The root of a snapshot of this log; undefined if another reducer made the snapshot. */
  async ownRoot({ position, root: ref }: CompletedSnapshot): Promise<Root | undefined> {
    const root = await loadRoot(this.#deps, { log: this.log, position }, ref);
    return otherReducer(root, this.#reducer) === undefined ? root : undefined;
  }

  /** Memory of a state's nodes and values that are in no chunk yet, in bytes. */
  unsavedBytes(state: State): number {
    return unsavedStateBytes(state) + this.nodes.heldValueBytes;
  }

  /**
   * Folds entries onto a state of this log, which stays as it is.
   * @throws EntryRejectedError if the reducer rejects an entry
   */
  fold(state: State, entries: readonly Entry[]): Promise<State> {
    return this.#fold(state, entries, 0);
  }

  /**
   * Like {@link fold}, for entries that are not in the log. The reducer first validates each of
   * them on the state before it.
   * @param effective gets the entries that take effect, as the reducer sees them
   */
  async foldNew(state: State, entries: readonly Entry[], effective: FoldEntry[] = []): Promise<State> {
    if (this.#reducer.validate === undefined) return this.#fold(state, entries, 0, effective);
    let folded = state;
    for (const [index, entry] of entries.entries()) {
      await this.#validate(folded, entry, index);
      folded = await this.#fold(folded, [entry], index, effective);
    }
    return folded;
  }

  /** @param first index of the first of the entries among those of the same append */
  async #fold(state: State, entries: readonly Entry[], first: number, effective?: FoldEntry[]): Promise<State> {
    const draft = new Draft(this.nodes, state);
    try {
      await this.foldInto(draft, [entries], effective);
      return await draft.state();
    } catch (error) {
      if (!isLogfoldError(error) || !error.stopsLog || isStoreDamage(error)) throw error;
      const index = entries.findIndex(({ position }) => position.entry === error.entry);
      throw rejected(this.log, error.type, first + Math.max(0, index), thrownBy(error));
    }
  }

  async #validate(state: State, entry: Entry, index: number): Promise<void> {
    // Such a mutation changes nothing, so its entry is valid.
    const { once } = entry;
    if (once !== undefined && (await this.highestMutation(state, once.client)) >= once.mutation) return;
    try {
      const file = entry.file === undefined ? undefined : await openFile(this.#deps.blobs, entry.file);
      await this.#reducer.validate?.(
        toFoldEntry(entry, decodeEntryBody(entry), file),
        new FrozenState(this.nodes, state).draft,
      );
    } catch (error) {
      if (isOfStore(error)) throw error;
      throw rejected(this.log, entry.type, index, error);
    }
  }

  /**
   * Reads and folds the entries after a state, up to a bad one if the range stops there.
   * @throws FarBehind if there are more than the limits allow
   * @throws the errors of {@link readUpTo} and of the fold
   */
  async foldAfter({ state, end: from }: Confirmed, { to, limits, onBadEntry }: NewRange): Promise<Folded> {
    const { loaded, badEntry } = await untilBadEntry(onBadEntry, to, async (end) => {
      const entries: Entry[] = [];
      const effective: FoldEntry[] = [];
      const pages = readUpTo(this.#deps, this.log, { from, to: end, newestSegment: from.segment });
      async function* followed(): AsyncGenerator<readonly Entry[]> {
        for await (const page of pages) {
          entries.push(...page);
          const segments = (page.at(-1)?.position.segment ?? from.segment) - from.segment;
          if (limits !== undefined && (entries.length > limits.entries || segments > limits.segments))
            throw new FarBehind();
          yield page;
        }
      }
      const draft = new Draft(this.nodes, state);
      await this.foldInto(draft, followed(), effective);
      return { draft, entries, effective };
    });
    return { ...loaded, badEntry };
  }

  /**
   * Folds pages of entries into a draft. Throws the errors of {@link foldEntries}.
   * @param effective gets the entries that take effect, as the reducer sees them
   */
  async foldInto(
    draft: Draft,
    pages: Iterable<readonly Entry[]> | AsyncIterable<readonly Entry[]>,
    effective?: FoldEntry[],
  ): Promise<void> {
    const { blobs, types } = this.#deps;
    async function* all(): AsyncGenerator<readonly Entry[]> {
      yield* pages;
    }
    const reducer = effective === undefined ? this.#reducer : noting(this.#reducer, effective);
    await foldEntries(draft, all(), { reducer, blobs, types });
  }

  /** The highest mutation of a client that a state of this log has applied; 0 if there is none. */
  highestMutation(state: State, client: string): Promise<number> {
    return appliedMutation(this.nodes, state, client);
  }
}

/** A reducer that notes each entry before it folds it. */
function noting(reducer: Reducer, noted: FoldEntry[]): Reducer {
  const { name, version } = reducer;
  return {
    name,
    version,
    fold: (draft, entry) => {
      noted.push(entry);
      return reducer.fold(draft, entry);
    },
  };
}

function rejected(log: LogId, type: string | undefined, index: number, cause: unknown): EntryRejectedError {
  const { reason, advice } = whyRefused(cause);
  return new EntryRejectedError(index, `the reducer refuses the entry: ${reason}`, { log, type, advice, cause });
}

/** The value that a reducer threw in a fold that failed. */
function thrownBy(error: LogfoldError): unknown {
  return (error instanceof FoldFailedError ? error.thrown : undefined) ?? error;
}

function isStoreDamage(error: unknown): boolean {
  return error instanceof ChunkMissingError || error instanceof ChunkCorruptError;
}

/** Whether a read of the state failed, so that nothing is known about the entry. */
function isOfStore(error: unknown): boolean {
  if (!isLogfoldError(error)) return false;
  return (
    isStoreDamage(error) || !(error.stopsLog || error instanceof UsageError || error instanceof EntryRejectedError)
  );
}
