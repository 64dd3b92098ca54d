import { MessageInvalidError } from '../../errors.ts';
import { formatPosition, type Position } from '../../ids/position.ts';
import { rootOf } from '../../log/entry.ts';
import { guardRoot, type PassedOver, passOver } from '../../log/guard.ts';
import { newestSnapshot, type SnapshotPlace } from '../../log/last-snapshot.ts';
import { bufferedEdits, encodeRoot, otherReducer, type Root } from '../../snapshot/root.ts';
import { keepReplacedRoot, loadRoot, nodeStore, saveRoot } from '../../snapshot/snapshots.ts';
import { type Stopped, withStopGuard } from '../../snapshot/stop.ts';
import { flushState, hashFlushedState, isStateFlushed, saveState } from '../../state/state.ts';
import { isTimeUp } from '../jobs/deadline.ts';
import type { FlushJob } from '../jobs/job.ts';
import {
  count,
  IN_PART,
  type Report,
  reportUndone,
  type Written,
  writtenMetrics,
  writtenText,
} from '../jobs/report.ts';
import type { SnapshotDeps } from './build-snapshot.ts';
import { loadDuplicate, requireSnapshotEntry } from './snapshot-entry.ts';

export type FlushResult =
  | (Written & {
      readonly outcome: 'flushed';
      readonly position: Position;
      readonly stateHash: string;
      /** Edits that were buffered before. */
      readonly flushedEdits: number;
    })
  /** The time was up. Some maps are flushed and stored; a continuation flushes the others. */
  | (Written & { readonly outcome: 'flushing'; readonly position: Position })
  /** The buffers were empty already. */
  | { readonly outcome: 'empty'; readonly position: Position }
  /**
   * There is a newer snapshot. Clients load that one and builds start from it, so a flush of this
   * one has no use.
   */
  | { readonly outcome: 'passed'; readonly position: Position; readonly newest: Position }
  /**
   * Another reducer or version made the snapshot, and the next snapshot is built from the log
   * anyway. Or another program wrote onto the Snapshot entry.
   */
  | PassedOver<{ readonly position: Position }>
  | Stopped;

export function reportFlush(result: FlushResult): Report {
  switch (result.outcome) {
    case 'flushed': {
      const text = `${count(result.flushedEdits, 'edit')} flushed, ${writtenText(result)}`;
      return { text, level: 'info', metrics: writtenMetrics(result) };
    }
    case 'flushing':
      return { ...IN_PART, metrics: writtenMetrics(result) };
    case 'empty':
      return { text: 'no buffered edits', level: 'quiet' };
    case 'passed':
      return { text: `the snapshot at ${formatPosition(result.newest)} is newer`, level: 'quiet' };
    default:
      return reportUndone(result);
  }
}

/**
 * Flushes a complete snapshot: writes the buffered edits into their leaves, then the chunks, then
 * the root. The new root replaces the root on the Snapshot entry, unless that has changed. The
 * state and Last Snapshot stay the same. Nothing is deleted, so readers of the old root can go on;
 * a collection removes its chunks later.
 *
 * Each step is safe to repeat and to run alongside a duplicate. Each run flushes at least one map.
 * An error of the log itself stops the log, as in a build. It throws all other errors; the job is
 * then retried.
 */
export function flushSnapshot(deps: SnapshotDeps, job: FlushJob): Promise<FlushResult> {
  // A flush does not clear a stop: it proves nothing about the entry that could not be folded.
  return withStopGuard(deps, job, () => flushSnapshotAt(deps, job));
}

async function flushSnapshotAt(deps: SnapshotDeps, place: SnapshotPlace): Promise<FlushResult> {
  const { log, position } = place;
  const newest = await newestSnapshot(deps.store, log, position);
  if (newest !== undefined) return { outcome: 'passed', position, newest };
  const entry = await requireSnapshotEntry(deps, place);
  const other = guardRoot(entry);
  if (other !== undefined) return passOver({ position }, other);
  const from = rootOf(entry) ?? notComplete(place);
  const root = await loadRoot(deps, place, from);
  const reason = otherReducer(root, deps.reducer);
  if (reason !== undefined) return passOver({ position }, reason);
  if (isStateFlushed(root.state)) return { outcome: 'empty', position };

  const nodes = nodeStore(deps, log);
  const state = await flushState(nodes, root.state, { savesEarly: true, shouldStop: () => isTimeUp(deps) });
  await saveState(nodes, state);
  const stateHash = isStateFlushed(state) ? hashFlushedState(deps.platform, state) : undefined;
  const flushed: Root = { ...root, state, stateHash };
  const encoded = encodeRoot(deps.platform, flushed);
  const to = await saveRoot(deps.blobs, flushed, encoded);
  await keepReplacedRoot(deps, place, from);
  if (!(await deps.tables.replaceRoot(log, position, from, to))) {
    const carried = rootOf(await requireSnapshotEntry(deps, place));
    if (carried !== undefined) await loadDuplicate(deps, flushed, carried);
    return flushSnapshotAt(deps, place);
  }
  const written = {
    chunksWritten: nodes.counts.written,
    bytesWritten: nodes.counts.bytesWritten,
    rootBytes: encoded.stored.length,
  };
  if (stateHash === undefined) return { outcome: 'flushing', position, ...written };
  return { outcome: 'flushed', position, stateHash, flushedEdits: bufferedEdits(root.state), ...written };
}

function notComplete(place: SnapshotPlace): never {
  throw new MessageInvalidError('the snapshot of a flush job is not complete', {
    log: place.log,
    ...place.position,
    advice: 'Do nothing: after the snapshot is complete, it is flushed when this is due',
  });
}
