import type { ItemInvalidError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import type { Position } from '../ids/position.ts';
import type { AttributeValue, Item, StoredItem } from './attribute.ts';
import type { Entry, EntryHead, ReservedTypes, RootRef } from './entry.ts';
import type { Meaning } from './meaning.ts';
import type { ArchiveRef, Expiring, Expiry, LastSnapshot, Segment } from './segment.ts';

export type { RootRef } from './entry.ts';

export interface Consistency {
  /** True shows every write that has returned. False costs half and may miss the newest writes. */
  readonly consistent: boolean;
}

/** The result of one successful request for entries of a range, in numbers. */
export interface PageRead {
  /** Entries of the range. */
  readonly items: number;
  /**
   * Size of the items by DynamoDB's rules, or a little more. For archived entries, the length of
   * their lines.
   */
  readonly bytes: number;
  /** Attempts that the request took; more than 1 after throttling or a fault. */
  readonly attempts: number;
}

export interface RangeOptions extends Consistency {
  /**
   * Called after each request for the range, before its page is returned. A store that does not
   * know sizes never calls it.
   */
  readonly onPage?: ((page: PageRead) => void) | undefined;
  /**
   * Whether a general parser decodes the items, instead of logfold's reader of bytes. For a
   * comparison with items that the reader has decoded, so that both cannot lose the same. Takes ten
   * times as long. False by default.
   */
  readonly isChecked?: boolean | undefined;
}

/** Entry numbers of one segment, from `from` up to but not including `to`. */
export interface SegmentRange {
  readonly segment: number;
  readonly from: number;
  readonly to: number;
}

/** Part number `index` of the `of` parts of a scan. Parts can be read in parallel. */
export interface ScanPart {
  readonly index: number;
  readonly of: number;
  /**
   * Continues after this segment, which the same part returned before. Without it the part starts
   * at its beginning.
   */
  readonly after?: SegmentPlace | undefined;
}

/** A segment of a log, by its number. */
export type SegmentPlace = Pick<Segment, 'log' | 'segment'>;

/** A segment whose entries leave the table. */
export type ExpiringSegment = SegmentPlace & { readonly expiry: Expiring };

/** An archive to name on a segment. */
export interface NewArchive extends ArchiveRef {
  /** The root that the archived entry of Last Snapshot carries. */
  readonly root: RootRef | undefined;
}

/** An archive to name on a segment instead of another one. */
export interface ReplacementArchive extends ArchiveRef {
  /** Roots of the archived entry of Last Snapshot, before and after, if they differ. */
  readonly root?: { readonly from: RootRef; readonly to: RootRef } | undefined;
}

/** A change of attributes that are not logfold's. */
export interface AttributeUpdate {
  readonly set: Item;
  readonly remove: readonly string[];
  /** The attributes before; undefined if there must be none of that name. */
  readonly expected: { readonly [name: string]: AttributeValue | undefined };
}

/** The segment that entries start. */
export interface StartedSegment {
  readonly segment: Segment;
  /**
   * The attributes of the log on the segment that ends. If the new segment has attributes, they
   * must not have changed.
   */
  readonly endedAttributes?: Item | undefined;
}

/** Entries to append together, and the segment that they start. */
export interface NewItems extends Partial<StartedSegment> {
  readonly entries: readonly Entry[];
}

/** The items that end a segment and start the next. */
export interface NextSegment extends StartedSegment {
  readonly end: Entry;
  readonly first: Entry;
}

/**
 * Entries of the application that a writer expects after an entry that it has read. They have no
 * reserved type, and their numbers follow from the number of that entry.
 */
export interface UnreadEntries {
  readonly log: LogId;
  readonly after: Pick<EntryHead, 'position' | 'number'>;
  /** At least 1. */
  readonly count: number;
  readonly types: ReservedTypes;
}

/** The most items that one call puts, deletes or expires. */
export const MAX_BATCH_ITEMS = 25;

/** Reads the Segment table. */
export interface SegmentReader {
  /**
   * The segments with the highest numbers, newest first, at most `limit`. Empty if the log does not
   * exist.
   */
  newestSegments(log: LogId, limit: number, consistency: Consistency): Promise<Segment[]>;

  getSegment(log: LogId, segment: number, consistency: Consistency): Promise<Segment | undefined>;

  /** All segments of one log, in ascending order; eventually consistent by default. */
  segments(log: LogId, consistency?: Consistency): AsyncIterable<Segment>;

  /**
   * Scans all segments of all logs, or those of one part of the table, in no order.
   * @param onInvalid called for each malformed item, which is skipped
   * @throws ItemInvalidError if an item is malformed and `onInvalid` is absent
   */
  allSegments(part?: ScanPart, onInvalid?: (error: ItemInvalidError) => void): AsyncIterable<Segment>;
}

export interface EntryReader {
  /**
   * Position, type and number of the last entry in a segment; undefined if the segment has none.
   * Reads nothing else of the item: a malformed entry must not hide the end of the log.
   * @throws ItemInvalidError if the position is malformed
   */
  newestEntry(log: LogId, segment: number, consistency: Consistency): Promise<EntryHead | undefined>;

  getEntry(log: LogId, position: Position, consistency: Consistency): Promise<Entry | undefined>;

  /** Entries of a range, in ascending order, page by page. */
  entries(log: LogId, range: SegmentRange, options: RangeOptions): AsyncIterable<Entry[]>;

  /**
   * Like {@link entries}, but each item as it is stored, with the attributes that other programs
   * added.
   */
  items(log: LogId, range: SegmentRange, options: RangeOptions): AsyncIterable<StoredItem[]>;

  /**
   * Names the application's item that holds an entry, or would hold it, for messages. Absent, or
   * undefined, if the entry has no other key than its log and position.
   */
  nameItem?(log: LogId, position: Position): Promise<string | undefined>;

  /**
   * The schema mapping by which items of an application become the entries of a log. Absent, or
   * undefined, if the log has logfold's own schema, or if another process translates the items.
   */
  meaningOf?(log: LogId): Meaning | undefined;
}

/** Reads both tables, and no archives: entries that expired are missing. */
export interface TableReader extends SegmentReader, EntryReader {
  /** Tells the compiler a reader of tables from a {@link LogReader}. */
  readonly reads: 'tables';
}

/** Reads all entries of a log, from the tables and from archives. */
export interface LogReader extends SegmentReader, EntryReader {
  /** Tells the compiler a reader of whole logs from a {@link TableReader}. */
  readonly reads: 'tables and archives';
}

/** How entries are written. */
export interface PutOptions {
  /**
   * Whether a server that folds may rebase the entries over those that others appended first. False
   * by default. Tables never move entries.
   */
  readonly mayMove?: boolean | undefined;
}

/** Appends to logs, and changes the application attributes of new entries. */
export interface EntryAppender {
  /**
   * Writes a log's first segment and first entry in one transaction. Also succeeds if an earlier
   * attempt of the same request did so: see {@link putEntries}.
   * @throws EntryExistsError if the log exists
   */
  createLog(segment: Segment, first: Entry): Promise<void>;

  /**
   * Writes entries of one or several logs that do not exist yet: a single one by itself, several in
   * one transaction, all or nothing. An existing entry with the id of the given one is the same
   * entry: an earlier attempt wrote it, and the answer was lost. If each log has such an entry, the
   * call succeeds and changes nothing. An equal entry with another id, or without one, is another
   * entry.
   * @throws EntryExistsError if another entry is at one of the positions; it names the log
   * @throws UsageError if only some of the logs have their own entries, so that ids were used twice
   * @throws TooLargeError if one request cannot carry the entries
   * @throws AppendUncertainError if `mayMove` is given and the entries have other positions now
   */
  putEntries(entries: readonly Entry[], options?: PutOptions): Promise<void>;

  /**
   * Ends a segment and starts the next in one transaction. Also succeeds if an earlier attempt of
   * the same request did so: see {@link putEntries}.
   * @throws EntryExistsError if one of the three items exists, or the attributes of the log on the
   * ended segment have changed
   */
  startSegment(items: NextSegment): Promise<void>;

  /**
   * Replaces the attributes of a log on a segment if they are as given and no later segment exists,
   * in one transaction.
   * @param from undefined if the segment has none
   * @returns whether they were replaced; if not, nothing was changed
   */
  replaceAttributes(place: SegmentPlace, from: Item | undefined, to: Item): Promise<boolean>;

  /**
   * Changes attributes of an entry if they are as expected and the entry's segment is open: one
   * transaction also checks that the next segment does not exist.
   * @returns undefined after the change; the current item if it differs from `expected`
   * @throws SegmentClosedError if the next segment exists
   * @throws EntryNotFoundError if the entry does not exist
   * @throws TooLargeError if the item becomes larger than DynamoDB allows
   */
  updateAttributes(log: LogId, position: Position, update: AttributeUpdate): Promise<StoredItem | undefined>;

  /**
   * Whether a request that failed with this error certainly changed nothing and may succeed if it
   * is repeated: throttling, a conflict with a transaction. False if the request may have been
   * carried out (a time-out, a lost connection), since a repeated append could append twice.
   */
  isRetryable(error: unknown): boolean;
}

/** Appends to logs whose writers never pause. */
export interface AheadAppender {
  /**
   * Writes entries, and the next segment if there is one, after entries that the caller has not
   * read: all or nothing, in one transaction that checks those entries. Also succeeds if an earlier
   * attempt of the same request did so: see {@link EntryAppender.putEntries}.
   * @throws EntryExistsError if another entry is at one of the positions, or the segment exists
   * @throws EntryNotFoundError if one of the unread entries is missing, or is not as expected
   */
  putAhead(items: NewItems, unread: UnreadEntries): Promise<void>;
}

/** Publishes the roots of snapshots. */
export interface SnapshotPublisher extends AttributeRemover {
  /**
   * Writes a root onto a Snapshot entry that has no body.
   * @param id that of the entry, if it has one: another entry at its position gets no root
   * @returns the reference that the entry carries afterwards: the given one, or an earlier one,
   * even of another program; undefined if the entry carries a body that is not a reference
   * @throws EntryNotFoundError if the entry does not exist
   * @throws TooLargeError if an inline root makes the item larger than DynamoDB allows
   */
  completeSnapshot(log: LogId, position: Position, root: RootRef, id?: Uint8Array): Promise<RootRef | undefined>;

  /**
   * Replaces the root of a Snapshot entry if the entry still carries exactly `from` and its segment
   * is not archived. Both must be roots of the same state, since readers of the old root continue
   * with it.
   * @returns whether the entry carries `to` afterwards; if not, the entry is unchanged
   * @throws EntryNotFoundError if the entry does not exist
   * @throws TooLargeError if an inline root makes the item larger than DynamoDB allows
   */
  replaceRoot(log: LogId, position: Position, from: RootRef, to: RootRef): Promise<boolean>;

  /**
   * Moves a segment's Last Snapshot from where the caller saw it. Leaves it unchanged if it is
   * elsewhere, or if the segment has an archive, even of another program.
   * @param from absent if the segment had no Last Snapshot
   * @returns whether it moved
   * @throws SegmentNotFoundError if the segment does not exist
   */
  advanceLastSnapshot(log: LogId, to: LastSnapshot, from?: LastSnapshot): Promise<boolean>;
}

/** A segment, or one of its entries. */
export type SegmentOrEntryPlace = SegmentPlace & { readonly entry?: number | undefined };

/** Removes what another program wrote, if a person asks for it. */
export interface AttributeRemover {
  /**
   * Removes attributes of a segment or an entry if each of them is exactly as given.
   * @returns whether they were removed; if not, nothing was changed
   */
  removeAttributes(place: SegmentOrEntryPlace, attributes: Item): Promise<boolean>;
}

/** Archives, expires and restores closed segments. */
export interface SegmentLifecycle extends AttributeRemover {
  /**
   * Names the archive of a segment, if the segment has none, its Last Snapshot is as in `segment`,
   * and the entry of Last Snapshot still carries `root`. From then on Last Snapshot and that root
   * do not change.
   * @returns whether the segment names this archive afterwards; if not, the segment is unchanged
   */
  setArchive(segment: Segment, archive: NewArchive): Promise<boolean>;

  /**
   * Names another archive instead of the one in `segment`, if Last Snapshot and archive are still
   * as in `segment`. If `root` is given, the entry of Last Snapshot gets `to`; if that entry is in
   * the table, it must carry `from`.
   * @returns whether the segment names this archive afterwards; if not, nothing was changed
   */
  replaceArchive(segment: Segment, archive: ReplacementArchive): Promise<boolean>;

  /**
   * Changes the expiry of a segment if the segment is still as given. An undefined expiry keeps the
   * entries.
   * @returns whether the segment has the expiry `to` afterwards, also if it had it before
   */
  setExpiration(segment: Segment, to: Expiry | undefined): Promise<boolean>;

  /**
   * Stamps an entry with its expiry (`X`, epoch seconds), or removes the stamp.
   * @returns false if the entry does not exist; the call creates none
   */
  setEntryExpiry(log: LogId, position: Position, expires: number | undefined): Promise<boolean>;

  /**
   * Deletes entries of one segment, at most {@link MAX_BATCH_ITEMS}. A missing entry is not an
   * error.
   * @throws TooLargeError if there are more
   */
  deleteEntries(log: LogId, segment: number, entries: readonly number[]): Promise<void>;

  /**
   * Expires entries of a segment, at most {@link MAX_BATCH_ITEMS}, in one transaction: deletes
   * them, or stamps them with the segment's expiry. Changes nothing unless the segment still
   * expires at that time. A missing entry is not an error. Costs twice as many write units as the
   * same writes without a condition.
   * @returns whether the segment still expires at that time; if not, nothing was changed
   * @throws TooLargeError if there are more
   */
  expireEntries(segment: ExpiringSegment, entries: readonly number[], how: 'delete' | 'ttl'): Promise<boolean>;

  /**
   * Removes the expiry from entries of a segment, at most {@link MAX_BATCH_ITEMS}, in one
   * transaction at the same price as {@link expireEntries}. Changes nothing unless the segment is
   * on hold.
   * @returns whether the segment is on hold; if not, nothing was changed
   * @throws TooLargeError if there are more
   */
  unexpireEntries(segment: SegmentPlace, entries: readonly number[]): Promise<boolean>;

  /**
   * Writes items of the Entry table as they are and overwrites existing ones, at most {@link
   * MAX_BATCH_ITEMS}. Meant for items that were once read from the table.
   * @throws TooLargeError if there are more
   */
  putItems(items: readonly Item[]): Promise<void>;

  /**
   * Writes a segment if its number does not exist.
   * @returns whether this call wrote it; false also if an earlier attempt of the same request did
   */
  putSegment(segment: Segment): Promise<boolean>;
}

/**
 * The Entry and Segment tables. Each method is one request (paged ones: one per page), so its cost
 * is plain. The log client does what needs several requests and retries.
 */
export interface LogStore extends TableReader, EntryAppender, AheadAppender, SnapshotPublisher, SegmentLifecycle {}
