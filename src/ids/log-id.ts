import { parse, stringify, validate } from 'uuid';
import { LogIdInvalidError } from '../errors.ts';

/**
 * The id of a log. A log in logfold's own schema has a UUID in lower case, or a chosen id of 1 to
 * {@link MAX_CHOSEN_ID_BYTES} bytes in UTF-8. A mapped log has any text of 1 to
 * {@link MAX_LOG_ID_BYTES} bytes.
 */
export type LogId = string & { readonly __brand: 'LogId' };

/** Reads the id of a log that a user gives. @throws LogIdInvalidError if no log here can have it */
export type ParseLog = (text: string) => LogId;

/** The longest log id, in bytes of UTF-8. A segment id then fits into a partition key. */
export const MAX_LOG_ID_BYTES = 2000;

/** The longest chosen id, in bytes of UTF-8. It then fits into the key of an object. */
export const MAX_CHOSEN_ID_BYTES = 256;

const UUID_BYTES = 16;
const SEGMENT_NUMBER_BYTES = 4;
/** No other log id is as short as a UUID, or as the segment id of a log with a UUID. */
const MIN_TEXT_BYTES = UUID_BYTES + SEGMENT_NUMBER_BYTES + 1;
/** Ends the text of an id. UTF-8 never contains this byte. */
const END = 0xff;

const utf8 = new TextEncoder();
const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** The name of logfold's own feed on the command line, so that no log has this id. */
const FEED_NAME = 'feed';
/** A text of this form is a UUID or a mistake. */
const UUID_FORM = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/**
 * Reads the id of a log in logfold's own schema: a UUID in upper or lower case, or a chosen id,
 * which stays as it is.
 * @throws LogIdInvalidError if the text is empty, longer than {@link MAX_CHOSEN_ID_BYTES} bytes in
 * UTF-8, has a lone surrogate, is `feed`, or has the form of a UUID without being one
 */
export function parseLogId(text: string): LogId {
  const given: unknown = text;
  const lower = typeof given === 'string' ? given.toLowerCase() : '';
  if (isUuid(lower)) return lower;
  const isMistake = given === FEED_NAME || UUID_FORM.test(lower);
  if (isTextId(given, MAX_CHOSEN_ID_BYTES) && !isMistake) return given;
  throw new LogIdInvalidError(`${shown(given)} is not a log id`, {
    advice: `Give well-formed text of 1 to ${MAX_CHOSEN_ID_BYTES} bytes in UTF-8 that is neither 'feed' nor like a UUID, or the id that 'logfold create' printed`,
  });
}

/** Whether an id is text that fits into the listing of chosen ids. */
export function isChosenId(log: LogId): boolean {
  return !isUuid(log) && isTextId(log, MAX_CHOSEN_ID_BYTES);
}

/**
 * Takes any text as the id of a log, unchanged.
 * @throws LogIdInvalidError if the text is empty, longer than {@link MAX_LOG_ID_BYTES} bytes in
 * UTF-8, or has a lone surrogate
 */
export function textLogId(text: string): LogId {
  const given: unknown = text;
  if (!isTextId(given, MAX_LOG_ID_BYTES)) {
    throw new LogIdInvalidError(`${shown(given)} is not a log id`, {
      advice: `Give well-formed text of 1 to ${MAX_LOG_ID_BYTES} bytes in UTF-8`,
    });
  }
  return given;
}

/** Whether a text is a UUID in lower case, as the id that logfold makes for a log is. */
export function isUuid(text: string): text is LogId {
  return validate(text) && text === text.toLowerCase();
}

/**
 * The bytes of a log id, as both tables store it: the 16 bytes of a UUID in lower case. Any other
 * id is its UTF-8, then one or more bytes 0xff up to a length of at least 21.
 */
export function logIdBytes(log: LogId): Uint8Array {
  if (isUuid(log)) return parse(log);
  const text = utf8.encode(log);
  const bytes = new Uint8Array(Math.max(text.length + 1, MIN_TEXT_BYTES)).fill(END);
  bytes.set(text);
  return bytes;
}

/**
 * The inverse of {@link logIdBytes}.
 * @throws LogIdInvalidError if no log id has these bytes
 */
export function logIdFromBytes(bytes: Uint8Array): LogId {
  return bytes.length === UUID_BYTES ? uuidFromBytes(bytes) : textFromBytes(bytes);
}

/**
 * A segment's id, the Entry table's partition key: the bytes of the log id, then the segment
 * number, 4 bytes big-endian. It never equals the bytes of a log id or another segment's id.
 */
export function encodeSegmentId(log: LogId, segment: number): Uint8Array {
  const id = logIdBytes(log);
  const bytes = new Uint8Array(id.length + SEGMENT_NUMBER_BYTES);
  bytes.set(id);
  new DataView(bytes.buffer).setUint32(id.length, segment);
  return bytes;
}

/**
 * The inverse of {@link encodeSegmentId}.
 * @throws LogIdInvalidError if no segment has this id
 */
export function decodeSegmentId(bytes: Uint8Array): SegmentId {
  if (last !== undefined && equal(last.bytes, bytes)) return last.id;
  const length = bytes.length - SEGMENT_NUMBER_BYTES;
  if (length < UUID_BYTES) throw new LogIdInvalidError(`a segment id of ${bytes.length} bytes is too short`);
  const segment = new DataView(bytes.buffer, bytes.byteOffset).getUint32(length);
  const id = { log: logIdFromBytes(bytes.subarray(0, length)), segment };
  last = { bytes: Uint8Array.from(bytes), id };
  return id;
}

interface SegmentId {
  readonly log: LogId;
  readonly segment: number;
}

/** The segment id that was decoded last. Most neighbouring items have the same one. */
let last: { readonly bytes: Uint8Array; readonly id: SegmentId } | undefined;

function isTextId(given: unknown, maxBytes: number): given is LogId {
  if (typeof given !== 'string' || given === '' || given.length > maxBytes) return false;
  return given.isWellFormed() && utf8.encode(given).length <= maxBytes;
}

function uuidFromBytes(bytes: Uint8Array): LogId {
  try {
    const text = stringify(bytes);
    if (isUuid(text)) return text;
    throw new LogIdInvalidError(`'${text}' is not a UUID`);
  } catch (cause) {
    throw new LogIdInvalidError('the 16 bytes of a log id are not a UUID', { cause });
  }
}

function textFromBytes(bytes: Uint8Array): LogId {
  const end = bytes.indexOf(END);
  const log = decodeUtf8(bytes.subarray(0, Math.max(end, 0)));
  // An id has exactly one form.
  if (log === undefined || !equal(logIdBytes(log), bytes)) {
    throw new LogIdInvalidError(`no log id has these ${bytes.length} bytes`);
  }
  return log;
}

function equal(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

function decodeUtf8(bytes: Uint8Array): LogId | undefined {
  try {
    const text = strictUtf8.decode(bytes);
    return isTextId(text, MAX_LOG_ID_BYTES) ? text : undefined;
  } catch (error) {
    if (error instanceof TypeError) return undefined;
    throw error;
  }
}

function shown(given: unknown): string {
  return typeof given === 'string' ? `'${given.slice(0, 100)}'` : `a value of type ${typeof given}`;
}
