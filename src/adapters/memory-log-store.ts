import { EntryExistsError, EntryNotFoundError, ItemInvalidError, SegmentNotFoundError } from '../errors.ts';
import type { Item } from '../log/attribute.ts';
import type { Entry } from '../log/entry.ts';
import { decodeEntry, decodeSegment, encodeEntry, encodeSegment } from '../log/item-codec.ts';
import { checkWriteSize } from '../log/item-size.ts';
import type { LogId } from '../log/log-id.ts';
import type { LogStore } from '../log/log-store.ts';
import type { Position } from '../log/position.ts';
import { type RootRef, rootOf, sameRoot } from '../log/root-ref.ts';
import type { Segment } from '../log/segment.ts';

/** The items under one partition key, by sort key, and the highest sort key. */
interface Partition {
  readonly items: Map<number, Item>;
  newest: number;
}

export interface MemoryLogStoreOptions {
  /** Items of one page, 1000 by default. */
  readonly pageItems?: number | undefined;
}

/**
 * Both tables in this process's memory: the reference for every other log store. Every read is consistent. Items are
 * held as DynamoDB would hold them.
 */
export class MemoryLogStore implements LogStore {
  readonly #entries = new Map<string, Partition>();
  readonly #segments = new Map<LogId, Partition>();
  readonly #pageItems: number;

  constructor(options: MemoryLogStoreOptions = {}) {
    this.#pageItems = options.pageItems ?? 1000;
  }

  async createLog(segment: Segment, first: Entry): Promise<void> {
    this.#write([first], [segment]);
  }

  async newestSegments(log: LogId, limit: number): Promise<Segment[]> {
    return this.#segmentsOf(log).reverse().slice(0, limit);
  }

  async getSegment(log: LogId, segment: number): Promise<Segment | undefined> {
    const item = this.#segments.get(log)?.items.get(segment);
    return item && decodeSegment(structuredClone(item));
  }

  async *segments(log: LogId): AsyncGenerator<Segment> {
    yield* this.#segmentsOf(log);
  }

  async *allSegments(): AsyncGenerator<Segment> {
    for (const log of [...this.#segments.keys()]) yield* this.#segmentsOf(log);
  }

  async newestEntry(log: LogId, segment: number): Promise<Entry | undefined> {
    const partition = this.#entries.get(partitionKey(log, segment));
    return partition && this.#entry(log, { segment, entry: partition.newest });
  }

  async getEntry(log: LogId, position: Position): Promise<Entry | undefined> {
    return this.#entry(log, position);
  }

  async *entries(
    log: LogId,
    range: { readonly segment: number; readonly from: number; readonly to: number },
  ): AsyncGenerator<Entry[]> {
    const { segment, from, to } = range;
    let page: Entry[] = [];
    for (let entry = from; entry < to; entry++) {
      if (entry > (this.#entries.get(partitionKey(log, segment))?.newest ?? -1)) break;
      const found = this.#entry(log, { segment, entry });
      if (found !== undefined) page.push(found);
      if (page.length === this.#pageItems) {
        yield page;
        page = [];
      }
    }
    if (page.length > 0) yield page;
  }

  async putEntries(entries: readonly Entry[]): Promise<void> {
    this.#write(entries, []);
  }

  async startSegment(items: { readonly end: Entry; readonly segment: Segment; readonly first: Entry }): Promise<void> {
    this.#write([items.end, items.first], [items.segment]);
  }

  async completeSnapshot(log: LogId, position: Position, root: RootRef): Promise<RootRef> {
    const { segment, entry } = position;
    const stored = this.#entry(log, position);
    if (stored === undefined) throw new EntryNotFoundError('There is no such entry', { log, segment, entry });
    const existing = rootOf(stored);
    if (existing !== undefined) return existing;
    if (stored.body !== undefined) {
      throw new ItemInvalidError("Attribute 'B' of a Snapshot entry is no root", { log, segment, entry });
    }
    this.#setRoot(stored, root);
    return root;
  }

  async replaceRoot(log: LogId, position: Position, from: RootRef, to: RootRef): Promise<boolean> {
    const { segment, entry } = position;
    const stored = this.#entry(log, position);
    if (stored === undefined) throw new EntryNotFoundError('There is no such entry', { log, segment, entry });
    const carried = rootOf(stored);
    if (carried === undefined) return false;
    if (!sameRoot(carried, from)) return sameRoot(carried, to);
    this.#setRoot(stored, to);
    return true;
  }

  async advanceLastSnapshot(log: LogId, position: Position): Promise<boolean> {
    const stored = await this.getSegment(log, position.segment);
    if (stored === undefined) {
      throw new SegmentNotFoundError('There is no such segment', { log, segment: position.segment });
    }
    if (stored.lastSnapshot !== undefined && stored.lastSnapshot >= position.entry) return false;
    const item = encodeSegment({ ...stored, lastSnapshot: position.entry });
    this.#segments.get(log)?.items.set(position.segment, item);
    return true;
  }

  isRetryable(): boolean {
    return false;
  }

  /** All of them or, where one exists already, none. Nothing is awaited here, so nothing comes in between. */
  #write(entries: readonly Entry[], segments: readonly Segment[]): void {
    const writes = [
      ...entries.map((entry) => {
        const { segment, entry: number } = entry.position;
        const partition = partitionOf(this.#entries, partitionKey(entry.log, segment));
        return { partition, number, item: encodeEntry(entry), where: { log: entry.log, segment, entry: number } };
      }),
      ...segments.map((segment) => {
        const partition = partitionOf(this.#segments, segment.log);
        const where = { log: segment.log, segment: segment.segment };
        return { partition, number: segment.segment, item: encodeSegment(segment), where };
      }),
    ];
    checkWriteSize(writes.map(({ item }) => item));
    for (const { partition, number, where } of writes) {
      if (partition.items.has(number)) throw new EntryExistsError('The item exists already', where);
    }
    for (const { partition, number, item } of writes) {
      partition.items.set(number, structuredClone(item));
      partition.newest = Math.max(partition.newest, number);
    }
  }

  #setRoot(stored: Entry, root: RootRef): void {
    const { body: _body, external: _external, ...rest } = stored;
    const item = encodeEntry({
      ...rest,
      ...('key' in root ? { external: root.key } : { body: { format: 'bytes', bytes: root.inline } }),
    });
    checkWriteSize([item]);
    const { segment, entry } = stored.position;
    this.#entries.get(partitionKey(stored.log, segment))?.items.set(entry, structuredClone(item));
  }

  #entry(log: LogId, { segment, entry }: Position): Entry | undefined {
    const item = this.#entries.get(partitionKey(log, segment))?.items.get(entry);
    return item && decodeEntry(structuredClone(item));
  }

  #segmentsOf(log: LogId): Segment[] {
    const items = [...(this.#segments.get(log)?.items.entries() ?? [])].sort(([a], [b]) => a - b);
    return items.map(([, item]) => decodeSegment(structuredClone(item)));
  }
}

function partitionKey(log: LogId, segment: number): string {
  return `${log}/${segment}`;
}

function partitionOf<K>(partitions: Map<K, Partition>, key: K): Partition {
  const existing = partitions.get(key);
  if (existing !== undefined) return existing;
  const partition = { items: new Map<number, Item>(), newest: -1 };
  partitions.set(key, partition);
  return partition;
}
