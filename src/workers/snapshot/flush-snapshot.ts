import { MessageInvalidError } from '../../errors.ts';
import { comparePositions, type Position } from '../../ids/position.ts';
import { type RootRef, rootOf } from '../../log/entry.ts';
import { otherReducer } from '../../snapshot/build.ts';
import { bufferedEdits } from '../../snapshot/flush-due.ts';
import { encodeRoot, type Root } from '../../snapshot/root.ts';
import { keepReplacedRoot, loadRoot, nodeStore, saveRoot } from '../../snapshot/snapshots.ts';
import { flushState, hashFlushedState, isStateFlushed, saveState } from '../../state/state.ts';
import { isTimeUp } from '../jobs/deadline.ts';
import type { FlushJob } from '../jobs/job.ts';
import type { SnapshotDeps } from './build-snapshot.ts';
import { loadDuplicate, newestSnapshot, requireSnapshotEntry, type SnapshotPlace } from './snapshot-entry.ts';
import { type Stopped, withStopGuard } from './stop-guard.ts';

/** How a compact job ended. */
export type FlushResult =
  | {
      readonly outcome: 'compacted';
      readonly position: Position;
      readonly stateHash: string;
      /** Edits that waited. */
      readonly waited: number;
      readonly chunksWritten: number;
      readonly bytesWritten: number;
      readonly rootBytes: number;
    }
  /** The time was up: some maps are settled and stored. The others need another turn. */
  | {
      readonly outcome: 'settling';
      readonly position: Position;
      readonly chunksWritten: number;
      readonly bytesWritten: number;
      readonly rootBytes: number;
    }
  /** No edits wait. */
  | { readonly outcome: 'settled'; readonly position: Position }
  /** There is a newer snapshot, on which what comes is built and which clients load: this one is not worth it any more. */
  | { readonly outcome: 'passed'; readonly position: Position; readonly newest: Position }
  /** Another reducer, or another version, made the snapshot: the next one is built from the log anyway. */
  | { readonly outcome: 'foreign'; readonly position: Position; readonly reason: string }
  | Stopped;

/**
 * Settles a completed snapshot: writes the waiting edits into their leaves, then the chunks, then the root, and puts it in
 * the place of the root that the Snapshot entry carries, if it still carries that. The state stays the same, and so
 * does Last Snapshot. Nothing is deleted, so whoever reads by the old root goes on; its chunks are the collector's. Each
 * step leaves everything before it right, and may be done twice or beside its twin. What is wrong with the log itself
 * stops the log, as it does for a snapshot. Each turn settles a map at least.
 * @throws whatever may pass: the job is to be delivered again
 */
export function flushSnapshot(deps: SnapshotDeps, job: FlushJob): Promise<FlushResult> {
  // A stop is not lifted here: that settling worked proves nothing of the entry that could not be folded.
  return withStopGuard(deps, job, () => compact(deps, job));
}

async function compact(deps: SnapshotDeps, place: SnapshotPlace): Promise<FlushResult> {
  const { log, position } = place;
  const newest = await newestSnapshot(deps.store, log);
  if (newest !== undefined && comparePositions(newest, position) > 0) return { outcome: 'passed', position, newest };
  const from = await carriedRoot(deps, place);
  const root = await loadRoot(deps, place, from);
  const reason = otherReducer(root, deps.reducer);
  if (reason !== undefined) return { outcome: 'foreign', position, reason };
  if (isStateFlushed(root.state)) return { outcome: 'settled', position };

  const nodes = nodeStore(deps, log);
  const state = await flushState(nodes, root.state, { savesEarly: true, shouldStop: () => isTimeUp(deps) });
  await saveState(nodes, state);
  const stateHash = isStateFlushed(state) ? hashFlushedState(deps.platform, state) : undefined;
  const settled: Root = { ...root, state, stateHash };
  const encoded = encodeRoot(deps.platform, settled);
  const to = await saveRoot(deps.blobs, settled, encoded);
  await keepReplacedRoot(deps, place, from);
  if (!(await deps.tables.replaceRoot(log, position, from, to))) {
    await loadDuplicate(deps, settled, await carriedRoot(deps, place));
    return compact(deps, place);
  }
  const written = {
    chunksWritten: nodes.counts.written,
    bytesWritten: nodes.counts.bytesWritten,
    rootBytes: encoded.stored.length,
  };
  if (stateHash === undefined) return { outcome: 'settling', position, ...written };
  return { outcome: 'compacted', position, stateHash, waited: bufferedEdits(root.state), ...written };
}

async function carriedRoot(deps: SnapshotDeps, place: SnapshotPlace): Promise<RootRef> {
  const ref = rootOf(await requireSnapshotEntry(deps, place));
  if (ref !== undefined) return ref;
  throw new MessageInvalidError('a compact job is for a snapshot that is not completed', {
    log: place.log,
    ...place.position,
    advice: 'Do nothing: once the snapshot is completed, it is settled when that is due',
  });
}
