import { MemoryLogStore } from '../../../src/adapters/memory/log-store.ts';
import { type LogId, textLogId } from '../../../src/ids/log-id.ts';
import type { Item } from '../../../src/log/attribute.ts';
import { VIRTUAL_TYPES } from '../../../src/log/schedule.ts';
import { keyOf } from '../../../src/mapping/key-pattern.ts';
import { MappedLogStore } from '../../../src/mapping/mapped-log-store.ts';
import { parseMapping, type SchemaMapping } from '../../../src/mapping/schema-mapping.ts';
import type { BlobStore } from '../../../src/store/blob-store.ts';
import type { JobDeps } from '../../../src/workers/dispatch/run-job.ts';
import { NOON } from '../logs.ts';
import { EXPIRING_ORDERS, ORDERS_DOCUMENT } from '../orders.ts';
import { testDeployment } from '../test-deployment.ts';
import { MemoryMappedItems } from './memory-mapped-items.ts';

/** The mapping of a table of orders with times in seconds. */
export const ORDERS = parseMapping({ ...EXPIRING_ORDERS, time: { name: 'ts', format: 's' } });

/** Like {@link ORDERS}, but no attribute takes a TTL stamp. */
export const ORDERS_WITHOUT_TTL = parseMapping({ ...ORDERS_DOCUMENT, time: { name: 'ts', format: 's' } });

/** Ten items a segment, with a Snapshot entry after every fifth. */
export const TENS = { items: 10, snapshotEvery: 5 };

let logs = 0;

/** A mapped log's id that is unique in this process. */
export function newMappedLog(): LogId {
  logs++;
  return textLogId(`2024/${logs}`);
}

/** An item of {@link ORDERS}, as the application writes it. */
export function orderItem(log: LogId, index: number, overrides: Item = {}): Item {
  return {
    ...keyOf(ORDERS, log, index),
    type: { S: 'Set' },
    ts: { N: String(NOON + index) },
    payload: { L: [{ L: [{ N: String(index % 20) }, { N: '0' }, { S: `value ${index}` }] }] },
    note: { S: `attribute of item ${index}` },
    ...overrides,
  };
}

/** A table of orders in memory. */
export class MappedLogs {
  readonly books = new MemoryLogStore({ pageItems: 3 });
  readonly items: MemoryMappedItems;
  readonly store: MappedLogStore;

  constructor(mapping: SchemaMapping = ORDERS) {
    const { books } = this;
    this.items = new MemoryMappedItems({ mapping, books, pageItems: 4 });
    this.store = new MappedLogStore({ items: this.items, books, mapping, now: () => NOON * 1000 });
  }

  /** Appends items to a log as the application does. */
  async append(log: LogId, count: number): Promise<void> {
    const newest = await this.items.newest(log, Number.MAX_SAFE_INTEGER);
    const first = newest === undefined ? 0 : newest.index + 1;
    for (let i = first; i < first + count; i++) this.items.insert(orderItem(log, i));
  }

  /** A registered log with this many items. */
  async create(count: number, sizes = TENS, log = newMappedLog()): Promise<LogId> {
    await this.append(log, count);
    await this.store.register(log, sizes);
    return log;
  }
}

/** Dependencies of the jobs of mapped logs. The jobs that they send are dropped. */
export function mappedDeps(tables: MappedLogStore, blobs: BlobStore): JobDeps {
  return testDeployment({ tables, blobs, types: VIRTUAL_TYPES, queue: { send: async () => undefined } });
}
