import type { Entry } from './entry.ts';
import type { LogId } from './log-id.ts';
import type { Position } from './position.ts';
import type { RootRef } from './root-ref.ts';
import type { Segment } from './segment.ts';

export type { RootRef } from './root-ref.ts';

export interface Consistency {
  /** True to see every write that has returned; false (half the price) may miss the newest. */
  readonly consistent: boolean;
}

/**
 * The Entry and Segment tables. Each method is one request (paged ones: one a page), so cost is plain to see; what
 * it takes several requests and retries to do is the log client's.
 */
export interface LogStore {
  /**
   * Writes a log's first segment and first entry in one transaction.
   * @throws EntryExistsError where the log exists
   */
  createLog(segment: Segment, first: Entry): Promise<void>;

  /** The segments with the highest numbers, newest first, at most `limit`. Empty where the log does not exist. */
  newestSegments(log: LogId, limit: number, consistency: Consistency): Promise<Segment[]>;

  getSegment(log: LogId, segment: number, consistency: Consistency): Promise<Segment | undefined>;

  /** All segments of one log, ascending. */
  segments(log: LogId): AsyncIterable<Segment>;

  /** All segments of all logs, in no order (a scan). */
  allSegments(): AsyncIterable<Segment>;

  /** The entry with the highest number in a segment; undefined where the segment has none. */
  newestEntry(log: LogId, segment: number, consistency: Consistency): Promise<Entry | undefined>;

  getEntry(log: LogId, position: Position, consistency: Consistency): Promise<Entry | undefined>;

  /** Entries of one segment with numbers from `from` up to but not including `to`, ascending, page by page. */
  entries(
    log: LogId,
    range: { readonly segment: number; readonly from: number; readonly to: number },
    consistency: Consistency,
  ): AsyncIterable<Entry[]>;

  /**
   * Writes entries that do not exist yet: one by itself, several in one transaction, all or nothing.
   * @throws EntryExistsError where one of them exists already
   * @throws TooLargeError where they are more or larger than one request may carry
   */
  putEntries(entries: readonly Entry[]): Promise<void>;

  /**
   * Ends a segment and starts the next in one transaction.
   * @throws EntryExistsError where one of the three items exists already
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
   * that one. Both must be roots of the same state: whoever has read the old one goes on with it.
   * @returns whether the entry carries `to` afterwards, also where it did so before; where not, it is as it was
   * @throws EntryNotFoundError where there is no such entry
   * @throws TooLargeError where an inline root makes the item larger than DynamoDB allows
   */
  replaceRoot(log: LogId, position: Position, from: RootRef, to: RootRef): Promise<boolean>;

  /**
   * Moves a segment's Last Snapshot forward; leaves it alone where it stands there or further already.
   * @returns whether it moved
   * @throws SegmentNotFoundError where there is no such segment
   */
  advanceLastSnapshot(log: LogId, position: Position): Promise<boolean>;

  /**
   * Whether a request that failed with this error has certainly changed nothing and may succeed when it is sent
   * again: throttling, a conflict with a transaction. Where it may have been carried out after all (a time-out, a
   * lost connection) the answer is false, since appending again could append twice.
   */
  isRetryable(error: unknown): boolean;
}
