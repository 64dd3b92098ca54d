import { ByteWriter } from '../codec/bytes.ts';

const MAGIC = 0x184d2a5e;
const FOOTER_MAGIC = 0x8f92eab1;
const FRAME_HEADER_BYTES = 8;
const ENTRY_BYTES = 8;
/**
 * Length of the footer that ends a file with a seek table: number of frames, descriptor, magic
 * number.
 */
export const FOOTER_BYTES = 9;

/** The sizes of one frame, in bytes. The content of a skippable frame counts 0. */
export interface SeekEntry {
  readonly stored: number;
  readonly content: number;
}

/**
 * The seek table: a skippable frame that ends a file of Zstandard frames and states their lengths,
 * without checksums. Source: the Zstandard Seekable Format 0.1.0, in the folder
 * contrib/seekable_format of Zstandard's own repository.
 */
export function encodeSeekTable(entries: readonly SeekEntry[]): Uint8Array {
  const size = seekTableBytes(entries.length);
  const writer = new ByteWriter(size);
  const put = (value: number): void => {
    const at = writer.grow(4);
    writer.view.setUint32(at, value, true);
  };
  put(MAGIC);
  put(size - FRAME_HEADER_BYTES);
  for (const { stored, content } of entries) {
    put(stored);
    put(content);
  }
  put(entries.length);
  writer.append(Uint8Array.of(0));
  put(FOOTER_MAGIC);
  return writer.take();
}

/**
 * The length of a file's seek table in bytes, from its footer; undefined if there is no footer as
 * {@link encodeSeekTable} writes it.
 */
export function seekTableBytesOf(tail: Uint8Array): number | undefined {
  if (tail.length < FOOTER_BYTES) return undefined;
  const footer = viewOf(tail.subarray(tail.length - FOOTER_BYTES));
  if (footer.getUint32(5, true) !== FOOTER_MAGIC || footer.getUint8(4) !== 0) return undefined;
  return seekTableBytes(footer.getUint32(0, true));
}

/** The inverse of {@link encodeSeekTable}; undefined for all other bytes. */
export function decodeSeekTable(bytes: Uint8Array): SeekEntry[] | undefined {
  if (seekTableBytesOf(bytes) !== bytes.length) return undefined;
  const view = viewOf(bytes);
  if (view.getUint32(0, true) !== MAGIC || view.getUint32(4, true) !== bytes.length - FRAME_HEADER_BYTES)
    return undefined;
  const entries: SeekEntry[] = [];
  for (let at = FRAME_HEADER_BYTES; at < bytes.length - FOOTER_BYTES; at += ENTRY_BYTES) {
    entries.push({ stored: view.getUint32(at, true), content: view.getUint32(at + 4, true) });
  }
  return entries;
}

function seekTableBytes(frames: number): number {
  return FRAME_HEADER_BYTES + frames * ENTRY_BYTES + FOOTER_BYTES;
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
