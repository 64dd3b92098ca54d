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
import { queryLastSnapshot, queryNewestSegments } from '../../log/newest.ts';
import { isFrozen } from '../../log/segment.ts';
import { otherReducer } from '../../snapshot/build.ts';
import { isDamage } from '../../snapshot/progress.ts';
import type { Root } from '../../snapshot/root.ts';
import { loadRoot, readWhole, type SnapshotStores } from '../../snapshot/snapshots.ts';
import type { Reducer } from '../../state/reducer.ts';

/** The log and position of a job's Snapshot entry. */
export interface SnapshotPlace {
  readonly log: LogId;
  readonly position: Position;
}

/**
 * Reads the Snapshot entry that a job names.
 * @throws EntryNotFoundError if it does not exist
 * @throws MessageInvalidError if the entry has another type
 */
export async function requireSnapshotEntry(
  deps: { readonly store: LogReader; readonly types: ReservedTypes },
  { log, position }: SnapshotPlace,
): Promise<Entry> {
  return checkSnapshotEntry(deps, { log, position }, await deps.store.getEntry(log, position, { consistent: true }));
}

/** Checks like {@link requireSnapshotEntry}, for an entry that was already read. */
export function checkSnapshotEntry(
  deps: { readonly types: ReservedTypes },
  { log, position }: SnapshotPlace,
  entry: Entry | undefined,
): Entry {
  const where = { log, ...position };
  if (entry === undefined) {
    throw new EntryNotFoundError('the Snapshot entry of a job does not exist', {
      ...where,
      advice: 'Check that this queue belongs to this deployment. If the log or its segment was removed, do nothing',
    });
  }
  if (entry.type !== deps.types.snapshot) {
    throw new MessageInvalidError(`a job names a Snapshot entry, but the entry has type '${entry.type}'`, {
      ...where,
      advice: 'Configure all functions with the same type names',
    });
  }
  return entry;
}

/**
 * The newest complete snapshot of a log; undefined if there is none.
 * @throws LogNotFoundError if the log has no segment
 */
export async function newestSnapshot(store: SegmentReader, log: LogId): Promise<Position | undefined> {
  return queryLastSnapshot(store, log, await queryNewestSegments(store, log, { consistent: true }));
}

/**
 * The root that a Snapshot entry carries; undefined while its snapshot is pending.
 * @throws RootInvalidError if the entry has a body that cannot be a root
 */
export function carriedRoot(entry: Entry): RootRef | undefined {
  const carried = rootOf(entry);
  if (carried === undefined && entry.body !== undefined) throw foreignRoot(entry, 'B', 'it is not Binary');
  return carried;
}

/**
 * Moves Last Snapshot to a snapshot whose root another process wrote onto the entry. It first reads
 * the whole snapshot, so that Last Snapshot never names an unreadable one. If Last Snapshot does
 * not move, it reads nothing.
 * @throws RootInvalidError if the snapshot cannot be read completely; Last Snapshot does not move
 * then
 */
export async function advanceToCarried(
  deps: SnapshotStores & { readonly tables: SnapshotPublisher },
  place: SnapshotPlace,
  carried: RootRef,
): Promise<void> {
  const { log, position } = place;
  const segment = await deps.store.getSegment(log, position.segment, { consistent: true });
  if (segment !== undefined && isFrozen(segment)) return;
  if ((segment?.lastSnapshot ?? -1) >= position.entry) return;
  await readCarried(place, carried, () => readWhole(deps, place, carried));
  await deps.tables.advanceLastSnapshot(log, position);
}

/**
 * Loads the root that a duplicate wrote first onto a Snapshot entry, and checks that its state is
 * the same. If the duplicate ran another version of the reducer, during a deployment, the states
 * are not compared.
 * @throws RootInvalidError if the root cannot be read
 * @throws SnapshotMismatchError if the states differ
 */
export async function loadDuplicate(
  deps: SnapshotStores & { readonly reducer: Reducer },
  own: Root,
  carried: RootRef,
): Promise<Root> {
  const { log, position } = own;
  const other = await readCarried(own, carried, () => loadRoot(deps, { log, position }, carried));
  if (otherReducer(other, deps.reducer) !== undefined || !differ(other, own)) return other;
  throw new SnapshotMismatchError(
    `two roots of the snapshot at ${formatPosition(position)} have different states: ${own.stateHash} and ${other.stateHash}`,
    {
      log,
      ...position,
      advice:
        "The reducer is not deterministic, or stored objects were changed. Run 'logfold replay LOG' to find the right state",
    },
  );
}

/**
 * Whether two roots certainly have different states. If one has buffered edits, only a replay can
 * tell.
 */
function differ(a: Root, b: Root): boolean {
  return a.stateHash !== undefined && b.stateHash !== undefined && a.stateHash !== b.stateHash;
}

async function readCarried(place: SnapshotPlace, carried: RootRef, read: () => Promise<Root>): Promise<Root> {
  try {
    return await read();
  } catch (error) {
    if (!isDamage(error)) throw error;
    const { name } = rootAttribute(carried);
    throw foreignRoot(place, name, `the snapshot cannot be read completely (${error.code}: ${error.reason})`, error);
  }
}

function foreignRoot(
  { log, position }: SnapshotPlace,
  name: 'B' | 'E',
  reason: string,
  cause?: LogfoldError,
): RootInvalidError {
  return new RootInvalidError(`attribute '${name}' of the Snapshot entry is not a root of this snapshot: ${reason}`, {
    log,
    ...position,
    advice: `Nothing was changed. Remove attribute '${name}' from the item and run 'logfold resume LOG', or restore the objects. Then find out what wrote it`,
    cause,
  });
}
