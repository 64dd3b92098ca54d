import {
  EntryNotFoundError,
  type LogfoldError,
  MessageInvalidError,
  RootInvalidError,
  SnapshotMismatchError,
} from '../../errors.ts';
import { formatPosition } from '../../ids/position.ts';
import type { Entry, ReservedTypes, RootRef } from '../../log/entry.ts';
import { guardPointer } from '../../log/guard.ts';
import { rootAttribute } from '../../log/item-codec.ts';
import { advanceTo, type PublishDeps, type SnapshotPlace } from '../../log/last-snapshot.ts';
import type { LogReader } from '../../log/log-store.ts';
import { coveredEntries, isFrozen } from '../../log/segment.ts';
import { isDamage } from '../../snapshot/progress.ts';
import { otherReducer, type Root } from '../../snapshot/root.ts';
import { loadRoot, readWhole, type SnapshotStores } from '../../snapshot/snapshots.ts';
import type { Reducer } from '../../state/reducer.ts';

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
 * Moves Last Snapshot to a snapshot whose root another process wrote onto the entry. It first reads
 * the whole snapshot, so that Last Snapshot never names an unreadable one. If Last Snapshot does
 * not move, it reads nothing.
 * @returns the Last Snapshot of another program, if there is one
 * @throws RootInvalidError if the snapshot cannot be read completely; Last Snapshot does not move
 * then
 */
export async function advanceToCarried(
  deps: SnapshotStores & PublishDeps,
  place: SnapshotPlace,
  carried: RootRef,
): ReturnType<typeof advanceTo> {
  const { log, position } = place;
  const segment = await deps.store.getSegment(log, position.segment, { consistent: true });
  if (segment !== undefined && isFrozen(segment)) return undefined;
  if (coveredEntries(segment) > position.entry) return undefined;
  const part = segment && (await guardPointer(deps.store, segment));
  if (part !== undefined && deps.replaceForeign !== true) return part;
  await readCarried(place, carried, () => readWhole(deps, place, carried));
  return advanceTo(deps, place, part === undefined ? segment?.lastSnapshot : undefined);
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
  if (!isOtherState(deps, own, other)) return other;
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
 * Whether the stored root certainly has another state of the same reducer. False if one has
 * buffered edits.
 */
export function isOtherState({ reducer }: { readonly reducer: Reducer }, own: Root, stored: Root): boolean {
  if (otherReducer(stored, reducer) !== undefined) return false;
  return stored.stateHash !== undefined && own.stateHash !== undefined && stored.stateHash !== own.stateHash;
}

async function readCarried(place: SnapshotPlace, carried: RootRef, read: () => Promise<Root>): Promise<Root> {
  try {
    return await read();
  } catch (error) {
    if (!isDamage(error)) throw error;
    const { name } = rootAttribute(carried);
    throw damagedRoot(place, name, error);
  }
}

function damagedRoot({ log, position }: SnapshotPlace, name: 'B' | 'E', cause: LogfoldError): RootInvalidError {
  const reason = `the snapshot cannot be read completely (${cause.code}: ${cause.reason})`;
  return new RootInvalidError(`attribute '${name}' of the Snapshot entry is not a root of this snapshot: ${reason}`, {
    log,
    ...position,
    advice: `Nothing was changed. Remove attribute '${name}' from the item and run 'logfold resume LOG', or restore the objects. Then find out what wrote it`,
    cause,
  });
}
