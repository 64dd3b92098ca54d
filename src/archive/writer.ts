import { EntryGapError, TooLargeError } from '../errors.ts';
import type { StoredItem } from '../log/attribute.ts';
import type { LogId } from '../log/log-id.ts';
import { ByteWriter } from '../tree/bytes.ts';
import type { ChunkPlatform } from '../tree/chunk.ts';
import { encodeArchiveIndex, HASH_BYTES, MAX_FRAME_BYTES, skippableFrame } from './archive-index.ts';
import { encodeItemLine } from './item-line.ts';
import { encodeSeekTable, type SeekEntry } from './seek-table.ts';

/** A frame ends with the line that makes it as long as this, in bytes before compression. */
export const FRAME_BYTES = 1_000_000;

/** What was written. */
export interface WrittenArchive {
  /** SHA-256 of the index, which vouches for every byte of every line. */
  readonly hash: Uint8Array;
  readonly entries: number;
  /** Of all lines, uncompressed. */
  readonly bytes: number;
  /** Size of the object, in bytes. */
  readonly stored: number;
  readonly frames: number;
}

export interface ArchiveOf {
  readonly log: LogId;
  readonly segment: number;
  /** Type of the entry that ends a segment. */
  readonly endSegment: string;
}

/**
 * Makes a segment's archive from the items of the Entry table, in order, holding one frame of it at a time: lines of
 * DynamoDB JSON in Zstandard frames, then the index, then the seek table. Expiry (`X`) is left out: it is no part of
 * an entry.
 * @throws EntryGapError where an entry is missing, or the last one does not end the segment
 * @throws TooLargeError where a frame is longer than the platform compresses, or than any item makes it
 */
export async function* writeArchive(
  platform: ChunkPlatform,
  { log, segment, endSegment }: ArchiveOf,
  pages: AsyncIterable<readonly StoredItem[]>,
): AsyncGenerator<Uint8Array, WrittenArchive> {
  const table: SeekEntry[] = [];
  const hashes = new ByteWriter(HASH_BYTES);
  const firsts: number[] = [];
  const lines = new LineWriter();
  let [next, frameFirst] = [0, 0];
  let lastType: string | undefined;

  const endFrame = (): Uint8Array => {
    const content = lines.take();
    if (content.length > MAX_FRAME_BYTES) {
      throw new TooLargeError(`a frame of ${content.length} bytes could not be read again`, { log, segment });
    }
    const frame = platform.compress(content);
    if (frame === content) {
      throw new TooLargeError(`${content.length} bytes cannot be compressed on this platform`, { log, segment });
    }
    table.push({ stored: frame.length, content: content.length });
    hashes.append(platform.sha256(content));
    firsts.push(frameFirst);
    frameFirst = next;
    return frame;
  };

  for await (const page of pages) {
    for (const item of page) {
      if (item.N?.N !== String(next)) throw gap({ log, segment }, next, 'an entry of the segment is not in the table');
      lines.add(encodeItemLine(withoutExpiry(item)));
      lastType = item.T?.S;
      next++;
      if (lines.length >= FRAME_BYTES) yield endFrame();
    }
  }
  if (lastType !== endSegment) throw gap({ log, segment }, next, `the segment does not end with '${endSegment}'`);
  if (lines.length > 0) yield endFrame();

  const bytes = table.reduce((sum, { content }) => sum + content, 0);
  const index = encodeArchiveIndex({ log, segment, entries: next, bytes, firsts, hashes: hashes.take() });
  const indexFrame = skippableFrame(index);
  yield indexFrame;
  table.push({ stored: indexFrame.length, content: 0 });
  const seekTable = encodeSeekTable(table);
  yield seekTable;
  const stored = table.reduce((sum, frame) => sum + frame.stored, seekTable.length);
  return { hash: platform.sha256(index), entries: next, bytes, stored, frames: firsts.length };
}

/** An item without the time at which it leaves the table. */
export function withoutExpiry(item: StoredItem): StoredItem {
  if (item.X === undefined) return item;
  const { X: _, ...rest } = item;
  return rest;
}

/** Lines, each with its end. */
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
    advice: 'Nothing was changed. Restore the entry from a backup of the table',
  });
}
