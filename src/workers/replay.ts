import { SegmentWithoutSnapshotError } from '../errors.ts';
import type { LogId } from '../log/log-id.ts';
import { queryNewestSegments } from '../log/newest.ts';
import { comparePositions, type Position } from '../log/position.ts';
import { type BuildDeps, buildState } from '../snapshot/build.ts';
import { chunkStore, findSnapshot, loadRoot } from '../snapshot/snapshots.ts';
import type { ChunkStore } from '../tree/chunk.ts';

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
  const scratch = { ...deps, chunks: deps.scratch };
  const fromBeginning = await buildState(scratch, log, { at: position, fromBeginning: true });
  const stored =
    found !== undefined && comparePositions(found.position, position) === 0
      ? (await loadRoot(deps, { log, position }, found.ref)).stateHash
      : (
          await buildState({ ...deps, chunks: overlay(deps.scratch, chunkStore(deps.blobs, log)) }, log, {
            at: position,
          })
        ).root.stateHash;
  return {
    position,
    replayed: fromBeginning.root.stateHash,
    stored,
    equal: fromBeginning.root.stateHash === stored,
    snapshot: found?.position,
    entries: fromBeginning.entries,
  };
}

/** Reads from both, writes to the first. */
function overlay(scratch: ChunkStore, below: ChunkStore): ChunkStore {
  return {
    get: async (id) => (await scratch.get(id)) ?? (await below.get(id)),
    put: (id, stored) => scratch.put(id, stored),
  };
}
