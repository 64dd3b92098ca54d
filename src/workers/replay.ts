import { SegmentWithoutSnapshotError, UsageError } from '../errors.ts';
import type { LogId } from '../log/log-id.ts';
import { queryNewestSegments } from '../log/newest.ts';
import { comparePositions, type Position } from '../log/position.ts';
import { type BuildDeps, buildState, otherReducer } from '../snapshot/build.ts';
import type { Root } from '../snapshot/root.ts';
import { type CompletedSnapshot, chunkStore, findSnapshot, loadRoot } from '../snapshot/snapshots.ts';
import { layersHash, saveState, settleState } from '../state/state.ts';
import type { ChunkStore } from '../tree/chunk.ts';
import { NodeStore } from '../tree/node-store.ts';

export interface ReplayDeps extends BuildDeps {
  /** Where the replay's own chunks go, so that the log's own are not touched. */
  readonly scratch: ChunkStore;
}

export interface Replayed {
  readonly position: Position;
  /** State hash of the log folded from its beginning. */
  readonly replayed: string;
  /** State hash of the stored snapshot, or of the newest one before the position with the entries since. */
  readonly stored: string;
  readonly equal: boolean;
  /** The stored snapshot that was compared with; undefined where there is none before the position. */
  readonly snapshot: Position | undefined;
  readonly entries: number;
}

/**
 * Folds a log from its beginning up to a position and compares the state hash with what is stored. Writes nothing but
 * scratch.
 * @throws UsageError where the stored snapshot was made by another reducer, so that there is nothing to compare
 * @throws LogNotFoundError, EntryGapError, and whatever stops a log
 * @param at the newest completed snapshot where it is left out
 */
export async function replay(deps: ReplayDeps, log: LogId, at?: Position): Promise<Replayed> {
  const [newest] = await queryNewestSegments(deps.store, log, { consistent: true });
  const found = await findSnapshot(deps.store, log, at ?? { segment: newest.segment, entry: Number.MAX_SAFE_INTEGER });
  const position = at ?? found?.position;
  if (position === undefined) {
    throw new SegmentWithoutSnapshotError('this log has no completed snapshot yet', {
      log,
      advice: 'Run the pipeline first, or name a position to replay to',
    });
  }
  const scratch = overlay(deps.scratch, chunkStore(deps.blobs, log));
  const exact = found !== undefined && comparePositions(found.position, position) === 0;
  // Before the long part, since it may show that there is nothing to compare.
  const root = exact ? await storedRoot(deps, log, found) : undefined;
  const alone = { ...deps, chunks: deps.scratch };
  const replayed = await buildState(alone, log, { at: position, only: 'beginning' });
  const stored = root ?? (await buildState({ ...deps, chunks: scratch }, log, { at: position })).root;
  const [replayedHash, storedHash] = [
    await settledHash(deps, deps.scratch, replayed.root),
    await settledHash(deps, scratch, stored),
  ];
  return {
    position,
    replayed: replayedHash,
    stored: storedHash,
    equal: replayedHash === storedHash,
    snapshot: found?.position,
    entries: replayed.entries,
  };
}

/** The state hash of a root, settled in scratch where edits wait. */
async function settledHash(deps: ReplayDeps, chunks: ChunkStore, root: Root): Promise<string> {
  if (root.stateHash !== undefined) return root.stateHash;
  const nodes = new NodeStore(chunks, deps.platform, deps.nodes);
  const state = await settleState(nodes, root.state);
  await saveState(nodes, state);
  return layersHash(deps.platform, state);
}

async function storedRoot(deps: ReplayDeps, log: LogId, { position, ref }: CompletedSnapshot): Promise<Root> {
  const root = await loadRoot(deps, { log, position }, ref);
  const other = otherReducer(root, deps.reducer);
  if (other === undefined) return root;
  throw new UsageError(other, {
    log,
    ...position,
    advice: 'Replay with the reducer that made it, or once this one has made a newer snapshot',
  });
}

/** Reads from both, writes to the first. */
function overlay(scratch: ChunkStore, below: ChunkStore): ChunkStore {
  return {
    get: async (id) => (await scratch.get(id)) ?? (await below.get(id)),
    put: (id, stored) => scratch.put(id, stored),
  };
}
