import type { ItemInvalidError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import type { Position } from '../ids/position.ts';
import type { StoredItem } from '../log/attribute.ts';
import type { Entry, EntryHead } from '../log/entry.ts';
import { decodeEntryHead } from '../log/item-codec.ts';
import type { Consistency, LogReader, RangeOptions, ScanPart, SegmentRange, TableReader } from '../log/log-store.ts';
import type { Meaning } from '../log/meaning.ts';
import type { Segment } from '../log/segment.ts';
import { RecentFrames } from './frame-lines.ts';
import { type Archive, type ArchiveSource, openArchive } from './reader.ts';

const OPEN_ARCHIVES = 8;

/**
 * Reads whole logs. If entries are missing in the tables, reads them from the segment's archive.
 *
 * A read without a gap costs no extra request, with one exception: if a consistent read ends before
 * its range, it also reads the segment, to return all entries. An eventually consistent read may
 * then miss the end, as it may without archives.
 *
 * Reads throw ArchiveMissingError or ArchiveCorruptError if entries are missing and their archive
 * is missing or has changed.
 */
export class ArchivedLogStore implements LogReader {
  readonly reads = 'tables and archives';
  readonly #tables: TableReader;
  readonly #source: ArchiveSource;
  readonly #open = new Map<string, Promise<Archive>>();

  constructor(tables: TableReader, source: Omit<ArchiveSource, 'tables'>) {
    this.#tables = tables;
    this.#source = { recent: new RecentFrames(), ...source, tables };
  }

  async getEntry(log: LogId, position: Position, consistency: Consistency): Promise<Entry | undefined> {
    const entry = await this.#tables.getEntry(log, position, consistency);
    if (entry !== undefined) return entry;
    const archive = await this.#archiveOf(log, position.segment, consistency);
    const { entry: number } = position;
    if (archive === undefined || number >= archive.end) return undefined;
    for await (const [entry] of archive.entries(number, number + 1)) return entry;
    return undefined;
  }

  /**
   * The newest entry in the table, which is not always the last entry of the segment. If the table
   * has none, the last entry in the archive.
   */
  async newestEntry(log: LogId, segment: number, consistency: Consistency): Promise<EntryHead | undefined> {
    const entry = await this.#tables.newestEntry(log, segment, consistency);
    if (entry !== undefined) return entry;
    const archive = await this.#archiveOf(log, segment, consistency);
    if (archive === undefined) return undefined;
    for await (const [item] of archive.items(archive.end - 1, archive.end)) return item && decodeEntryHead(item);
    return undefined;
  }

  async nameItem(log: LogId, position: Position): Promise<string | undefined> {
    return this.#tables.nameItem?.(log, position);
  }

  meaningOf(log: LogId): Meaning | undefined {
    return this.#tables.meaningOf?.(log);
  }

  /** Like {@link LogReader.entries}. The size of archived entries is the length of their lines. */
  async *entries(log: LogId, range: SegmentRange, options: RangeOptions): AsyncGenerator<Entry[]> {
    const pages = this.#tables.entries(log, range, options);
    const archived = (archive: Archive, from: number, to: number): AsyncIterable<Entry[]> =>
      archive.entries(from, to, options.onPage);
    const numberOf = (entry: Entry): number => entry.position.entry;
    yield* this.#whole({ log, range, consistency: { consistent: options.consistent } }, { pages, numberOf, archived });
  }

  async *items(log: LogId, range: SegmentRange, options: RangeOptions): AsyncGenerator<StoredItem[]> {
    const pages = this.#tables.items(log, range, options);
    const archived = (archive: Archive, from: number, to: number): AsyncIterable<StoredItem[]> =>
      archive.items(from, to, options.onPage);
    const numberOf = (item: StoredItem): number => Number(item.N?.N);
    yield* this.#whole({ log, range, consistency: { consistent: options.consistent } }, { pages, numberOf, archived });
  }

  /** Fills the gaps in pages of the table with entries of the archive. */
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
      readonly archived: (archive: Archive, from: number, to: number) => AsyncIterable<T[]>;
    },
  ): AsyncGenerator<T[]> {
    const { segment, from, to } = range;
    if (from >= to) return;
    let next = from;
    let archiveRead: Promise<Archive | undefined> | undefined;
    const missing = async (end: number): Promise<AsyncIterable<T[]> | Iterable<T[]>> => {
      archiveRead ??= this.#archiveOf(log, segment, consistency);
      const archive = await archiveRead;
      return archive === undefined ? [] : archived(archive, next, end);
    };
    for await (const page of pages) {
      let start = 0;
      for (const [i, entry] of page.entries()) {
        const number = numberOf(entry);
        if (number !== next) {
          if (i > start) yield page.slice(start, i);
          start = i;
          yield* await missing(number);
        }
        next = number + 1;
      }
      if (page.length > start) yield page.slice(start);
    }
    if (next >= to) return;
    // A range that ends early without a gap is usually in an open segment. A consistent read
    // returns all entries.
    if (next > from && archiveRead === undefined && !consistency.consistent) return;
    yield* await missing(to);
  }

  async #archiveOf(log: LogId, number: number, consistency: Consistency): Promise<Archive | undefined> {
    const segment = await this.#tables.getSegment(log, number, consistency);
    if (segment?.archive === undefined) return undefined;
    // The name includes the segment, because `openArchive` checked the archive against this segment
    // only.
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
