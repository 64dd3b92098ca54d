import type { ByteSource } from '../codec/bytes.ts';
import { WorkbookInvalidError } from '../errors.ts';
import { checkSignature, damagedWorkbook, workbookTooLarge } from './invalid-workbook.ts';

/** The records of a ZIP archive (PKWARE APPNOTE 6.3): signature and bytes before the names. */
const CENTRAL_HEADER = { signature: 0x02014b50, bytes: 46 };
const END = { signature: 0x06054b50, bytes: 22 };
const ZIP64_END = { signature: 0x06064b50, bytes: 56 };
const ZIP64_LOCATOR = { signature: 0x07064b50, bytes: 20 };
const ZIP64_EXTRA = 1;
/** A field with this value has its real value in a record of ZIP64. */
const IN_ZIP64 = 0xffffffff;
const ENCRYPTED_FLAG = 1;

/** Bytes at the end of a file that are searched for the directory: enough for 30,000 parts. */
const TAIL_BYTES = 4 * 1024 * 1024;
/** The largest part after decompression. The XML of 10 million cells takes 0.5 GiB. */
const MAX_PART_BYTES = 4 * 1024 ** 3;
/** Compression makes the XML of a sheet 5 to 50 times smaller, and a bomb 1,000 times. */
const MAX_RATIO = 250;
/** Parts up to this size may have any ratio. */
const SMALL_PART_BYTES = 16 * 1024 * 1024;

/** A part of an XLSX file: a file in a ZIP archive. */
export interface ZipPart {
  readonly name: string;
  readonly method: number;
  /** The place of its local header in the file. */
  readonly start: number;
  /** Bytes in the archive. */
  readonly compressedBytes: number;
  /** Bytes after decompression. */
  readonly bytes: number;
  readonly crc: number;
}

/** The parts of an XLSX file. */
export class ZipDirectory {
  readonly #parts = new Map<string, ZipPart>();

  add(part: ZipPart): void {
    this.#parts.set(partKey(part.name), part);
  }

  /** Finds a part. Programs differ in the case of names and in a slash before them. */
  find(name: string): ZipPart | undefined {
    return this.#parts.get(partKey(name));
  }
}

function partKey(name: string): string {
  return name.replace(/^\//, '').toLowerCase();
}

/**
 * Reads the directory of a ZIP archive. It is at the end of the file, so the whole file is read.
 * @throws WorkbookInvalidError if the file is not a ZIP archive, is truncated or encrypted, or if a
 * part is too large
 */
export async function readDirectory(file: ByteSource): Promise<ZipDirectory> {
  const tail = await readFileTail(file);
  const { entries, start } = findDirectory(tail);
  const directory = new ZipDirectory();
  let at = start;
  for (let i = 0; i < entries; i++) {
    const header = tail.record(at, CENTRAL_HEADER);
    const [nameBytes, extraBytes, commentBytes] = [28, 30, 32].map((field) => header.getUint16(field, true));
    const nameAt = at + CENTRAL_HEADER.bytes;
    const extraAt = nameAt + (nameBytes ?? 0);
    const end = extraAt + (extraBytes ?? 0);
    const name = new TextDecoder().decode(tail.slice(nameAt, extraAt));
    const part = zipPart(name, header, zip64Fields(tail.slice(extraAt, end)));
    checkSize(part);
    directory.add(part);
    at = end + (commentBytes ?? 0);
  }
  return directory;
}

/** The last bytes of a file, addressed by their places in the file. */
class FileTail {
  readonly start: number;
  readonly end: number;
  readonly #bytes: Uint8Array;

  constructor(bytes: Uint8Array, end: number) {
    this.#bytes = bytes;
    this.start = end - bytes.length;
    this.end = end;
  }

  slice(from: number, to: number): Uint8Array {
    if (from < this.start || to > this.end) throw damagedWorkbook('its directory is incomplete');
    return this.#bytes.subarray(from - this.start, to - this.start);
  }

  /** @throws WorkbookInvalidError if there is no such record */
  record(at: number, { signature, bytes }: { readonly signature: number; readonly bytes: number }): DataView {
    const slice = this.slice(at, at + bytes);
    const view = new DataView(slice.buffer, slice.byteOffset, bytes);
    if (view.getUint32(0, true) !== signature) throw damagedWorkbook('its directory is incomplete');
    return view;
  }

  /** The place of the last record with a signature. */
  findLast({ signature, bytes }: { readonly signature: number; readonly bytes: number }): number | undefined {
    const view = new DataView(this.#bytes.buffer, this.#bytes.byteOffset, this.#bytes.length);
    for (let at = this.#bytes.length - bytes; at >= 0; at--) {
      if (view.getUint32(at, true) === signature) return this.start + at;
    }
    return undefined;
  }
}

async function readFileTail(file: ByteSource): Promise<FileTail> {
  const first: number[] = [];
  const kept: Uint8Array[] = [];
  let keptBytes = 0;
  let end = 0;
  for await (const bytes of file()) {
    if (first.length < 8) first.push(...bytes.subarray(0, 8 - first.length));
    // A source may use its memory for the next slice.
    kept.push(bytes.slice(-TAIL_BYTES));
    keptBytes += Math.min(bytes.length, TAIL_BYTES);
    end += bytes.length;
    while (keptBytes - (kept[0]?.length ?? 0) >= TAIL_BYTES) keptBytes -= kept.shift()?.length ?? 0;
  }
  checkSignature(new Uint8Array(first), 'xlsx');
  const bytes = new Uint8Array(keptBytes);
  let at = 0;
  for (const slice of kept) {
    bytes.set(slice, at);
    at += slice.length;
  }
  return new FileTail(bytes, end);
}

function findDirectory(tail: FileTail): { readonly entries: number; readonly start: number } {
  const at = tail.findLast(END);
  if (at === undefined) throw damagedWorkbook('its end is missing');
  const end = tail.record(at, END);
  const [entries, start] = [end.getUint16(10, true), end.getUint32(16, true)];
  if (entries !== 0xffff && start !== IN_ZIP64) return { entries, start };
  const locator = tail.record(at - ZIP64_LOCATOR.bytes, ZIP64_LOCATOR);
  const record = tail.record(Number(locator.getBigUint64(8, true)), ZIP64_END);
  return { entries: Number(record.getBigUint64(32, true)), start: Number(record.getBigUint64(48, true)) };
}

/** The 64-bit fields of a part: its sizes and its place, as far as they do not fit into 32 bits. */
function zip64Fields(extra: Uint8Array): number[] {
  const view = new DataView(extra.buffer, extra.byteOffset, extra.length);
  for (let at = 0; at + 4 <= extra.length; ) {
    const [id, bytes] = [view.getUint16(at, true), view.getUint16(at + 2, true)];
    const end = Math.min(at + 4 + bytes, extra.length);
    if (id === ZIP64_EXTRA) {
      const fields = [];
      for (let field = at + 4; field + 8 <= end; field += 8) fields.push(Number(view.getBigUint64(field, true)));
      return fields;
    }
    at = end;
  }
  return [];
}

function zipPart(name: string, header: DataView, zip64: number[]): ZipPart {
  if ((header.getUint16(8, true) & ENCRYPTED_FLAG) !== 0) {
    throw new WorkbookInvalidError('a password protects the ZIP archive of the XLSX file', {
      advice: 'Save it as XLSX without a password',
    });
  }
  const field = (at: number) => {
    const value = header.getUint32(at, true);
    return value === IN_ZIP64 ? (zip64.shift() ?? value) : value;
  };
  // ZIP64's fields follow this order.
  const bytes = field(24);
  const compressedBytes = field(20);
  const start = field(42);
  return { name, method: header.getUint16(10, true), start, compressedBytes, bytes, crc: header.getUint32(16, true) };
}

function checkSize({ name, bytes, compressedBytes }: ZipPart): void {
  const isBomb = bytes > SMALL_PART_BYTES && bytes > compressedBytes * MAX_RATIO;
  if (bytes <= MAX_PART_BYTES && !isBomb) return;
  throw workbookTooLarge(`its part '${name}' grows from ${compressedBytes} to ${bytes} bytes`);
}

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
    if (bytes > part.bytes) throw damagedWorkbook(`part '${part.name}' is larger than its directory says`);
    crc = nextCrc(crc, slice);
    yield slice;
  }
  if (bytes !== part.bytes || ~crc >>> 0 !== part.crc) throw damagedWorkbook(`part '${part.name}' was changed or cut`);
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
  if (left > 0) throw damagedWorkbook(`part '${part.name}' is incomplete`);
}

/** The bytes of a local header after its fixed part. */
function namesBytes(header: Uint8Array, { name }: ZipPart): number {
  const view = new DataView(header.buffer);
  if (view.getUint32(0, true) !== LOCAL_HEADER.signature) throw damagedWorkbook(`part '${name}' is not at its place`);
  return view.getUint16(26, true) + view.getUint16(28, true);
}

function decompress(slices: AsyncGenerator<Uint8Array>, { name, method }: ZipPart): AsyncIterable<Uint8Array> {
  switch (method) {
    case STORED:
      return slices;
    case DEFLATED:
      return inflate(slices, name);
    default:
      throw damagedWorkbook(`part '${name}' is compressed by a method that XLSX does not allow`);
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
    throw failure === undefined ? damagedWorkbook(`part '${name}' cannot be decompressed`) : failure.error;
  } finally {
    await reader.cancel().catch(() => {});
  }
}

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
