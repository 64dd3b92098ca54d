import pLimit from 'p-limit';
import type { Document } from '../../client/document.ts';
import { toBase64, toHex } from '../../codec/bytes.ts';
import { encodeValue } from '../../codec/canonical.ts';
import type { ChunkPlatform } from '../../codec/chunk.ts';
import { EntryRejectedError, isOfOneLog, type LogfoldError, LogNotFoundError } from '../../errors.ts';
import { FEED_LOG } from '../../feed/feed-log.ts';
import { type LogId, textLogId } from '../../ids/log-id.ts';
import { START } from '../../ids/position.ts';
import { type Item, plainItem } from '../../log/attribute.ts';
import type { TableReader } from '../../log/log-store.ts';
import { gapRevision } from '../../revisions/new-revisions.ts';
import { MAX_SOURCE_KEYS, type SourceItems } from '../../revisions/source-table.ts';
import { canonicalItem } from '../../state/items/canonical-item.ts';
import { itemKey } from '../../state/items/item-key.ts';
import { type ItemsState, lastRevisions, liveItems, sourceTableOf } from '../../state/items/reducer.ts';
import type { ItemScanPart } from '../../store/scan-places.ts';
import { inAdvance } from '../../tree/read.ts';
import type { RevisionLogs } from './revision-logs.ts';

/** Logs that are read at the same time. */
const PARALLEL_LOGS = 32;
/** Logs of one part that are begun before the caller asks for them. */
const LOGS_AHEAD = 8;

export interface ComparisonDeps {
  readonly items: SourceItems;
  readonly logs: RevisionLogs;
  /** The tables that hold these logs. */
  readonly tables: Pick<TableReader, 'allSegments'>;
  readonly platform: Pick<ChunkPlatform, 'sha256'>;
  /** Called for each log that cannot be read, and whose items are left out. */
  readonly onFailure?: ((log: LogId, error: LogfoldError) => void) | undefined;
  /** Called with the number of items that were compared. */
  readonly onProgress?: ((items: number) => void) | undefined;
}

/** An item that differs from its newest revision. Small: many of them wait. */
export interface ItemDifference {
  readonly keys: Item;
  /** The number of the newest revision; 0 if there is none. */
  readonly revision: number;
  /** A hash of the item. */
  readonly image: string;
  /** When it was seen first, in epoch seconds by the clock of the source table. */
  readonly seen: number;
}

/** The items of one log that differ from their newest revisions. */
export interface DifferingLog {
  readonly log: LogId;
  readonly differences: readonly ItemDifference[];
}

/** The differences in a page of the source table, or of the logs. */
export interface ComparedPage {
  readonly logs: readonly DifferingLog[];
  /** Continues the part after this page. */
  readonly next: string;
}

/** Attempts to append a gap while the log gets revisions of other items. */
const GAP_ATTEMPTS = 5;

/** An item of the source table; undefined if there is none. */
interface PresentItem {
  readonly keys: Item;
  readonly item: Item | undefined;
}

type PresentItems = Iterable<readonly PresentItem[]> | AsyncIterable<readonly PresentItem[]>;

/** Compares the items of a source table with their newest revisions, and records gaps. */
export class TableComparison {
  readonly #deps: ComparisonDeps;
  readonly #limit = pLimit(PARALLEL_LOGS);
  readonly #failed = new Set<LogId>();
  #items = 0;
  #gaps = 0;

  constructor(deps: ComparisonDeps) {
    this.#deps = deps;
  }

  get counts(): { readonly items: number; readonly gaps: number; readonly failed: number } {
    return { items: this.#items, gaps: this.#gaps, failed: this.#failed.size };
  }

  /** Compares the items of a part of the source table with their newest revisions. */
  async *itemPages(part: ItemScanPart): AsyncGenerator<ComparedPage> {
    const { items, logs } = this.#deps;
    for await (const page of items.scan(part)) {
      const groups = Map.groupBy(page.items, (item) => logs.logOf(item));
      const compared = await Promise.all(
        Array.from(groups, ([log, ofLog]) => {
          const present = ofLog.map((item) => ({ keys: item, item }));
          return this.#compare(log, () => [present], { isOlder: true });
        }),
      );
      yield { next: page.next, logs: compared.filter(differs) };
    }
  }

  /** Compares the items that exist by the revisions in a part of the logs with the source table. */
  async *logPages({ index, of, after }: ItemScanPart): AsyncGenerator<ComparedPage> {
    const { tables } = this.#deps;
    const start = after === undefined ? undefined : { log: textLogId(after), segment: START.segment };
    async function* found(): AsyncGenerator<LogId> {
      for await (const { log, segment } of tables.allSegments({ index, of, after: start })) {
        if (segment === START.segment && log !== FEED_LOG) yield log;
      }
    }
    const compare = (log: LogId) => {
      return this.#compare(log, (state) => (state === undefined ? [] : this.#recordedItems(log, state)));
    };
    for await (const compared of inAdvance(found(), LOGS_AHEAD, compare)) {
      yield { next: compared.log, logs: [compared].filter(differs) };
    }
  }

  /** A short hash of a difference: 72 bits, because a million of them may wait. */
  idOf({ keys, revision, image }: ItemDifference): string {
    const { platform, logs } = this.#deps;
    const hash = platform.sha256(encodeValue([itemKey(logs.source, keys), revision, image]));
    return toBase64(hash.slice(0, 9));
  }

  /**
   * Looks at differences again, and appends a gap for each item that is still as it was, if its
   * newest revision is too.
   */
  async settle(logs: readonly DifferingLog[]): Promise<void> {
    await Promise.all(logs.map((each) => this.#limit(() => this.#guard(each.log, () => this.#record(each)))));
  }

  /**
   * The items that exist by the revisions of a log, as they are in the source table. A partition
   * may have more items than fit into memory.
   */
  async *#recordedItems(log: LogId, state: ItemsState): AsyncGenerator<readonly PresentItem[]> {
    const { items, logs } = this.#deps;
    const { table, keyNames } = logs.source;
    if (sourceTableOf(state) !== table) return;
    let keys: Item[] = [];
    for await (const { item } of liveItems(state)) {
      // Logs for items and logs for partitions may lie beside each other. Only one kind goes on.
      if (logs.logOf(item) !== log) continue;
      keys.push(plainItem(item, keyNames));
      if (keys.length < MAX_SOURCE_KEYS) continue;
      yield readPresent(items, keys);
      keys = [];
    }
    if (keys.length > 0) yield readPresent(items, keys);
  }

  /**
   * Compares items with their newest revisions in a log, which may be missing.
   * @param read the items to compare, a few at a time; the state of the log is undefined if it is
   * missing
   * @param isOlder whether the items were read before the state, or by a read that may be stale
   */
  #compare(
    log: LogId,
    read: (state: ItemsState | undefined) => PresentItems,
    { isOlder = false } = {},
  ): Promise<DifferingLog> {
    const { logs } = this.#deps;
    const differences: ItemDifference[] = [];
    const compareWith = async (state: ItemsState | undefined): Promise<void> => {
      for await (const present of read(state)) {
        const found = await this.#differences(state, present);
        differences.push(...(isOlder ? await this.#stillDiffering(state, found) : found));
        this.#items += present.length;
        this.#deps.onProgress?.(this.#items);
      }
    };
    const compare = async (): Promise<void> => {
      try {
        await logs.use(log, async (document, { wasOpen }) => {
          // Another process may have recorded newer revisions.
          if (wasOpen) await document.refresh();
          await compareWith(document.state);
        });
      } catch (error) {
        if (!(error instanceof LogNotFoundError)) throw error;
        await compareWith(undefined);
      }
    };
    return this.#limit(async () => {
      await this.#guard(log, compare);
      return { log, differences };
    });
  }

  async #differences(state: ItemsState | undefined, present: readonly PresentItem[]): Promise<ItemDifference[]> {
    const { items, logs } = this.#deps;
    const { source } = logs;
    const seen = Math.floor(items.serviceTime() / 1000);
    const differences: ItemDifference[] = [];
    for (const { keys, item } of present) {
      const last = state && (await lastRevisions(state, itemKey(source, keys))).last;
      const image = this.#imageOf(item);
      if (image === this.#imageOf(last?.item)) continue;
      differences.push({ keys: plainItem(keys, source.keyNames), revision: last?.revision ?? 0, image, seen });
    }
    return differences;
  }

  /**
   * Reads differing items again, consistently. The revision may be newer than the scan. An
   * item that then changes back would look as if it had differed for the whole wait. An item
   * without revisions needs no second read: every record of it is still missing.
   */
  async #stillDiffering(state: ItemsState | undefined, found: readonly ItemDifference[]): Promise<ItemDifference[]> {
    const differences = found.filter(({ revision }) => revision === 0);
    const keys = found.filter(({ revision }) => revision > 0).map((difference) => difference.keys);
    for (let from = 0; from < keys.length; from += MAX_SOURCE_KEYS) {
      const present = await readPresent(this.#deps.items, keys.slice(from, from + MAX_SOURCE_KEYS));
      differences.push(...(await this.#differences(state, present)));
    }
    return differences;
  }

  async #record({ log, differences }: DifferingLog): Promise<void> {
    for (let from = 0; from < differences.length; from += MAX_SOURCE_KEYS) {
      await this.#recordSome(log, differences.slice(from, from + MAX_SOURCE_KEYS));
    }
  }

  async #recordSome(log: LogId, differences: readonly ItemDifference[]): Promise<void> {
    const { items, logs } = this.#deps;
    const keys = differences.map((difference) => difference.keys);
    const present = await readPresent(items, keys);
    const settled = differences.flatMap((difference, i) => {
      const item = present[i]?.item;
      return this.#imageOf(item) === difference.image ? [{ ...difference, item }] : [];
    });
    if (settled.length === 0) return;
    await logs.use(
      log,
      async (document, { wasOpen }) => {
        if (wasOpen) await document.refresh();
        for (const each of settled) if (await this.#appendGap(document, each)) this.#gaps++;
      },
      Math.min(...settled.map(({ seen }) => seen)),
    );
  }

  /**
   * Appends a gap, unless the item has newer revisions.
   * @returns whether it was appended; if others were always faster, the next comparison looks at
   * the item again
   */
  async #appendGap(
    document: Document,
    { keys, item, revision, seen }: ItemDifference & Pick<PresentItem, 'item'>,
  ): Promise<boolean> {
    const { source } = this.#deps.logs;
    for (let attempts = 0; attempts < GAP_ATTEMPTS; attempts++) {
      const before = await lastRevisions(document.state, itemKey(source, keys));
      if ((before.last?.revision ?? 0) !== revision) return false;
      try {
        await document.append(gapRevision(source, before, { keys, item, created: seen }));
        return true;
      } catch (error) {
        if (!(error instanceof EntryRejectedError)) throw error;
        // The log has a newer revision now, of this item or of another one of its partition.
        await document.refresh();
      }
    }
    return false;
  }

  /** An error of one log must not end the comparison. */
  async #guard(log: LogId, act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      if (!isOfOneLog(error)) throw error;
      if (this.#failed.has(log)) return;
      this.#failed.add(log);
      this.#deps.onFailure?.(log, error.at({ log }));
    }
  }

  #imageOf(item: Item | undefined): string {
    return toHex(this.#deps.platform.sha256(encodeValue(item === undefined ? null : canonicalItem(item))));
  }
}

function differs({ differences }: DifferingLog): boolean {
  return differences.length > 0;
}

/** @param keys at most {@link MAX_SOURCE_KEYS} */
async function readPresent(items: SourceItems, keys: readonly Item[]): Promise<PresentItem[]> {
  const found = await items.get(keys);
  return keys.map((each, i) => ({ keys: each, item: found[i] }));
}
