import { RootInvalidError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { comparePositions, type Position } from '../ids/position.ts';
import { type CompletedSnapshot, completedSnapshot, isRootForm, type RootRef } from './entry.ts';
import { type ForeignPart, guardArchive, guardPointer, readLastSnapshot, removePart } from './guard.ts';
import { encodeSegment } from './item-codec.ts';
import type { Consistency, LogReader, SnapshotPublisher } from './log-store.ts';
import { queryLastSnapshot, queryNewestSegments } from './newest.ts';
import { changedMeanwhile, isFrozen, type LastSnapshot, type Segment } from './segment.ts';

const CONSISTENT: Consistency = { consistent: true };

/**
 * The newest complete snapshot at or before a position that is the Last Snapshot of a segment. If
 * Last Snapshot of the position's segment is after the position, the search continues with the
 * previous segment. There may be other snapshots between the two: a load looks for them too, with
 * `lookBack` of {@link searchSnapshot}.
 * @returns undefined if there is none, so that the caller starts from the empty state at the log's
 * beginning
 * @throws RootInvalidError if Last Snapshot of an archived segment names an entry without a root
 * @throws SourceChangedError if the items of an application lack the entry of Last Snapshot
 */
export async function findSnapshot(
  store: LogReader,
  log: LogId,
  notAfter: Position,
): Promise<CompletedSnapshot | undefined> {
  return (await searchSnapshot(store, log, notAfter)).snapshot;
}

export interface SnapshotSearch {
  readonly snapshot: CompletedSnapshot | undefined;
  /** Parts of other programs that the search passed over. */
  readonly passedOver: readonly ForeignPart[];
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
  const passedOver: ForeignPart[] = [];
  for (let number = notAfter.segment; number >= 0; number--) {
    const segment = await store.getSegment(log, number, CONSISTENT);
    if (segment === undefined) {
      // Between the end of the log and the position there may be billions of numbers.
      if (number === notAfter.segment) number = Math.min(number, await segmentsOf(store, log));
      continue;
    }
    const found = await lastSnapshotUpTo(store, segment, notAfter);
    const archive = guardArchive(segment);
    if (archive !== undefined) passedOver.push(archive);
    // Entries of old segments expire with their snapshots. All older snapshots are then gone too.
    if (found === 'gone') break;
    if (found !== 'foreign') {
      const isAfter = number === notAfter.segment && segment.lastSnapshot !== undefined;
      const snapshot = found ?? (isAfter ? await lookBack?.(segment) : undefined);
      if (snapshot !== undefined) return { snapshot, passedOver };
      continue;
    }
    passedOver.push({ kind: 'pointer', log, segment: number, entry: segment.lastSnapshot?.position.entry });
    const position = { segment: number, entry: 0 };
    const first = await store.getEntry(log, position, CONSISTENT);
    const snapshot = first && completedSnapshot(first);
    if (snapshot !== undefined) return { snapshot, passedOver };
  }
  return { snapshot: undefined, passedOver };
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
): ReturnType<typeof readLastSnapshot> {
  const { lastSnapshot } = segment;
  if (lastSnapshot !== undefined && comparePositions(lastSnapshot.position, notAfter) > 0) return undefined;
  const found = await readLastSnapshot(store, segment);
  // The archive proves that logfold wrote Last Snapshot.
  if (found === 'foreign' && lastSnapshot !== undefined && segment.archive !== undefined)
    throw lastWithoutRoot(segment);
  return found;
}

/**
 * The newest complete snapshot of a log; undefined if there is none, or if it is not newer than
 * `than`.
 * @throws LogNotFoundError if the log has no segment
 */
export async function newestSnapshot(store: LogReader, log: LogId, than?: Position): Promise<Position | undefined> {
  const segments = await queryNewestSegments(store, log, { consistent: true });
  const newest = await queryLastSnapshot(store, log, segments);
  const isNewer = (position: Position) => than === undefined || comparePositions(position, than) > 0;
  if (newest === undefined || !isNewer(newest)) return undefined;
  const position = (await findSnapshot(store, log, { ...newest, entry: Number.MAX_SAFE_INTEGER }))?.position;
  return position !== undefined && isNewer(position) ? position : undefined;
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

/** The log and position of a Snapshot entry. */
export interface SnapshotPlace {
  readonly log: LogId;
  readonly position: Position;
}

/** The stores in which a snapshot is published. */
export interface PublishDeps {
  readonly store: LogReader;
  readonly tables: SnapshotPublisher;
  /** Whether to replace what another program wrote, if a person asks for it. False by default. */
  readonly replaceForeign?: boolean | undefined;
}

/**
 * Names a stored root on a Snapshot entry that carries none.
 * @param id that of the entry, if it has one
 * @returns the root that the entry carries afterwards, which may be that of a duplicate; a part if
 * another program wrote onto the entry in the meantime
 */
export async function nameRoot(
  { tables }: PublishDeps,
  { log, position }: SnapshotPlace,
  ref: RootRef,
  id?: Uint8Array,
): Promise<RootRef | ForeignPart> {
  const carried = await tables.completeSnapshot(log, position, ref, id);
  return carried !== undefined && isRootForm(log, carried) ? carried : { kind: 'root', log, ...position };
}

/** Attempts to move Last Snapshot while other processes move it. */
const ATTEMPTS = 10;

/**
 * Moves Last Snapshot of a segment to a complete snapshot. Leaves it unchanged if it is already
 * there or further, if the segment is archived or expiring, or if another program wrote it.
 * @param from Last Snapshot of the segment when the caller last saw it, which logfold wrote
 * @returns the Last Snapshot of another program, if there is one
 * @throws SegmentStateError if others moved it in every attempt
 */
export async function advanceTo(
  deps: PublishDeps,
  { log, position }: SnapshotPlace,
  from: LastSnapshot | undefined,
): Promise<ForeignPart | undefined> {
  const { store, tables, replaceForeign } = deps;
  let seen = from;
  for (let attempt = 1; ; attempt++) {
    if (seen !== undefined && seen.position.entry >= position.entry) return undefined;
    if (await tables.advanceLastSnapshot(log, { position }, seen)) return undefined;
    const segment = await store.getSegment(log, position.segment, { consistent: true });
    if (segment === undefined || isFrozen(segment)) return undefined;
    if (attempt === ATTEMPTS) throw changedMeanwhile(segment);
    const part = await guardPointer(store, segment);
    seen = part === undefined ? segment.lastSnapshot : undefined;
    if (part === undefined) continue;
    if (replaceForeign !== true) return part;
    await removePart(tables, part, encodeSegment(segment));
  }
}
