import type { ByteSource } from '../codec/bytes.ts';
import { damaged } from './invalid-workbook.ts';
import type { ZipPart } from './zip-directory.ts';

const LOCAL_HEADER = { signature: 0x04034b50, bytes: 30 };
const STORED = 0;
const DEFLATED = 8;

/**
 * Reads and decompresses a part of a ZIP archive.
 * @throws WorkbookInvalidError if its bytes are not those that the directory promises
 */
export async function* readPart(file: ByteSource, part: ZipPart): AsyncGenerator<Uint8Array> {
  const compressed = compressedSlices(file, part);
  let bytes = 0;
  let crc = ~0;
  for await (const slice of decompress(compressed, part)) {
    bytes += slice.length;
    if (bytes > part.bytes) throw damaged(`part '${part.name}' is larger than its directory says`);
    crc = nextCrc(crc, slice);
    yield slice;
  }
  if (bytes !== part.bytes || ~crc >>> 0 !== part.crc) throw damaged(`part '${part.name}' was changed or cut`);
}

/** Yields the bytes of a part as they are in the archive. */
async function* compressedSlices(file: ByteSource, part: ZipPart): AsyncGenerator<Uint8Array> {
  const header = new Uint8Array(LOCAL_HEADER.bytes);
  // The header's own length is known as soon as it is complete.
  let start = part.start + header.length;
  let at = 0;
  let left = part.compressedBytes;
  for await (const slice of file()) {
    for (let i = Math.max(0, part.start - at); i < slice.length && at + i < part.start + header.length; i++) {
      header[at + i - part.start] = slice[i] ?? 0;
      if (at + i === part.start + header.length - 1) start += namesBytes(header, part);
    }
    const isKnown = at + slice.length >= part.start + header.length;
    const from = Math.max(0, start - at);
    at += slice.length;
    if (!isKnown || from >= slice.length) continue;
    const wanted = slice.subarray(from, from + left);
    left -= wanted.length;
    yield wanted;
    if (left === 0) return;
  }
  if (left > 0) throw damaged(`part '${part.name}' is incomplete`);
}

/** The bytes of a local header after its fixed part. */
function namesBytes(header: Uint8Array, { name }: ZipPart): number {
  const view = new DataView(header.buffer);
  if (view.getUint32(0, true) !== LOCAL_HEADER.signature) throw damaged(`part '${name}' is not at its place`);
  return view.getUint16(26, true) + view.getUint16(28, true);
}

function decompress(slices: AsyncGenerator<Uint8Array>, { name, method }: ZipPart): AsyncIterable<Uint8Array> {
  switch (method) {
    case STORED:
      return slices;
    case DEFLATED:
      return inflate(slices, name);
    default:
      throw damaged(`part '${name}' is compressed by a method that XLSX does not allow`);
  }
}

/** Decompresses in pieces of bounded size, however much a slice grows. */
async function* inflate(slices: AsyncGenerator<Uint8Array>, name: string): AsyncGenerator<Uint8Array> {
  let failure: { readonly error: unknown } | undefined;
  const source = new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      try {
        const { done, value } = await slices.next();
        if (done === true) controller.close();
        else controller.enqueue(new Uint8Array(value));
      } catch (error) {
        failure = { error };
        throw error;
      }
    },
    async cancel() {
      await slices.return(undefined);
    },
  });
  const reader = source.pipeThrough(new DecompressionStream('deflate-raw')).getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } catch {
    throw failure === undefined ? damaged(`part '${name}' cannot be decompressed`) : failure.error;
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/** CRC-32 of ZIP. */
const CRC_TABLE = Int32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = (crc & 1) === 0 ? crc >>> 1 : (crc >>> 1) ^ 0xedb88320;
  return crc;
});

function nextCrc(crc: number, bytes: Uint8Array): number {
  let next = crc;
  for (let i = 0; i < bytes.length; i++) next = (CRC_TABLE[(next ^ (bytes[i] ?? 0)) & 0xff] ?? 0) ^ (next >>> 8);
  return next;
}
