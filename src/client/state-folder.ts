import {
  ChunkCorruptError,
  ChunkMissingError,
  EntryRejectedError,
  FoldFailedError,
  isLogfoldError,
  type LogfoldError,
  plainError,
} from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import type { Entry, ReservedTypes } from '../log/entry.ts';
import { foldEntries } from '../snapshot/fold.ts';
import { nodeStore, type SnapshotStores } from '../snapshot/snapshots.ts';
import { Draft } from '../state/draft.ts';
import { appliedMutation } from '../state/mutations.ts';
import type { Reducer } from '../state/reducer.ts';
import { type State, unsavedStateBytes } from '../state/state.ts';
import type { NodeStore } from '../tree/node-store.ts';
import type { DraftedEntry } from './drafted-entry.ts';

/** Chunks that a client has downloaded, and their stored bytes. */
export interface Downloads {
  readonly chunks: number;
  readonly bytes: number;
}

/**
 * Folds entries of one log onto its states, which stay as they are. Holds the large values of these
 * states that are in no chunk yet.
 */
export class StateFolder {
  readonly nodes: NodeStore;
  readonly #deps: SnapshotStores & { readonly types: ReservedTypes };
  readonly #reducer: Reducer;
  readonly #log: LogId;
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
    this.#log = log;
  }

  /** A folder for other states of the log, without the large values that this one holds. */
  renewed(): StateFolder {
    return new StateFolder(this.#deps, this.#log, this.#reducer, this.downloads);
  }

  /** The downloads of this folder and of those before it. */
  get downloads(): Downloads {
    const { read, bytesRead } = this.nodes.counts;
    return { chunks: this.#earlier.chunks + read, bytes: this.#earlier.bytes + bytesRead };
  }

  /** Memory of a state's nodes and values that are in no chunk yet, in bytes. */
  unsavedBytes(state: State): number {
    return unsavedStateBytes(state) + this.nodes.heldValueBytes;
  }

  /**
   * Folds entries onto a state of this log, which stays as it is.
   * @throws EntryRejectedError if the reducer rejects an entry
   */
  async fold(state: State, entries: readonly Entry[]): Promise<State> {
    const draft = new Draft(this.nodes, state);
    try {
      await this.foldInto(draft, [entries]);
      return await draft.state();
    } catch (error) {
      if (!isLogfoldError(error) || !error.stopsLog || isDamage(error)) throw error;
      throw rejected(this.#log, entries, error);
    }
  }

  /** Folds pages of entries into a draft. Throws the errors of {@link foldEntries}. */
  async foldInto(draft: Draft, pages: Iterable<readonly Entry[]> | AsyncIterable<readonly Entry[]>): Promise<void> {
    const { blobs, types } = this.#deps;
    async function* all(): AsyncGenerator<readonly Entry[]> {
      yield* pages;
    }
    await foldEntries(draft, all(), { reducer: this.#reducer, blobs, types });
  }

  /** Whether a state includes the numbered mutation of entries already. */
  async isApplied(state: State, entries: readonly DraftedEntry[]): Promise<boolean> {
    const once = entries.at(-1)?.once;
    if (once === undefined) return false;
    return (await appliedMutation(this.nodes, state, once.client)) >= once.mutation;
  }
}

function rejected(log: LogId, entries: readonly Entry[], error: LogfoldError): EntryRejectedError {
  const cause = (error instanceof FoldFailedError ? error.thrown : undefined) ?? error;
  const reason = isLogfoldError(cause) ? cause.reason : plainError(cause).message;
  const index = entries.findIndex(({ position }) => position.entry === error.entry);
  const details = { log, type: error.type, cause };
  return new EntryRejectedError(Math.max(0, index), `the reducer refuses the entry: ${reason}`, details);
}

function isDamage(error: unknown): boolean {
  return error instanceof ChunkMissingError || error instanceof ChunkCorruptError;
}
