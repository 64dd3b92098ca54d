import { parse, stringify, validate } from 'uuid';
import { LogIdInvalidError } from '../errors.ts';

/** The id of a log: a UUID in lower case. */
export type LogId = string & { readonly __brand: 'LogId' };

/**
 * Parses a UUID in upper or lower case.
 * @throws LogIdInvalidError if the text is not a UUID
 */
export function parseLogId(text: string): LogId {
  const given: unknown = text;
  const lower = typeof given === 'string' ? given.toLowerCase() : '';
  if (!isLogId(lower)) {
    const shown = typeof given === 'string' ? `'${given.slice(0, 100)}'` : `a value of type ${typeof given}`;
    throw new LogIdInvalidError(`${shown} is not a log id`, {
      advice: "Give the UUID of a log, such as the one that 'logfold create' prints",
    });
  }
  return lower;
}

function isLogId(text: string): text is LogId {
  return validate(text);
}

/** The 16 bytes of a log id, as both tables store it. */
export function logIdBytes(log: LogId): Uint8Array {
  return parse(log);
}

/**
 * The inverse of {@link logIdBytes}.
 * @throws LogIdInvalidError if the bytes are not 16, or not a UUID
 */
export function logIdFromBytes(bytes: Uint8Array): LogId {
  // `stringify` ignores the rest of a longer array.
  if (bytes.length !== 16) throw new LogIdInvalidError(`a log id has 16 bytes, not ${bytes.length}`);
  try {
    return parseLogId(stringify(bytes));
  } catch (cause) {
    throw new LogIdInvalidError('the 16 bytes of a log id are not a UUID', { cause });
  }
}

const LOG_ID_BYTES = 16;
const SEGMENT_ID_BYTES = 20;

/**
 * A segment's id, the Entry table's partition key: 16 bytes of log id, then the segment number, 4
 * bytes big-endian.
 */
export function encodeSegmentId(log: LogId, segment: number): Uint8Array {
  const bytes = new Uint8Array(SEGMENT_ID_BYTES);
  bytes.set(logIdBytes(log));
  new DataView(bytes.buffer).setUint32(LOG_ID_BYTES, segment);
  return bytes;
}

/**
 * The inverse of {@link encodeSegmentId}.
 * @throws LogIdInvalidError if the bytes are not 20, or the first 16 are not a UUID
 */
export function decodeSegmentId(bytes: Uint8Array): { readonly log: LogId; readonly segment: number } {
  if (bytes.length !== SEGMENT_ID_BYTES) {
    throw new LogIdInvalidError(`a segment id has ${SEGMENT_ID_BYTES} bytes, not ${bytes.length}`);
  }
  const segment = new DataView(bytes.buffer, bytes.byteOffset).getUint32(LOG_ID_BYTES);
  return { log: logIdFromBytes(bytes.subarray(0, LOG_ID_BYTES)), segment };
}
