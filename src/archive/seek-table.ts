import { ByteWriter } from '../codec/bytes.ts';

const MAGIC = 0x184d2a5e;
const FOOTER_MAGIC = 0x8f92eab1;
const HEADER_BYTES = 8;
const ENTRY_BYTES = 8;
/** Number of frames, descriptor, magic number: the last bytes of a file that has a seek table. */
export const FOOTER_BYTES = 9;

/** One frame of a file, in bytes. A skippable frame holds 0. */
export interface SeekEntry {
  readonly stored: number;
  readonly content: number;
}

/**
 * The skippable frame that ends a file of Zstandard frames and says how long each is, without checksums.
 * Source: the Zstandard Seekable Format 0.1.0, in the folder contrib/seekable_format of Zstandard's own repository.
 */
export function encodeSeekTable(entries: readonly SeekEntry[]): Uint8Array {
  const size = seekTableBytes(entries.length);
  const writer = new ByteWriter(size);
  const put = (value: number): void => {
    const at = writer.grow(4);
    writer.view.setUint32(at, value, true);
  };
  put(MAGIC);
  put(size - HEADER_BYTES);
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
 * How many bytes at the end of a file are its seek table, told from the footer; undefined where there is none that
 * {@link encodeSeekTable} gives.
 */
export function seekTableBytesOf(tail: Uint8Array): number | undefined {
  if (tail.length < FOOTER_BYTES) return undefined;
  const footer = viewOf(tail.subarray(tail.length - FOOTER_BYTES));
  if (footer.getUint32(5, true) !== FOOTER_MAGIC || footer.getUint8(4) !== 0) return undefined;
  return seekTableBytes(footer.getUint32(0, true));
}

/** The inverse of {@link encodeSeekTable}; undefined for any bytes that it does not give. */
export function decodeSeekTable(bytes: Uint8Array): SeekEntry[] | undefined {
  if (seekTableBytesOf(bytes) !== bytes.length) return undefined;
  const view = viewOf(bytes);
  if (view.getUint32(0, true) !== MAGIC || view.getUint32(4, true) !== bytes.length - HEADER_BYTES) return undefined;
  const entries: SeekEntry[] = [];
  for (let at = HEADER_BYTES; at < bytes.length - FOOTER_BYTES; at += ENTRY_BYTES) {
    entries.push({ stored: view.getUint32(at, true), content: view.getUint32(at + 4, true) });
  }
  return entries;
}

function seekTableBytes(frames: number): number {
  return HEADER_BYTES + frames * ENTRY_BYTES + FOOTER_BYTES;
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
