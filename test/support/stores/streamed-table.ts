import { nativePlatform } from '../../../src/adapters/platform/native.ts';
import { Logs } from '../../../src/client/logs.ts';
import type { LogId } from '../../../src/ids/log-id.ts';
import type { Item } from '../../../src/log/attribute.ts';
import { divisionOf } from '../../../src/log/division-policy.ts';
import { RESERVED_TYPES } from '../../../src/log/entry.ts';
import type { LogStore } from '../../../src/log/log-store.ts';
import type { ImageChange } from '../../../src/revisions/image-change.ts';
import { revisionLog, type SourceTable } from '../../../src/revisions/source-table.ts';
import { items } from '../../../src/state/items/reducer.ts';
import type { Reducer } from '../../../src/state/reducer.ts';
import type { JobDeps } from '../../../src/workers/dispatch/run-job.ts';
import { RevisionLogs } from '../../../src/workers/revisions/revision-logs.ts';
import { NOON } from '../logs.ts';
import { Random } from '../models/random.ts';
import { SheetLogs } from '../sheet-logs.ts';
import { testDeployment } from '../test-deployment.ts';

/** The table of the tests: items of two attributes as their key, which name their author. */
export const PARTS: SourceTable = { table: 'Parts', keyNames: ['id', 'part'], per: 'item', actor: 'by' };

/** A plain table, its stream, and the logs with its revisions on memory adapters. */
export class StreamedTable {
  readonly source: SourceTable;
  readonly reducer: Reducer;
  readonly deployment = new SheetLogs();
  /** The items of the table by the text of their key. */
  readonly #items = new Map<string, Item>();
  /** Every change in order, as the stream has it. */
  readonly records: ImageChange[] = [];
  /** The label of the stream. */
  label = '2024-11-20T11:00:00.000';
  /** Epoch seconds. */
  time = NOON;
  #clients = 0;

  constructor(source: Partial<SourceTable> = {}, reducer = items) {
    this.source = { ...PARTS, ...source };
    this.reducer = reducer;
  }

  /** The items that the table has. */
  get items(): Item[] {
    return [...this.#items.values()];
  }

  /** Puts an item. A write that changes nothing gives no record. */
  put(item: Item): ImageChange | undefined {
    const key = this.#keyOf(item);
    const oldImage = this.#items.get(key);
    if (JSON.stringify(oldImage) === JSON.stringify(item)) return undefined;
    this.#items.set(key, item);
    return this.#record({ change: 'Put', keys: keysOf(item), newImage: item, ...(oldImage && { oldImage }) });
  }

  /** Removes an item. */
  remove(keys: Item, change: 'Delete' | 'Expire' = 'Delete'): ImageChange | undefined {
    const oldImage = this.#items.get(this.#keyOf(keys));
    if (oldImage === undefined) return undefined;
    this.#items.delete(this.#keyOf(keys));
    return this.#record({ change, keys: keysOf(keys), oldImage });
  }

  #record(change: Omit<ImageChange, 'stream' | 'sequence' | 'created'>): ImageChange {
    // As in DynamoDB, numbers are longer than 53 bits, and some have more digits than others.
    const sequence = String(99_999_999_999_999_999_990n + 3n * BigInt(this.records.length));
    const record = { ...change, stream: this.label, sequence, created: this.time };
    this.records.push(record);
    return record;
  }

  #keyOf(item: Item): string {
    return JSON.stringify(keysOf(item));
  }

  /** The logs as another process sees them. */
  logs(tables: LogStore = this.deployment.tables): Logs {
    const random = new Random(1_000 + ++this.#clients);
    return new Logs({
      ...this.deployment.deps,
      store: testDeployment({ tables, blobs: this.deployment.blobs }).store,
      tables,
      types: RESERVED_TYPES,
      random: () => random.next(),
      sleep: () => new Promise((resolve) => setImmediate(resolve)),
      newLogId: () => {
        throw new Error('each log of revisions has a given id');
      },
    });
  }

  /** Another process that records revisions. */
  recorder(tables?: LogStore, most?: number): RevisionLogs {
    const { source, reducer } = this;
    return new RevisionLogs({ logs: this.logs(tables), source, platform: nativePlatform, reducer, most });
  }

  logOf(keys: Item): LogId {
    return revisionLog(nativePlatform, this.source, keys);
  }

  /** Divides a log as the pipeline does, with its snapshots. */
  async divide(
    log: LogId,
    snapshotEveryEntries: number,
    segmentEveryEntries = 10 * snapshotEveryEntries,
    tables: LogStore = this.deployment.tables,
  ): Promise<void> {
    const division = divisionOf({ snapshotEveryEntries, segmentEveryEntries });
    const deps: Omit<JobDeps, 'queue'> = { ...this.deployment.deps, tables, reducer: this.reducer, division };
    await this.deployment.runWith(deps, [
      { kind: 'snapshot', log, position: { segment: 0, entry: 0 } },
      { kind: 'divide', log },
    ]);
  }
}

function keysOf({ id, part }: Item): Item {
  return { ...(id && { id }), ...(part && { part }) };
}
