import { describe, expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import {
  EntryGapError,
  ItemInvalidError,
  type LogfoldError,
  StoreUnavailableError,
  UsageError,
} from '../../src/errors.ts';
import { reportEvent, type SweepEvent } from '../../src/functions/function-event.ts';
import { sweepFunction } from '../../src/functions/sweep-function.ts';
import { type LogId, textLogId } from '../../src/ids/log-id.ts';
import type { LogPage } from '../../src/mapping/mapped-items.ts';
import { mappingDocument } from '../../src/mapping/meaning.ts';
import { parseMapping, readMapping, type SchemaMapping } from '../../src/mapping/schema-mapping.ts';
import { DEFAULT_POLICY } from '../../src/retention/retention-policy.ts';
import { ADOPT_KEY } from '../../src/store/keys.ts';
import type { ItemScanPart } from '../../src/store/scan-places.ts';
import { type AdoptDeps, type AdoptOptions, adoptLogs, adoptSource } from '../../src/workers/adopt/adopt-logs.ts';
import { RateLimiter } from '../../src/workers/retention/rate-limiter.ts';
import { lambdaContext } from '../support/deployed/lambda-events.ts';
import { SheetLogs } from '../support/sheet-logs.ts';

const PAGES = 4;
const LOGS_PER_PAGE = 3;

/** A table whose first two parts have some pages of logs each. The last log of a page continues. */
class Table {
  readonly blobs = new MemoryBlobStore();
  readonly registered: LogId[] = [];
  readonly failures: LogfoldError[] = [];
  pages = 0;
  nowMs = 0;

  readonly items = {
    logs: (part: ItemScanPart, onInvalid: (error: ItemInvalidError) => void): AsyncIterable<LogPage> =>
      this.#pages(part, onInvalid),
  };

  readonly register = async (log: LogId): Promise<number> => {
    this.registered.push(log);
    return 1;
  };

  async *#pages(part: ItemScanPart, onInvalid: (error: ItemInvalidError) => void): AsyncGenerator<LogPage> {
    if (part.index > 1) return;
    const [done = -1, before = LOGS_PER_PAGE] = part.after?.split('/').map(Number) ?? [];
    for (let page = before < LOGS_PER_PAGE ? done : done + 1; page < PAGES; page++) {
      this.pages++;
      if (part.index === 1 && page === 2) onInvalid(new ItemInvalidError("attribute 'sk' is 0.5"));
      const logs = Array.from({ length: LOGS_PER_PAGE + 1 }, (_, i) => {
        const log = textLogId(`order-${part.index}-${page * LOGS_PER_PAGE + i}`);
        return { log, after: `${page}/${i}` };
      });
      yield { logs: page === done ? logs.slice(before + 1) : logs, next: `${page}/${LOGS_PER_PAGE}` };
    }
  }

  adopt(options: Partial<AdoptOptions> = {}, deps: Partial<AdoptDeps> = {}) {
    const { items, register, blobs } = this;
    const onFailure = (error: LogfoldError): void => void this.failures.push(error);
    const all = { items, register, blobs, now: () => this.nowMs, onFailure, ...deps };
    return adoptLogs(all, { source: 'orders', ...options });
  }
}

const ALL_LOGS = 2 * (PAGES * LOGS_PER_PAGE + 1);

describe('adoptLogs', () => {
  test('registers each log of the table once, and reports items that do not fit', async () => {
    const table = new Table();
    expect(await table.adopt()).toEqual({
      logs: ALL_LOGS,
      registered: ALL_LOGS,
      unfit: 1,
      failed: 0,
      continued: false,
      complete: true,
    });
    expect(new Set(table.registered).size).toBe(ALL_LOGS);
    expect(table.registered).toHaveLength(ALL_LOGS);
    expect(table.failures).toMatchObject([{ reason: "attribute 'sk' is 0.5" }]);
    // A complete scan of a new table leaves no note.
    expect(await table.blobs.get(ADOPT_KEY)).toBeUndefined();
  });

  test('counts only logs that were not registered before', async () => {
    const register = async (log: LogId): Promise<number> => (log.endsWith('0') ? 1 : 0);
    expect(await new Table().adopt({}, { register })).toMatchObject({ logs: ALL_LOGS, registered: 4 });
  });

  test('ends after the current logs when it is stopped, and continues there', async () => {
    const table = new Table();
    const stop = new AbortController();
    const register = (log: LogId): Promise<number> => {
      if (table.registered.length === 3) stop.abort();
      return table.register(log);
    };
    const first = await table.adopt({ stop: stop.signal }, { register });
    expect(first).toMatchObject({ complete: false, continued: false });
    // Each of the two parts registers the log that it has begun.
    expect(table.registered.length).toBeLessThanOrEqual(5);
    expect(await table.adopt()).toMatchObject({ complete: true, continued: true });
    expect(new Set(table.registered).size).toBe(ALL_LOGS);
    expect(table.registered.length).toBeLessThanOrEqual(ALL_LOGS + 2);
    expect(await table.adopt()).toMatchObject({ logs: ALL_LOGS, continued: false });
  });

  test('ends when its time is up', async () => {
    const table = new Table();
    const onPage = async (): Promise<void> => {
      table.nowMs += 10;
    };
    expect(await table.adopt({ deadline: 5 }, { onPage })).toMatchObject({ complete: false });
    expect(await table.adopt({ deadline: Number.POSITIVE_INFINITY })).toMatchObject({ complete: true });
    expect(new Set(table.registered).size).toBe(ALL_LOGS);
  });

  test('ends within a page when its time is up, and registers the rest of the page in the next run', async () => {
    const table = new Table();
    const register = async (log: LogId): Promise<number> => {
      table.nowMs += 10;
      return table.register(log);
    };
    expect(await table.adopt({ deadline: 15 }, { register })).toMatchObject({ logs: 2, complete: false });
    expect(await table.adopt()).toMatchObject({ logs: ALL_LOGS - 2, continued: true, complete: true });
    expect(new Set(table.registered).size).toBe(ALL_LOGS);
  });

  test('starts at the beginning if the note is of another table', async () => {
    const table = new Table();
    const stop = AbortSignal.abort();
    await table.adopt({ stop });
    expect(await table.adopt({ source: 'invoices' })).toMatchObject({ logs: ALL_LOGS, continued: false });
  });

  test('goes on if the mapping is the same, however it was written', async () => {
    const named = readMapping('castore:orders');
    if (named === undefined) throw new Error('the name gives a mapping');
    const source = (mapping: SchemaMapping) => adoptSource({ table: 'orders', mapping });
    const table = new Table();
    await table.adopt({ source: source(named), deadline: 0, stop: AbortSignal.abort() });
    const written = parseMapping(mappingDocument(named));
    expect(await table.adopt({ source: source(written) })).toMatchObject({ continued: true });

    const other = readMapping('castore:invoices');
    expect(other && source(other)).not.toBe(source(written));
    expect(adoptSource({ table: 'invoices', mapping: written })).not.toBe(source(written));
  });

  test('goes on with other logs if one cannot be registered, and names that log', async () => {
    const table = new Table();
    const register = async (log: LogId): Promise<number> => {
      if (log === 'order-0-1') throw new EntryGapError('item 3 is missing');
      return 1;
    };
    expect(await table.adopt({}, { register })).toMatchObject({
      logs: ALL_LOGS,
      registered: ALL_LOGS - 1,
      failed: 1,
      complete: true,
    });
    expect(table.failures).toContainEqual(expect.objectContaining({ code: 'ENTRY_GAP', log: 'order-0-1' }));
  });

  test('continues before the page that it could not finish', async () => {
    const table = new Table();
    const down = new StoreUnavailableError('the tables do not answer');
    const register = async (log: LogId): Promise<number> => {
      if (log === 'order-1-4') throw down;
      return table.register(log);
    };
    await expect(table.adopt({}, { register })).rejects.toBe(down);
    expect(await table.adopt()).toMatchObject({ complete: true, continued: true });
    expect(new Set(table.registered).size).toBe(ALL_LOGS);
  });

  test('notes where it is once a minute, so that a crash loses little', async () => {
    const table = new Table();
    const notes = new Set<string>();
    const onPage = async (): Promise<void> => {
      table.nowMs += 30_000;
      notes.add(String(await table.blobs.get(ADOPT_KEY)));
    };
    await table.adopt({}, { onPage });
    // 8 pages of half a minute each.
    expect(notes.size).toBeGreaterThanOrEqual(3);
  });
});

describe('the sweep function with adopt', () => {
  test('registers logs until its time is up, within its read units, and reports what it found', async () => {
    const waits: number[] = [];
    const sleep = async (ms: number): Promise<void> => void waits.push(ms);
    const limiter = new RateLimiter({ perSecond: 100, monotonic: () => 0, sleep });
    let units = 0;
    const sheets = new SheetLogs();
    const table = new Table();
    const register = (log: LogId): Promise<number> => {
      units += 10;
      return table.register(log);
    };
    const events: SweepEvent[] = [];
    const queue = { send: async () => undefined, depth: async () => 0 };
    const run = sweepFunction({
      ...sheets.deps,
      queues: { snapshot: queue, maintenance: queue },
      policy: DEFAULT_POLICY,
      adopt: { items: table.items, register, source: 'orders', onPage: limiter.covering(() => units) },
      report: (event) => events.push(event),
    });
    expect(await run({ adopt: true }, lambdaContext(900_000, 'request'))).toMatchObject({ logs: ALL_LOGS });
    // One second of units is free.
    expect(waits.at(-1)).toBe((units / 100 - 1) * 1000);
    expect(events).toMatchObject([
      { kind: 'not adopted', run: 'request', error: { code: 'ITEM_INVALID' } },
      { kind: 'adopted', run: 'request', result: { complete: true } },
    ]);
    expect(events.map(reportEvent)).toMatchObject([
      { level: 'error', message: 'an item or a log does not fit the mapping' },
      { level: 'info', message: 'looked for logs in the whole table', fields: { logs: ALL_LOGS, unfit: 1 } },
    ]);
  });

  test('refuses adopt if there is no mapping', async () => {
    const sheets = new SheetLogs();
    const queue = { send: async () => undefined, depth: async () => 0 };
    const queues = { snapshot: queue, maintenance: queue };
    const run = sweepFunction({ ...sheets.deps, queues, policy: DEFAULT_POLICY, report: () => undefined });
    await expect(run({ adopt: true }, lambdaContext(900_000, 'request'))).rejects.toBeInstanceOf(UsageError);
  });
});
