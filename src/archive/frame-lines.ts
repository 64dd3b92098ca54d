import { equalBytes, plainBytes } from '../codec/bytes.ts';
import { ArchiveCorruptError, ItemInvalidError } from '../errors.ts';
import { encodeSegmentId } from '../ids/log-id.ts';
import type { Item } from '../log/attribute.ts';
import type { Entry } from '../log/entry.ts';
import { entryDecoder } from '../log/entry-json.ts';
import { decodeEntry } from '../log/item-codec.ts';
import { CODE, ItemJson, ItemJsonError } from '../log/item-json.ts';
import type { SegmentPlace } from '../log/log-store.ts';
import { type ItemTime, withMilliseconds } from '../log/meaning.ts';
import { decodeItemLine } from './item-line.ts';

/** Makes something of the item of each line. Both functions give the same for the same item. */
export interface LineDecoder<T> {
  readonly fromJson: (json: ItemJson) => T;
  readonly fromItem: (item: Item) => T;
  /** Whether the item was the entry with this number in the segment of the decoder. */
  readonly isAt: (decoded: T, entry: number) => boolean;
}

/**
 * Decodes lines of a segment as items.
 * @param time of an application's items, which gives them their milliseconds
 */
export function itemLines({ log, segment }: SegmentPlace, time?: ItemTime): LineDecoder<Item> {
  const id = encodeSegmentId(log, segment);
  return {
    fromJson: (json) => withMilliseconds(json.item(), time),
    fromItem: (item) => withMilliseconds(item, time),
    isAt: ({ S, N }, entry) => {
      const isOfSegment = S !== undefined && 'B' in S && equalBytes(S.B, id);
      return isOfSegment && N !== undefined && 'N' in N && N.N === String(entry);
    },
  };
}

/** Like {@link itemLines}, but decodes entries. */
export function entryLines(place: SegmentPlace, time?: ItemTime): LineDecoder<Entry> {
  const { log, segment } = place;
  const items = itemLines(place, time);
  const ofItems = {
    fromJson: (json: ItemJson) => decodeEntry(items.fromJson(json)),
    fromItem: (item: Item) => decodeEntry(items.fromItem(item)),
  };
  return {
    ...(time === undefined ? entryDecoder() : ofItems),
    isAt: ({ log: ofLog, position }, entry) =>
      position.entry === entry && position.segment === segment && ofLog === log,
  };
}

const LINE_END = 0x0a;
const LINE_START = Uint8Array.from('{"Item":', (character) => character.charCodeAt(0));

/** The lines of a frame whose hash was checked. */
export class FrameLines {
  readonly #bytes: Uint8Array;
  /** The index after each line. */
  readonly #ends: readonly number[];
  readonly #segment: SegmentPlace;
  readonly #first: number;

  /**
   * @param numbers the number of the first entry, and of the entry after the last
   * @throws ArchiveCorruptError, without place, if the frame has more or fewer lines
   */
  constructor(
    content: Uint8Array,
    segment: SegmentPlace,
    { first, after }: { readonly first: number; readonly after: number },
  ) {
    this.#bytes = plainBytes(content);
    this.#segment = segment;
    this.#first = first;
    this.#ends = lineEnds(content);
    if (this.#ends.length === after - first && this.#ends.at(-1) === content.length) return;
    decodeUtf8(content);
    throw new ArchiveCorruptError('a frame has a wrong number of lines');
  }

  /**
   * Decodes the entries with numbers from `from` up to but not including `to`, as far as the frame
   * has them. Checks that each of them is at its place.
   * @throws ArchiveCorruptError, without place, if a line is not an item, or that of another entry
   * @throws the errors of `decoder.fromItem`
   */
  decode<T>(from: number, to: number, decoder: LineDecoder<T>): T[] {
    const [start, end] = this.#linesOf(from, to);
    try {
      return this.#decodeBytes(start, end, decoder);
    } catch (error) {
      // The careful decoder reads other forms of JSON too, and knows which error comes first.
      if (!(error instanceof ItemJsonError || error instanceof ItemInvalidError)) throw error;
      return this.#decodeText(start, end).map(decoder.fromItem);
    }
  }

  /** The length of the lines of these entries. */
  bytes(from: number, to: number): number {
    const [start, end] = this.#linesOf(from, to);
    return this.#startOf(end) - this.#startOf(start);
  }

  /** The first line of entries of the frame, and the line after the last. */
  #linesOf(from: number, to: number): readonly [number, number] {
    return [Math.max(0, from - this.#first), Math.min(to - this.#first, this.#ends.length)];
  }

  #decodeBytes<T>(start: number, end: number, { fromJson, isAt }: LineDecoder<T>): T[] {
    const json = new ItemJson(this.#bytes, this.#startOf(start));
    const decoded: T[] = [];
    for (let line = start; line < end; line++) {
      expectLineStart(json);
      const value = fromJson(json);
      json.expect(CODE.mapEnd);
      json.expect(LINE_END);
      if (!isAt(value, this.#first + line)) throw json.unknown();
      decoded.push(value);
    }
    return decoded;
  }

  #decodeText(start: number, end: number): Item[] {
    const { isAt } = itemLines(this.#segment);
    const text = decodeUtf8(this.#bytes.subarray(this.#startOf(start), this.#startOf(end)));
    const lines = text.split('\n').slice(0, -1);
    return lines.map((line, i) => {
      const item = decodeItemLine(line);
      const entry = this.#first + start + i;
      if (!isAt(item, entry)) throw new ArchiveCorruptError(`line ${entry + 1} is another entry`);
      return item;
    });
  }

  #startOf(line: number): number {
    return line === 0 ? 0 : (this.#ends[line - 1] ?? this.#bytes.length);
  }
}

function expectLineStart(json: ItemJson): void {
  // An iterator of the bytes would be slow.
  for (let i = 0; i < LINE_START.length; i++) if (json.bytes[json.at + i] !== LINE_START[i]) throw json.unknown();
  json.at += LINE_START.length;
}

function lineEnds(content: Uint8Array): number[] {
  const ends: number[] = [];
  let at = content.indexOf(LINE_END);
  for (; at !== -1; at = content.indexOf(LINE_END, at + 1)) ends.push(at + 1);
  return ends;
}

function decodeUtf8(content: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(content);
  } catch (cause) {
    throw new ArchiveCorruptError('a frame is not UTF-8', { cause });
  }
}

/**
 * Bytes of kept frames. About eight ranges of about a frame are read concurrently, and two
 * neighbours share each frame.
 */
const KEPT_BYTES = 16 * 1024 * 1024;

/** A frame of an archive. Another read of the frame has the same object. */
export interface KeptFrame {
  /** Length before compression, in bytes. */
  readonly content: number;
}

/**
 * Recently read frames of several archives. Readers go through neighbouring ranges in parallel, and
 * share the requests for the frames. Keeps the newest frame whatever its length.
 */
export class RecentFrames {
  readonly #frames = new Map<KeptFrame, Promise<FrameLines>>();
  #bytes = 0;

  /** The lines of a frame. Calls `read` unless the frame was read recently. */
  lines(frame: KeptFrame, read: () => Promise<FrameLines>): Promise<FrameLines> {
    const kept = this.#frames.get(frame);
    if (kept !== undefined) return kept;
    const reading = read();
    this.#frames.set(frame, reading);
    this.#bytes += frame.content;
    reading.catch(() => this.#forget(frame));
    for (const oldest of this.#frames.keys()) {
      if (this.#bytes <= KEPT_BYTES || oldest === frame) break;
      this.#forget(oldest);
    }
    return reading;
  }

  #forget(frame: KeptFrame): void {
    if (this.#frames.delete(frame)) this.#bytes -= frame.content;
  }
}
