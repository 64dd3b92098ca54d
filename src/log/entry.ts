import { equalBytes } from '../codec/bytes.ts';
import { isChunkForm } from '../codec/chunk.ts';
import { dateAt, type Value } from '../codec/value.ts';
import { ClockInvalidError, UsageError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import type { Position } from '../ids/position.ts';
import { parseKey, rootPrefix } from '../store/keys.ts';

/** An entry's body as it is stored, not yet decoded. */
export type StoredBody =
  | EncodedBody
  | { readonly format: 'json'; readonly text: string }
  | { readonly format: 'native'; readonly value: Value };

/** A body in bytes: MessagePack, or JSON text. */
export interface EncodedBody {
  readonly format: 'bytes';
  readonly bytes: Uint8Array;
}

/** Bytes of an entry's id. The id distinguishes the few writers that meet at one position. */
const ENTRY_ID_BYTES = 8;

/** Values beside an entry's body. All names are free except two. */
export interface EntryMetadata {
  /** Names the request or the process to which the entry belongs. */
  readonly correlation?: string | undefined;
  /** Names the event that caused the entry. */
  readonly causation?: string | undefined;
  /** Absent if undefined. */
  readonly [name: string]: Value | undefined;
}

/** The number that a client gave an entry, so that the entry applies at most once. */
export interface ClientMutation {
  /** Names the client; 1 to 256 UTF-16 code units. */
  readonly client: string;
  /** A whole number of at least 1. A client numbers its mutations in ascending order. */
  readonly mutation: number;
}

/**
 * Attributes of an entry's item that belong to the application: all names except single capital
 * letters. They may change while the entry's segment is open, and no reducer sees them.
 */
export interface EntryAttributes {
  readonly [name: string]: Value;
}

/** One item of the Entry table: an immutable change. */
export interface Entry {
  readonly log: LogId;
  readonly position: Position;
  /**
   * Random bytes that only the writer knows before it writes: see {@link newEntryId}. Absent if
   * another program or an older version wrote the entry.
   */
  readonly id?: Uint8Array | undefined;
  /** Epoch seconds. */
  readonly created: number;
  /** Milliseconds after {@link created}, from 1 to 999. Absent if none are stored. */
  readonly milliseconds?: number | undefined;
  readonly type: string;
  /** Version of the body's format, for this type. */
  readonly version: number;
  /** Absent if there is no body, or if an external object holds it. */
  readonly body?: StoredBody | undefined;
  /** Key of the object that holds the body or, on a Snapshot entry, the snapshot's root. */
  readonly external?: string | undefined;
  /**
   * Key of the object with the entry's file, whose parameters are in the body. Such an entry has a
   * body and no {@link external} one.
   */
  readonly file?: string | undefined;
  readonly metadata?: EntryMetadata | undefined;
  /**
   * The count of the application's entries up to and including this one. Absent if this entry or an
   * earlier one was written by another program or an older version.
   */
  readonly number?: number | undefined;
  /** A fold skips the entry if it has applied this or a later mutation of the client. */
  readonly once?: ClientMutation | undefined;
  /** Epoch seconds; absent until the entry expires by TTL. */
  readonly expires?: number | undefined;
  /** Present only if the reader asked for them. Writing the entry does not write them. */
  readonly attributes?: EntryAttributes;
}

/** An entry in the making. */
export type MutableEntry = { -readonly [name in keyof Entry]: Entry[name] };

/** An entry's position, number and type, readable even if the rest of its item is malformed. */
export interface EntryHead extends Pick<Entry, 'log' | 'position' | 'number'> {
  /** Absent if the item has no type, or one that is not a String of at least one character. */
  readonly type?: string;
}

/**
 * An id for a new entry. All attempts to write the entry share the id, so that the writer
 * recognizes its own entry.
 * @param random from 0 up to but not including 1
 */
export function newEntryId(random: () => number): Uint8Array {
  return Uint8Array.from({ length: ENTRY_ID_BYTES }, () => Math.floor(random() * 256));
}

/** Names for the two types of {@link ReservedTypes}. */
export interface ReservedTypeNames {
  readonly snapshot: string;
  readonly endSegment: string;
}

/**
 * The two entry types that the log itself interprets. They are configurable, since existing logs
 * use other names.
 */
export class ReservedTypes {
  readonly snapshot: string;
  readonly endSegment: string;
  readonly #all: ReadonlySet<string>;

  /**
   * @throws UsageError if a type is empty or both are the same: a Snapshot entry would pass for an
   * End Segment entry
   */
  constructor({ snapshot, endSegment }: ReservedTypeNames) {
    this.snapshot = snapshot;
    this.endSegment = endSegment;
    this.#all = new Set([snapshot, endSegment]);
    if (this.#all.size === 2 && !this.#all.has('')) return;
    const reason =
      snapshot === endSegment
        ? `Snapshot and End Segment entries have the same type '${snapshot}'`
        : `the type of ${snapshot === '' ? 'Snapshot' : 'End Segment'} entries is empty`;
    throw new UsageError(reason, {
      advice: `Give the types that the log's entries have; the defaults are '${DEFAULT_SNAPSHOT}' and '${DEFAULT_END_SEGMENT}'`,
    });
  }

  includes(type: string): boolean {
    return this.#all.has(type);
  }
}

const DEFAULT_SNAPSHOT = 'Snapshot';
const DEFAULT_END_SEGMENT = 'End Segment';

export const RESERVED_TYPES = new ReservedTypes({ snapshot: DEFAULT_SNAPSHOT, endSegment: DEFAULT_END_SEGMENT });

/** Version of entries with a reserved type. They have no body of a client. */
export const RESERVED_VERSION = 1;

/**
 * Converts a clock's time to epoch seconds, as items store it. Every writer uses this function:
 * readers refuse an item with an invalid time, which stops its log.
 * @param nowMs epoch milliseconds
 * @throws ClockInvalidError if the time is before 1970 or is not a number
 */
export function epochSeconds(nowMs: number): number {
  const seconds = Math.floor(nowMs / 1000);
  if (Number.isSafeInteger(seconds) && seconds >= 0) return seconds;
  const time = dateAt(nowMs);
  throw new ClockInvalidError(
    `the clock shows ${Number.isNaN(time.getTime()) ? nowMs : time.toISOString()}, and nothing was written`,
    { advice: 'Set the clock of this machine to the current time' },
  );
}

/** The milliseconds of a second, as an entry has them: undefined for 0. */
export function partOfSecond(ms: number): number | undefined {
  const part = Math.floor(ms) % 1000;
  return part > 0 ? part : undefined;
}

/**
 * The root of a complete snapshot, as the Snapshot entry carries it: the key of an object, or the
 * root itself.
 */
export type RootRef = { readonly key: string } | { readonly inline: Uint8Array };

/** A complete snapshot: the position of its Snapshot entry and the root that the entry names. */
export interface CompletedSnapshot {
  readonly position: Position;
  /** The count of the application's entries before it. Absent if the entries have no numbers. */
  readonly number?: number;
  readonly root: RootRef;
}

/** The snapshot of a Snapshot entry, if it is complete: see {@link rootOf}. */
export function completedSnapshot(entry: Entry): CompletedSnapshot | undefined {
  const { position, number } = entry;
  const root = rootOf(entry);
  return root && { position, ...(number !== undefined && { number }), root };
}

/**
 * The root that a Snapshot entry carries; undefined while its snapshot is pending, or if another
 * program wrote something else there: see {@link isRootForm}.
 */
export function rootOf(entry: Entry): RootRef | undefined {
  const carried = carriedRef(entry);
  return carried !== undefined && isRootForm(entry.log, carried) ? carried : undefined;
}

/** `foreign`: another program wrote something in place of the root. */
export type SnapshotStatus = 'complete' | 'pending' | 'foreign';

/** Whether the snapshot of a Snapshot entry is complete. */
export function snapshotStatus(entry: Entry): SnapshotStatus {
  if (rootOf(entry) !== undefined) return 'complete';
  return (entry.external ?? entry.file ?? entry.body) === undefined ? 'pending' : 'foreign';
}

/**
 * The reference that a Snapshot entry carries in place of a root, even if another program wrote
 * it. Undefined if there is none, or if its type is not that of a root.
 */
export function carriedRef(entry: Entry): RootRef | undefined {
  const key = entry.external ?? entry.file;
  if (key !== undefined) return { key };
  return entry.body?.format === 'bytes' ? { inline: entry.body.bytes } : undefined;
}

/** Whether an entry has an id. True if the id is undefined: not every entry has one. */
export function hasId(entry: Entry, id: Uint8Array | undefined): boolean {
  return id === undefined || (entry.id !== undefined && equalBytes(entry.id, id));
}

/**
 * Whether a reference has the form that logfold gives to the roots of a log: the key of a root of
 * this log, or a stored root of any version. If not, another program wrote it.
 */
export function isRootForm(log: LogId, ref: RootRef): boolean {
  if ('inline' in ref) return isChunkForm(ref.inline);
  return ref.key.startsWith(rootPrefix(log)) && parseKey(ref.key)?.kind === 'root';
}

/** Whether both name the same object or have the same bytes. */
export function sameRoot(a: RootRef, b: RootRef): boolean {
  if ('key' in a) return 'key' in b && a.key === b.key;
  if ('key' in b || a.inline.length !== b.inline.length) return false;
  return a.inline.every((byte, i) => byte === b.inline[i]);
}
