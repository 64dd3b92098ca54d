import type { MemoryLogStore } from '../../../src/adapters/memory/log-store.ts';
import type { ItemInvalidError } from '../../../src/errors.ts';
import type { LogId } from '../../../src/ids/log-id.ts';
import { comparePositions, type Position } from '../../../src/ids/position.ts';
import type { Item, StoredItem } from '../../../src/log/attribute.ts';
import type { Entry, EntryHead, RootRef } from '../../../src/log/entry.ts';
import { decodeEntry, type EntryPlace, encodeEntry, entryKey, entryPlace } from '../../../src/log/item-codec.ts';
import type {
  AttributeUpdate,
  Consistency,
  ExpiringSegment,
  LogStore,
  NewArchive,
  NewItems,
  NextSegment,
  ReplacementArchive,
  ScanPart,
  SegmentOrEntryPlace,
  SegmentPlace,
  SegmentRange,
  UnreadEntries,
} from '../../../src/log/log-store.ts';
import type { Expiry, LastSnapshot, Segment } from '../../../src/log/segment.ts';
import type { StreamRecord } from '../../../src/workers/dispatch/route-stream-records.ts';
import type { Random } from '../models/random.ts';
import { InjectedFault } from '../simulation/process.ts';
import { type Interceptor, interceptLogStore } from './interceptor.ts';

/** Eventually consistent reads always see writes that are older than this, in milliseconds. */
export const STALE_MS = 3_000;

export interface RecordedEntry {
  readonly entry: Entry;
  /** Time of the write, in epoch milliseconds. */
  readonly atMs: number;
}

/** The tables of a world, and everything that was ever written to them. */
export interface WatchedTables extends LogStore {
  /** Incremented by every write that may break an invariant. */
  readonly writes: number;
  /** Incremented by every write that may let an entry expire. */
  readonly stamps: number;
  /** Every entry of a log as first written, in order. */
  history(log: LogId): RecordedEntry[];
  /** Hides an entry permanently, as if it had been deleted. */
  lose(log: LogId, position: Position): void;
  /** The same tables for one process. Each request goes through `intercept`. */
  through(intercept: Interceptor): LogStore;
  /**
   * Deletes expired items, as DynamoDB eventually does.
   * @param now epoch seconds
   * @param choose selects the items to delete
   * @returns how many were deleted
   */
  expireNow(now: number, choose: () => boolean): number;
}

export interface RecordedLogStoreOptions {
  readonly inner: LogStore & Pick<MemoryLogStore, 'expireNow'>;
  readonly random: Random;
  readonly now: () => number;
  /** Called for every insertion, change and removal of an entry, in order. */
  readonly onRecord: (record: StreamRecord) => void;
  /** Called for every entry that is gone from the table. */
  readonly onGone?: (place: EntryPlace) => void;
  /** Whether each eventually consistent read of segments may be stale, not only the newest ones. */
  readonly staleSegments?: boolean;
}

/**
 * A log store that records every entry as first written, and creates a stream record for every
 * write. One in five eventually consistent reads shows an earlier state.
 */
export class RecordedLogStore implements WatchedTables {
  readonly reads = 'tables';
  writes = 0;
  stamps = 0;
  readonly #options: RecordedLogStoreOptions;
  readonly #inner: RecordedLogStoreOptions['inner'];
  readonly #entries = new Map<LogId, RecordedEntry[]>();
  /** Each segment after each of its changes, in order. */
  readonly #segments = new Map<string, { readonly segment: Segment; readonly atMs: number }[]>();
  #sequence = 0;

  constructor(options: RecordedLogStoreOptions) {
    this.#options = options;
    this.#inner = options.inner;
  }

  history(log: LogId): RecordedEntry[] {
    const all = this.#entries.get(log) ?? [];
    return all.sort((a, b) => comparePositions(a.entry.position, b.entry.position));
  }

  through(intercept: Interceptor): LogStore {
    const isRetryable = (error: unknown): boolean => error instanceof InjectedFault && error.harmless;
    return { ...interceptLogStore(this, intercept), isRetryable };
  }

  expireNow(now: number, choose: () => boolean): number {
    const gone = this.#inner.expireNow(now, choose);
    if (gone.length > 0) this.#removed(gone);
    return gone.length;
  }

  lose(log: LogId, position: Position): void {
    const kept = this.history(log).filter(({ entry }) => comparePositions(entry.position, position) !== 0);
    this.#entries.set(log, kept);
  }

  /** The segments of a log as they are stored, in order. */
  segmentsOf(log: LogId): Segment[] {
    const newest = [...this.#segments.values()].flatMap((versions) => versions.at(-1)?.segment ?? []);
    return newest.filter((segment) => segment.log === log).sort((a, b) => a.segment - b.segment);
  }

  async createLog(segment: Segment, first: Entry): Promise<void> {
    await this.#inner.createLog(segment, first);
    this.#inserted([first], segment);
  }

  async putEntries(entries: readonly Entry[]): Promise<void> {
    const there = await this.#anyExists(entries);
    await this.#inner.putEntries(entries);
    if (!there) this.#inserted(entries);
  }

  async replaceAttributes(place: SegmentPlace, from: Item | undefined, to: Item): Promise<boolean> {
    const replaced = await this.#inner.replaceAttributes(place, from, to);
    await this.segmentChanged(place.log, place.segment);
    return replaced;
  }

  async startSegment(items: NextSegment): Promise<void> {
    const there = await this.#anyExists([items.end]);
    await this.#inner.startSegment(items);
    if (!there) this.#inserted([items.end, items.first], items.segment);
  }

  async putAhead(items: NewItems, unread: UnreadEntries): Promise<void> {
    const there = await this.#anyExists(items.entries);
    await this.#inner.putAhead(items, unread);
    if (!there) this.#inserted(items.entries, items.segment);
  }

  async updateAttributes(log: LogId, position: Position, update: AttributeUpdate): Promise<StoredItem | undefined> {
    const present = await this.#inner.updateAttributes(log, position, update);
    if (present === undefined) await this.#modified(log, position);
    return present;
  }

  async completeSnapshot(log: LogId, position: Position, root: RootRef, id?: Uint8Array): Promise<RootRef | undefined> {
    const carried = await this.#inner.completeSnapshot(log, position, root, id);
    await this.#modified(log, position);
    return carried;
  }

  async replaceRoot(log: LogId, position: Position, from: RootRef, to: RootRef): Promise<boolean> {
    const replaced = await this.#inner.replaceRoot(log, position, from, to);
    await this.#modified(log, position);
    return replaced;
  }

  async advanceLastSnapshot(log: LogId, to: LastSnapshot, from?: LastSnapshot): Promise<boolean> {
    const moved = await this.#inner.advanceLastSnapshot(log, to, from);
    await this.segmentChanged(log, to.position.segment);
    return moved;
  }

  async removeAttributes(place: SegmentOrEntryPlace, attributes: Item): Promise<boolean> {
    const removed = await this.#inner.removeAttributes(place, attributes);
    const { log, segment, entry } = place;
    if (entry === undefined) await this.segmentChanged(log, segment);
    else await this.#modified(log, { segment, entry });
    return removed;
  }

  async setArchive(segment: Segment, archive: NewArchive): Promise<boolean> {
    const named = await this.#inner.setArchive(segment, archive);
    await this.segmentChanged(segment.log, segment.segment);
    return named;
  }

  async replaceArchive(segment: Segment, archive: ReplacementArchive): Promise<boolean> {
    const named = await this.#inner.replaceArchive(segment, archive);
    await this.segmentChanged(segment.log, segment.segment);
    const { position } = segment.lastSnapshot ?? { position: { segment: segment.segment, entry: 0 } };
    if (named && archive.root !== undefined) await this.#modified(segment.log, position);
    return named;
  }

  async setExpiration(segment: Segment, to: Expiry | undefined): Promise<boolean> {
    const set = await this.#inner.setExpiration(segment, to);
    this.stamps++;
    await this.segmentChanged(segment.log, segment.segment);
    return set;
  }

  async putSegment(segment: Segment): Promise<boolean> {
    const written = await this.#inner.putSegment(segment);
    await this.segmentChanged(segment.log, segment.segment);
    return written;
  }

  async setEntryExpiry(log: LogId, position: Position, expires: number | undefined): Promise<boolean> {
    const set = await this.#inner.setEntryExpiry(log, position, expires);
    this.stamps++;
    await this.#modified(log, position);
    return set;
  }

  async deleteEntries(log: LogId, segment: number, entries: readonly number[]): Promise<void> {
    const places = entries.map((entry) => ({ log, position: { segment, entry } }));
    const there = await Promise.all(places.map((place) => this.#exists(place)));
    await this.#inner.deleteEntries(log, segment, entries);
    this.#removed(places.filter((_, i) => there[i]));
  }

  async expireEntries(leaving: ExpiringSegment, entries: readonly number[], how: 'delete' | 'ttl'): Promise<boolean> {
    const { log, segment } = leaving;
    const places = entries.map((entry) => ({ log, position: { segment, entry } }));
    const there = await Promise.all(places.map((place) => this.#exists(place)));
    const went = await this.#inner.expireEntries(leaving, entries, how);
    this.stamps++;
    if (went && how === 'delete') this.#removed(places.filter((_, i) => there[i]));
    if (went && how === 'ttl') for (const { position } of places) await this.#modified(log, position);
    return went;
  }

  async unexpireEntries(place: SegmentPlace, entries: readonly number[]): Promise<boolean> {
    const { log, segment } = place;
    const kept = await this.#inner.unexpireEntries(place, entries);
    if (kept) for (const entry of entries) await this.#modified(log, { segment, entry });
    return kept;
  }

  /** Reports entries that are gone from the table. */
  #removed(places: readonly EntryPlace[]): void {
    this.writes++;
    for (const place of places) {
      this.#record({ eventName: 'REMOVE', keys: entryKey(place.log, place.position) });
      this.#options.onGone?.(place);
    }
  }

  async putItems(items: readonly Item[]): Promise<void> {
    const there = await Promise.all(items.map((item) => this.#exists(entryPlace(item))));
    await this.#inner.putItems(items);
    this.writes++;
    for (const [i, item] of items.entries()) {
      const { log, position } = entryPlace(item);
      if (!this.history(log).some(({ entry }) => comparePositions(entry.position, position) === 0)) {
        this.#remember(decodeEntry(item));
      }
      const eventName = there[i] ? 'MODIFY' : 'INSERT';
      this.#record({ eventName, keys: entryKey(log, position), newImage: item });
    }
  }

  async getSegment(log: LogId, segment: number, consistency: Consistency): Promise<Segment | undefined> {
    const found = await this.#inner.getSegment(log, segment, consistency);
    return found && this.#asOf(found, this.#segmentHorizon(consistency));
  }

  getEntry(log: LogId, position: Position, consistency: Consistency): Promise<Entry | undefined> {
    return this.#inner.getEntry(log, position, consistency);
  }

  async *segments(log: LogId, consistency: Consistency = { consistent: false }): AsyncGenerator<Segment> {
    const horizon = this.#segmentHorizon(consistency);
    for await (const segment of this.#inner.segments(log, consistency)) {
      const shown = this.#asOf(segment, horizon);
      if (shown !== undefined) yield shown;
    }
  }

  async *allSegments(part?: ScanPart, onInvalid?: (error: ItemInvalidError) => void): AsyncGenerator<Segment> {
    const horizon = this.#segmentHorizon({ consistent: false });
    for await (const segment of this.#inner.allSegments(part, onInvalid)) {
      const shown = this.#asOf(segment, horizon);
      if (shown !== undefined) yield shown;
    }
  }

  async newestSegments(log: LogId, limit: number, consistency: Consistency): Promise<Segment[]> {
    const horizon = this.#horizon(consistency);
    const all = await this.#inner.newestSegments(log, Number.MAX_SAFE_INTEGER, consistency);
    return all.flatMap((segment) => this.#asOf(segment, horizon) ?? []).slice(0, limit);
  }

  async newestEntry(log: LogId, segment: number, consistency: Consistency): Promise<EntryHead | undefined> {
    for (const { entry } of this.#shown(log, segment, this.#horizon(consistency)).reverse()) {
      const stored = await this.#inner.getEntry(log, entry.position, consistency);
      if (stored !== undefined) return stored;
    }
    return undefined;
  }

  async *entries(log: LogId, range: SegmentRange, consistency: Consistency): AsyncGenerator<Entry[]> {
    for await (const page of this.items(log, range, consistency)) yield page.map(decodeEntry);
  }

  async *items(log: LogId, range: SegmentRange, consistency: Consistency): AsyncGenerator<StoredItem[]> {
    const horizon = this.#horizon(consistency);
    for await (const page of this.#inner.items(log, range, consistency)) {
      const shown = new Set(this.#shown(log, range.segment, horizon).map(({ entry }) => entry.position.entry));
      yield page.filter((item) => shown.has(entryPlace(item).position.entry));
    }
  }

  isRetryable(error: unknown): boolean {
    return this.#inner.isRetryable(error);
  }

  /** The time whose state a read shows, in epoch milliseconds. */
  #horizon({ consistent }: Consistency): number {
    const { random, now } = this.#options;
    return consistent || !random.chance(0.2) ? Number.POSITIVE_INFINITY : now() - random.integer(1, STALE_MS);
  }

  #segmentHorizon(consistency: Consistency): number {
    return this.#options.staleSegments === true ? this.#horizon(consistency) : Number.POSITIVE_INFINITY;
  }

  #shown(log: LogId, segment: number, horizon: number): RecordedEntry[] {
    return this.history(log).filter(({ entry, atMs }) => entry.position.segment === segment && atMs <= horizon);
  }

  /** A segment as it was at that time; undefined if it did not exist yet. */
  #asOf(segment: Segment, horizon: number): Segment | undefined {
    if (horizon === Number.POSITIVE_INFINITY) return segment;
    const versions = this.#segments.get(`${segment.log}/${segment.segment}`) ?? [];
    return versions.filter(({ atMs }) => atMs <= horizon).at(-1)?.segment;
  }

  /** Remembers a change of a segment. */
  async segmentChanged(log: LogId, segment: number): Promise<void> {
    this.writes++;
    const stored = await this.#inner.getSegment(log, segment, { consistent: true });
    if (stored !== undefined) this.#rememberSegment(stored);
  }

  #rememberSegment(segment: Segment): void {
    const key = `${segment.log}/${segment.segment}`;
    const versions = this.#segments.get(key) ?? [];
    versions.push({ segment, atMs: this.#options.now() });
    this.#segments.set(key, versions);
  }

  #remember(entry: Entry): void {
    const all = this.#entries.get(entry.log) ?? [];
    all.push({ entry, atMs: this.#options.now() });
    this.#entries.set(entry.log, all);
  }

  async #exists({ log, position }: EntryPlace): Promise<boolean> {
    return (await this.#inner.getEntry(log, position, { consistent: true })) !== undefined;
  }

  /**
   * Whether one of the entries exists. Then a write that succeeds has changed nothing, because an
   * earlier attempt wrote them.
   */
  async #anyExists(places: readonly EntryPlace[]): Promise<boolean> {
    const there = await Promise.all(places.map((place) => this.#exists(place)));
    return there.includes(true);
  }

  async #modified(log: LogId, position: Position): Promise<void> {
    this.writes++;
    const entry = await this.#inner.getEntry(log, position, { consistent: true });
    if (entry !== undefined) this.#recordEntry('MODIFY', entry);
  }

  #inserted(entries: readonly Entry[], segment?: Segment): void {
    this.writes++;
    if (segment !== undefined) this.#rememberSegment(segment);
    for (const entry of entries) {
      this.#remember(entry);
      this.#recordEntry('INSERT', entry);
    }
  }

  #recordEntry(eventName: StreamRecord['eventName'], entry: Entry): void {
    this.#record({ eventName, keys: entryKey(entry.log, entry.position), newImage: encodeEntry(entry) });
  }

  #record(change: Pick<StreamRecord, 'eventName' | 'keys' | 'newImage'>): void {
    const sequenceNumber = String(++this.#sequence);
    const eventId = `event-${sequenceNumber}`;
    this.#options.onRecord({ ...change, eventId, sequenceNumber, createdMs: this.#options.now() });
  }
}
