import { equalBytes } from '../codec/bytes.ts';
import { SegmentStateError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { comparePositions, type Position } from '../ids/position.ts';
import type { AttributeValue, Item } from './attribute.ts';
import type { Schedule } from './schedule.ts';

/** A segment's archive: an object in the bucket that holds all entries of the segment. */
export interface ArchiveRef {
  readonly key: string;
  /** SHA-256 of the archive's index, which covers the whole archive. */
  readonly hash: Uint8Array;
}

/** The entries leave the table, or are about to. */
export interface Expiring {
  readonly state: 'expiring';
  /** Epoch seconds. From then on entries may be missing in the table. */
  readonly at: number;
}

/** How far the entries of a segment have left the table. */
export type Expiry =
  | Expiring
  /** All entries were deleted or stamped with the time. */
  | {
      readonly state: 'expired';
      readonly at: number;
      /** Entries of the segment, as counted when it expired. */
      readonly entries: number;
    }
  /** Somebody undoes the expiry and removes the stamps. Entries may still be missing. */
  | { readonly state: 'on hold' };

/**
 * Attributes of a segment that another program wrote where logfold writes its own, exactly as they
 * are stored: an archive (`A`, perhaps `H`), or a Last Snapshot (`L`) that is not an entry number.
 * logfold leaves them alone.
 */
export interface ForeignAttributes {
  readonly A?: AttributeValue;
  readonly H?: AttributeValue;
  readonly L?: AttributeValue;
}

/** The pointer of a segment to its newest complete snapshot. */
export interface LastSnapshot {
  /**
   * Position of the snapshot's entry, in the same segment. If that entry carries no root of
   * logfold, another program wrote the pointer.
   */
  readonly position: Position;
}

/** One item of the Segment table: a run of entries under one partition key. */
export interface Segment {
  readonly log: LogId;
  readonly segment: number;
  /** Epoch seconds. */
  readonly created: number;
  /** Absent if no snapshot of the segment is complete. */
  readonly lastSnapshot?: LastSnapshot | undefined;
  /** Absent until the segment is archived. */
  readonly archive?: ArchiveRef | undefined;
  /** Absent while the entries stay in the table. */
  readonly expiry?: Expiry | undefined;
  /** Absent if writers append the Snapshot entries and the end of the segment. */
  readonly schedule?: Schedule | undefined;
  /**
   * The attributes of the log while this segment is the newest, as they are stored. Absent if they
   * were never set, or if another program or an older release started the segment: see
   * {@link shownAttributes}.
   */
  readonly attributes?: Item | undefined;
  /** Absent if only logfold wrote its attributes. */
  readonly foreign?: ForeignAttributes | undefined;
}

/** Whether the segment has an archive, of logfold or of another program. */
export function hasArchive({ archive, foreign }: Pick<Segment, 'archive' | 'foreign'>): boolean {
  return archive !== undefined || foreign?.A !== undefined;
}

/** Whether both are the same archive. */
export function sameArchive(a: ArchiveRef, b: ArchiveRef): boolean {
  return a.key === b.key && equalBytes(a.hash, b.hash);
}

/**
 * When the entries of a segment leave the table, in epoch seconds; undefined while they stay or are
 * on hold.
 */
export function expiresAt({ expiry }: Pick<Segment, 'expiry'>): number | undefined {
  return expiry === undefined || expiry.state === 'on hold' ? undefined : expiry.at;
}

/** Whether entries of the segment may be neither in the table nor in an archive of logfold. */
export function mayLackEntries(segment: Pick<Segment, 'archive' | 'expiry' | 'foreign'>): boolean {
  return segment.archive === undefined && isFrozen(segment);
}

/**
 * Whether no further snapshot of the segment is completed: somebody archived it, or its entries
 * leave the table.
 */
export function isFrozen(segment: Pick<Segment, 'archive' | 'expiry' | 'foreign'>): boolean {
  return hasArchive(segment) || segment.expiry !== undefined;
}

/**
 * The newest complete snapshot in a log's two newest segments: Last Snapshot of the newest segment,
 * or of the previous one if the newest has none yet.
 * @param segments newest first
 */
export function lastSnapshotOf(segments: readonly Segment[]): Position | undefined {
  return segments.find(({ lastSnapshot }) => lastSnapshot !== undefined)?.lastSnapshot?.position;
}

/**
 * How many entries of a segment its Last Snapshot covers, with the entry of the snapshot itself; 0
 * if it has none.
 */
export function coveredEntries(segment: Pick<Segment, 'lastSnapshot'> | undefined): number {
  return segment?.lastSnapshot === undefined ? 0 : segment.lastSnapshot.position.entry + 1;
}

/**
 * The newest complete snapshots of segments that are newer than the one that a client uses. Another
 * program may have written some of them.
 * @param segments newest first
 */
export function newerSnapshots(segments: readonly Segment[], standsOn: Position): Position[] {
  const all = segments.flatMap(({ lastSnapshot }) => lastSnapshot?.position ?? []);
  return all.filter((last) => comparePositions(last, standsOn) > 0);
}

/**
 * The error if another process changed a segment during the work on it. Another attempt may
 * succeed.
 */
export function changedMeanwhile({ log, segment }: Pick<Segment, 'log' | 'segment'>): SegmentStateError {
  return new SegmentStateError('another process changed the segment at the same time', {
    log,
    segment,
    advice: 'Try again; finished steps are not repeated',
  });
}

/**
 * The attributes of the log that segments show: those of the newest segment that has some. Each
 * segment carries those of the previous one, unless an older release or another program started it.
 * @param segments newest first
 */
export function shownAttributes(segments: readonly Segment[]): Item | undefined {
  return segments.find(({ attributes }) => attributes !== undefined)?.attributes;
}
