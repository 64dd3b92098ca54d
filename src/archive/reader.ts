import { equalBytes } from '../codec/bytes.ts';
import type { ChunkPlatform } from '../codec/chunk.ts';
import { ArchiveCorruptError, ArchiveMissingError, TooLargeError } from '../errors.ts';
import type { Item } from '../log/attribute.ts';
import type { Entry } from '../log/entry.ts';
import { decodeEntry, HASH_BYTES } from '../log/item-codec.ts';
import type { EntryReader, RangeOptions } from '../log/log-store.ts';
import { type ItemTime, makerOf, type StoredMeaning } from '../log/meaning.ts';
import type { Segment } from '../log/segment.ts';
import type { BlobPart, BlobStore } from '../store/blob-store.ts';
import { type ArchiveIndex, decodeArchiveIndex, MAX_FRAME_BYTES, skippableContent } from './archive-index.ts';
import { entryLines, FrameLines, itemLines, type LineDecoder, RecentFrames } from './frame-lines.ts';
import { decodeItemLine, encodeItemLine } from './item-line.ts';
import { decodeSeekTable, FOOTER_BYTES, type SeekEntry, seekTableBytesOf } from './seek-table.ts';
import type { StoredFrame } from './writer.ts';

/**
 * Bytes of the first read. They contain index and seek table of an archive of about 1,500 frames.
 */
const TAIL_BYTES = 64 * 1024;
/** Size of the requests of {@link Archive.storedFrames}, in bytes. */
const READ_BYTES = 8 * 1024 * 1024;

export interface ArchiveSource {
  readonly blobs: BlobStore;
  /**
   * Knows the mapping by which the entries of a log are read. Without it, nothing is checked
   * against a mapping.
   */
  readonly tables?: Pick<EntryReader, 'meaningOf'>;
  readonly platform: ChunkPlatform;
  /** Frames that several archives keep together; each keeps its own by default. */
  readonly recent?: RecentFrames;
}

type OnPage = RangeOptions['onPage'];

/** A range of entries to read. */
interface LinesRange {
  readonly from: number;
  readonly to: number;
  readonly onPage: OnPage;
}

/** A frame: its place in the object and its entries. */
interface Frame {
  readonly start: number;
  readonly end: number;
  /** Uncompressed size, in bytes. */
  readonly content: number;
  readonly hash: Uint8Array;
  /** Number of its first entry. */
  readonly first: number;
  /** Number of the entry after its last. */
  readonly after: number;
}

/**
 * An archive with a verified index. A chain of hashes from the segment verifies every item that it
 * returns.
 */
export class Archive {
  /** Number of the first entry: 0, unless this is a part of an archive. */
  readonly first: number;
  /** The number after its last entry: the number of entries, unless this is a part. */
  readonly end: number;
  /** Uncompressed size of all lines. */
  readonly bytes: number;
  /** The mapping that made it, if another one reads it. */
  readonly maker: StoredMeaning | undefined;
  readonly #source: ArchiveSource;
  readonly #segment: Segment;
  readonly #key: string;
  readonly #frames: readonly Frame[];
  readonly #recent: RecentFrames;
  readonly #time: ItemTime | undefined;

  constructor(
    source: ArchiveSource,
    place: { readonly segment: Segment; readonly key: string },
    parts: {
      readonly index: ArchiveIndex;
      readonly frames: readonly Frame[];
      readonly maker?: StoredMeaning | undefined;
    },
  ) {
    this.#source = source;
    this.#recent = source.recent ?? new RecentFrames();
    this.#segment = place.segment;
    this.#time = source.tables?.meaningOf?.(place.segment.log)?.time;
    this.#key = place.key;
    this.#frames = parts.frames;
    this.maker = parts.maker;
    this.first = parts.index.firsts[0] ?? 0;
    this.end = parts.index.entries;
    this.bytes = parts.index.bytes;
  }

  get frames(): number {
    return this.#frames.length;
  }

  /**
   * The number after the last entry of the frames before an entry; {@link first} if there are none.
   */
  framesBefore(entry: number): number {
    return this.#frames.findLast(({ after }) => after <= entry)?.after ?? this.first;
  }

  /**
   * The frames before an entry, as they are stored. Each request reads some megabytes. Checks the
   * hash of each frame, but not its lines.
   * @throws ArchiveMissingError, ArchiveCorruptError if the object is missing or has changed
   */
  async *storedFrames(to = this.end): AsyncGenerator<StoredFrame> {
    let group: Frame[] = [];
    for (const [i, frame] of this.#frames.entries()) {
      if (frame.after > to) break;
      group.push(frame);
      const next = this.#frames[i + 1];
      const start = group[0]?.start ?? 0;
      if (next !== undefined && next.after <= to && next.end - start <= READ_BYTES) continue;
      const part = await this.#range(start, frame.end);
      for (const each of group) {
        const stored = part.bytes.slice(each.start - start, each.end - start);
        const { first, hash } = each;
        yield { first, stored, content: this.#content(stored, each).length, hash };
      }
      group = [];
    }
  }

  /**
   * The items with numbers from `from` up to but not including `to`, in ascending order, one page
   * per frame. Each page takes one request, or none if the frame was read recently.
   * @param onPage called for each page, with the length of its lines before compression
   * @throws ArchiveMissingError, ArchiveCorruptError if the object is missing or has changed
   */
  async *items(from: number, to: number, onPage?: OnPage): AsyncGenerator<Item[]> {
    const { maker } = this;
    for await (const page of this.#decoded({ from, to, onPage }, itemLines(this.#segment, this.#time))) {
      yield maker === undefined ? page : page.map((item) => decodeItemLine(encodeItemLine(maker.retranslate(item))));
    }
  }

  /**
   * Like {@link items}, but decoded as entries.
   * @throws ItemInvalidError if the item of an entry is malformed
   */
  async *entries(from: number, to: number, onPage?: OnPage): AsyncGenerator<Entry[]> {
    if (this.maker === undefined)
      return yield* this.#decoded({ from, to, onPage }, entryLines(this.#segment, this.#time));
    for await (const page of this.items(from, to, onPage)) yield page.map(decodeEntry);
  }

  async *#decoded<T>({ from, to, onPage }: LinesRange, decoder: LineDecoder<T>): AsyncGenerator<T[]> {
    if (from >= to) return;
    for (const frame of this.#frames) {
      if (frame.after <= from) continue;
      if (frame.first >= to) return;
      const lines = await this.#recent.lines(frame, () => this.#fetch(frame));
      const page = inArchive(this.#segment, this.#key, () => lines.decode(from, to, decoder));
      onPage?.({ items: page.length, bytes: lines.bytes(from, to), attempts: 1 });
      yield page;
    }
  }

  async #fetch(frame: Frame): Promise<FrameLines> {
    const { bytes } = await this.#range(frame.start, frame.end);
    const content = this.#content(bytes, frame);
    return inArchive(this.#segment, this.#key, () => new FrameLines(content, this.#segment, frame));
  }

  async #range(from: number, to: number): Promise<BlobPart> {
    const part = await this.#source.blobs.getRange(this.#key, { from, to });
    if (part === undefined) throw missing(this.#segment, this.#key);
    return part;
  }

  /** The bytes of a frame before compression, which have the hash that the index states. */
  #content(stored: Uint8Array, { content: limit, hash }: Frame): Uint8Array {
    const { platform } = this.#source;
    return inArchive(this.#segment, this.#key, () => {
      const content = decompress(platform, stored, limit);
      if (!equalBytes(platform.sha256(content), hash)) fail('a frame does not have the hash that the index states');
      return content;
    });
  }
}

/**
 * Opens the archive that a segment names, with one ranged read, or two if its index is long. Checks
 * that the index has the hash on the segment and belongs to this segment of this log.
 * @param from the number of the first entry; above 0 only for a part of an archive
 * @throws ArchiveMissingError, ArchiveCorruptError if the object is missing or a check fails
 * @throws MappingDiffersError if another mapping gave its entries
 */
export async function openArchive(source: ArchiveSource, segment: Segment, from = 0): Promise<Archive> {
  if (segment.archive === undefined) throw new Error('the segment has no archive to open');
  const { key, hash } = segment.archive;
  const { blobs, platform } = source;
  let tail = await readArchiveTail(blobs, { segment, key }, TAIL_BYTES);
  const needed = inArchive(segment, key, () => tailBytes(tail));
  if (needed > tail.bytes.length) tail = await readArchiveTail(blobs, { segment, key }, needed);
  const parts = inArchive(segment, key, () => {
    const { table, content, framesEnd } = splitTail(tail);
    if (!equalBytes(platform.sha256(content), hash)) fail('its index does not have the hash that the segment states');
    const index = decodeArchiveIndex(content, from);
    if (index.log !== segment.log || index.segment !== segment.segment) {
      fail(`it belongs to segment ${index.segment} of log ${index.log}`);
    }
    return { index, frames: framesOf(index, table, framesEnd) };
  });
  const where = { log: segment.log, segment: segment.segment };
  const made = { what: `the archive '${key}'`, where, mapping: parts.index.mapping };
  const maker = await makerOf({ ...source, store: source.tables }, made);
  return new Archive(source, { segment, key }, { ...parts, maker });
}

async function readArchiveTail(
  blobs: BlobStore,
  { segment, key }: { readonly segment: Segment; readonly key: string },
  last: number,
): Promise<BlobPart> {
  const part = await blobs.getRange(key, { last });
  if (part === undefined) throw missing(segment, key);
  return part;
}

/**
 * The length of index and seek table at the end of the object, in bytes, as far as this tail shows.
 */
function tailBytes({ bytes: tail, size }: BlobPart): number {
  const table = seekTableBytesOf(tail);
  if (table === undefined || table > size) return fail('it does not end with a seek table');
  if (table > tail.length) return Math.min(size, table + indexRoom(table));
  const entries = decodeSeekTable(tail.subarray(tail.length - table));
  const index = entries?.at(-1)?.stored;
  if (index === undefined || table + index > size) return fail('its seek table is damaged');
  return table + index;
}

/**
 * The maximum size of an index for the frames of a seek table: 9 bytes per number, 32 per hash, and
 * fields.
 */
function indexRoom(seekTable: number): number {
  return Math.ceil((seekTable / 8) * (HASH_BYTES + 9)) + 1024;
}

function splitTail({ bytes, size }: BlobPart): {
  readonly table: readonly SeekEntry[];
  readonly content: Uint8Array;
  /** The end of the frames with lines, as an offset in the object. */
  readonly framesEnd: number;
} {
  const tableBytes = seekTableBytesOf(bytes) ?? FOOTER_BYTES;
  const table = decodeSeekTable(bytes.subarray(bytes.length - tableBytes)) ?? fail('its seek table is damaged');
  const indexEnd = bytes.length - tableBytes;
  const stored = table.at(-1)?.stored ?? 0;
  const content = stored > indexEnd ? undefined : skippableContent(bytes.subarray(indexEnd - stored, indexEnd));
  return {
    table: table.slice(0, -1),
    content: content ?? fail('it has no index'),
    framesEnd: size - tableBytes - stored,
  };
}

/**
 * The place of each frame. Checks that the sizes fit the object and the index; the hashes verify
 * the rest.
 */
function framesOf(index: ArchiveIndex, table: readonly SeekEntry[], framesEnd: number): Frame[] {
  if (table.length !== index.firsts.length) fail('its seek table and its index differ');
  let start = 0;
  const frames = table.map(({ stored, content }, i) => {
    const [first = 0, after = index.entries] = index.firsts.slice(i, i + 2);
    const hash = index.hashes.subarray(i * HASH_BYTES, (i + 1) * HASH_BYTES);
    const frame = { start, end: start + stored, content, hash, first, after };
    start += stored;
    return frame;
  });
  const bytes = table.reduce((sum, { content }) => sum + content, 0);
  if (start !== framesEnd || bytes !== index.bytes) fail('the sizes in its seek table are wrong');
  if (table.some(({ content }) => content > MAX_FRAME_BYTES)) fail('a frame exceeds the limit');
  return frames;
}

function decompress(platform: ChunkPlatform, stored: Uint8Array, limit: number): Uint8Array {
  try {
    return platform.decompress(stored, limit);
  } catch (cause) {
    if (cause instanceof TooLargeError) throw cause;
    throw new ArchiveCorruptError('a frame cannot be decompressed', { cause });
  }
}

function inArchive<T>(segment: Segment, key: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof TooLargeError) throw error.at({ log: segment.log, segment: segment.segment });
    if (!(error instanceof ArchiveCorruptError)) throw error;
    const lost = 'No part of it was used. Restore the original object from a version or a backup of the bucket';
    throw new ArchiveCorruptError(`the archive '${key}' cannot be read: ${error.reason}`, {
      log: segment.log,
      segment: segment.segment,
      advice: error.advice ?? lost,
      cause: error,
    });
  }
}

function fail(reason: string): never {
  throw new ArchiveCorruptError(reason);
}

function missing({ log, segment }: Segment, key: string): ArchiveMissingError {
  return new ArchiveMissingError(`the archive '${key}' is not in the bucket`, {
    log,
    segment,
    advice: 'Restore the object from a version or a backup of the bucket',
  });
}
