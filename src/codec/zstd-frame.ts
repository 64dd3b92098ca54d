/** Bytes of the magic number and the frame header descriptor after it. */
const FIXED_BYTES = 5;
const BLOCK_HEADER_BYTES = 3;
const CHECKSUM_BYTES = 4;
const DICTIONARY_ID_BYTES: readonly number[] = [0, 1, 2, 4];
const CONTENT_SIZE_BYTES: readonly number[] = [0, 2, 4, 8];
const RUN_BLOCK = 1;

/**
 * The length of the Zstandard frame at the start of some bytes, from its headers. Decompressors
 * stop at a frame's end and ignore the rest. The result exceeds the number of bytes if the frame is
 * truncated. Source: RFC 8878, section 3.1.1.
 */
export function frameBytes(bytes: Uint8Array): number {
  const descriptor = bytes[FIXED_BYTES - 1] ?? 0;
  const singleSegment = (descriptor & 0x20) !== 0;
  const window = singleSegment ? 0 : 1;
  const dictionaryId = DICTIONARY_ID_BYTES[descriptor & 3] ?? 0;
  const sizeFlag = descriptor >> 6;
  const contentSize = sizeFlag === 0 && singleSegment ? 1 : (CONTENT_SIZE_BYTES[sizeFlag] ?? 0);
  let end = FIXED_BYTES + window + dictionaryId + contentSize;
  for (let last = false; !last; ) {
    const header = (bytes[end] ?? 0) | ((bytes[end + 1] ?? 0) << 8) | ((bytes[end + 2] ?? 0) << 16);
    last = (header & 1) !== 0;
    end += BLOCK_HEADER_BYTES + (((header >> 1) & 3) === RUN_BLOCK ? 1 : header >> 3);
    if (end > bytes.length) return end;
  }
  return end + ((descriptor & 4) === 0 ? 0 : CHECKSUM_BYTES);
}

/**
 * Whether a Zstandard frame's header states the content size. A frame with a single segment always
 * does. Source: RFC 8878, section 3.1.1.1.1.
 */
export function statesContentSize(frame: Uint8Array): boolean {
  return ((frame[FIXED_BYTES - 1] ?? 0) & 0xe0) !== 0;
}
