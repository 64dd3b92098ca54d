import { RESERVED_TYPES, type ReservedTypes } from '../log/entry.ts';
import type { LogId } from '../log/log-id.ts';
import { type Position, START } from '../log/position.ts';
import { readEntries } from '../log/read-entries.ts';
import { Draft } from '../state/draft.ts';
import type { Reducer } from '../state/reducer.ts';
import { saveState, stateHash } from '../state/state.ts';
import type { ChunkStore } from '../tree/chunk.ts';
import { NodeStore, type NodeStoreCounts } from '../tree/node-store.ts';
import { foldEntries, saveWhenOver } from './fold.ts';
import type { Root } from './root.ts';
import { chunkStore, findSnapshot, loadRoot, type SnapshotStores } from './snapshots.ts';

export const BATCH_BYTES = 40 * 1024 * 1024;

export interface BuildDeps extends SnapshotStores {
  readonly reducer: Reducer;
  readonly types?: ReservedTypes | undefined;
  /** Where chunks are read and written; the log's own by default. */
  readonly chunks?: ChunkStore | undefined;
  /** Waiting edits are written out as chunks once they take this much memory, in bytes; 40 MiB by default. */
  readonly batchBytes?: number | undefined;
  readonly onProgress?: ((entries: number) => void) | undefined;
}

export interface Built {
  readonly root: Root;
  /** The snapshot it started from; undefined where it started from the log's beginning. */
  readonly base: Position | undefined;
  /** Why the newest snapshot could not be started from, where that is so. */
  readonly rebuiltBecause?: string | undefined;
  /** Entries read. */
  readonly entries: number;
  readonly chunks: NodeStoreCounts;
}

/**
 * Builds the state at a position from the newest snapshot before it and the entries since, and writes its chunks. The
 * root is not written: that is the worker's, or nobody's where a replay only compares.
 */
export async function buildState(
  deps: BuildDeps,
  log: LogId,
  options: { readonly at: Position; readonly fromBeginning?: boolean | undefined },
): Promise<Built> {
  const nodes = new NodeStore(deps.chunks ?? chunkStore(deps.blobs, log), deps.platform, {
    ...deps.nodes,
    where: { log },
  });
  const found = options.fromBeginning === true ? {} : await findBase(deps, log, options.at);
  const draft = new Draft(nodes, found.root?.state);
  const from = found.root?.position ?? START;
  const types = deps.types ?? RESERVED_TYPES;
  const pages = readEntries({ store: deps.store, types }, log, { from, to: options.at });
  const entries = await foldEntries(draft, pages, {
    reducer: deps.reducer,
    blobs: deps.blobs,
    types,
    onProgress: deps.onProgress,
    afterPage: saveWhenOver(nodes, deps.batchBytes ?? BATCH_BYTES),
  });
  const state = await draft.state({ savesEarly: true });
  await saveState(nodes, state);
  const { name, version } = deps.reducer;
  const root: Root = {
    log,
    position: options.at,
    reducer: { name, version },
    stateHash: stateHash(deps.platform, state),
    state,
  };
  return { root, base: found.root?.position, rebuiltBecause: found.unusable, entries, chunks: nodes.counts };
}

/** The newest snapshot strictly before a position whose state this reducer may go on from. */
async function findBase(
  deps: BuildDeps,
  log: LogId,
  at: Position,
): Promise<{ readonly root?: Root; readonly unusable?: string }> {
  const found = await findSnapshot(deps.store, log, before(at));
  if (found === undefined) return {};
  const root = await loadRoot(deps, { log, position: found.position }, found.ref);
  const unusable = otherReducer(root, deps.reducer);
  return unusable === undefined ? { root } : { unusable };
}

/** Why a snapshot is of no use to a reducer; undefined where it is. */
export function otherReducer(root: Root, reducer: Reducer): string | undefined {
  if (root.reducer.name === reducer.name && root.reducer.version === reducer.version) return undefined;
  return `the snapshot was made by reducer ${root.reducer.name} ${root.reducer.version}, and this is ${reducer.name} ${reducer.version}`;
}

/** The last position before another; a segment is taken to have no end. */
function before({ segment, entry }: Position): Position {
  return entry > 0 ? { segment, entry: entry - 1 } : { segment: segment - 1, entry: Number.MAX_SAFE_INTEGER };
}
