import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DynamoDbLogStore, TableMeter } from '../../src/adapters/dynamodb/log-store.ts';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { MeteredBlobStore } from '../../src/adapters/metered-blob-store.ts';
import { wireLogs } from '../../src/adapters/platform/node-logs.ts';
import type { Document } from '../../src/client/document.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { findDynoxide } from '../../src/local/engine-program.ts';
import type { NewEntry } from '../../src/log/client.ts';
import { type CellEdit, sheetBody, spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { completeSnapshot } from '../../src/workers/snapshot/build-snapshot.ts';
import { startTestEngine, type TestEngine } from '../support/stores/engine.ts';
import { testDeployment } from '../support/test-deployment.ts';

/** Rows and columns of the large sheet. */
const [ROWS, COLUMNS] = [6_000, 50];
/** 50 x 20 cells in the middle of the large sheet. */
const VIEW = { rows: { from: 3_000, to: 3_050 }, columns: { from: 10, to: 30 } };

/** Requests to the tables and the bucket. */
interface Requests {
  readonly tables: number;
  readonly objects: number;
}

/** The text of a cell of the large sheet. */
const textAt = (index: number): string => `cell ${index} ${(index * Math.SQRT2) % 1}`;

const setCells = (cells: readonly CellEdit[]): NewEntry => ({
  type: 'Set',
  version: 1,
  body: sheetBody({ type: 'Set', cells }),
});

/** Logs in the real engine, with counts of the requests of its clients. */
class CountedLogs {
  readonly #engine: TestEngine;
  readonly #names: { readonly entryTable: string; readonly segmentTable: string };
  readonly #objects = new MemoryBlobStore(Date.now);

  private constructor(engine: TestEngine, names: { readonly entryTable: string; readonly segmentTable: string }) {
    this.#engine = engine;
    this.#names = names;
  }

  static async start(): Promise<CountedLogs> {
    const engine = await startTestEngine();
    return new CountedLogs(engine, await engine.createTables());
  }

  stop(): Promise<void> {
    return this.#engine.stop();
  }

  /** Another client, without anything in its caches. */
  client() {
    const meter = new TableMeter();
    const tables = this.#tables(meter);
    const blobs = new MeteredBlobStore(this.#objects);
    const logs = wireLogs(testDeployment({ tables, blobs }));
    /** The requests of some work. */
    const count = async (work: () => Promise<unknown>): Promise<Requests> => {
      const [before, gets] = [meter.requests, blobs.usage().gets];
      await work();
      return { tables: meter.requests - before, objects: blobs.usage().gets - gets };
    };
    return { logs, count };
  }

  /** Appends a Snapshot entry and completes its snapshot, as the deployed worker does. */
  async complete(log: LogId): Promise<void> {
    const stores = { tables: this.#tables(), blobs: this.#objects };
    const deployment = testDeployment({ ...stores, reducer: spreadsheet, now: Date.now });
    const { position } = await wireLogs(deployment).client.addSnapshot(log);
    const result = await completeSnapshot(deployment, { kind: 'snapshot', log, position });
    expect(result.outcome).toBe('built');
  }

  #tables(meter?: TableMeter): DynamoDbLogStore {
    return new DynamoDbLogStore({
      client: this.#engine.client,
      ...this.#names,
      ...(meter !== undefined && { meter: meter.meter }),
    });
  }
}

let counted: CountedLogs;
/** A log with a few cells, whose root is inline. */
let small: LogId;
/** A log with 300,000 cells, whose root is an object. */
let large: LogId;

beforeAll(async () => {
  if (findDynoxide() === undefined) return;
  counted = await CountedLogs.start();
  const { logs } = counted.client();
  small = await logs.create();
  await logs.client.addEntry(small, setCells([[0, 0, 'Denver']]));
  await counted.complete(small);
  large = await logs.create();
  for (let row = 0; row < ROWS; row += 20) {
    const cells = Array.from({ length: 20 * COLUMNS }, (_, i): CellEdit => {
      const at = row * COLUMNS + i;
      return [Math.floor(at / COLUMNS), at % COLUMNS, textAt(at)];
    });
    await logs.client.addEntry(large, setCells(cells));
  }
  await counted.complete(large);
});
afterAll(() => counted?.stop());

describe.skipIf(findDynoxide() === undefined)('requests of a document', () => {
  test('open takes two queries if the root is inline', async () => {
    const { logs, count } = counted.client();
    let document: Document | undefined;
    expect(
      await count(async () => {
        document = await logs.open(small, { reducer: spreadsheet });
      }),
    ).toEqual({ tables: 2, objects: 0 });
    expect(await document?.view({ rows: { from: 0, to: 1 }, columns: { from: 0, to: 1 } })).toEqual([['Denver']]);
  });

  test('open and a view of 50 x 20 cells of a large sheet take two queries and three or four objects', async () => {
    const { logs, count } = counted.client();
    const cells: unknown[][] = [];
    const requests = await count(async () => {
      const document = await logs.open(large, { reducer: spreadsheet });
      cells.push(...(await document.view(VIEW)));
    });
    expect(requests.tables).toBe(2);
    expect(requests.objects).toBeGreaterThanOrEqual(3);
    expect(requests.objects).toBeLessThanOrEqual(4);
    const at = 3_049 * COLUMNS + 29;
    expect(cells.at(-1)?.at(-1)).toBe(textAt(at));
  });

  test('append takes one request, and refresh one query if nothing is new', async () => {
    const { logs, count } = counted.client();
    const document = await logs.open(small, { reducer: spreadsheet });
    expect(await count(() => document.append(setCells([[1, 0, 'Austin']])))).toEqual({ tables: 1, objects: 0 });
    expect(await count(() => document.refresh())).toEqual({ tables: 1, objects: 0 });
  });

  test('a switch to a newer snapshot after an append downloads nothing', async () => {
    const { logs, count } = counted.client();
    const document = await logs.open(large, { reducer: spreadsheet });
    await document.view(VIEW);
    await document.append(setCells([[3_010, 15, 'new']]));
    const before = document.snapshot;
    await counted.complete(large);
    const requests = await count(async () => {
      await document.append(setCells([[3_011, 15, 'newer']]));
      await document.refresh();
      await document.view(VIEW);
    });
    expect(document.snapshot).not.toEqual(before);
    expect(requests.objects).toBe(0);
    const [, row] = await document.view({ rows: { from: 3_010, to: 3_012 }, columns: { from: 15, to: 16 } });
    expect(row).toEqual(['newer']);
  });
});
