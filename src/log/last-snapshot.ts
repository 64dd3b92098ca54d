import { RootInvalidError, SourceChangedError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { comparePositions, type Position } from '../ids/position.ts';
import { type CompletedSnapshot, rootOf } from './entry.ts';
import type { ForeignPart } from './foreign.ts';
import type { Consistency, EntryReader, LogReader } from './log-store.ts';
import { coveredEntries, hasForeignArchive, mayLackEntries, type Segment } from './segment.ts';

const CONSISTENT: Consistency = { consistent: true };

/**
 * The newest complete snapshot at or before a position that is the Last Snapshot of a segment. If
 * Last Snapshot of the position's segment is after the position, the search continues with the
 * previous segment. There may be other snapshots between the two: a load looks for them too, with
 * `lookBack` of {@link searchSnapshot}.
 * @returns undefined if there is none, so that the caller starts from the empty state at the log's
 * beginning
 * @throws RootInvalidError if Last Snapshot of an archived segment names an entry without a root
 * @throws SourceChangedError if a mapped log lacks the entry that Last Snapshot names
 */
export async function findSnapshot(
  store: LogReader,
  log: LogId,
  notAfter: Position,
): Promise<CompletedSnapshot | undefined> {
  return (await searchSnapshot(store, log, notAfter)).snapshot;
}

/** The result of a search for a snapshot. */
export interface SnapshotSearch {
  readonly snapshot: CompletedSnapshot | undefined;
  /** Parts that the search passed over. */
  readonly foreign: readonly ForeignPart[];
}

/**
 * Like {@link findSnapshot}. It passes over a Last Snapshot that another program wrote. The
 * segment's first entry is a Snapshot entry, and its snapshot may be the only one that is left.
 * @param lookBack searches other snapshots of the position's segment if its Last Snapshot is after
 * the position
 */
export async function searchSnapshot(
  store: LogReader,
  log: LogId,
  notAfter: Position,
  lookBack?: (segment: Segment) => Promise<CompletedSnapshot | undefined>,
): Promise<SnapshotSearch> {
  const foreign: ForeignPart[] = [];
  for (let number = notAfter.segment; number >= 0; number--) {
    const segment = await store.getSegment(log, number, CONSISTENT);
    if (segment === undefined) {
      // Between the end of the log and the position there may be billions of numbers.
      if (number === notAfter.segment) number = Math.min(number, await segmentsOf(store, log));
      continue;
    }
    const found = await lastSnapshotUpTo(store, segment, notAfter);
    if (hasForeignArchive(segment)) foreign.push({ kind: 'archive', log, segment: number });
    if (found === 'gone') break;
    if (found !== 'foreign') {
      const isAfter = number === notAfter.segment && segment.lastSnapshot !== undefined;
      const snapshot = found ?? (isAfter ? await lookBack?.(segment) : undefined);
      if (snapshot !== undefined) return { snapshot, foreign };
      continue;
    }
    foreign.push({ kind: 'pointer', log, segment: number, entry: segment.lastSnapshot?.position.entry });
    const position = { segment: number, entry: 0 };
    const first = await store.getEntry(log, position, CONSISTENT);
    const root = first && rootOf(first);
    if (root !== undefined) return { snapshot: { position, root }, foreign };
  }
  return { snapshot: undefined, foreign };
}

/** The number of the log's newest segment, plus one. */
async function segmentsOf(store: LogReader, log: LogId): Promise<number> {
  const [newest] = await store.newestSegments(log, 1, CONSISTENT);
  return newest === undefined ? 0 : newest.segment + 1;
}

async function lastSnapshotUpTo(
  store: LogReader,
  segment: Segment,
  notAfter: Position,
): Promise<CompletedSnapshot | 'foreign' | 'gone' | undefined> {
  const { log, lastSnapshot, foreign } = segment;
  if (foreign?.L !== undefined) return 'foreign';
  if (lastSnapshot === undefined) return undefined;
  const { position } = lastSnapshot;
  if (comparePositions(position, notAfter) > 0) return undefined;
  const entry = await store.getEntry(log, position, CONSISTENT);
  const root = entry && rootOf(entry);
  if (root !== undefined) return { position, root };
  // Entries of old segments expire with their snapshots. All older snapshots are then gone too.
  if (entry === undefined && !(await isBeyond(store, segment))) return 'gone';
  // The archive proves that logfold wrote Last Snapshot.
  if (segment.archive !== undefined) throw lastWithoutRoot(segment);
  return 'foreign';
}

/**
 * The error if the entry of Last Snapshot is missing, or if it has no root although the segment is
 * archived.
 */
export function lastWithoutRoot({ log, segment, lastSnapshot, archive }: Segment): RootInvalidError {
  return new RootInvalidError('Last Snapshot names an entry without a root', {
    log,
    segment,
    entry: lastSnapshot?.position.entry,
    advice:
      archive === undefined
        ? "The entry is gone. Restore it from a backup of the table, then run 'logfold sweep --rebuild --log LOG'"
        : 'Another program changed the entry. Delete it from the table, so that readers take it from its archive',
  });
}

/**
 * The Last Snapshot of a segment, if another program wrote it: it is not an entry number, the entry
 * that it names carries no root of logfold, or it is beyond the segment's last entry. Undefined
 * if there is none, and if the entry is missing, which tells nothing: it may have left the table.
 * Takes one request if Last Snapshot is a number, and another one if its entry is missing.
 * @throws SourceChangedError if a mapped log lacks the entry that Last Snapshot names
 */
export async function foreignPointer(
  store: Pick<EntryReader, 'getEntry' | 'newestEntry'>,
  segment: Segment,
): Promise<ForeignPart | undefined> {
  const { log, lastSnapshot: last, foreign } = segment;
  const part = { kind: 'pointer', log, segment: segment.segment } as const;
  if (foreign?.L !== undefined) return part;
  // An archive of logfold proves that logfold wrote Last Snapshot.
  if (last === undefined || segment.archive !== undefined) return undefined;
  const entry = await store.getEntry(log, last.position, CONSISTENT);
  const isForeign = entry === undefined ? await isBeyond(store, segment) : rootOf(entry) === undefined;
  return isForeign ? { ...part, entry: last.position.entry } : undefined;
}

/**
 * Whether Last Snapshot names a number that no entry of the segment has had. Its entry is missing.
 * @throws SourceChangedError if the log is mapped and none of its items may have left the table:
 * only logfold writes its Last Snapshot, so the log had the entry
 */
async function isBeyond(store: Pick<EntryReader, 'newestEntry'>, segment: Segment): Promise<boolean> {
  const { log, segment: number } = segment;
  if (mayLackEntries(segment) || segment.archive !== undefined) return false;
  if (segment.schedule !== undefined) throw lostItem(segment);
  const newest = await store.newestEntry(log, number, CONSISTENT);
  return newest === undefined || newest.position.entry + 1 < coveredEntries(segment);
}

/** The error if a mapped log lacks the entry of its Last Snapshot, which exists with an item. */
export function lostItem({ log, segment, lastSnapshot }: Segment): SourceChangedError {
  return new SourceChangedError(
    'the item before Last Snapshot is missing: the application deleted items that were folded, or began the log again',
    {
      log,
      segment,
      entry: lastSnapshot?.position.entry,
      advice:
        "Restore the items. If the application began the log again, give it another id, or run 'logfold sweep --rebuild --log LOG' after it has become longer than before",
    },
  );
}
