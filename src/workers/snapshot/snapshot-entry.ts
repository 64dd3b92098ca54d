import {
  EntryNotFoundError,
  type LogfoldError,
  MessageInvalidError,
  RootInvalidError,
  SnapshotMismatchError,
} from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import { formatPosition, type Position } from '../../ids/position.ts';
import { type Entry, type ReservedTypes, type RootRef, rootOf } from '../../log/entry.ts';
import { rootAttribute } from '../../log/item-codec.ts';
import type { LogReader, SegmentReader, SnapshotPublisher } from '../../log/log-store.ts';
import { queryNewestSegments } from '../../log/newest.ts';
import { lastSnapshotOf } from '../../log/segment.ts';
import { otherReducer } from '../../snapshot/build.ts';
import { isDamage } from '../../snapshot/progress.ts';
import type { Root } from '../../snapshot/root.ts';
import { loadRoot, readWhole, type SnapshotStores } from '../../snapshot/snapshots.ts';
import type { Reducer } from '../../state/reducer.ts';

/** Where a job's Snapshot entry is. */
export interface SnapshotPlace {
  readonly log: LogId;
  readonly position: Position;
}

/**
 * The Snapshot entry that a job names.
 * @throws EntryNotFoundError where there is none
 * @throws MessageInvalidError where it is an entry of another type
 */
export async function requireSnapshotEntry(
  deps: { readonly store: LogReader; readonly types: ReservedTypes },
  { log, position }: SnapshotPlace,
): Promise<Entry> {
  return checkSnapshotEntry(deps, { log, position }, await deps.store.getEntry(log, position, { consistent: true }));
}

/** As {@link requireSnapshotEntry}, for an entry that has been read. */
export function checkSnapshotEntry(
  deps: { readonly types: ReservedTypes },
  { log, position }: SnapshotPlace,
  entry: Entry | undefined,
): Entry {
  const where = { log, ...position };
  if (entry === undefined) {
    throw new EntryNotFoundError('a job is for a Snapshot entry that does not exist', {
      ...where,
      advice: 'Check that this queue belongs to this deployment; if the log or its segment was removed, do nothing',
    });
  }
  if (entry.type !== deps.types.snapshot) {
    throw new MessageInvalidError(`a job is for a Snapshot entry where there is one of type '${entry.type}'`, {
      ...where,
      advice: 'Check that router and worker are configured with the same type names',
    });
  }
  return entry;
}

/**
 * The newest completed snapshot of a log; undefined where it has none.
 * @throws LogNotFoundError
 */
export async function newestSnapshot(store: SegmentReader, log: LogId): Promise<Position | undefined> {
  return lastSnapshotOf(await queryNewestSegments(store, log, { consistent: true }));
}

/**
 * The root that a Snapshot entry carries; undefined while its snapshot is not completed.
 * @throws RootInvalidError if the entry has a body that cannot be a root
 */
export function carriedRoot(entry: Entry): RootRef | undefined {
  const carried = rootOf(entry);
  if (carried === undefined && entry.body !== undefined) throw foreignRoot(entry, 'B', 'it is not Binary');
  return carried;
}

/**
 * Moves Last Snapshot to a snapshot whose root another process put onto the entry: after that snapshot was read whole, so
 * that Last Snapshot never names a snapshot that cannot be read. Reads nothing if Last Snapshot does not move.
 * @throws RootInvalidError if the snapshot cannot be read whole; Last Snapshot stays as it is
 */
export async function advanceToCarried(
  deps: SnapshotStores & { readonly tables: SnapshotPublisher },
  place: SnapshotPlace,
  carried: RootRef,
): Promise<void> {
  const { log, position } = place;
  const segment = await deps.store.getSegment(log, position.segment, { consistent: true });
  if (segment?.archive !== undefined || segment?.expires !== undefined) return;
  if ((segment?.lastSnapshot ?? -1) >= position.entry) return;
  await readCarried(place, carried, () => readWhole(deps, place, carried));
  await deps.tables.advanceLastSnapshot(log, position);
}

/**
 * The root that a twin was faster to put onto a Snapshot entry. Both say the same state, or something is wrong; only
 * where a new version of the reducer is being deployed, and the twin was of the old one, nothing is to be compared.
 * @throws RootInvalidError if the root cannot be read
 * @throws SnapshotMismatchError where the states differ
 */
export async function loadDuplicate(
  deps: SnapshotStores & { readonly reducer: Reducer },
  own: Root,
  carried: RootRef,
): Promise<Root> {
  const { log, position } = own;
  const twin = await readCarried(own, carried, () => loadRoot(deps, { log, position }, carried));
  if (otherReducer(twin, deps.reducer) !== undefined || !differ(twin, own)) return twin;
  throw new SnapshotMismatchError(
    `two roots of the snapshot at ${formatPosition(position)} have different states: ${own.stateHash} and ${twin.stateHash}`,
    {
      log,
      ...position,
      advice:
        "The reducer is not deterministic, or stored objects were changed. Run 'logfold replay LOG' to see which is right",
    },
  );
}

/** Whether two roots surely say different states; where edits wait in one, only a replay can tell. */
function differ(a: Root, b: Root): boolean {
  return a.stateHash !== undefined && b.stateHash !== undefined && a.stateHash !== b.stateHash;
}

async function readCarried(place: SnapshotPlace, carried: RootRef, read: () => Promise<Root>): Promise<Root> {
  try {
    return await read();
  } catch (error) {
    if (!isDamage(error)) throw error;
    const { name } = rootAttribute(carried);
    throw foreignRoot(place, name, `the snapshot cannot be read whole (${error.code}: ${error.reason})`, error);
  }
}

function foreignRoot(
  { log, position }: SnapshotPlace,
  name: 'B' | 'E',
  reason: string,
  cause?: LogfoldError,
): RootInvalidError {
  return new RootInvalidError(`attribute '${name}' of the Snapshot entry is no root of this snapshot: ${reason}`, {
    log,
    ...position,
    advice: `Nothing was changed. Remove attribute '${name}' from the item and run 'logfold resume LOG', or restore the objects; then find out what wrote it`,
    cause,
  });
}
