import assert from 'node:assert/strict';
import { MemoryLogStore } from '../../../src/adapters/memory/log-store.ts';
import { decodeItemLine, encodeItemLine } from '../../../src/archive/item-line.ts';
import type { LogId } from '../../../src/ids/log-id.ts';
import { formatPosition, type Position } from '../../../src/ids/position.ts';
import type { Item, StoredItem } from '../../../src/log/attribute.ts';
import type { Entry, EntryHead } from '../../../src/log/entry.ts';
import { decodeEntryHead, type EntryPlace } from '../../../src/log/item-codec.ts';
import type { Consistency, LogReader, LogStore, SegmentRange } from '../../../src/log/log-store.ts';
import { VIRTUAL_TYPES } from '../../../src/log/schedule.ts';
import type { MappedItems } from '../../../src/mapping/mapped-items.ts';
import { MappedLogStore, type MappedLogStoreOptions } from '../../../src/mapping/mapped-log-store.ts';
import { parseMapping, type SchemaMapping } from '../../../src/mapping/schema-mapping.ts';
import { toApplicationItem } from '../../../src/mapping/translate.ts';
import type { StreamRecord } from '../../../src/workers/dispatch/route-stream-records.ts';
import type { Random } from '../models/random.ts';
import type { ApplicationSchema } from '../simulation/application-items.ts';
import { type Interceptor, interceptMappedItems } from './interceptor.ts';
import { MemoryMappedItems } from './memory-mapped-items.ts';
import { type RecordedItem, RecordedItems } from './recorded-items.ts';
import { type RecordedEntry, RecordedLogStore, type WatchedTables } from './recorded-log-store.ts';

export interface MappedTablesOptions {
  readonly schema: ApplicationSchema;
  readonly random: Random;
  readonly now: () => number;
  readonly onRecord: (record: StreamRecord) => void;
  /** Called for each item that is gone from the application's table. */
  readonly onGone: (place: EntryPlace) => void;
}

/** A store of mapped logs over the application's table. */
export interface MappedStore extends LogStore, Pick<MappedLogStore, 'register' | 'due'> {
  readonly application: MappedItems;
}

/** Entries of a log by plain counting. */
interface Numbered {
  readonly entries: RecordedEntry[];
  /** An item and its index, or the type of a virtual entry and the items before it, by position. */
  readonly at: ReadonlyMap<string, string>;
  readonly positions: ReadonlyMap<number, Position>;
}

/**
 * The tables of mapped logs: an application's table and logfold's Segment table. Every read of
 * every process is compared with the plain numbering of the application's items: an item that was
 * once shown at a position keeps it.
 */
export class MappedTables extends MappedLogStore implements WatchedTables, MappedStore {
  readonly schema: ApplicationSchema;
  readonly mapping: SchemaMapping;
  readonly application: RecordedItems;
  readonly #books: RecordedLogStore;
  readonly #now: () => number;
  readonly #numbered = new Map<LogId, Numbered & { readonly writes: number }>();
  /** The position at which some read has shown an item, by log and index. */
  readonly #shown = new Map<string, string>();

  constructor({ schema, random, now, onRecord, onGone }: MappedTablesOptions) {
    const mapping = parseMapping(schema);
    const memory = new MemoryLogStore({ pageItems: 7 });
    // Nothing reads a stream of the Segment table.
    const books = new RecordedLogStore({ inner: memory, random, now, onRecord: () => undefined, staleSegments: true });
    const application = new RecordedItems({
      inner: new MemoryMappedItems({ mapping, books: memory }),
      schema,
      books,
      random,
      now,
      onRecord,
      onGone: ({ log, index }) => onGone({ log, position: this.positionOf(log, index) }),
    });
    super({ items: application, books, mapping, now });
    this.schema = schema;
    this.mapping = mapping;
    this.application = application;
    this.#books = books;
    this.#now = now;
  }

  get writes(): number {
    return this.application.writes + this.#books.writes;
  }

  get stamps(): number {
    return this.application.stamps + this.#books.stamps;
  }

  history(log: LogId): RecordedEntry[] {
    return this.#count(log).entries;
  }

  lose(): void {
    throw new Error('the application leaves the item out');
  }

  positionOf(log: LogId, index: number): Position {
    const position = this.#count(log).positions.get(index);
    if (position === undefined) throw new Error(`item ${index} of '${log}' has no position`);
    return position;
  }

  /**
   * Checks that the archive gives an item back as the application wrote it, byte for byte.
   * @throws Error if it does not
   */
  async checkArchived(store: LogReader, log: LogId, { segment, entry }: Position): Promise<void> {
    const range = { segment, from: entry, to: entry + 1 };
    const [archived] = (await Array.fromAsync(store.items(log, range, { consistent: true }))).flat();
    const { X: _, ...item } = asItem(archived);
    const index = Number(item.Q && 'N' in item.Q ? item.Q.N : 0) - 1;
    const written = this.application.written(log).find((each) => each.index === index)?.written;
    const place = formatPosition({ segment, entry });
    assert.deepEqual(
      toApplicationItem(this.mapping, item),
      written,
      `${log}/${place} is gone and its archived copy differs`,
    );
  }

  /** The same tables, as a process with another mapping reads them. */
  mappedBy(mapping: SchemaMapping): MappedLogStore {
    return new MappedLogStore({ items: this.application, books: this.#books, mapping, now: this.#now });
  }

  /** Whether the log is registered. */
  isRegistered(log: LogId): boolean {
    return this.#books.segmentsOf(log).length > 0;
  }

  through(intercept: Interceptor): MappedStore {
    const items = interceptMappedItems(this.application, intercept);
    const books = this.#books.through(intercept);
    const check = (shown: ShownEntry): void => this.#checkShown(shown);
    return new CheckedMappedStore({ items, books, mapping: this.mapping, now: this.#now }, check);
  }

  expireNow(now: number, choose: () => boolean): number {
    return this.application.expireNow(now, choose);
  }

  /**
   * The entries of a log by plain counting: one Snapshot entry at the start of each segment and
   * after each full block, one End Segment entry after each full segment. A segment that is not
   * recorded has as many items and blocks as the one before it.
   */
  #count(log: LogId): Numbered {
    const { writes } = this;
    const known = this.#numbered.get(log);
    if (known?.writes === writes) return known;
    const counted = { ...this.#countAgain(log), writes };
    this.#numbered.set(log, counted);
    return counted;
  }

  #countAgain(log: LogId): Numbered {
    const schedules = this.#books.segmentsOf(log).map(({ schedule }) => schedule);
    const entries: RecordedEntry[] = [];
    const at = new Map<string, string>();
    const positions = new Map<number, Position>();
    const numbered = { entries, at, positions };
    const position = { segment: 0, entry: 0 };
    let [next, inSegment] = [0, 0];
    const add = (type: string, isThere: boolean, { written, atMs }: RecordedItem): void => {
      const place = { ...position };
      position.entry++;
      // Some reads show a virtual entry beside a missing item, and others do not.
      if (isThere || type !== ITEM) at.set(formatPosition(place), `${type} ${next}`);
      if (!isThere) return;
      const created = type === ITEM ? serialOf(written) : 0;
      entries.push({ entry: { log, position: place, created, type, version: 1 }, atMs });
      if (type === ITEM) positions.set(next, place);
    };
    for (const item of this.application.written(log)) {
      if (next === 0) add(VIRTUAL_TYPES.snapshot, item.index === 0, item);
      // A missing item leaves its place empty, and those of the virtual entries after it.
      while (next <= item.index) {
        const schedule = schedules[position.segment] ?? schedules.at(-1);
        if (schedule === undefined) return numbered;
        const isThere = next === item.index;
        add(ITEM, isThere, item);
        next++;
        inSegment++;
        if (inSegment < schedule.items && inSegment % schedule.snapshotEvery === 0)
          add(VIRTUAL_TYPES.snapshot, isThere, item);
        if (inSegment < schedule.items) continue;
        add(VIRTUAL_TYPES.endSegment, isThere, item);
        Object.assign(position, { segment: position.segment + 1, entry: 0 });
        inSegment = 0;
        // The Snapshot entry of a segment also exists with the item after it.
        add(VIRTUAL_TYPES.snapshot, isThere || next === item.index, item);
      }
    }
    return numbered;
  }

  #checkShown({ log, position, type, number }: ShownEntry): void {
    const place = formatPosition(position);
    const isVirtual = type !== undefined && VIRTUAL_TYPES.includes(type);
    const shown = isVirtual ? `${type} ${number}` : `${ITEM} ${Number(number) - 1}`;
    const expected = this.#count(log).at.get(place);
    if (shown !== expected) throw new Error(`a read of '${log}' shows ${shown} at ${place}, where ${expected} belongs`);
    if (isVirtual) return;
    const before = this.#shown.get(`${log}/${shown}`);
    this.#shown.set(`${log}/${shown}`, place);
    if (before !== undefined && before !== place)
      throw new Error(`${shown} of '${log}' moved from ${before} to ${place}`);
  }
}

const ITEM = 'item';

/** The number by which an item names its edit. */
function serialOf({ serial }: Item): number {
  return serial !== undefined && 'N' in serial ? Number(serial.N) : 0;
}

/** An item that an archive holds. Its attributes have all parts. */
function asItem(item: StoredItem | undefined): Item {
  return decodeItemLine(encodeItemLine(item ?? {}));
}

/** An entry that a read returned. */
interface ShownEntry extends EntryPlace {
  readonly type?: string | undefined;
  readonly number?: number | undefined;
}

/** Checks each entry that a read returns. */
class CheckedMappedStore extends MappedLogStore implements MappedStore {
  readonly application: MappedItems;
  readonly #check: (shown: ShownEntry) => void;

  constructor(options: MappedLogStoreOptions, check: (shown: ShownEntry) => void) {
    super(options);
    this.application = options.items;
    this.#check = check;
  }

  override async newestEntry(log: LogId, segment: number, consistency: Consistency): Promise<EntryHead | undefined> {
    const head = await super.newestEntry(log, segment, consistency);
    if (head !== undefined) this.#check(head);
    return head;
  }

  override async getEntry(log: LogId, position: Position, consistency: Consistency): Promise<Entry | undefined> {
    const entry = await super.getEntry(log, position, consistency);
    if (entry !== undefined) this.#check(entry);
    return entry;
  }

  override async *entries(log: LogId, range: SegmentRange, consistency: Consistency): AsyncGenerator<Entry[]> {
    for await (const page of super.entries(log, range, consistency)) {
      for (const entry of page) this.#check(entry);
      yield page;
    }
  }

  override async *items(log: LogId, range: SegmentRange, consistency: Consistency): AsyncGenerator<StoredItem[]> {
    for await (const page of super.items(log, range, consistency)) {
      for (const item of page) this.#check(decodeEntryHead(item));
      yield page;
    }
  }
}
