import type { Entry } from '../../src/log/entry.ts';
import { encodeEntry, entryKey } from '../../src/log/item-codec.ts';
import type { LogId } from '../../src/log/log-id.ts';
import type { Consistency, LogStore } from '../../src/log/log-store.ts';
import { comparePositions, type Position } from '../../src/log/position.ts';
import type { RootRef } from '../../src/log/root-ref.ts';
import type { Segment } from '../../src/log/segment.ts';
import type { StreamRecord } from '../../src/workers/stream-record.ts';
import type { Random } from './random.ts';

/** Eventually consistent reads never miss what is older than this, in milliseconds. */
export const STALE_MS = 3_000;

export interface RecordedEntry {
  readonly entry: Entry;
  /** When it was written, in epoch milliseconds. */
  readonly atMs: number;
}

export interface RecordedLogStoreOptions {
  readonly inner: LogStore;
  readonly random: Random;
  readonly now: () => number;
  /** Told of every insertion and change of an entry, in order. */
  readonly onRecord: (record: StreamRecord) => void;
}

/**
 * A log store that remembers every entry as it was first written, gives a stream record for every write, and whose
 * eventually consistent reads show in one case of five how things were a moment ago.
 */
export class RecordedLogStore implements LogStore {
  /** Goes up with every write that something may be wrong with afterwards. */
  writes = 0;
  readonly #options: RecordedLogStoreOptions;
  readonly #inner: LogStore;
  readonly #entries = new Map<LogId, RecordedEntry[]>();
  readonly #segmentsSince = new Map<string, number>();
  readonly #moves = new Map<string, { readonly entry: number; readonly atMs: number }[]>();
  #sequence = 0;

  constructor(options: RecordedLogStoreOptions) {
    this.#options = options;
    this.#inner = options.inner;
  }

  /** Every entry of a log in order, as it was first written. */
  history(log: LogId): RecordedEntry[] {
    const all = this.#entries.get(log) ?? [];
    return all.sort((a, b) => comparePositions(a.entry.position, b.entry.position));
  }

  /** Takes an entry out of sight for good, as if somebody had deleted it. */
  lose(log: LogId, position: Position): void {
    const kept = this.history(log).filter(({ entry }) => comparePositions(entry.position, position) !== 0);
    this.#entries.set(log, kept);
  }

  async createLog(segment: Segment, first: Entry): Promise<void> {
    await this.#inner.createLog(segment, first);
    this.#inserted([first], segment);
  }

  async putEntries(entries: readonly Entry[]): Promise<void> {
    await this.#inner.putEntries(entries);
    this.#inserted(entries);
  }

  async startSegment(items: { readonly end: Entry; readonly segment: Segment; readonly first: Entry }): Promise<void> {
    await this.#inner.startSegment(items);
    this.#inserted([items.end, items.first], items.segment);
  }

  async completeSnapshot(log: LogId, position: Position, root: RootRef): Promise<RootRef> {
    const carried = await this.#inner.completeSnapshot(log, position, root);
    await this.#modified(log, position);
    return carried;
  }

  async replaceRoot(log: LogId, position: Position, from: RootRef, to: RootRef): Promise<boolean> {
    const replaced = await this.#inner.replaceRoot(log, position, from, to);
    await this.#modified(log, position);
    return replaced;
  }

  async advanceLastSnapshot(log: LogId, position: Position): Promise<boolean> {
    const moved = await this.#inner.advanceLastSnapshot(log, position);
    this.writes++;
    const moves = this.#moves.get(`${log}/${position.segment}`) ?? [];
    if (moved) moves.push({ entry: position.entry, atMs: this.#options.now() });
    this.#moves.set(`${log}/${position.segment}`, moves);
    return moved;
  }

  getSegment(log: LogId, segment: number, consistency: Consistency): Promise<Segment | undefined> {
    return this.#inner.getSegment(log, segment, consistency);
  }

  getEntry(log: LogId, position: Position, consistency: Consistency): Promise<Entry | undefined> {
    return this.#inner.getEntry(log, position, consistency);
  }

  segments(log: LogId): AsyncIterable<Segment> {
    return this.#inner.segments(log);
  }

  allSegments(): AsyncIterable<Segment> {
    return this.#inner.allSegments();
  }

  async newestSegments(log: LogId, limit: number, consistency: Consistency): Promise<Segment[]> {
    const horizon = this.#horizon(consistency);
    const all = await this.#inner.newestSegments(log, Number.MAX_SAFE_INTEGER, consistency);
    const shown = all.filter(({ segment }) => (this.#segmentsSince.get(`${log}/${segment}`) ?? 0) <= horizon);
    return shown.slice(0, limit).map((segment) => this.#asOf(segment, horizon));
  }

  async newestEntry(log: LogId, segment: number, consistency: Consistency): Promise<Entry | undefined> {
    const shown = this.#shown(log, segment, this.#horizon(consistency));
    const newest = shown.at(-1);
    return newest && this.#inner.getEntry(log, newest.entry.position, consistency);
  }

  async *entries(
    log: LogId,
    range: { readonly segment: number; readonly from: number; readonly to: number },
    consistency: Consistency,
  ): AsyncGenerator<Entry[]> {
    const horizon = this.#horizon(consistency);
    for await (const page of this.#inner.entries(log, range, consistency)) {
      const shown = new Set(this.#shown(log, range.segment, horizon).map(({ entry }) => entry.position.entry));
      yield page.filter(({ position }) => shown.has(position.entry));
    }
  }

  isRetryable(error: unknown): boolean {
    return this.#inner.isRetryable(error);
  }

  /** The moment whose state a read shows, in epoch milliseconds. */
  #horizon({ consistent }: Consistency): number {
    const { random, now } = this.#options;
    return consistent || !random.chance(0.2) ? Number.POSITIVE_INFINITY : now() - random.integer(1, STALE_MS);
  }

  #shown(log: LogId, segment: number, horizon: number): RecordedEntry[] {
    return this.history(log).filter(({ entry, atMs }) => entry.position.segment === segment && atMs <= horizon);
  }

  #asOf(segment: Segment, horizon: number): Segment {
    const moves = this.#moves.get(`${segment.log}/${segment.segment}`) ?? [];
    const shown = moves.filter(({ atMs }) => atMs <= horizon).at(-1);
    const { lastSnapshot, ...rest } = segment;
    return horizon === Number.POSITIVE_INFINITY ? segment : { ...rest, ...(shown && { lastSnapshot: shown.entry }) };
  }

  async #modified(log: LogId, position: Position): Promise<void> {
    this.writes++;
    const entry = await this.#inner.getEntry(log, position, { consistent: true });
    if (entry !== undefined) this.#record('MODIFY', entry);
  }

  #inserted(entries: readonly Entry[], segment?: Segment): void {
    this.writes++;
    const atMs = this.#options.now();
    if (segment !== undefined) this.#segmentsSince.set(`${segment.log}/${segment.segment}`, atMs);
    for (const entry of entries) {
      const all = this.#entries.get(entry.log) ?? [];
      all.push({ entry, atMs });
      this.#entries.set(entry.log, all);
      this.#record('INSERT', entry);
    }
  }

  #record(eventName: StreamRecord['eventName'], entry: Entry): void {
    const sequenceNumber = String(++this.#sequence);
    this.#options.onRecord({
      eventId: `event-${sequenceNumber}`,
      eventName,
      sequenceNumber,
      createdMs: this.#options.now(),
      keys: entryKey(entry.log, entry.position),
      newImage: encodeEntry(entry),
    });
  }
}
