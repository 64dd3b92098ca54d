import { LogIdInvalidError } from '../errors.ts';
import { type LogId, logIdBytes, logIdFromBytes } from './log-id.ts';

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
