import { EntryGapError, HistoryGoneError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { comparePositions, type Position, START } from '../ids/position.ts';
import { rootOf } from '../log/entry.ts';
import { readEntries } from '../log/read-entries.ts';
import { mayLackEntries } from '../log/segment.ts';
import { foldEntries } from '../snapshot/fold.ts';
import type { LoadDeps } from '../snapshot/load.ts';
import { otherReducer } from '../snapshot/root.ts';
import { loadRoot, nodeStore } from '../snapshot/snapshots.ts';
import { Draft } from '../state/draft.ts';
import { type HistoryKeys, type KeyChange, KeyRecorder } from '../state/history/key-changes.ts';
import { recordingFold } from '../state/history/recording-draft.ts';

/** Unsaved nodes that a fold may hold before it goes on from a stored snapshot, in bytes. */
const HELD_BYTES = 64 * 1024 * 1024;

export interface FoldedHistoryDeps extends LoadDeps {
  /** 64 MiB by default. */
  readonly heldBytes?: number | undefined;
}

/**
 * The changes of keys in a log whose reducer keeps no history, in order of key and position. Folds
 * all entries before a position. So that memory does not grow with the log, it goes on from Last
 * Snapshot of a segment if its own nodes take too much.
 * @throws HistoryGoneError if entries expired and are in no archive
 * @throws any error that stops a log
 */
export async function* foldedChanges(
  deps: FoldedHistoryDeps,
  log: LogId,
  keys: HistoryKeys,
  to: Position,
): AsyncGenerator<KeyChange> {
  const recorder = new KeyRecorder(keys);
  const { name, version } = deps.reducer;
  const reducer = { name, version, fold: recordingFold(deps.reducer, () => recorder) };
  const { blobs, types, heldBytes = HELD_BYTES } = deps;
  let draft = new Draft(nodeStore(deps, log));
  let from = START;
  try {
    for (const next of [...(await lastSnapshots(deps, log, to)), to]) {
      await foldEntries(draft, readEntries(deps, log, { from, to: next }), { reducer, blobs, types });
      from = next;
      if (next !== to && draft.heldBytes > heldBytes) draft = (await storedDraft(deps, log, next)) ?? draft;
    }
  } catch (error) {
    throw error instanceof EntryGapError ? await gone(deps, log, error) : error;
  }
  yield* recorder.changes();
}

/** The Last Snapshot of each segment before a position, in order. */
async function lastSnapshots({ store }: LoadDeps, log: LogId, to: Position): Promise<Position[]> {
  const positions: Position[] = [];
  for await (const { lastSnapshot } of store.segments(log)) {
    const position = lastSnapshot?.position;
    const isAhead = position !== undefined && comparePositions(START, position) < 0;
    if (isAhead && comparePositions(position, to) < 0) positions.push(position);
  }
  return positions;
}

/** A draft of the snapshot at a position; undefined if the reducer cannot go on from there. */
async function storedDraft(deps: LoadDeps, log: LogId, position: Position): Promise<Draft | undefined> {
  const entry = await deps.store.getEntry(log, position, { consistent: true });
  const ref = entry && rootOf(entry);
  if (ref === undefined) return undefined;
  const root = await loadRoot(deps, { log, position }, ref);
  return otherReducer(root, deps.reducer) === undefined ? new Draft(nodeStore(deps, log), root.state) : undefined;
}

async function gone({ store }: LoadDeps, log: LogId, gap: EntryGapError): Promise<Error> {
  const number = gap.segment ?? 0;
  const segment = await store.getSegment(log, number, { consistent: true });
  if (segment === undefined || !mayLackEntries(segment)) return gap;
  return new HistoryGoneError(
    `the reducer keeps no history, and the entries of segment ${number} expired without an archive`,
    {
      log,
      segment: number,
      entry: gap.entry,
      advice: 'Fold logs with withHistory(reducer) before their entries expire, or archive segments first',
      cause: gap,
    },
  );
}
