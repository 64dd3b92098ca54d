import type { ItemInvalidError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import type { Position } from '../ids/position.ts';
import type { Item, StoredItem } from './attribute.ts';
import type { Entry, EntryHead, RootRef } from './entry.ts';
import type { Segment } from './segment.ts';

export type { RootRef } from './entry.ts';

export interface Consistency {
  /** True to see every write that has returned; false (half the price) may miss the newest. */
  readonly consistent: boolean;
}

/** Entry numbers of one segment, from `from` up to but not including `to`. */
export interface SegmentRange {
  readonly segment: number;
  readonly from: number;
  readonly to: number;
}

/** One of several parts into which a scan is cut, so that they can be read in parallel: number `index` of `of`. */
export interface ScanPart {
  readonly index: number;
  readonly of: number;
  /** Goes on behind this segment, which the same part of as many gave before; from the beginning where it is left out. */
  readonly after?: ScanPlace | undefined;
}

/** A segment that a scan gave. It need not be there any more. */
export type ScanPlace = Pick<Segment, 'log' | 'segment'>;

/** When a segment's entries go: see {@link Segment}. */
export type Expiration = Pick<Segment, 'expires' | 'expired'>;

/** A segment that says when its entries go. */
export type ExpiringSegment = Pick<Segment, 'log' | 'segment'> & { readonly expires: number };

/** The most items that are put, deleted or let go at once. */
export const MAX_BATCH_ITEMS = 25;

/**
 * The Entry and Segment tables. Each method is one request (paged ones: one a page), so cost is plain to see; what
 * it takes several requests and retries to do is the log client's.
 */
export interface LogStore {
  /**
   * Writes a log's first segment and first entry in one transaction. Succeeds as well if an earlier sending of the same
   * request did so: see {@link putEntries}.
   * @throws EntryExistsError if the log exists
   */
  createLog(segment: Segment, first: Entry): Promise<void>;

  /** The segments with the highest numbers, newest first, at most `limit`. Empty where the log does not exist. */
  newestSegments(log: LogId, limit: number, consistency: Consistency): Promise<Segment[]>;

  getSegment(log: LogId, segment: number, consistency: Consistency): Promise<Segment | undefined>;

  /** All segments of one log, ascending; eventually consistent by default. */
  segments(log: LogId, consistency?: Consistency): AsyncIterable<Segment>;

  /**
   * All segments of all logs, or those of one part of the table, in no order (a scan).
   * @param onInvalid told of each item that is no segment, which is left out then; without it the scan ends there
   * @throws ItemInvalidError where there is such an item and nobody to be told
   */
  allSegments(part?: ScanPart, onInvalid?: (error: ItemInvalidError) => void): AsyncIterable<Segment>;

  /**
   * Place and type of the entry with the highest number in a segment; undefined if the segment has none. Nothing else of
   * the item is read: a malformed entry must not hide where the log ends.
   * @throws ItemInvalidError if its number is malformed
   */
  newestEntry(log: LogId, segment: number, consistency: Consistency): Promise<EntryHead | undefined>;

  getEntry(log: LogId, position: Position, consistency: Consistency): Promise<Entry | undefined>;

  /** Entries of one segment with numbers from `from` up to but not including `to`, ascending, page by page. */
  entries(log: LogId, range: SegmentRange, consistency: Consistency): AsyncIterable<Entry[]>;

  /** As {@link entries}, but each item just as it lies in the table, with whatever attributes others gave it. */
  items(log: LogId, range: SegmentRange, consistency: Consistency): AsyncIterable<StoredItem[]>;

  /**
   * Writes entries that do not exist yet: one by itself, several in one transaction, all or nothing. An entry that exists
   * with the id of the given one is that entry: an earlier sending of the same request wrote it, and its answer was
   * lost. Then the call succeeds and changes nothing. An equal entry with another id, or without one, is another entry.
   * @throws EntryExistsError if another entry is at one of the positions
   * @throws TooLargeError where they are more or larger than one request may carry
   */
  putEntries(entries: readonly Entry[]): Promise<void>;

  /**
   * Ends a segment and starts the next in one transaction. Succeeds as well if an earlier sending of the same request
   * did so: see {@link putEntries}.
   * @throws EntryExistsError if one of the three items exists already
   */
  startSegment(items: { readonly end: Entry; readonly segment: Segment; readonly first: Entry }): Promise<void>;

  /**
   * Writes a root onto a Snapshot entry that has none yet.
   * @returns the root that the entry carries afterwards: the given one, or the one that was there already
   * @throws EntryNotFoundError where there is no such entry
   * @throws ItemInvalidError where its body is something else than a root
   * @throws TooLargeError where an inline root makes the item larger than DynamoDB allows
   */
  completeSnapshot(log: LogId, position: Position, root: RootRef): Promise<RootRef>;

  /**
   * Puts another root in the place of one that a Snapshot entry carries, on the condition that it still carries exactly
   * that one and its segment is not archived. Both must be roots of the same state: whoever has read the old one goes on
   * with it.
   * @returns whether the entry carries `to` afterwards, also where it did so before; where not, it is as it was
   * @throws EntryNotFoundError where there is no such entry
   * @throws TooLargeError where an inline root makes the item larger than DynamoDB allows
   */
  replaceRoot(log: LogId, position: Position, from: RootRef, to: RootRef): Promise<boolean>;

  /**
   * Moves a segment's Last Snapshot forward; leaves it alone where it stands there or further already, and where the
   * segment is archived.
   * @returns whether it moved
   * @throws SegmentNotFoundError where there is no such segment
   */
  advanceLastSnapshot(log: LogId, position: Position): Promise<boolean>;

  /**
   * Names the archive of a segment, on the condition that the segment has none, that Last Snapshot is as in `segment`, and
   * that the entry which that names still carries `root`. From then on Last Snapshot and root stay as they are.
   * @returns whether the segment names this archive afterwards, also where it did so before; where not, it is as it was
   */
  setArchive(
    segment: Segment,
    archive: { readonly key: string; readonly hash: Uint8Array; readonly root: RootRef | undefined },
  ): Promise<boolean>;

  /**
   * Names another archive in the place of the one that `segment` names, on the condition that Last Snapshot and archive are
   * still as in `segment`. If `root` is given, the entry that Last Snapshot names gets `to`; if that entry is in the table,
   * it must carry `from`.
   * @returns whether the segment names this archive afterwards, also if it did so before; if not, nothing was changed
   */
  replaceArchive(
    segment: Segment,
    archive: {
      readonly key: string;
      readonly hash: Uint8Array;
      readonly root?: { readonly from: RootRef; readonly to: RootRef } | undefined;
    },
  ): Promise<boolean>;

  /**
   * Writes when a segment's entries go, on the condition that it still is as in `segment`.
   * @returns whether it is as in `to` afterwards, also where it was so before
   */
  setExpiration(segment: Segment, to: Expiration): Promise<boolean>;

  /**
   * Gives an entry its expiry (`X`, epoch seconds), or takes it away.
   * @returns false where there is no such entry; none is made
   */
  setEntryExpiry(log: LogId, position: Position, expires: number | undefined): Promise<boolean>;

  /**
   * Removes entries of one segment, at most {@link MAX_BATCH_ITEMS}; one that does not exist is no error.
   * @throws TooLargeError where they are more
   */
  deleteEntries(log: LogId, segment: number, entries: readonly number[]): Promise<void>;

  /**
   * Lets entries of a segment go, at most {@link MAX_BATCH_ITEMS}, all at once and only as long as the segment says that
   * they go at `expires`: they are deleted, or are given that expiry. One that does not exist is no error. Costs twice as
   * many write units as to do so without a condition.
   * @returns whether the segment says so; where not, nothing was changed
   * @throws TooLargeError where they are more
   */
  expireEntries(segment: ExpiringSegment, entries: readonly number[], how: 'delete' | 'ttl'): Promise<boolean>;

  /**
   * Takes the expiry from entries of a segment that have one, at most {@link MAX_BATCH_ITEMS}, on the same condition and at
   * the same price as {@link expireEntries}.
   * @returns whether the segment says so; where not, nothing was changed
   * @throws TooLargeError where they are more
   */
  unexpireEntries(segment: ExpiringSegment, entries: readonly number[]): Promise<boolean>;

  /**
   * Writes items of the Entry table just as they are, whatever was there, at most {@link MAX_BATCH_ITEMS}: for those
   * that were read from it once.
   * @throws TooLargeError where they are more
   */
  putItems(items: readonly Item[]): Promise<void>;

  /**
   * Writes a segment if there is none of its number.
   * @returns whether it did; false as well if an earlier sending of the same request did, whose answer was lost
   */
  putSegment(segment: Segment): Promise<boolean>;

  /**
   * Whether a request that failed with this error has certainly changed nothing and may succeed when it is sent
   * again: throttling, a conflict with a transaction. Where it may have been carried out after all (a time-out, a
   * lost connection) the answer is false, since appending again could append twice.
   */
  isRetryable(error: unknown): boolean;
}
