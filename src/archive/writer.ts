import { ByteWriter } from '../codec/bytes.ts';
import type { ChunkPlatform } from '../codec/chunk.ts';
import { EntryGapError, TooLargeError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import type { StoredItem } from '../log/attribute.ts';
import { HASH_BYTES } from '../log/item-codec.ts';
import type { Fingerprint } from '../log/meaning.ts';
import { type ArchiveIndex, encodeArchiveIndex, MAX_FRAME_BYTES, skippableFrame } from './archive-index.ts';
import { encodeItemLine } from './item-line.ts';
import { encodeSeekTable, type SeekEntry } from './seek-table.ts';

/** A frame ends when it has this many bytes before compression. */
export const FRAME_BYTES = 1_000_000;

export interface ArchiveOf {
  readonly log: LogId;
  readonly segment: number;
  /** As in {@link ArchiveIndex}. */
  readonly mapping?: Fingerprint | undefined;
  /** Type of the entry that ends a segment. */
  readonly endSegment: string;
}

export interface PartOptions {
  /** The number of the first entry; 0 by default. */
  readonly from?: number;
  /**
   * Called after each frame that does not end the segment. If it returns true, the part ends there.
   */
  readonly shouldStop?: () => boolean;
  /** {@link FRAME_BYTES} by default. */
  readonly frameBytes?: number;
}

/**
 * Writes a segment's archive from the items of the Entry table, in order, with one frame in memory
 * at a time. The archive has lines of DynamoDB JSON in Zstandard frames, then the index, then the
 * seek table. Leaves out expiry (`X`), which is not part of an entry, and the milliseconds (`P`) of
 * an application's items, which follow from their time. A part of an archive has the same form and
 * the frames that the whole archive has.
 * @throws EntryGapError if an entry is missing or the last entry does not end the segment
 * @throws TooLargeError if a frame is longer than the limit, or longer than the platform can
 * compress
 */
export async function* writeArchive(
  platform: ChunkPlatform,
  { log, segment, mapping, endSegment }: ArchiveOf,
  pages: AsyncIterable<readonly StoredItem[]>,
  { from = 0, shouldStop = () => false, frameBytes = FRAME_BYTES }: PartOptions = {},
): AsyncGenerator<Uint8Array, WrittenArchive> {
  const frames = new FrameList();
  const lines = new LineWriter();
  let [next, frameFirst] = [from, from];
  let lastType: string | undefined;

  const endFrame = (): Uint8Array => {
    const content = lines.take();
    if (content.length > MAX_FRAME_BYTES) {
      throw new TooLargeError(`a frame of ${content.length} bytes exceeds the limit of ${MAX_FRAME_BYTES}`, {
        log,
        segment,
      });
    }
    const frame = platform.compress(content);
    if (frame === content) {
      throw new TooLargeError(`${content.length} bytes cannot be compressed on this platform`, { log, segment });
    }
    frames.add({ first: frameFirst, stored: frame, content: content.length, hash: platform.sha256(content) });
    frameFirst = next;
    return frame;
  };

  for await (const page of pages) {
    for (const item of page) {
      if (item.N?.N !== String(next)) throw gap({ log, segment }, next, 'an entry of the segment is not in the table');
      lines.add(encodeItemLine(mapping === undefined ? withoutExpiry(item) : withoutMilliseconds(withoutExpiry(item))));
      lastType = item.T?.S;
      next++;
      if (lines.length < frameBytes) continue;
      yield endFrame();
      if (lastType !== endSegment && shouldStop())
        return yield* frames.end(platform, { log, segment, mapping, entries: next });
    }
  }
  if (lastType !== endSegment) throw gap({ log, segment }, next, `the segment does not end with '${endSegment}'`);
  if (lines.length > 0) yield endFrame();
  return yield* frames.end(platform, { log, segment, mapping, entries: next });
}

/** An item without its expiry. */
export function withoutExpiry(item: StoredItem): StoredItem {
  if (item.X === undefined) return item;
  const { X: _, ...rest } = item;
  return rest;
}

function withoutMilliseconds(item: StoredItem): StoredItem {
  if (item.P === undefined) return item;
  const { P: _, ...rest } = item;
  return rest;
}

/** Collects lines with their line ends. */
class LineWriter {
  readonly #utf8 = new TextEncoder();
  readonly #writer = new ByteWriter(FRAME_BYTES);

  get length(): number {
    return this.#writer.length;
  }

  add(line: string): void {
    this.#writer.append(this.#utf8.encode(`${line}\n`));
  }

  take(): Uint8Array {
    const bytes = this.#writer.take();
    this.#writer.length = 0;
    return bytes;
  }
}

function gap(
  { log, segment }: { readonly log: LogId; readonly segment: number },
  entry: number,
  reason: string,
): EntryGapError {
  return new EntryGapError(reason, {
    log,
    segment,
    entry,
    advice: 'No archive was written. Restore the entry from a backup of the table',
  });
}

/** A compressed frame of lines. */
export interface StoredFrame {
  /** The number of its first entry. */
  readonly first: number;
  /** Its bytes as the object holds them. */
  readonly stored: Uint8Array;
  /** Length before compression, in bytes. */
  readonly content: number;
  /** SHA-256 of the bytes before compression. */
  readonly hash: Uint8Array;
}

/** Facts about a written archive. */
export interface WrittenArchive {
  /** SHA-256 of the index, which verifies every byte of every line. */
  readonly hash: Uint8Array;
  readonly entries: number;
  /** Uncompressed size of all lines. */
  readonly bytes: number;
  /** Size of the object, in bytes. */
  readonly stored: number;
  readonly frames: number;
}

/** Collects the facts about frames that the end of an archive states. */
export class FrameList {
  readonly #table: SeekEntry[] = [];
  readonly #hashes = new ByteWriter(HASH_BYTES);
  readonly #firsts: number[] = [];

  /** Appends a frame; call in the order of the object's frames. */
  add({ first, stored, content, hash }: StoredFrame): void {
    this.#table.push({ stored: stored.length, content });
    this.#hashes.append(hash);
    this.#firsts.push(first);
  }

  /** The end of the object: the index, then the seek table. Called once, after the last frame. */
  *end(
    platform: ChunkPlatform,
    of: Pick<ArchiveIndex, 'log' | 'segment' | 'entries' | 'mapping'>,
  ): Generator<Uint8Array, WrittenArchive> {
    const bytes = this.#table.reduce((sum, { content }) => sum + content, 0);
    const index = encodeArchiveIndex({ ...of, bytes, firsts: this.#firsts, hashes: this.#hashes.take() });
    const indexFrame = skippableFrame(index);
    yield indexFrame;
    const table = [...this.#table, { stored: indexFrame.length, content: 0 }];
    const seekTable = encodeSeekTable(table);
    yield seekTable;
    const stored = table.reduce((sum, frame) => sum + frame.stored, seekTable.length);
    return { hash: platform.sha256(index), entries: of.entries, bytes, stored, frames: this.#firsts.length };
  }
}
