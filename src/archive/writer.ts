import { ByteWriter } from '../codec/bytes.ts';
import type { ChunkPlatform } from '../codec/chunk.ts';
import { EntryGapError, TooLargeError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import type { StoredItem } from '../log/attribute.ts';
import { MAX_FRAME_BYTES } from './archive-index.ts';
import { FrameList, type WrittenArchive } from './frame-list.ts';
import { encodeItemLine } from './item-line.ts';

/** A frame ends with the line that makes it as long as this, in bytes before compression. */
export const FRAME_BYTES = 1_000_000;

export interface ArchiveOf {
  readonly log: LogId;
  readonly segment: number;
  /** Type of the entry that ends a segment. */
  readonly endSegment: string;
}

/** How to write a part of an archive instead of the whole. */
export interface PartOptions {
  /** The number of the first entry; 0 by default. */
  readonly from?: number | undefined;
  /** Asked after each frame that does not end the segment. Once it returns true, the writer ends the part there. */
  readonly shouldStop?: (() => boolean) | undefined;
  /** {@link FRAME_BYTES} by default. */
  readonly frameBytes?: number | undefined;
}

/**
 * Makes a segment's archive from the items of the Entry table, in order, holding one frame of it at a time: lines of
 * DynamoDB JSON in Zstandard frames, then the index, then the seek table. Expiry (`X`) is left out: it is no part of
 * an entry. A part of an archive has the same form and the frames that the whole archive would have.
 * @throws EntryGapError where an entry is missing, or the last one does not end the segment
 * @throws TooLargeError where a frame is longer than the platform compresses, or than any item makes it
 */
export async function* writeArchive(
  platform: ChunkPlatform,
  { log, segment, endSegment }: ArchiveOf,
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
      throw new TooLargeError(`a frame of ${content.length} bytes could not be read again`, { log, segment });
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
      lines.add(encodeItemLine(withoutExpiry(item)));
      lastType = item.T?.S;
      next++;
      if (lines.length < frameBytes) continue;
      yield endFrame();
      if (lastType !== endSegment && shouldStop()) return yield* frames.end(platform, { log, segment, entries: next });
    }
  }
  if (lastType !== endSegment) throw gap({ log, segment }, next, `the segment does not end with '${endSegment}'`);
  if (lines.length > 0) yield endFrame();
  return yield* frames.end(platform, { log, segment, entries: next });
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
