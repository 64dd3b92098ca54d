import { openArchive } from '../../archive/reader.ts';
import { type ItemInvalidError, LogfoldError } from '../../errors.ts';
import { type LogId, textLogId } from '../../ids/log-id.ts';
import { comparePositions, MAX_NUMBER, type Position } from '../../ids/position.ts';
import { type ReservedTypes, rootOf } from '../../log/entry.ts';
import { type ForeignPart, guardPointer, guardRoot, type PartCounts } from '../../log/guard.ts';
import { decodeEntry } from '../../log/item-codec.ts';
import type { SegmentReader, TableReader } from '../../log/log-store.ts';
import { querySegments } from '../../log/newest.ts';
import type { Segment } from '../../log/segment.ts';
import { bufferedEdits } from '../../snapshot/root.ts';
import { loadRoot, type SnapshotStores } from '../../snapshot/snapshots.ts';
import { readStop, type Stop } from '../../snapshot/stop.ts';
import { chunkPrefix } from '../../store/keys.ts';

export type StatusDeps = Pick<SnapshotStores, 'blobs' | 'platform'> & {
  /**
   * The tables without archives. An archived store would open an archive for each expired segment.
   */
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
  /** Segments whose entries are expiring. */
  readonly expiring: number;
  /** Segments whose entries have expired. */
  readonly expired: number;
  /** All entries of the log, including archived and expired ones. */
  readonly entries: number;
  readonly lastSnapshot: Position | null;
  /** Entries after the newest complete snapshot's own entry; 0 if the log ends before it. */
  readonly lagEntries: number;
  /** Chunks in the blob store, and their stored size in bytes. */
  readonly chunks: number;
  readonly bytes: number;
  /** Edits in the write buffers of the newest snapshot; null if its root cannot be read. */
  readonly bufferedEdits: number | null;
  readonly stopped: Stop | null;
  /** Parts that another program wrote. Roots count only after the newest complete snapshot. */
  readonly foreign: PartCounts;
}

export interface SegmentStatus {
  readonly segment: number;
  /** All entries of the segment, including archived and expired ones. */
  readonly entries: number;
  /** Number of the newest entry with a complete snapshot; null also if another program wrote it. */
  readonly lastSnapshot: number | null;
  readonly archived: boolean;
  /** Expiry time of the entries in epoch seconds; null if they do not expire or are on hold. */
  readonly expires: number | null;
  /** Whether somebody undoes the expiry. */
  readonly onHold: boolean;
  /** Whether the entries have expired. DynamoDB may still have some of them. */
  readonly expired: boolean;
  /** Parts that another program wrote onto the segment; empty in most segments. */
  readonly foreign: readonly ('archive' | 'pointer')[];
}

/**
 * The status of each segment of a log, in order.
 * @throws LogNotFoundError if the log has no segment
 */
export async function segmentStatuses(deps: StatusDeps, log: LogId): Promise<SegmentStatus[]> {
  const segments = await querySegments(deps.tables, log, { consistent: false });
  const entries = await Promise.all(segments.map((segment) => entryCount(deps, segment)));
  const pointers = await Promise.all(segments.map((segment) => finds(() => guardPointer(deps.tables, segment))));
  const now = deps.now();
  return segments.map(({ segment, lastSnapshot, archive, expiry, foreign }, i) => ({
    segment,
    entries: entries[i] ?? 0,
    lastSnapshot: pointers[i] === true ? null : (lastSnapshot?.position.entry ?? null),
    archived: archive !== undefined,
    expires: expiry === undefined || expiry.state === 'on hold' ? null : expiry.at,
    onHold: expiry?.state === 'on hold',
    expired: expiry?.state === 'expired' && expiry.at * 1000 <= now,
    foreign: [
      ...(foreign?.A === undefined ? [] : (['archive'] as const)),
      ...(pointers[i] === true ? (['pointer'] as const) : []),
    ],
  }));
}

/**
 * The status of one log.
 * @param known the status of its segments, if it is known already
 * @throws LogNotFoundError if the log has no segment
 */
export async function logStatus(deps: StatusDeps, log: LogId, known?: readonly SegmentStatus[]): Promise<LogStatus> {
  const segments = known ?? (await segmentStatuses(deps, log));
  const entries = segments.reduce((total, each) => total + each.entries, 0);
  const lastSnapshot = newestCompleted(segments);
  const folded = segments.reduce((total, each) => total + foldedIn(each, lastSnapshot), 0);
  let chunks = 0;
  let bytes = 0;
  for await (const blob of deps.blobs.list(chunkPrefix(log))) {
    chunks++;
    bytes += blob.bytes;
  }
  const stopped = (await readStop(deps.blobs, log)) ?? null;
  const count = (kind: 'archive' | 'pointer') => segments.filter(({ foreign }) => foreign.includes(kind)).length;
  // A log that was deleted and began again may end before its Last Snapshot.
  const lagEntries = Math.max(0, entries - folded);
  const roots = lagEntries === 0 ? 0 : await rootsOfOthers(deps, log, { segments, lastSnapshot });
  return {
    log,
    segments: segments.length,
    archived: segments.filter(({ archived }) => archived).length,
    expiring: segments.filter(({ expires, onHold, expired }) => (expires !== null || onHold) && !expired).length,
    expired: segments.filter(({ expired }) => expired).length,
    entries,
    lastSnapshot,
    lagEntries,
    chunks,
    bytes,
    bufferedEdits: lastSnapshot === null ? 0 : await bufferedIn(deps, { log, position: lastSnapshot }),
    stopped,
    foreign: { archives: count('archive'), pointers: count('pointer'), roots },
  };
}

/** The ids of all logs, in order. Includes logs with malformed segments. */
export async function allLogs(store: SegmentReader): Promise<LogId[]> {
  const logs = new Set<LogId>();
  const onInvalid = (error: ItemInvalidError): void => {
    if (error.log === undefined) throw error;
    logs.add(textLogId(error.log));
  };
  for await (const segment of store.allSegments(undefined, onInvalid)) logs.add(segment.log);
  return [...logs].sort();
}

/**
 * The ids of all logs, by the creation time of their oldest segment. Includes logs with malformed
 * segments. They take some 100 bytes of memory each.
 * @param onUnknown called for each segment whose log is unknown
 */
export async function logsByAge(
  store: Pick<SegmentReader, 'allSegments'>,
  onUnknown: (error: ItemInvalidError) => void,
): Promise<LogId[]> {
  return (await logsWithAge(store, onUnknown)).map(({ log }) => log);
}

/** A log and the creation time of its oldest segment. */
export interface AgedLog {
  readonly log: LogId;
  /** Epoch seconds; undefined if no segment of the log can be read. */
  readonly created: number | undefined;
}

/** Like {@link logsByAge}, with the creation times. */
export async function logsWithAge(
  store: Pick<SegmentReader, 'allSegments'>,
  onUnknown: (error: ItemInvalidError) => void,
): Promise<AgedLog[]> {
  const begun = new Map<LogId, number | undefined>();
  const onInvalid = (error: ItemInvalidError): void => {
    if (error.log === undefined) return onUnknown(error);
    const log = textLogId(error.log);
    begun.set(log, begun.get(log));
  };
  for await (const { log, created } of store.allSegments(undefined, onInvalid)) {
    begun.set(log, Math.min(created, begun.get(log) ?? created));
  }
  const logs = Array.from(begun, ([log, created]) => ({ log, created }));
  return logs.sort((a, b) => (a.created ?? Number.MAX_SAFE_INTEGER) - (b.created ?? Number.MAX_SAFE_INTEGER));
}

/**
 * The number of entries of a segment, including expired ones. Takes one query, or none if the
 * segment has its count.
 */
async function entryCount(deps: StatusDeps, segment: Segment): Promise<number> {
  if (segment.expiry?.state === 'expired') return segment.expiry.entries;
  const newest = await deps.tables.newestEntry(segment.log, segment.segment, { consistent: true });
  const inTable = newest === undefined ? 0 : newest.position.entry + 1;
  const isWhole = newest?.type === deps.types.endSegment;
  // During a restore the end of the segment is missing, so the archive has the count.
  if (isWhole || segment.archive === undefined) return inTable;
  return Math.max(inTable, (await archivedCount(deps, segment)) ?? 0);
}

/**
 * The number of entries in a segment's archive; undefined if it cannot be read, which `verify`
 * reports.
 */
async function archivedCount(deps: StatusDeps, segment: Segment): Promise<number | undefined> {
  try {
    return (await openArchive(deps, segment)).end;
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
    // As above: an error of one log must not hide the others, and `verify` reports it.
    if (error instanceof LogfoldError && error.stopsLog) return null;
    throw error;
  }
}

/** Whether the guard finds a part. An entry that cannot be read is for `verify`. */
async function finds(part: () => ForeignPart | undefined | Promise<ForeignPart | undefined>): Promise<boolean> {
  try {
    return (await part()) !== undefined;
  } catch (error) {
    if (error instanceof LogfoldError && error.stopsLog) return false;
    throw error;
  }
}

/** Snapshot entries after the newest complete snapshot on which another program wrote. */
async function rootsOfOthers(
  deps: StatusDeps,
  log: LogId,
  { segments, lastSnapshot }: Pick<LogStatus, 'lastSnapshot'> & { readonly segments: readonly SegmentStatus[] },
): Promise<number> {
  let roots = 0;
  for (const { segment } of segments) {
    if (segment < (lastSnapshot?.segment ?? 0)) continue;
    const from = segment === lastSnapshot?.segment ? lastSnapshot.entry + 1 : 0;
    const range = { segment, from, to: MAX_NUMBER + 1 };
    for await (const page of deps.tables.items(log, range, { consistent: false })) {
      for (const item of page) {
        if (item.T?.S === deps.types.snapshot && (await finds(() => guardRoot(decodeEntry(item))))) roots++;
      }
    }
  }
  return roots;
}

function newestCompleted(segments: readonly SegmentStatus[]): Position | null {
  let newest: Position | null = null;
  for (const { segment, lastSnapshot } of segments) {
    if (lastSnapshot === null) continue;
    const position = { segment, entry: lastSnapshot };
    if (newest === null || comparePositions(position, newest) > 0) newest = position;
  }
  return newest;
}

/** The number of a segment's entries up to and including the snapshot's own. */
function foldedIn({ segment, entries }: SegmentStatus, snapshot: Position | null): number {
  if (snapshot === null || segment > snapshot.segment) return 0;
  return segment < snapshot.segment ? entries : snapshot.entry + 1;
}
