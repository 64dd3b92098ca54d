import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';
import { BlobKeyInvalidError, LogIdInvalidError } from '../errors.ts';
import { isUuid, type LogId, textLogId } from '../ids/log-id.ts';
import { MAX_NUMBER, type Position } from '../ids/position.ts';

/**
 * The meaning of an object's key. `name` names the log, `id` is a SHA-256 in 64 lower-case
 * hexadecimal digits.
 */
export type ParsedKey =
  | { readonly kind: 'chunk'; readonly name: LogName; readonly id: string }
  | { readonly kind: 'root'; readonly name: LogName; readonly position: Position; readonly id: string }
  | ({ readonly kind: 'progress'; readonly name: LogName } & ProgressPlace)
  /** `upload` makes the key of each upload of a body unique: 12 lower-case hexadecimal digits. */
  | { readonly kind: 'body'; readonly name: LogName; readonly id: string; readonly upload: string }
  /**
   * `upload` makes the key of each archive of a segment unique: 32 lower-case hexadecimal digits.
   */
  | { readonly kind: 'archive'; readonly name: LogName; readonly segment: number; readonly upload: string }
  | { readonly kind: 'stop'; readonly name: LogName }
  | { readonly kind: 'collected'; readonly name: LogName }
  | { readonly kind: 'condemned'; readonly name: LogName };

/** The part of a key that distinguishes the progress of one build from others of its log. */
export interface ProgressPlace {
  readonly target: Position;
  /** When the Snapshot entry at `target` was written, in epoch seconds. */
  readonly targetCreated: number;
  readonly reached: Position;
  readonly id: string;
}

/** The prefix of all objects that belong to a log. */
export const LOGS_PREFIX = 'logs/';

/** Names the application's table whose mapped logs the bucket holds. */
export const CLAIM_KEY = `${LOGS_PREFIX}claim.json`;

/** The schema mapping of these logs. */
export const MAPPING_KEY = `${LOGS_PREFIX}mapping.json`;

/**
 * One object per log with condemned objects, so that a sweep finds these logs without a look at the
 * others.
 */
export const CONDEMNED_PREFIX = 'condemned/';

/** The sweep note: where the next run of a sweep continues, and the requested jobs. */
export const SWEEP_KEY = 'sweep.json';

/** The adopt note: where the next scan of the application's table for logs continues. */
export const ADOPT_KEY = 'adopt.json';

/** The compare note: where the next comparison of a source table with its revisions continues. */
export const COMPARE_KEY = 'compare.json';

/** One object per log with a chosen id, so that a listing finds the logs by the beginning of it. */
export const IDS_PREFIX = 'ids/';

/** The retention policies of single logs. */
export const POLICIES_KEY = 'policies.json';

const SHA256_HEX = /^[0-9a-f]{64}$/;
const LOG_KEY = /^logs\/([^/]+)\/(.+)$/;
const ROOT_NAME = /^(\d{10})-(\d{10})-([0-9a-f]{64})$/;
const BODY_NAME = /^([0-9a-f]{64})-([0-9a-f]{12})$/;
const ARCHIVE_NAME = /^(\d{10})-([0-9a-f]{32})\.ndjson\.zst$/;
const PROGRESS_NAME = /^(\d{10})-(\d{10})-(0|[1-9]\d{0,15})-(\d{10})-(\d{10})-([0-9a-f]{64})$/;

/** The prefix of all objects of one log. */
export function logPrefix(log: LogId): string {
  return `${LOGS_PREFIX}${logName(log)}/`;
}

/** The prefix of all chunks of one log. */
export function chunkPrefix(log: LogId): string {
  return `${logPrefix(log)}chunks/`;
}

/** The prefix of all roots of one log. They list in order of position. */
export function rootPrefix(log: LogId): string {
  return `${logPrefix(log)}roots/`;
}

/** The prefix of the progress of all builds of one log, or of the builds of one snapshot. */
export function progressPrefix(log: LogId, target?: Position): string {
  return `${logPrefix(log)}progress/${target === undefined ? '' : `${padPosition(target)}-`}`;
}

/** The prefix of all external bodies of one log. */
export function bodyPrefix(log: LogId): string {
  return `${logPrefix(log)}bodies/`;
}

/**
 * Whether a key is that of an entry's file. It has the form of an external body's key, so that it
 * contains the file's SHA-256, and garbage collection treats both alike.
 */
export function isFileKey(key: string): boolean {
  return parseKey(key)?.kind === 'body';
}

/** The prefix of all archives of one log. A listing returns them in order of segment. */
export function archivePrefix(log: LogId): string {
  return `${logPrefix(log)}archives/`;
}

/**
 * The key of a chunk, from the SHA-256 of its uncompressed bytes.
 * @throws BlobKeyInvalidError if the id is not 64 lower-case hexadecimal digits
 */
export function chunkKey(log: LogId, hexId: string): string {
  return chunkPrefix(log) + checkId(hexId);
}

/**
 * The key of a snapshot's root. Numbers are padded with zeros so that byte order is order of
 * position.
 * @throws BlobKeyInvalidError if the id is not 64 lower-case hexadecimal digits or a number is out
 * of range
 */
export function rootKey(log: LogId, position: Position, hexId: string): string {
  return `${rootPrefix(log)}${padPosition(position)}-${checkId(hexId)}`;
}

/**
 * The key of a build's progress: the position of its snapshot, then the position that it reached.
 * @throws BlobKeyInvalidError if the id is not 64 lower-case hexadecimal digits or a number is out
 * of range
 */
export function progressKey(log: LogId, { target, targetCreated, reached, id }: ProgressPlace): string {
  return checkName(
    `${padPosition(target)}-${targetCreated}-${padPosition(reached)}-${id}`,
    PROGRESS_NAME,
    progressPrefix(log),
  );
}

/**
 * The key of an entry's external body, from its SHA-256. Each upload has a unique key, so garbage
 * collection of an unreferenced body cannot remove the same body during a new upload.
 * @throws BlobKeyInvalidError if the id is not 64 lower-case hexadecimal digits, or the upload not
 * 12
 */
export function bodyKey(log: LogId, hexId: string, upload: string): string {
  return checkName(`${checkId(hexId)}-${upload}`, BODY_NAME, bodyPrefix(log));
}

/**
 * The key of a segment's archive. Each upload has a unique key, so no upload overwrites an archive
 * that a segment names.
 * @throws BlobKeyInvalidError if the upload is not 32 lower-case hexadecimal digits or the number
 * is out of range
 */
export function archiveKey(log: LogId, segment: number, upload: string): string {
  return checkName(`${pad(segment)}-${upload}.ndjson.zst`, ARCHIVE_NAME, archivePrefix(log));
}

/** The key of the note on the garbage collections of a log. */
export function collectedKey(log: LogId): string {
  return `${logPrefix(log)}collected.json`;
}

/** The key of the list of a log's condemned objects. */
export function condemnedKey(log: LogId): string {
  return CONDEMNED_PREFIX + logName(log);
}

/** The key of a log's stop note. */
export function stopKey(log: LogId): string {
  return `${logPrefix(log)}stopped.json`;
}

/** The inverse of the functions above; undefined for all other keys. */
export function parseKey(key: string): ParsedKey | undefined {
  if (key.startsWith(CONDEMNED_PREFIX)) {
    const name = parseLogName(key.slice(CONDEMNED_PREFIX.length));
    return name && { kind: 'condemned', name };
  }
  const [, log = '', rest] = LOG_KEY.exec(key) ?? [];
  const name = parseLogName(log);
  if (name === undefined || rest === undefined) return undefined;
  if (rest === 'stopped.json') return { kind: 'stop', name };
  if (rest === 'collected.json') return { kind: 'collected', name };
  const slash = rest.indexOf('/');
  const file = rest.slice(slash + 1);
  switch (rest.slice(0, slash + 1)) {
    case 'chunks/':
      return SHA256_HEX.test(file) ? { kind: 'chunk', name, id: file } : undefined;
    case 'bodies/':
      return parseBodyName(name, file);
    case 'archives/':
      return parseArchiveName(name, file);
    case 'roots/':
      return parseRootName(name, file);
    case 'progress/': {
      const place = parseProgressName(file);
      return place && { kind: 'progress', name, ...place };
    }
    default:
      return undefined;
  }
}

/**
 * Checks that every blob store can keep a key exactly: 1 to 800 printable ASCII characters without
 * backslash, in parts separated by single slashes, none of them `.` or `..`.
 * @returns the key
 * @throws BlobKeyInvalidError if the key has another form
 */
export function checkBlobKey(key: string): string {
  const printable = /^[\x20-\x5b\x5d-\x7e]{1,800}$/.test(key);
  if (!printable || key.split('/').some((part) => part === '' || part === '.' || part === '..')) {
    throw new BlobKeyInvalidError(`${JSON.stringify(key)} is not a key for an object`, {
      advice: "Use printable ASCII in parts separated by single slashes, without '.' and '..' as parts",
    });
  }
  return key;
}

function parseBodyName(name: LogName, file: string): ParsedKey | undefined {
  const [, id, upload] = BODY_NAME.exec(file) ?? [];
  return id === undefined || upload === undefined ? undefined : { kind: 'body', name, id, upload };
}

function parseArchiveName(name: LogName, file: string): ParsedKey | undefined {
  const [, number, upload] = ARCHIVE_NAME.exec(file) ?? [];
  const segment = Number(number);
  return upload === undefined || segment > MAX_NUMBER ? undefined : { kind: 'archive', name, segment, upload };
}

function parseRootName(name: LogName, file: string): ParsedKey | undefined {
  const match = ROOT_NAME.exec(file);
  const id = match?.[3];
  const position = parsePadded(match?.[1], match?.[2]);
  return id === undefined || position === undefined ? undefined : { kind: 'root', name, position, id };
}

/**
 * Parses the last part of the key of a build's progress.
 * @returns undefined if it has another form
 */
export function parseProgressName(file: string): ProgressPlace | undefined {
  const match = PROGRESS_NAME.exec(file);
  const id = match?.[6];
  const target = parsePadded(match?.[1], match?.[2]);
  const targetCreated = Number(match?.[3]);
  const reached = parsePadded(match?.[4], match?.[5]);
  if (id === undefined || target === undefined || reached === undefined || !Number.isSafeInteger(targetCreated))
    return undefined;
  return { target, targetCreated, reached, id };
}

function parsePadded(segment: string | undefined, entry: string | undefined): Position | undefined {
  const position = { segment: Number(segment), entry: Number(entry) };
  return position.segment <= MAX_NUMBER && position.entry <= MAX_NUMBER ? position : undefined;
}

/**
 * Random lower-case hexadecimal digits.
 * @param random from 0 up to but not including 1
 */
export function randomHex(random: () => number, digits: number): string {
  return Array.from({ length: digits }, () => Math.floor(random() * 16).toString(16)).join('');
}

function checkName(name: string, form: RegExp, prefix: string): string {
  if (!form.test(name)) throw new BlobKeyInvalidError(`'${name}' is not the name of an object under '${prefix}'`);
  return prefix + name;
}

function checkId(hexId: string): string {
  if (!SHA256_HEX.test(hexId)) throw new BlobKeyInvalidError(`'${hexId}' is not a SHA-256 in hexadecimal digits`);
  return hexId;
}

function padPosition({ segment, entry }: Position): string {
  return `${pad(segment)}-${pad(entry)}`;
}

function pad(number: number): string {
  if (!Number.isInteger(number) || number < 0 || number > MAX_NUMBER) {
    throw new BlobKeyInvalidError(`${number} is not a segment or entry number`);
  }
  return String(number).padStart(10, '0');
}

/**
 * The name of a log in keys of objects. It consists of lower-case letters, digits and `-_=~`, so
 * that every file system and every URL can hold it.
 */
export type LogName = string & { readonly __brand: 'LogName' };

/** A longer name is replaced by a hash. A file name has at most 255 bytes. */
const MAX_NAME = 200;

const ESCAPED_NAME = /^~(?:[0-9a-z_-]|=[0-9a-f]{2})+$/;
const HASHED_NAME = /^~~[0-9a-f]{64}$/;

/**
 * The name of a log. A UUID is its own name. Any other log is named `~` and its id, in which
 * lower-case letters, digits, `-` and `_` stay, and `=` and two hexadecimal digits replace every
 * other byte of its UTF-8. If that is too long, the name is a hash.
 */
export function logName(log: LogId): LogName {
  const id: string = log;
  if (isUuid(id)) return id as string as LogName;
  const escaped = `~${escapeId(log)}`;
  return escaped.length <= MAX_NAME ? (escaped as LogName) : hashedLogName(log);
}

/** `~~` and the SHA-256 of the id's UTF-8, in 64 hexadecimal digits. */
export function hashedLogName(log: LogId): LogName {
  return `~~${bytesToHex(sha256(new TextEncoder().encode(log)))}` as LogName;
}

/** Checks a name; undefined if no log has it. */
export function parseLogName(text: string): LogName | undefined {
  if (HASHED_NAME.test(text)) return text as LogName;
  const log = idOf(text);
  return log !== undefined && logName(log) === text ? (text as LogName) : undefined;
}

/** The inverse of {@link logName}; undefined if the name is a hash. */
export function logOfName(name: LogName): LogId | undefined {
  return idOf(name);
}

function idOf(text: string): LogId | undefined {
  try {
    if (isUuid(text)) return text;
    return ESCAPED_NAME.test(text) ? textLogId(unescapeId(text.slice(1))) : undefined;
  } catch (error) {
    if (error instanceof URIError || error instanceof LogIdInvalidError) return undefined;
    throw error;
  }
}

function escapeId(text: string): string {
  // `encodeURIComponent` keeps more characters. A group of its escapes stays together.
  return encodeURIComponent(text).replaceAll(/%[0-9A-F]{2}|[^0-9a-z_-]/g, (found) => {
    const digits = found.length === 1 ? found.charCodeAt(0).toString(16) : found.slice(1).toLowerCase();
    return `=${digits}`;
  });
}

/** @throws URIError if the bytes are not UTF-8 */
function unescapeId(escaped: string): string {
  return decodeURIComponent(escaped.replaceAll('=', '%'));
}

/** Characters of a listed id in one part of its key. A file name has at most 255 bytes. */
const ID_PART = 200;
const ID_PARTS = new RegExp(`.{${ID_PART}}(?=.)`, 'g');
/** Ends a key, so that none is the folder of another. It comes before every `/` and digit. */
const ID_END = '.id';
const LISTED_ID = /^ids\/((?:[0-9a-f]{200}\/)*[0-9a-f]{1,200})\.id$/;

/**
 * The key of a log's id in the listing of chosen ids: its UTF-8 in hexadecimal digits. So the keys
 * have the order of the ids' bytes, and the beginning of an id is the beginning of its key.
 */
export function listedIdKey(log: LogId): string {
  return `${listedIdPrefix(log)}${ID_END}`;
}

/** The prefix of {@link listedIdKey} for all ids that begin with a text. */
export function listedIdPrefix(text: string): string {
  return IDS_PREFIX + bytesToHex(new TextEncoder().encode(text)).replaceAll(ID_PARTS, (part) => `${part}/`);
}

/** The inverse of {@link listedIdKey}; undefined for all other keys. */
export function parseListedId(key: string): LogId | undefined {
  const [, parts = ''] = LISTED_ID.exec(key) ?? [];
  try {
    const log = textLogId(unescapeId(parts.replaceAll('/', '').replaceAll(/../g, (byte) => `=${byte}`)));
    return listedIdKey(log) === key ? log : undefined;
  } catch (error) {
    if (error instanceof URIError || error instanceof LogIdInvalidError) return undefined;
    throw error;
  }
}
