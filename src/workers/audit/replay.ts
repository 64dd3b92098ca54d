import type { ChunkStore } from '../../codec/chunk.ts';
import { SegmentWithoutSnapshotError, TimeUpError, UsageError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import { comparePositions, formatPosition, type Position } from '../../ids/position.ts';
import { type CompletedSnapshot, completedSnapshot } from '../../log/entry.ts';
import { findSnapshot } from '../../log/last-snapshot.ts';
import { queryNewestSegments } from '../../log/newest.ts';
import type { Segment } from '../../log/segment.ts';
import { type BuildDeps, type Built, buildState } from '../../snapshot/build.ts';
import { otherReducer, type Root } from '../../snapshot/root.ts';
import { chunkStore, loadRoot } from '../../snapshot/snapshots.ts';
import { flushState, hashFlushedState, saveState } from '../../state/state.ts';
import { NodeStore } from '../../tree/node-store.ts';
import { readCollected } from '../gc/collection-record.ts';
import { keepsRoot } from '../gc/kept-roots.ts';
import { isTimeUp } from '../jobs/deadline.ts';
import { countMetric, type Report } from '../jobs/report.ts';
import { Waypoints } from './waypoints.ts';

export interface ReplayDeps extends BuildDeps {
  /** Receives the chunks of the replay, so that the log's chunks stay untouched. */
  readonly scratch: ChunkStore;
}

export interface ReplayPartDeps extends ReplayDeps {
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** The run ends after the first step of entries folded after this time, in epoch milliseconds. */
  readonly deadline: number;
}

/** The part of a log that a replay folds. */
export interface ReplayRange {
  /** The end of the replay; the newest complete snapshot by default. */
  readonly at?: Position | undefined;
  /** A stored snapshot from which the fold starts; the log's beginning by default. */
  readonly from?: Position | undefined;
}

export interface Replayed {
  readonly outcome: 'replayed';
  /**
   * The stored snapshot from which the fold started; null for the log's beginning. The replay does
   * not prove it.
   */
  readonly from: Position | null;
  readonly position: Position;
  /** State hash of the fold at the position. */
  readonly replayed: string;
  /**
   * State hash of the stored snapshot at the position. If there is none, the hash of an earlier
   * snapshot plus the entries since. Null if there is no such snapshot either.
   */
  readonly stored: string | null;
  /** Null if nothing was compared. */
  readonly equal: boolean | null;
  /** The stored snapshot of the comparison; null if this reducer made none up to the position. */
  readonly snapshot: Position | null;
  readonly entries: number;
}

/** The result of a run that ended before its position. */
export interface PartlyReplayed {
  readonly outcome: 'partial';
  /** As in {@link Replayed}. */
  readonly from: Position | null;
  /** The end of the replay, for the next run. */
  readonly position: Position;
  /** The last stored snapshot on the way that equals the fold. The next run starts from it. */
  readonly equalUpTo: Position;
  readonly entries: number;
}

export function reportReplay(result: Replayed | PartlyReplayed): Report {
  const { text, level } = verdictOf(result);
  return { text, level, metrics: [countMetric('ReplaysDiffered', level === 'error' ? 1 : 0)] };
}

function verdictOf(result: Replayed | PartlyReplayed): Report {
  if (result.outcome === 'partial') {
    return { text: 'a replay equals the stored snapshots so far; its time was up', level: 'info' };
  }
  if (result.equal === null) return { text: 'a replay found no stored snapshot to compare with', level: 'warn' };
  if (result.equal) return { text: 'a replay equals the stored snapshot', level: 'info' };
  return { text: 'a replay DIFFERS from the stored snapshot', level: 'error' };
}

/**
 * Folds a log up to a position and compares the state hash with the stored one. Writes only to
 * scratch. It also throws the errors that stop a log.
 * @throws UsageError if another reducer made the stored snapshot, or if `from` is not the position
 * of an earlier stored snapshot
 * @throws LogNotFoundError if the log has no segment
 * @throws EntryGapError if an entry is missing
 */
export async function replay(deps: ReplayDeps, log: LogId, range: ReplayRange = {}): Promise<Replayed> {
  const plan = await planReplay(deps, log, range);
  const { root, entries } = await buildState(plan.folding, log, { at: plan.position, only: plan.start ?? 'beginning' });
  const stored = await storedState(deps, plan);
  return { ...(await compare(deps, plan, root, stored)), entries };
}

/**
 * Replays until the deadline. By induction, a snapshot that equals the fold replaces the entries
 * before it. A run therefore compares some stored snapshots along the way, and the next run can
 * start from the last of them. The first snapshot that differs ends the replay with its position.
 * It also throws the errors of {@link replay}.
 * @throws TimeUpError if time runs out before the position, and no snapshot on the way was found
 * equal
 */
export async function replayPart(
  deps: ReplayPartDeps,
  log: LogId,
  range: ReplayRange = {},
): Promise<Replayed | PartlyReplayed> {
  const waypoints = new Waypoints(deps, log, range.from);
  const plan = await planReplay(deps, log, range);
  const { position, from } = plan;
  const shouldStop = () => isTimeUp(deps);
  let root = plan.start;
  let equalUpTo: Position | undefined;
  let entries = 0;
  do {
    const built: Built = await buildState(plan.folding, log, {
      at: position,
      only: root ?? 'beginning',
      shouldStop,
      // If a continuation started from the final snapshot, it would compare the snapshot with
      // itself.
      stopsBefore: (entry) => !isAt(entry.position, plan.base?.position) && waypoints.isDue(entry),
    });
    root = built.root;
    entries += built.entries;
    if (isAt(root.position, position)) {
      const stored = await storedState(deps, plan, shouldStop);
      if (stored === undefined || isAt(stored.position, position)) {
        return { ...(await compare(deps, plan, root, stored)), entries };
      }
      break;
    }
    const compared = await waypoints.compare((each) => bothHashes(deps, plan, built.root, each));
    if (compared === undefined) continue;
    const { replayed, stored } = compared;
    const passed = root.position;
    if (replayed !== stored) {
      const differs = { position: passed, snapshot: passed, replayed, stored, equal: false };
      return { outcome: 'replayed', from, ...differs, entries };
    }
    equalUpTo = passed;
  } while (!shouldStop());
  if (equalUpTo !== undefined) return { outcome: 'partial', from, position, equalUpTo, entries };
  const to = formatPosition(position);
  const part = from === null ? to : `${to} --from ${formatPosition(from)}`;
  throw new TimeUpError(
    `time ran out at ${formatPosition(root.position)}, after ${entries} entries and before any stored snapshot was found equal`,
    { log, advice: `Run 'logfold replay LOG --at ${part}' on your own machine, where there is no time limit` },
  );
}

interface Plan {
  readonly log: LogId;
  readonly position: Position;
  readonly from: Position | null;
  /** The root at `from`. */
  readonly start: Root | undefined;
  /** The root of the stored snapshot for the comparison, at the position or before it. */
  readonly base: Root | undefined;
  /**
   * Dependencies of the fold. A fold from the log's beginning cannot read the chunks of the log.
   */
  readonly folding: ReplayDeps;
  /** The chunks of the log and of scratch. */
  readonly chunks: ChunkStore;
}

async function planReplay(deps: ReplayDeps, log: LogId, { at, from }: ReplayRange): Promise<Plan> {
  const [newest] = await queryNewestSegments(deps.store, log, { consistent: true });
  const end = { segment: newest.segment, entry: Number.MAX_SAFE_INTEGER };
  const found = (at && (await snapshotAt(deps, log, at))) ?? (await findSnapshot(deps.store, log, at ?? end));
  const position = at ?? found?.position;
  if (position === undefined) throw await withoutSnapshot(deps.store, newest);
  // Before the fold, which takes long, because there may be nothing to compare.
  const base = found && (await storedRoot(deps, log, found, { exact: isAt(found.position, position) }));
  const start = from && (await startRoot(deps, log, { from, before: position, base: base?.position }));
  const chunks = overlay(deps.scratch, chunkStore(deps.blobs, log));
  const folding = { ...deps, chunks: start === undefined ? deps.scratch : chunks };
  return { log, position, from: from ?? null, start, base, folding, chunks };
}

async function withoutSnapshot(
  store: ReplayDeps['store'],
  { log, segment, schedule }: Segment,
): Promise<SegmentWithoutSnapshotError> {
  const last = await store.newestEntry(log, segment, { consistent: true });
  if (schedule === undefined || segment > 0 || (last?.position.entry ?? 0) > schedule.snapshotEvery) {
    return new SegmentWithoutSnapshotError('the log has no complete snapshot yet', {
      log,
      advice: "Run 'logfold sweep --log LOG' to complete a snapshot, or name a position with --at",
    });
  }
  const items = `${schedule.snapshotEvery} item${schedule.snapshotEvery === 1 ? '' : 's'}`;
  return new SegmentWithoutSnapshotError(`the first snapshot of the log is due at ${items}, and it has fewer`, {
    log,
    advice: 'Replay the log again when it has a snapshot; until then there is nothing to compare',
  });
}

/**
 * @throws UsageError if the fold cannot start from the snapshot at `from`, or would prove nothing
 */
async function startRoot(
  deps: ReplayDeps,
  log: LogId,
  { from, before, base }: { readonly from: Position; readonly before: Position; readonly base: Position | undefined },
): Promise<Root> {
  const refuse = (reason: string): UsageError =>
    new UsageError(`cannot replay from ${formatPosition(from)}: ${reason}`, {
      log,
      ...from,
      advice: "Leave out 'from' to start at the beginning of the log",
    });
  if (comparePositions(from, before) >= 0) throw refuse(`it is not before ${formatPosition(before)}`);
  if (isAt(from, base)) throw refuse('the replay would compare this snapshot with itself');
  const found = await snapshotAt(deps, log, from);
  if (found === undefined) throw refuse('there is no stored snapshot, or it was dropped');
  const root = await loadRoot(deps, { log, position: from }, found.root);
  const other = otherReducer(root, deps.reducer);
  if (other !== undefined) throw refuse(other);
  return root;
}

/**
 * The stored state at the position: a stored root, or an earlier root with the entries since;
 * undefined if no root is stored.
 * @returns a root before the position if `shouldStop` became true
 */
async function storedState(
  deps: ReplayDeps,
  { log, position, base, chunks }: Plan,
  shouldStop?: () => boolean,
): Promise<Root | undefined> {
  if (base === undefined || isAt(base.position, position)) return base;
  return (await buildState({ ...deps, chunks }, log, { at: position, only: base, shouldStop })).root;
}

async function compare(
  deps: ReplayDeps,
  plan: Plan,
  root: Root,
  other: Root | undefined,
): Promise<Omit<Replayed, 'entries'>> {
  const { position, from, base, folding } = plan;
  const result = { outcome: 'replayed', from, position } as const;
  if (other === undefined || base === undefined) {
    const replayed = await flushedHash(deps, folding.chunks ?? deps.scratch, root);
    return { ...result, replayed, stored: null, equal: null, snapshot: null };
  }
  const { replayed, stored } = await bothHashes(deps, plan, root, other);
  return { ...result, replayed, stored, equal: replayed === stored, snapshot: base.position };
}

async function bothHashes(
  deps: ReplayDeps,
  { folding, chunks }: Plan,
  root: Root,
  other: Root,
): Promise<{ readonly replayed: string; readonly stored: string }> {
  const replayed = await flushedHash(deps, folding.chunks ?? deps.scratch, root);
  return { replayed, stored: await flushedHash(deps, chunks, other) };
}

/**
 * The snapshot that the entry at a position carries; undefined if there is none, or if it was
 * dropped.
 */
async function snapshotAt(deps: ReplayDeps, log: LogId, position: Position): Promise<CompletedSnapshot | undefined> {
  const { snapshot } = deps.types;
  const entry = await deps.store.getEntry(log, position, { consistent: true });
  const completed = entry?.type === snapshot ? completedSnapshot(entry) : undefined;
  if (completed === undefined) return undefined;
  const segment = await deps.store.getSegment(log, position.segment, { consistent: true });
  // Snapshots that were dropped less than a grace period ago still exist.
  const dropped = new Map((await readCollected(deps.blobs, log)).dropped);
  if (segment === undefined || !keepsRoot(segment, position.entry, { keepSnapshots: 'all', dropped })) return undefined;
  return completed;
}

function isAt(position: Position, other: Position | undefined): boolean {
  return other !== undefined && comparePositions(position, other) === 0;
}

/** The state hash of a root. Flushes buffered edits in scratch first. */
async function flushedHash(deps: ReplayDeps, chunks: ChunkStore, root: Root): Promise<string> {
  if (root.stateHash !== undefined) return root.stateHash;
  const nodes = new NodeStore(chunks, deps.platform, deps.nodes);
  const state = await flushState(nodes, root.state, { savesEarly: true });
  await saveState(nodes, state);
  return hashFlushedState(deps.platform, state);
}

/**
 * The root of a snapshot; undefined if another reducer made it and it is not exactly at the
 * position.
 * @throws UsageError if another reducer made it and it is exactly at the position
 */
async function storedRoot(
  deps: ReplayDeps,
  log: LogId,
  { position, root: ref }: CompletedSnapshot,
  { exact }: { readonly exact: boolean },
): Promise<Root | undefined> {
  const root = await loadRoot(deps, { log, position }, ref);
  const other = otherReducer(root, deps.reducer);
  if (other === undefined) return root;
  if (!exact) return undefined;
  throw new UsageError(other, {
    log,
    ...position,
    advice: 'Replay with the reducer that made it, or after this reducer has made a newer snapshot',
  });
}

/** Reads from both stores and writes to the first. */
function overlay(scratch: ChunkStore, below: ChunkStore): ChunkStore {
  return {
    where: below.where,
    get: async (id) => (await scratch.get(id)) ?? (await below.get(id)),
    put: (id, stored) => scratch.put(id, stored),
  };
}
