import { ValueUnsupportedError } from '../errors.ts';

/** No value may take more memory than about this, in bytes, once it is decoded. */
export const MAX_DECODED_BYTES = 512 * 1024 * 1024;
/** About what an array or a map takes beside its items, in bytes. */
export const CONTAINER_BYTES = 64;
/** About what an item takes beside its content, in bytes. */
export const ITEM_BYTES = 16;

/**
 * Limits the memory that a value takes while it is decoded. A few bytes may stand for many: an empty array has one byte
 * in MessagePack, and 64 in memory.
 * @throws ValueUnsupportedError if this is too much
 */
export function checkDecodedBytes(bytes: number): void {
  if (bytes <= MAX_DECODED_BYTES) return;
  throw new ValueUnsupportedError(`so many items take over ${MAX_DECODED_BYTES} bytes of memory`);
}
