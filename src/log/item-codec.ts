import { plainBytes } from '../codec/bytes.ts';
import { ItemInvalidError, ValueUnsupportedError } from '../errors.ts';
import { decodeSegmentId, encodeSegmentId, type LogId, logIdBytes, logIdFromBytes } from '../ids/log-id.ts';
import { comparePositions, MAX_NUMBER, type Position } from '../ids/position.ts';
import { archivePrefix, isFileKey, parseKey } from '../store/keys.ts';
import {
  type AttributeValue,
  attributeFromValue,
  type Item,
  plainItem,
  type StoredAttribute,
  type StoredItem,
  valueFromAttribute,
  wholeNumber,
} from './attribute.ts';
import type { Entry, EntryHead, MutableEntry, RootRef, StoredBody } from './entry.ts';
import { ItemReader } from './item-reader.ts';
import { decodeMetadata, encodeMetadata } from './metadata.ts';
import { decodeMutation, encodeMutation } from './mutation.ts';
import type { Schedule } from './schedule.ts';
import type { ArchiveRef, Expiry, LastSnapshot, Segment } from './segment.ts';

/** Bytes of a SHA-256. */
export const HASH_BYTES = 32;

/** The primary key of an item in either table. */
export type PrimaryKey = { S: { B: Uint8Array }; N: { N: string } };

/** Which entry of which log. */
export type EntryPlace = Pick<Entry, 'log' | 'position'>;

/** The primary key of an entry: `S` segment id, `N` entry number. */
export function entryKey(log: LogId, position: Position): PrimaryKey {
  return { S: { B: encodeSegmentId(log, position.segment) }, N: { N: String(position.entry) } };
}

/** The primary key of a segment: `S` log id, `N` segment number. */
export function segmentKey(log: LogId, segment: number): PrimaryKey {
  return { S: { B: logIdBytes(log) }, N: { N: String(segment) } };
}

/**
 * Encodes an entry as an item: `S` segment id, `N` entry of the position, `C` created, `T` type,
 * `V` version. Optional are `I` id, `B` body, `E` external body or file, `M` metadata, `P`
 * milliseconds, `Q` number, `W` client and mutation, `X` expiry. Names have one letter because they
 * count towards an item's size.
 * @throws ValueUnsupportedError if DynamoDB would return a native body in another format
 */
export function encodeEntry(entry: Entry): Item {
  const item: Item = {
    ...entryKey(entry.log, entry.position),
    C: { N: String(entry.created) },
    T: { S: entry.type },
    V: { N: String(entry.version) },
  };
  if (entry.id !== undefined) item.I = { B: plainBytes(entry.id) };
  if (entry.body !== undefined) item.B = encodeStoredBody(entry.body);
  const object = entry.external ?? entry.file;
  if (object !== undefined) item.E = { S: object };
  if (entry.metadata !== undefined) item.M = encodeMetadata(entry.metadata);
  if (entry.milliseconds !== undefined) item.P = { N: String(entry.milliseconds) };
  if (entry.number !== undefined) item.Q = { N: String(entry.number) };
  if (entry.once !== undefined) item.W = encodeMutation(entry.once);
  if (entry.expires !== undefined) item.X = { N: String(entry.expires) };
  return item;
}

/**
 * The inverse of {@link encodeEntry}. A Binary `B` becomes `bytes`, a String becomes `json`, NULL
 * becomes no body, and every other type becomes `native`. An `E` is the body, or the file of an
 * entry that has a body. An `I`, `M`, `P`, `Q` or `W` of another form belongs to another program.
 * Ignores it and other attributes.
 * @throws ItemInvalidError if an attribute is missing or malformed, or if `E` is beside `B` and is
 * not the key of a file
 */
export function decodeEntry(item: StoredItem): Entry {
  const reader = new ItemReader(item);
  const { log, position } = readEntryPlace(reader);
  const created = reader.integer('C');
  const type = reader.string('T');
  const version = reader.integer('V');
  const entry: MutableEntry = { log, position, created, type, version };
  const id = decodeEntryId(item);
  if (id !== undefined) entry.id = id;
  const body = reader.parsed('B', () => decodeStoredBody(item.B));
  if (body !== undefined) entry.body = body;
  if (item.E !== undefined) entry[body === undefined ? 'external' : 'file'] = reader.string('E');
  const metadata = decodeMetadata(item.M);
  if (metadata !== undefined) entry.metadata = metadata;
  const milliseconds = decodeMilliseconds(item.P);
  if (milliseconds !== undefined) entry.milliseconds = milliseconds;
  const number = decodeNumber(item.Q);
  if (number !== undefined) entry.number = number;
  const once = decodeMutation(item.W);
  if (once !== undefined) entry.once = once;
  if (item.X !== undefined) entry.expires = reader.integer('X');
  if (entry.file !== undefined && !isFileKey(entry.file))
    reader.fail('B', "is present beside 'E', so the entry has two bodies, or a file with a wrong key");
  return entry;
}

/**
 * The position of an entry's item: the inverse of {@link entryKey}. Reads nothing else of the item.
 * @throws ItemInvalidError if the primary key is missing or malformed
 */
export function entryPlace(item: StoredItem): EntryPlace {
  return readEntryPlace(new ItemReader(item));
}

/** The attributes that {@link decodeEntryHead} reads. */
export const HEAD_ATTRIBUTES = ['S', 'N', 'T', 'Q'] as const;

/** The inverse of {@link decodeEntryHead}. */
export function encodeEntryHead({ log, position, type, number }: EntryHead): Item {
  return {
    ...entryKey(log, position),
    ...(type !== undefined && { T: { S: type } }),
    ...(number !== undefined && { Q: { N: String(number) } }),
  };
}

/**
 * An entry's position, type and number, even if the rest of its item is malformed.
 * @throws ItemInvalidError if its primary key is missing or malformed
 */
export function decodeEntryHead(item: StoredItem): EntryHead {
  const { T } = item;
  const number = decodeNumber(item.Q);
  return {
    ...entryPlace(item),
    ...(T?.S !== undefined && T.S !== '' && { type: T.S }),
    ...(number !== undefined && { number }),
  };
}

/**
 * Whether an item is this entry, written by an earlier attempt of the same request: both have the
 * same place and the same id. Equal entries of two writers are two entries. An entry without an id
 * is equal to no item.
 */
export function isOwnItem(item: StoredItem, entry: Entry): boolean {
  const found = decodeEntryId(item);
  const { id } = entry;
  const isSameId = id !== undefined && found?.length === id.length && id.every((byte, i) => byte === found[i]);
  if (!isSameId) return false;
  const { log, position } = entryPlace(item);
  return log === entry.log && comparePositions(position, entry.position) === 0;
}

/** The attribute of a Snapshot entry's item that carries a root. */
export function rootAttribute(root: RootRef): { readonly name: 'B' | 'E'; readonly value: AttributeValue } {
  return 'key' in root ? { name: 'E', value: { S: root.key } } : { name: 'B', value: { B: root.inline } };
}

/**
 * Encodes a segment as an item: `S` log id, `N` number, `C` created, and optionally `L` Last
 * Snapshot, `A` key and `H` hash of the archive, `G` expiry time, `D` number of expired entries.
 * `M` has the attributes of the log. A segment of a scheduled log has a schedule: `F` first item,
 * `K` items, `J` items for each Snapshot entry.
 */
export function encodeSegment(segment: Segment): Item {
  const item: Item = { ...segmentKey(segment.log, segment.segment), C: { N: String(segment.created) } };
  const { lastSnapshot, archive, expiry, schedule, foreign, attributes } = segment;
  return {
    ...item,
    ...foreign,
    ...(attributes !== undefined && logAttributes(attributes)),
    ...(lastSnapshot !== undefined && lastSnapshotAttributes(lastSnapshot)),
    ...(archive !== undefined && archiveAttributes(archive)),
    ...(expiry !== undefined && expiryAttributes(expiry)),
    ...(schedule !== undefined && scheduleAttributes(schedule)),
  };
}

/**
 * The inverse of {@link encodeSegment}. An `A` and an `L` of another form belong to another program
 * and become foreign. Ignores other attributes.
 * @throws ItemInvalidError if an attribute is missing or malformed, or attributes contradict each
 * other
 */
export function decodeSegment(item: StoredItem): Segment {
  const reader = new ItemReader(item);
  const id = reader.binary('S');
  const log = reader.parsed('S', () => logIdFromBytes(id));
  reader.where = { log };
  const segment = reader.integer('N', MAX_NUMBER);
  reader.where = { log, segment };
  const created = reader.integer('C');
  const isForeignLast = item.L !== undefined && !isEntryNumber(item.L);
  const last = isForeignLast ? undefined : reader.optional('L', () => reader.integer('L', MAX_NUMBER));
  const archive = readArchive(reader, item, log);
  const foreignNames = [...(isForeignLast ? ['L'] : []), ...(archive === 'foreign' ? ['A', 'H'] : [])];
  const expiry = readExpiry(reader);
  const schedule = readSchedule(reader, item);
  return {
    log,
    segment,
    created,
    ...(last !== undefined && { lastSnapshot: { position: { segment, entry: last } } }),
    ...(archive !== undefined && archive !== 'foreign' && { archive }),
    ...(expiry !== undefined && { expiry }),
    ...(schedule !== undefined && { schedule }),
    ...(item.M?.M !== undefined && { attributes: plainItem(item.M.M) }),
    ...(foreignNames.length > 0 && { foreign: plainItem(item, foreignNames) }),
  };
}

/** The names of {@link lastSnapshotAttributes}. */
export const LAST_SNAPSHOT_NAMES = ['L'] as const;

/** The attributes that state a segment's Last Snapshot. */
export function lastSnapshotAttributes({ position }: LastSnapshot): { readonly L: { N: string } } {
  return { L: { N: String(position.entry) } };
}

/** The attribute that states the attributes of the log. */
export function logAttributes(attributes: Item): { readonly M: { M: Item } } {
  return { M: { M: attributes } };
}

/** The attributes that name a segment's archive. */
export function archiveAttributes({ key, hash }: ArchiveRef): {
  readonly A: AttributeValue;
  readonly H: AttributeValue;
} {
  return { A: { S: key }, H: { B: plainBytes(hash) } };
}

/** The attributes that state a segment's expiry. */
export function expiryAttributes(expiry: Expiry): { readonly G: { N: string }; readonly D?: { N: string } } {
  const G = { N: String(storedExpiry(expiry)) };
  return expiry.state === 'expired' ? { G, D: { N: String(expiry.entries) } } : { G };
}

/** The attributes that state the schedule of a segment of a scheduled log. */
function scheduleAttributes({ first, items, snapshotEvery }: Schedule): {
  readonly F: { N: string };
  readonly K: { N: string };
  readonly J: { N: string };
} {
  return { F: { N: String(first) }, K: { N: String(items) }, J: { N: String(snapshotEvery) } };
}

/** Value of `G` while a segment is on hold: the first second of the year 2200. */
const ON_HOLD = 7_258_118_400;

function storedExpiry(expiry: Expiry): number {
  return expiry.state === 'on hold' ? ON_HOLD : expiry.at;
}

/** The archive that logfold wrote; `foreign` if another program wrote the attribute. */
function readArchive(reader: ItemReader, { A, H }: StoredItem, log: LogId): ArchiveRef | 'foreign' | undefined {
  if (A === undefined) {
    return H === undefined ? undefined : reader.fail('H', "is present without 'A', the key of the archive");
  }
  const isKey = A.S?.startsWith(archivePrefix(log)) === true && parseKey(A.S)?.kind === 'archive';
  if (A.S === undefined || !isKey || H?.B?.length !== HASH_BYTES) return 'foreign';
  return { key: A.S, hash: plainBytes(H.B) };
}

function isEntryNumber({ N }: StoredAttribute): boolean {
  const number = wholeNumber(N ?? '');
  return number !== undefined && number <= MAX_NUMBER;
}

function readExpiry(reader: ItemReader): Expiry | undefined {
  const at = reader.optional('G', () => reader.integer('G'));
  const entries = reader.optional('D', () => reader.integer('D'));
  if (entries === undefined) {
    if (at === undefined) return undefined;
    return at === ON_HOLD ? { state: 'on hold' } : { state: 'expiring', at };
  }
  if (at === undefined) return reader.fail('D', "is present without 'G', the time of the expiry");
  if (at === ON_HOLD) return reader.fail('D', "is present although 'G' says that the segment is on hold");
  return { state: 'expired', at, entries };
}

/** The most items of a segment of a scheduled log, so that its virtual entries have numbers too. */
const MAX_SEGMENT_ITEMS = Math.floor(MAX_NUMBER / 2);

/** An item without any of the three attributes belongs to a log of logfold's own schema. */
function readSchedule(reader: ItemReader, { F, K, J }: StoredItem): Schedule | undefined {
  if (F === undefined && K === undefined && J === undefined) return undefined;
  const schedule = {
    first: reader.integer('F'),
    items: reader.integer('K', MAX_SEGMENT_ITEMS),
    snapshotEvery: reader.integer('J'),
  };
  if (schedule.items === 0) reader.fail('K', "is '0', but a segment has items");
  if (schedule.snapshotEvery === 0) reader.fail('J', "is '0', not the number of items for each Snapshot entry");
  return schedule;
}

/**
 * Decodes several items.
 * @param onInvalid called for each malformed item, which is skipped
 * @param besideEntries whether entries are in the same table; they are passed over
 * @throws ItemInvalidError if an item is malformed and `onInvalid` is undefined
 */
export function* decodeSegments(
  items: Iterable<StoredItem>,
  onInvalid: ((error: ItemInvalidError) => void) | undefined,
  besideEntries = false,
): Generator<Segment> {
  for (const item of items) {
    try {
      yield decodeSegment(item);
    } catch (error) {
      if (!(error instanceof ItemInvalidError)) throw error;
      if (besideEntries && hasEntryKey(item)) continue;
      if (onInvalid === undefined) throw error;
      onInvalid(error);
    }
  }
}

function hasEntryKey(item: StoredItem): boolean {
  try {
    return readEntryPlace(new ItemReader(item)) !== undefined;
  } catch (error) {
    if (error instanceof ItemInvalidError) return false;
    throw error;
  }
}

/** Reads the primary key. Errors of the reader then name the position. */
function readEntryPlace(reader: ItemReader): EntryPlace {
  const id = reader.binary('S');
  const { log, segment } = reader.parsed('S', () => decodeSegmentId(id));
  reader.where = { log, segment };
  const entry = reader.integer('N', MAX_NUMBER);
  reader.where = { log, segment, entry };
  return { log, position: { segment, entry } };
}

function decodeEntryId({ I }: StoredItem): Uint8Array | undefined {
  return I?.B === undefined || I.B.length === 0 ? undefined : plainBytes(I.B);
}

function decodeNumber(Q: StoredAttribute | undefined): number | undefined {
  const number = wholeNumber(Q?.N ?? '');
  return Number.isSafeInteger(number) ? number : undefined;
}

function decodeMilliseconds(P: StoredAttribute | undefined): number | undefined {
  const part = wholeNumber(P?.N ?? '');
  return part !== undefined && part >= 1 && part <= 999 ? part : undefined;
}

function encodeStoredBody(body: StoredBody): AttributeValue {
  if (body.format === 'bytes') return { B: body.bytes };
  if (body.format === 'json') return { S: body.text };
  if (body.value === null || typeof body.value === 'string' || body.value instanceof Uint8Array) {
    throw new ValueUnsupportedError(
      'null, strings and bytes cannot be native bodies, because they encode other formats',
      {
        advice: "Store them with format 'bytes'",
      },
    );
  }
  return attributeFromValue(body.value);
}

/**
 * Decodes the body in an entry's item; undefined if there is none.
 * @throws ItemInvalidError, without a position, if it cannot be read
 */
export function decodeStoredBody(B: StoredAttribute | undefined): StoredBody | undefined {
  if (B === undefined) return undefined;
  if (B.S !== undefined) return { format: 'json', text: B.S };
  const value = valueFromAttribute(B);
  if (value === null) return undefined;
  if (value instanceof Uint8Array) return { format: 'bytes', bytes: value };
  // A Number that only its text holds: a native body cannot be a String.
  if (typeof value === 'string') return { format: 'json', text: JSON.stringify(value) };
  return { format: 'native', value };
}
