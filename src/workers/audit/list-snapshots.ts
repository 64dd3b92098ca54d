import { LogfoldError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import type { Position } from '../../ids/position.ts';
import type { StoredItem } from '../../log/attribute.ts';
import { type ReservedTypes, type RootRef, rootOf, type SnapshotStatus, snapshotStatus } from '../../log/entry.ts';
import { decodeEntry, decodeEntryHead } from '../../log/item-codec.ts';
import { queryLast, queryNewestSegments } from '../../log/newest.ts';
import { bufferedEdits, type ReducerId } from '../../snapshot/root.ts';
import { loadRoot, type SnapshotStores } from '../../snapshot/snapshots.ts';
import { treeCount } from '../../tree/node.ts';
import { readRecords } from '../gc/collection-record.ts';
import { keepsRoot } from '../gc/kept-roots.ts';

export type ListSnapshotsDeps = SnapshotStores & { readonly types: ReservedTypes };

export interface ListedSnapshot {
  readonly position: Position;
  /** Epoch seconds; null if the entry cannot be read. */
  readonly created: number | null;
  /**
   * `dropped`: garbage collection removes its chunks. `damaged`: the entry or the root cannot be
   * read.
   */
  readonly status: SnapshotStatus | 'dropped' | 'damaged';
  /** The root's content; null unless the snapshot is complete. */
  readonly root: ListedRoot | null;
  /** The reason if it is damaged. */
  readonly error: { readonly code: string; readonly message: string } | null;
}

/** The facts that the root of a snapshot states. */
export interface ListedRoot {
  readonly reducer: ReducerId;
  /** Hash of the state; null if write buffers have edits. */
  readonly stateHash: string | null;
  /** Items in the trees of all maps. Each buffered edit may add or remove one. */
  readonly items: number;
  readonly bufferedEdits: number;
}

/** Entries of the first read, and the most entries of one. Each read is twice as long. */
const [FIRST_ENTRIES, MOST_ENTRIES] = [64, 4096];

/**
 * The Snapshot entries of a log, newest first, also those of archived segments. Reads the entries
 * of the log backwards, so a caller that wants a few snapshots stops early. Ends at entries that
 * have expired and are in no archive.
 * @throws LogNotFoundError if the log does not exist
 * @throws ObjectInvalidError if the records of garbage collection cannot be read
 */
export async function* listSnapshots(deps: ListSnapshotsDeps, log: LogId): AsyncGenerator<ListedSnapshot> {
  const { store, types } = deps;
  const [newest] = await queryNewestSegments(store, log, { consistent: true });
  const { dropped } = await readRecords(deps.blobs, log);
  let length = FIRST_ENTRIES;
  for (let number = newest.segment; number >= 0; number--) {
    const segment = await store.getSegment(log, number, { consistent: true });
    const last = await queryLast(deps, log, number);
    if (last === undefined || segment === undefined) return;
    for (let to = last.position.entry + 1; to > 0; ) {
      const from = Math.max(0, to - length);
      const items: StoredItem[] = [];
      // Other entries may take a gigabyte together.
      for await (const page of store.items(log, { segment: number, from, to }, { consistent: true })) {
        items.push(...page.filter((item) => item.T?.S === types.snapshot));
      }
      for (const item of items.reverse()) {
        yield listSnapshot(deps, log, item, (entry) => keepsRoot(segment, entry, { keepSnapshots: 'all', dropped }));
      }
      to = from;
      length = Math.min(2 * length, MOST_ENTRIES);
    }
  }
}

async function listSnapshot(
  deps: ListSnapshotsDeps,
  log: LogId,
  item: StoredItem,
  isKept: (entry: number) => boolean,
): Promise<ListedSnapshot> {
  const { position } = decodeEntryHead(item);
  const listed = { position, created: null, root: null, error: null };
  try {
    const entry = decodeEntry(item);
    const { created } = entry;
    const ref = rootOf(entry);
    if (ref === undefined) return { ...listed, created, status: snapshotStatus(entry) };
    if (!isKept(position.entry)) return { ...listed, created, status: 'dropped' };
    const found = await readRoot(deps, { log, position }, ref);
    return { ...listed, created, ...found };
  } catch (error) {
    return { ...listed, status: 'damaged', error: described(error) };
  }
}

async function readRoot(
  deps: ListSnapshotsDeps,
  place: { readonly log: LogId; readonly position: Position },
  ref: RootRef,
): Promise<Pick<ListedSnapshot, 'status' | 'root' | 'error'>> {
  try {
    const { reducer, stateHash = null, state } = await loadRoot(deps, place, ref);
    const items = state.maps.values().reduce((total, { tree }) => total + treeCount(tree), 0);
    return {
      status: 'complete',
      root: { reducer, stateHash, items, bufferedEdits: bufferedEdits(state) },
      error: null,
    };
  } catch (error) {
    return { status: 'damaged', root: null, error: described(error) };
  }
}

/** @throws the error itself if it is not about stored data */
function described(error: unknown): { readonly code: string; readonly message: string } {
  if (!(error instanceof LogfoldError && error.stopsLog)) throw error;
  return { code: error.code, message: error.message };
}
