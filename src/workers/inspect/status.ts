import { openArchive } from '../../archive/reader.ts';
import { type ItemInvalidError, LogfoldError } from '../../errors.ts';
import { type LogId, parseLogId } from '../../ids/log-id.ts';
import { comparePositions, type Position } from '../../ids/position.ts';
import { type ReservedTypes, rootOf } from '../../log/entry.ts';
import type { SegmentReader, TableReader } from '../../log/log-store.ts';
import { querySegments } from '../../log/newest.ts';
import type { Segment } from '../../log/segment.ts';
import { HELD } from '../../retention/retention-policy.ts';
import { bufferedEdits } from '../../snapshot/flush-due.ts';
import { loadRoot, type SnapshotStores } from '../../snapshot/snapshots.ts';
import { readStop, type Stop } from '../../snapshot/stop.ts';
import { chunkPrefix } from '../../store/keys.ts';

export type StatusDeps = Pick<SnapshotStores, 'blobs' | 'platform'> & {
  /** The tables themselves: a store that reads archives too would open one for each segment whose entries are gone. */
  readonly tables: TableReader;
  readonly types: ReservedTypes;
  /** Epoch milliseconds. */
  readonly now: () => number;
};

export interface LogStatus {
  readonly log: LogId;
  readonly segments: number;
  /** Segments that have an archive. */
  readonly archived: number;
  /** Segments whose entries leave the table, or are about to. */
  readonly expiring: number;
  /** Segments whose entries have left the table. */
  readonly expired: number;
  /** All that were ever written, wherever they are now. */
  readonly entries: number;
  readonly lastSnapshot: Position | null;
  /** Entries after the newest completed snapshot's own entry. */
  readonly lagEntries: number;
  /** Chunks in the blob store, and their stored size in bytes. */
  readonly chunks: number;
  readonly bytes: number;
  /** Edits in the write buffers of the newest snapshot; null if its root cannot be read. */
  readonly bufferedEdits: number | null;
  readonly stopped: Stop | null;
}

/** How one segment of a log stands. */
export interface SegmentStatus {
  readonly segment: number;
  /** All that were ever written, wherever they are now. */
  readonly entries: number;
  /** Number of the newest entry with a completed snapshot. */
  readonly lastSnapshot: number | null;
  readonly archived: boolean;
  /** Epoch seconds from which on the entries leave the table; null while they stay. */
  readonly expires: number | null;
  /** Whether the entries have left the table, or may have at any moment. */
  readonly expired: boolean;
}

/**
 * How each segment of a log stands, in order.
 * @throws LogNotFoundError
 */
export async function segmentStatuses(deps: StatusDeps, log: LogId): Promise<SegmentStatus[]> {
  const segments = await querySegments(deps.tables, log, { consistent: false });
  const entries = await Promise.all(segments.map((segment) => entryCount(deps, segment)));
  const now = deps.now();
  return segments.map(({ segment, lastSnapshot = null, archive, expires = null, expired }, i) => ({
    segment,
    entries: entries[i] ?? 0,
    lastSnapshot,
    archived: archive !== undefined,
    expires,
    expired: expired !== undefined && expires !== null && expires !== HELD && expires * 1000 <= now,
  }));
}

/**
 * How one log stands.
 * @param known how its segments stand; looked at where that is left out
 * @throws LogNotFoundError
 */
export async function logStatus(
  deps: StatusDeps,
  log: LogId,
  known?: readonly SegmentStatus[] | undefined,
): Promise<LogStatus> {
  const segments = known ?? (await segmentStatuses(deps, log));
  const entries = segments.reduce((total, each) => total + each.entries, 0);
  const lastSnapshot = newestSnapshot(segments);
  const folded = segments.reduce((total, each) => total + foldedIn(each, lastSnapshot), 0);
  let chunks = 0;
  let bytes = 0;
  for await (const blob of deps.blobs.list(chunkPrefix(log))) {
    chunks++;
    bytes += blob.bytes;
  }
  const stopped = (await readStop(deps.blobs, log)) ?? null;
  return {
    log,
    segments: segments.length,
    archived: segments.filter(({ archived }) => archived).length,
    expiring: segments.filter(({ expires, expired }) => expires !== null && !expired).length,
    expired: segments.filter(({ expired }) => expired).length,
    entries,
    lastSnapshot,
    lagEntries: entries - folded,
    chunks,
    bytes,
    bufferedEdits: lastSnapshot === null ? 0 : await bufferedIn(deps, { log, position: lastSnapshot }),
    stopped,
  };
}

/** The ids of all logs, in order; those too of which a segment cannot be read. */
export async function allLogs(store: SegmentReader): Promise<LogId[]> {
  const logs = new Set<LogId>();
  const onInvalid = (error: ItemInvalidError): void => {
    if (error.log === undefined) throw error;
    logs.add(parseLogId(error.log));
  };
  for await (const segment of store.allSegments(undefined, onInvalid)) logs.add(segment.log);
  return [...logs].sort();
}

/**
 * The ids of all logs, the oldest first, by when their oldest segment was begun; those too of which a segment cannot be
 * read. Held in memory: some 100 bytes each.
 * @param onStranger told of each segment of which nobody knows whose it is
 */
export async function logsByAge(
  store: Pick<SegmentReader, 'allSegments'>,
  onStranger: (error: ItemInvalidError) => void,
): Promise<LogId[]> {
  const begun = new Map<LogId, number>();
  const onInvalid = (error: ItemInvalidError): void => {
    if (error.log === undefined) return onStranger(error);
    const log = parseLogId(error.log);
    begun.set(log, begun.get(log) ?? Number.MAX_SAFE_INTEGER);
  };
  for await (const { log, created } of store.allSegments(undefined, onInvalid)) {
    begun.set(log, Math.min(created, begun.get(log) ?? created));
  }
  return [...begun].sort(([, a], [, b]) => a - b).map(([log]) => log);
}

/** How many entries a segment has, wherever they are: in one query, or none once all were counted as they left. */
async function entryCount(deps: StatusDeps, segment: Segment): Promise<number> {
  if (segment.expired !== undefined) return segment.expired;
  const newest = await deps.tables.newestEntry(segment.log, segment.segment, { consistent: true });
  const inTable = newest === undefined ? 0 : newest.position.entry + 1;
  const isWhole = newest?.type === deps.types.endSegment;
  // The end is missing while entries are put back from the archive, which then knows.
  if (isWhole || segment.archive === undefined) return inTable;
  return Math.max(inTable, (await archivedCount(deps, segment)) ?? 0);
}

/** How many entries the archive of a segment has; undefined if it cannot be read, which a verification names. */
async function archivedCount(deps: StatusDeps, segment: Segment): Promise<number | undefined> {
  try {
    return (await openArchive(deps, segment)).entries;
  } catch (error) {
    if (error instanceof LogfoldError && error.stopsLog) return undefined;
    throw error;
  }
}

async function bufferedIn(
  deps: StatusDeps,
  place: { readonly log: LogId; readonly position: Position },
): Promise<number | null> {
  try {
    const entry = await deps.tables.getEntry(place.log, place.position, { consistent: true });
    const ref = entry && rootOf(entry);
    return ref === undefined ? null : bufferedEdits((await loadRoot(deps, place, ref)).state);
  } catch (error) {
    // As above: what is wrong with one log must not hide the others, and a verification names it.
    if (error instanceof LogfoldError && error.stopsLog) return null;
    throw error;
  }
}

function newestSnapshot(segments: readonly SegmentStatus[]): Position | null {
  let newest: Position | null = null;
  for (const { segment, lastSnapshot } of segments) {
    if (lastSnapshot === null) continue;
    const position = { segment, entry: lastSnapshot };
    if (newest === null || comparePositions(position, newest) > 0) newest = position;
  }
  return newest;
}

/** How many of a segment's entries lie up to and including a snapshot's own. */
function foldedIn({ segment, entries }: SegmentStatus, snapshot: Position | null): number {
  if (snapshot === null || segment > snapshot.segment) return 0;
  return segment < snapshot.segment ? entries : snapshot.entry + 1;
}
