import type { ItemInvalidError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import type { Position } from '../ids/position.ts';
import type { Item, StoredItem } from '../log/attribute.ts';
import type { Entry, EntryHead } from '../log/entry.ts';
import { decodeEntry, decodeEntryHead } from '../log/item-codec.ts';
import type { Consistency, LogReader, ScanPart, SegmentRange, TableReader } from '../log/log-store.ts';
import type { Segment } from '../log/segment.ts';
import { type Archive, type ArchiveSource, openArchive } from './reader.ts';

/** Archives kept open, each with the frames that it read last. */
const OPEN_ARCHIVES = 8;

/**
 * A log store whose entries never seem to leave: what is missing in the tables, in part or all of it, is read from the
 * segment's archive, if it has one. What the tables answer without a gap costs no request more than without this, but
 * for one of the segment where a consistent read ends before its range does: it gives all there is. An eventually
 * consistent one may then miss the end, as it may without this. Writes go to the tables, and so do reads of segments.
 *
 * Reads throw ArchiveMissingError and ArchiveCorruptError where entries are gone and the archive is not what it was.
 */
export class ArchivedLogStore implements LogReader {
  readonly reads = 'tables and archives';
  readonly #tables: TableReader;
  readonly #source: ArchiveSource;
  readonly #open = new Map<string, Promise<Archive>>();

  constructor(tables: TableReader, source: ArchiveSource) {
    this.#tables = tables;
    this.#source = source;
  }

  async getEntry(log: LogId, position: Position, consistency: Consistency): Promise<Entry | undefined> {
    const entry = await this.#tables.getEntry(log, position, consistency);
    if (entry !== undefined) return entry;
    const archive = await this.#archiveOf(log, position.segment, consistency);
    const { entry: number } = position;
    if (archive === undefined || number >= archive.entries) return undefined;
    for await (const [item] of archive.items(number, number + 1)) return item && decodeEntry(item);
    return undefined;
  }

  /** The newest that is in the table, so not always the segment's last; that of the archive where the table has none. */
  async newestEntry(log: LogId, segment: number, consistency: Consistency): Promise<EntryHead | undefined> {
    const entry = await this.#tables.newestEntry(log, segment, consistency);
    if (entry !== undefined) return entry;
    const archive = await this.#archiveOf(log, segment, consistency);
    if (archive === undefined) return undefined;
    for await (const [item] of archive.items(archive.entries - 1, archive.entries))
      return item && decodeEntryHead(item);
    return undefined;
  }

  async *entries(log: LogId, range: SegmentRange, consistency: Consistency): AsyncGenerator<Entry[]> {
    const pages = this.#tables.entries(log, range, consistency);
    const archived = (items: Item[]): Entry[] => items.map(decodeEntry);
    const numberOf = (entry: Entry): number => entry.position.entry;
    yield* this.#whole({ log, range, consistency }, { pages, numberOf, archived });
  }

  async *items(log: LogId, range: SegmentRange, consistency: Consistency): AsyncGenerator<StoredItem[]> {
    const pages = this.#tables.items(log, range, consistency);
    const archived = (items: Item[]): StoredItem[] => items;
    const numberOf = (item: StoredItem): number => Number(item.N?.N);
    yield* this.#whole({ log, range, consistency }, { pages, numberOf, archived });
  }

  /** What the table gives, and what the archive has of the gaps before and between; all of it where the table has none. */
  async *#whole<T>(
    {
      log,
      range,
      consistency,
    }: { readonly log: LogId; readonly range: SegmentRange; readonly consistency: Consistency },
    {
      pages,
      numberOf,
      archived,
    }: {
      readonly pages: AsyncIterable<T[]>;
      readonly numberOf: (entry: T) => number;
      readonly archived: (items: Item[]) => T[];
    },
  ): AsyncGenerator<T[]> {
    const { segment, from, to } = range;
    if (from >= to) return;
    let next = from;
    let asked: Promise<Archive | undefined> | undefined;
    const archive = (): Promise<Archive | undefined> => {
      asked ??= this.#archiveOf(log, segment, consistency);
      return asked;
    };
    for await (const page of pages) {
      let start = 0;
      for (const [i, entry] of page.entries()) {
        const number = numberOf(entry);
        if (number !== next) {
          if (i > start) yield page.slice(start, i);
          start = i;
          for await (const items of itemsOf(await archive(), next, number)) yield archived(items);
        }
        next = number + 1;
      }
      if (page.length > start) yield page.slice(start);
    }
    if (next >= to) return;
    // Without gap, what ends early is most often an open segment. Whoever must have all of it reads consistently.
    if (next > from && asked === undefined && !consistency.consistent) return;
    for await (const items of itemsOf(await archive(), next, to)) yield archived(items);
  }

  async #archiveOf(log: LogId, number: number, consistency: Consistency): Promise<Archive | undefined> {
    const segment = await this.#tables.getSegment(log, number, consistency);
    if (segment?.archive === undefined) return undefined;
    // By the segment too: what is open was proven to be of that one only.
    const name = `${log}/${number}/${segment.archive.key}`;
    const open = this.#open.get(name);
    if (open !== undefined) return open;
    const opening = openArchive(this.#source, segment);
    this.#open.set(name, opening);
    opening.catch(() => this.#open.delete(name));
    for (const oldest of this.#open.keys()) {
      if (this.#open.size <= OPEN_ARCHIVES) break;
      this.#open.delete(oldest);
    }
    return opening;
  }

  newestSegments(log: LogId, limit: number, consistency: Consistency): Promise<Segment[]> {
    return this.#tables.newestSegments(log, limit, consistency);
  }

  getSegment(log: LogId, segment: number, consistency: Consistency): Promise<Segment | undefined> {
    return this.#tables.getSegment(log, segment, consistency);
  }

  segments(log: LogId, consistency?: Consistency): AsyncIterable<Segment> {
    return this.#tables.segments(log, consistency);
  }

  allSegments(part?: ScanPart, onInvalid?: (error: ItemInvalidError) => void): AsyncIterable<Segment> {
    return this.#tables.allSegments(part, onInvalid);
  }
}

async function* itemsOf(archive: Archive | undefined, from: number, to: number): AsyncGenerator<Item[]> {
  if (archive !== undefined) yield* archive.items(from, to);
}
