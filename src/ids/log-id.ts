import { parse, stringify, validate } from 'uuid';
import { LogIdInvalidError } from '../errors.ts';

/** The id of a log: a UUID in lower case. */
export type LogId = string & { readonly __brand: 'LogId' };

/**
 * Reads a UUID in its text form, in either case.
 * @throws LogIdInvalidError where the text is no UUID
 */
export function parseLogId(text: string): LogId {
  const lower = text.toLowerCase();
  if (!isLogId(lower)) {
    throw new LogIdInvalidError(`'${text}' is not a log id`, {
      advice: "Give the UUID of a log, such as the one that 'logfold create' prints",
    });
  }
  return lower;
}

function isLogId(text: string): text is LogId {
  return validate(text);
}

/** The 16 bytes of a log id, as they stand in both tables. */
export function logIdBytes(log: LogId): Uint8Array {
  return parse(log);
}

/**
 * The log id in 16 bytes.
 * @throws LogIdInvalidError where there are not 16 bytes or they are no UUID
 */
export function logIdFromBytes(bytes: Uint8Array): LogId {
  // stringify leaves the rest of a longer array alone.
  if (bytes.length !== 16) throw new LogIdInvalidError(`A log id has 16 bytes, not ${bytes.length}`);
  try {
    return parseLogId(stringify(bytes));
  } catch (cause) {
    throw new LogIdInvalidError('16 bytes of a log id are no UUID', { cause });
  }
}

const LOG_ID_BYTES = 16;
const SEGMENT_ID_BYTES = 20;

/** A segment's id, the Entry table's partition key: 16 bytes of log id, then the segment number, 4 bytes big-endian. */
export function encodeSegmentId(log: LogId, segment: number): Uint8Array {
  const bytes = new Uint8Array(SEGMENT_ID_BYTES);
  bytes.set(logIdBytes(log));
  new DataView(bytes.buffer).setUint32(LOG_ID_BYTES, segment);
  return bytes;
}

/**
 * The inverse of {@link encodeSegmentId}.
 * @throws LogIdInvalidError where there are not 20 bytes or the first 16 are no UUID
 */
export function decodeSegmentId(bytes: Uint8Array): { readonly log: LogId; readonly segment: number } {
  if (bytes.length !== SEGMENT_ID_BYTES) {
    throw new LogIdInvalidError(`A segment id has ${SEGMENT_ID_BYTES} bytes, not ${bytes.length}`);
  }
  const segment = new DataView(bytes.buffer, bytes.byteOffset).getUint32(LOG_ID_BYTES);
  return { log: logIdFromBytes(bytes.subarray(0, LOG_ID_BYTES)), segment };
}
