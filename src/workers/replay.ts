import { SegmentWithoutSnapshotError, TimeUpError, UsageError } from '../errors.ts';
import { checkTypes } from '../log/entry.ts';
import type { LogId } from '../log/log-id.ts';
import { queryNewestSegments } from '../log/newest.ts';
import { comparePositions, formatPosition, type Position } from '../log/position.ts';
import { rootOf } from '../log/root-ref.ts';
import { type BuildDeps, type BuildOptions, type Built, buildState, otherReducer } from '../snapshot/build.ts';
import { keepsRoot } from '../snapshot/kept-roots.ts';
import type { Root } from '../snapshot/root.ts';
import { type CompletedSnapshot, chunkStore, findSnapshot, loadRoot } from '../snapshot/snapshots.ts';
import { layersHash, saveState, settleState } from '../state/state.ts';
import type { ChunkStore } from '../tree/chunk.ts';
import { NodeStore } from '../tree/node-store.ts';
import { readCollected } from './collection-record.ts';
import { type Deadline, isTimeUp } from './deadline.ts';

export interface ReplayDeps extends BuildDeps, Deadline {
  /** Where the replay's own chunks go, so that the log's own are not touched. */
  readonly scratch: ChunkStore;
}

export interface Replayed {
  readonly position: Position;
  /** State hash of the log folded from its beginning. */
  readonly replayed: string;
  /**
   * State hash of the snapshot that is stored at the position. If there is none: of the snapshot before it that Last
   * Snapshot leads to, with the entries since. Null if there is no such snapshot either.
   */
  readonly stored: string | null;
  /** Null where nothing was compared: that is no difference, and proves nothing. */
  readonly equal: boolean | null;
  /** The stored snapshot that was compared with; null where there is none before the position that this reducer made. */
  readonly snapshot: Position | null;
  readonly entries: number;
}

/**
 * Folds a log from its beginning up to a position and compares the state hash with what is stored. Writes nothing but
 * scratch.
 * @throws UsageError where the stored snapshot was made by another reducer, so that there is nothing to compare
 * @throws LogNotFoundError, EntryGapError, and whatever stops a log
 * @throws TimeUpError if the deadline passes first
 * @param at the newest completed snapshot where it is left out
 */
export async function replay(deps: ReplayDeps, log: LogId, at?: Position): Promise<Replayed> {
  const [newest] = await queryNewestSegments(deps.store, log, { consistent: true });
  const end = { segment: newest.segment, entry: Number.MAX_SAFE_INTEGER };
  const found = (at && (await snapshotAt(deps, log, at))) ?? (await findSnapshot(deps.store, log, at ?? end));
  const position = at ?? found?.position;
  if (position === undefined) {
    throw new SegmentWithoutSnapshotError('this log has no completed snapshot yet', {
      log,
      advice: "Run 'logfold sweep --log LOG' first, which completes one, or name a position to replay to",
    });
  }
  const scratch = overlay(deps.scratch, chunkStore(deps.blobs, log));
  const exact = found !== undefined && comparePositions(found.position, position) === 0;
  // Before the long part, since it may show that there is nothing to compare.
  const base = found && (await storedRoot(deps, log, found, { exact }));
  const alone = { ...deps, chunks: deps.scratch };
  const replayed = await buildWithin(alone, log, { at: position, only: 'beginning' });
  const replayedHash = await settledHash(deps, deps.scratch, replayed.root);
  const result = { position, replayed: replayedHash, entries: replayed.entries };
  if (base === undefined) return { ...result, stored: null, equal: null, snapshot: null };
  const stored = exact
    ? base
    : (await buildWithin({ ...deps, chunks: scratch }, log, { at: position, only: base })).root;
  const storedHash = await settledHash(deps, scratch, stored);
  return { ...result, stored: storedHash, equal: replayedHash === storedHash, snapshot: base.position };
}

/** The snapshot that the entry at a position carries; undefined if there is none, or none that is kept. */
async function snapshotAt(deps: ReplayDeps, log: LogId, position: Position): Promise<CompletedSnapshot | undefined> {
  const { snapshot } = checkTypes(deps.types);
  const entry = await deps.store.getEntry(log, position, { consistent: true });
  const ref = entry?.type === snapshot ? rootOf(entry) : undefined;
  if (ref === undefined) return undefined;
  const segment = await deps.store.getSegment(log, position.segment, { consistent: true });
  // What was let go less than a grace period ago is still there.
  const dropped = new Map((await readCollected(deps.blobs, log)).dropped);
  if (segment === undefined || !keepsRoot(segment, position.entry, { keepSnapshots: 'all', dropped })) return undefined;
  return { position, ref };
}

/** @throws TimeUpError if the deadline passes before the position is reached */
async function buildWithin(deps: ReplayDeps, log: LogId, options: BuildOptions): Promise<Built> {
  const built = await buildState(deps, log, { ...options, shouldStop: () => isTimeUp(deps) });
  const { position } = built.root;
  if (comparePositions(position, options.at) === 0) return built;
  const to = formatPosition(options.at);
  throw new TimeUpError(`the time was up at ${formatPosition(position)}, after ${built.entries} entries`, {
    log,
    advice: `Run 'logfold replay LOG --at ${to}' where no time limit holds; a replay cannot go on from there`,
  });
}

/** The state hash of a root, settled in scratch where edits wait. */
async function settledHash(deps: ReplayDeps, chunks: ChunkStore, root: Root): Promise<string> {
  if (root.stateHash !== undefined) return root.stateHash;
  const nodes = new NodeStore(chunks, deps.platform, deps.nodes);
  const state = await settleState(nodes, root.state, { savesEarly: true });
  await saveState(nodes, state);
  return layersHash(deps.platform, state);
}

/** The root of a snapshot; undefined where another reducer made it, and it is not itself what is to be compared with. */
async function storedRoot(
  deps: ReplayDeps,
  log: LogId,
  { position, ref }: CompletedSnapshot,
  { exact }: { readonly exact: boolean },
): Promise<Root | undefined> {
  const root = await loadRoot(deps, { log, position }, ref);
  const other = otherReducer(root, deps.reducer);
  if (other === undefined) return root;
  if (!exact) return undefined;
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
