import type { LogId } from '../ids/log-id.ts';
import { type Position, START } from '../ids/position.ts';
import type { Entry, ReservedTypes } from '../log/entry.ts';
import { queryNewestSegments } from '../log/newest.ts';
import { readEntries } from '../log/read-entries.ts';
import { Draft } from '../state/draft.ts';
import type { Reducer } from '../state/reducer.ts';
import { otherReducer } from './build.ts';
import { foldEntries } from './fold.ts';
import { findSnapshot, loadRoot, nodeStore, type SnapshotStores } from './snapshots.ts';

export interface LoadDeps extends SnapshotStores {
  readonly reducer: Reducer;
  readonly types: ReservedTypes;
}

export interface Loaded {
  readonly draft: Draft;
  /** The loaded snapshot; undefined if loading started from the log's beginning. */
  readonly snapshot: Position | undefined;
  /** The position after the last entry in the state. */
  readonly end: Position;
  /** Number of entries folded on top of the snapshot. */
  readonly tailEntries: number;
}

/**
 * Loads a state as a client does: the newest complete snapshot and the later entries, up to a
 * position or the end of the log. Writes nothing. Fetches only the parts of the snapshot that the
 * entries and later reads touch.
 * @throws LogNotFoundError, EntryGapError, and any error that stops a log
 */
export async function loadState(deps: LoadDeps, log: LogId, at?: Position): Promise<Loaded> {
  const { types } = deps;
  const [newest] = await queryNewestSegments(deps.store, log, { consistent: true });
  const endOfNewest = { segment: newest.segment, entry: Number.MAX_SAFE_INTEGER };
  const found = await findSnapshot(deps.store, log, at ?? endOfNewest);
  const root = found && (await loadRoot(deps, { log, position: found.position }, found.root));
  const base = root !== undefined && otherReducer(root, deps.reducer) === undefined ? root : undefined;
  const draft = new Draft(nodeStore(deps, log), base?.state);
  const pages = readEntries({ store: deps.store, types }, log, { from: base?.position ?? START, to: at ?? 'end' });
  let end = base?.position ?? START;
  async function* followed(): AsyncGenerator<Entry[]> {
    for await (const page of pages) {
      const last = page.at(-1);
      if (last !== undefined) end = { segment: last.position.segment, entry: last.position.entry + 1 };
      yield page;
    }
  }
  const tailEntries = await foldEntries(draft, followed(), { reducer: deps.reducer, blobs: deps.blobs, types });
  draft.use.release();
  return { draft, snapshot: base?.position, end, tailEntries };
}
