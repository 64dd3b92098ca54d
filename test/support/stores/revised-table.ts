import { MemoryBlobStore } from '../../../src/adapters/memory/blob-store.ts';
import { MemoryLogStore } from '../../../src/adapters/memory/log-store.ts';
import { nativePlatform } from '../../../src/adapters/platform/native.ts';
import { encodeItemLine } from '../../../src/archive/item-line.ts';
import { Logs } from '../../../src/client/logs.ts';
import type { LogfoldError } from '../../../src/errors.ts';
import type { LogId } from '../../../src/ids/log-id.ts';
import { type Item, plainItem } from '../../../src/log/attribute.ts';
import type { ImageChange } from '../../../src/revisions/image-change.ts';
import type { SourceTable } from '../../../src/revisions/source-table.ts';
import { type ItemRevision, readItemRevision } from '../../../src/state/items/edit.ts';
import { itemKey } from '../../../src/state/items/item-key.ts';
import { ITEMS_MAP, items as itemsReducer } from '../../../src/state/items/reducer.ts';
import { type CompareDeps, type CompareOptions, compareTable } from '../../../src/workers/revisions/compare-table.ts';
import { type ExportOptions, exportTable } from '../../../src/workers/revisions/export-table.ts';
import { recordRevisions } from '../../../src/workers/revisions/record-revisions.ts';
import { RevisionLogs } from '../../../src/workers/revisions/revision-logs.ts';
import { completeSnapshot } from '../../../src/workers/snapshot/build-snapshot.ts';
import { NOON } from '../logs.ts';
import { Random } from '../models/random.ts';
import { testDeployment } from '../test-deployment.ts';
import { MemorySourceItems } from './memory-source-items.ts';

/** A plain table in memory, its stream, and its revisions. */
export class RevisedTable {
  /** Epoch milliseconds by the clock of the table, which is right. Waits move it. */
  nowMs = NOON * 1000;
  readonly source: SourceTable;
  readonly items: MemorySourceItems;
  readonly tables: MemoryLogStore;
  readonly blobs: MemoryBlobStore;
  readonly failures: LogfoldError[] = [];
  /** Records that are not delivered yet. */
  readonly stream: ImageChange[] = [];
  readonly revisions: RevisionLogs;
  readonly logs: Logs;
  #sequence = 0;

  /** @param beside a table whose revisions are in the same deployment */
  constructor(source: Partial<SourceTable> = {}, beside?: RevisedTable) {
    this.tables = beside?.tables ?? new MemoryLogStore();
    this.blobs = beside?.blobs ?? new MemoryBlobStore();
    this.source = { table: 'orders', keyNames: ['pk', 'sk'], per: 'item', ...source };
    const { keyNames } = this.source;
    this.items = new MemorySourceItems({ keyNames, pageItems: 5, now: () => this.nowMs });
    const random = new Random(7);
    this.logs = new Logs({
      ...this.#stores(),
      now: () => this.nowMs,
      random: () => random.next(),
      sleep: this.#sleep,
      newLogId: () => {
        throw new Error('the logs of revisions have ids that are made of keys');
      },
    });
    this.revisions = this.recorder();
  }

  put(item: Item): void {
    this.#changed('Put', item, this.items.put(item), item);
  }

  remove(keys: Item, change: 'Delete' | 'Expire' = 'Delete'): void {
    this.#changed(change, keys, this.items.delete(keys), undefined);
  }

  /** Another process that records, with other documents. */
  recorder(): RevisionLogs {
    return new RevisionLogs({ logs: this.logs, source: this.source, platform: nativePlatform });
  }

  /** Records what the stream has. */
  async deliver(logs = this.revisions): Promise<void> {
    await recordRevisions({ logs }, this.stream.splice(0));
  }

  /** Loses what the stream has. */
  lose(): void {
    this.stream.length = 0;
  }

  /** A comparison that looks at differences again after 5 minutes, if the options do not differ. */
  compare(options: CompareOptions = {}, deps: Partial<CompareDeps> = {}) {
    const { items, tables, blobs, revisions: logs } = this;
    return compareTable(
      {
        items,
        tables,
        blobs,
        logs,
        platform: nativePlatform,
        now: () => this.nowMs,
        sleep: this.#sleep,
        onFailure: (_, error) => void this.failures.push(error),
        ...deps,
      },
      { settleSeconds: 300, ...options },
    );
  }

  /** A comparison by the schedule, on a machine whose clock may be wrong. */
  compareLater({ clockErrorMs = 0 } = {}) {
    return this.compare({ settleSeconds: undefined }, { now: () => this.nowMs + clockErrorMs });
  }

  /** The lines of an export, sorted. */
  async export(options: ExportOptions = {}): Promise<string[]> {
    return (await Array.fromAsync(exportTable({ ...this.#stores(), reducer: itemsReducer }, options))).sort();
  }

  /** The lines of an export that has every item of the table as it is. */
  async lines(): Promise<string[]> {
    const pages = await Array.fromAsync(this.items.scan({ index: 0, of: 1 }));
    return pages.flatMap(({ items }) => items.map(encodeItemLine)).sort();
  }

  /** Makes a snapshot of a log, and may start a segment. */
  async snapshot(log: LogId, { startsSegment }: { readonly startsSegment: boolean }): Promise<void> {
    const { position } = await this.logs.client.addSnapshot(log);
    await completeSnapshot(
      { ...this.#stores(), reducer: itemsReducer, now: () => this.nowMs },
      { kind: 'snapshot', log, position },
    );
    if (startsSegment) await this.logs.client.startSegment(log);
  }

  /** All revisions of an item. */
  async revisionsOf(keys: Item): Promise<ItemRevision[]> {
    const document = await this.logs.open(this.logOf(keys), { reducer: itemsReducer });
    const place = { map: ITEMS_MAP, key: itemKey(this.source, keys) };
    const values = await Array.fromAsync(document.history(place), ({ value }) => value);
    return values.flatMap((value) => (value === undefined ? [] : [readItemRevision(value)]));
  }

  logOf(keys: Item): LogId {
    return this.revisions.logOf(keys);
  }

  readonly #sleep = async (ms: number): Promise<void> => {
    this.nowMs += ms;
  };

  #stores() {
    const { tables, blobs } = this;
    return testDeployment({ tables, blobs });
  }

  #changed(change: ImageChange['change'], keys: Item, oldImage: Item | undefined, newImage: Item | undefined): void {
    this.stream.push({
      change,
      keys: plainItem(keys, this.source.keyNames),
      ...(oldImage !== undefined && { oldImage }),
      ...(newImage !== undefined && { newImage }),
      stream: '2026-01-01T00:00:00.000',
      sequence: String(++this.#sequence),
      created: Math.floor(this.nowMs / 1000),
    });
  }
}

/** An item of the partition `owner`. */
export function ownedItem(owner: string, number: number, value = 'first'): Item {
  return { pk: { S: owner }, sk: { N: String(number) }, value: { S: value } };
}
