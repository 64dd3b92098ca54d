import { ByteWriter } from '../codec/bytes.ts';
import type { ChunkPlatform } from '../codec/chunk.ts';
import { EntryGapError, TooLargeError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import type { StoredItem } from '../log/attribute.ts';
import type { Fingerprint } from '../log/meaning.ts';
import { MAX_FRAME_BYTES } from './archive-index.ts';
import { FrameList, type WrittenArchive } from './frame-list.ts';
import { encodeItemLine } from './item-line.ts';

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
 * seek table. Leaves out expiry (`X`), which is not part of an entry. A part of an archive has the
 * same form and the frames that the whole archive has.
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
      lines.add(encodeItemLine(withoutExpiry(item)));
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
