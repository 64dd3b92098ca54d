import { deepStrictEqual } from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import { type AttributeValue, DynamoDBClient, PutItemCommand, QueryCommand } from '@aws-sdk/client-dynamodb';
import { Command } from '@commander-js/extra-typings';
import { DynamoDbLogStore, TableMeter } from '../src/adapters/dynamodb/log-store.ts';
import { FilesystemBlobStore } from '../src/adapters/filesystem/blob-store.ts';
import { MeteredBlobStore } from '../src/adapters/metered-blob-store.ts';
import { nativePlatform } from '../src/adapters/platform/native.ts';
import { wireLogs } from '../src/adapters/platform/node-logs.ts';
import { ArchivedLogStore } from '../src/archive/archived-log-store.ts';
import type { Logs } from '../src/client/logs.ts';
import type { LogId } from '../src/ids/log-id.ts';
import { joinEngine } from '../src/local/engine.ts';
import { ensureTables } from '../src/local/tables.ts';
import { RESERVED_TYPES } from '../src/log/entry.ts';
import { type CellEdit, sheetBody, spreadsheet } from '../src/state/spreadsheet/reducer.ts';
import { completeSnapshot } from '../src/workers/snapshot/build-snapshot.ts';
import { wholeNumber } from './options.ts';
import { median } from './statistics.ts';
import { describeMachine, markdownTable, plainTable } from './tables.ts';

const TABLES = { entryTable: 'entries', segmentTable: 'segments' };
/** Entries after the newest snapshot when a client opens the log. */
const TAIL = 20;
const SMALL = { rows: 10, columns: 10 };
const LARGE = { rows: 6_000, columns: 50 };
const VIEW = { rows: { from: 3_000, to: 3_050 }, columns: { from: 10, to: 30 } };
const TOP = { rows: { from: 0, to: 10 }, columns: { from: 0, to: 10 } };

/** One operation of an application, done in one of two ways. */
interface Way {
  /** Work before the clock starts. */
  readonly prepare?: () => Promise<void>;
  readonly run: () => Promise<unknown>;
  /** Requests to the tables and the bucket so far. */
  readonly requests: () => number;
}

interface Row {
  readonly operation: string;
  readonly documentMs: number;
  readonly handMs: number;
  readonly ratio: number;
  readonly documentRequests: number;
  readonly handRequests: number;
}

/** The cells of a sheet, each with its own text. */
function cellsOf({ rows, columns }: { readonly rows: number; readonly columns: number }): CellEdit[] {
  return Array.from({ length: rows * columns }, (_, i): CellEdit => {
    return [Math.floor(i / columns), i % columns, `cell ${i} ${(i * Math.SQRT2) % 1}`];
  });
}

const entryOf = (cells: readonly CellEdit[]) => ({ type: 'Set', version: 1, body: sheetBody({ type: 'Set', cells }) });

/** Logs of logfold in the engine, and the snapshots of its worker. */
class Place {
  readonly #client: DynamoDBClient;
  readonly #blobs: FilesystemBlobStore;

  constructor(client: DynamoDBClient, directory: string) {
    this.#client = client;
    this.#blobs = new FilesystemBlobStore(join(directory, 'blobs'), { fsync: false });
  }

  /** A client with empty caches. */
  open(): { readonly logs: Logs; readonly requests: () => number } {
    const meter = new TableMeter();
    const tables = new DynamoDbLogStore({ client: this.#client, ...TABLES, meter: meter.meter });
    const blobs = new MeteredBlobStore(this.#blobs);
    const store = new ArchivedLogStore(tables, { blobs, platform: nativePlatform });
    return { logs: wireLogs({ store, tables, blobs }), requests: () => meter.requests + blobs.usage().gets };
  }

  /** A log with a complete snapshot of a sheet, and a short tail. */
  async create(size: { readonly rows: number; readonly columns: number }): Promise<LogId> {
    const { client } = this.open().logs;
    const log = await client.createLog();
    const cells = cellsOf(size);
    for (let i = 0; i < cells.length; i += 2_000) await client.addEntry(log, entryOf(cells.slice(i, i + 2_000)));
    await this.snapshot(log);
    for (let row = 0; row < TAIL; row++) await client.addEntry(log, entryOf([[row % 10, 0, `edit ${row}`]]));
    return log;
  }

  async snapshot(log: LogId): Promise<void> {
    const tables = new DynamoDbLogStore({ client: this.#client, ...TABLES });
    const blobs = this.#blobs;
    const store = new ArchivedLogStore(tables, { blobs, platform: nativePlatform });
    const { position } = await wireLogs({ store, tables, blobs }).client.addSnapshot(log);
    const deps = { store, tables, blobs, platform: nativePlatform, types: RESERVED_TYPES, reducer: spreadsheet };
    await completeSnapshot({ ...deps, now: Date.now }, { kind: 'snapshot', log, position });
  }
}

/** A log that an application keeps by hand: JSON in the items, a whole sheet in each snapshot. */
class HandLog {
  readonly #client: DynamoDBClient;
  readonly #key: Uint8Array;
  readonly #file: string;
  requests = 0;
  #cells = new Map<string, unknown>();
  #next = 0;

  constructor(client: DynamoDBClient, directory: string, number: number) {
    this.#client = client;
    this.#key = new Uint8Array(20).fill(number);
    this.#file = join(directory, `hand-${number}.json.gz`);
  }

  async create(size: { readonly rows: number; readonly columns: number }): Promise<void> {
    const segment = { S: { B: this.#key.slice(0, 16) }, N: { N: '0' } };
    await this.#client.send(new PutItemCommand({ TableName: TABLES.segmentTable, Item: segment }));
    for (const [row, column, value] of cellsOf(size)) this.#cells.set(`${row}/${column}`, value);
    await this.snapshot();
    for (let row = 0; row < TAIL; row++) await this.append([[row % 10, 0, `edit ${row}`]]);
  }

  /** Puts a whole snapshot: into the item if it fits, otherwise into an object. */
  async snapshot(): Promise<void> {
    const packed = gzipSync(JSON.stringify([...this.#cells]));
    const isSmall = packed.length <= 4096;
    if (!isSmall) await writeFile(this.#file, packed);
    await this.#put(isSmall ? { P: { B: packed } } : { E: { S: this.#file } });
  }

  async append(cells: readonly CellEdit[]): Promise<void> {
    await this.#put({ J: { S: JSON.stringify(cells) } });
    for (const [row, column, value] of cells) this.#cells.set(`${row}/${column}`, value);
  }

  /** Reads the log as a client without state: two queries, and the object of a large snapshot. */
  async open(): Promise<unknown[]> {
    const segments = { TableName: TABLES.segmentTable, ...this.#from(this.#key.slice(0, 16), 0), Limit: 2 };
    await this.#client.send(new QueryCommand({ ...segments, ScanIndexForward: false }));
    this.requests++;
    await this.read(0);
    return [...Array(10).keys()].map((row) => this.#cells.get(`${row}/0`));
  }

  /** Reads on from a number and folds into the map. A snapshot replaces the map. */
  async read(from: number): Promise<void> {
    const { Items = [] } = await this.#client.send(
      new QueryCommand({ TableName: TABLES.entryTable, ...this.#from(this.#key, from) }),
    );
    this.requests++;
    for (const item of Items) {
      if (item.P?.B !== undefined) this.#load(item.P.B);
      else if (item.E?.S !== undefined) {
        this.requests++;
        this.#load(await readFile(item.E.S));
      } else {
        const cells: readonly CellEdit[] = JSON.parse(item.J?.S ?? '[]');
        for (const [row, column, value] of cells) this.#cells.set(`${row}/${column}`, value);
      }
    }
  }

  get next(): number {
    return this.#next;
  }

  #load(packed: Uint8Array): void {
    this.#cells = new Map(JSON.parse(gunzipSync(packed).toString()));
  }

  async #put(attributes: Record<string, AttributeValue>): Promise<void> {
    const Item = { S: { B: this.#key }, N: { N: String(this.#next) }, T: { S: 'Set' }, ...attributes };
    const ConditionExpression = 'attribute_not_exists(N)';
    await this.#client.send(new PutItemCommand({ TableName: TABLES.entryTable, Item, ConditionExpression }));
    this.requests++;
    this.#next++;
  }

  #from(key: Uint8Array, from: number) {
    return {
      KeyConditionExpression: 'S = :s AND N >= :n',
      ExpressionAttributeValues: { ':s': { B: key }, ':n': { N: String(from) } },
    };
  }
}

/** Measures both ways in turns, each first in half of the rounds. */
async function compare(operation: string, repeat: number, document: Way, hand: Way): Promise<Row> {
  const ways = [document, hand];
  const results = ways.map(() => ({ ms: [] as number[], requests: [] as number[] }));
  for (let round = -2; round < repeat; round++) {
    for (const turn of ways.keys()) {
      const index = (turn + round + 2) % 2;
      const [way, result] = [ways[index], results[index]];
      if (way === undefined || result === undefined) continue;
      await way.prepare?.();
      const before = way.requests();
      const started = performance.now();
      await way.run();
      // The first rounds warm up the code.
      if (round < 0) continue;
      result.ms.push(performance.now() - started);
      result.requests.push(way.requests() - before);
    }
  }
  const [ours, theirs] = results.map(({ ms, requests }) => ({ ms: median(ms), requests: median(requests) }));
  if (ours === undefined || theirs === undefined) throw new Error('there are no results');
  return {
    operation,
    documentMs: ours.ms,
    handMs: theirs.ms,
    ratio: ours.ms / theirs.ms,
    documentRequests: ours.requests,
    handRequests: theirs.requests,
  };
}

async function measure(client: DynamoDBClient, directory: string, repeat: number): Promise<Row[]> {
  const place = new Place(client, directory);
  const rows: Row[] = [];
  for (const [number, size] of [SMALL, LARGE].entries()) {
    const name = size === SMALL ? '100 cells' : '300,000 cells';
    const view = size === SMALL ? TOP : VIEW;
    const log = await place.create(size);
    const hand = new HandLog(client, directory, number + 1);
    await hand.create(size);
    const requests = (): number => hand.requests;

    let fresh = place.open();
    const open: Way = {
      prepare: async () => {
        fresh = place.open();
      },
      run: async () => {
        const document = await fresh.logs.open(log, { reducer: spreadsheet });
        await document.view(view);
        document.close();
      },
      requests: () => fresh.requests(),
    };
    rows.push(await compare(`open and view, ${name}`, repeat, open, { run: () => hand.open(), requests }));

    const { logs, requests: counted } = place.open();
    const document = await logs.open(log, { reducer: spreadsheet });
    const column = await document.view({ rows: { from: 0, to: 10 }, columns: { from: 0, to: 1 } });
    // A wrong sheet is no result.
    deepStrictEqual(column.flat(), await hand.open());
    const edit: CellEdit[] = [[1, 1, 'edited']];
    const append: Way = { run: () => document.append(entryOf(edit)), requests: counted };
    rows.push(await compare(`append, ${name}`, repeat, append, { run: () => hand.append(edit), requests }));

    let seen = 0;
    const move: Way = { prepare: () => place.snapshot(log), run: () => document.refresh(), requests: counted };
    const reread: Way = {
      prepare: async () => {
        seen = hand.next;
        await hand.snapshot();
      },
      run: () => hand.read(seen),
      requests,
    };
    rows.push(await compare(`switch to a snapshot, ${name}`, repeat, move, reread));
    await logs.close();
  }
  return rows;
}

function tableOf(rows: readonly Row[]) {
  return {
    title: 'A document, and the same work by hand',
    head: ['operation', 'document ms', 'by hand ms', 'ratio', 'requests', 'by hand'],
    rows: rows.map(({ operation, documentMs, handMs, ratio, documentRequests, handRequests }) => [
      operation,
      documentMs.toFixed(2),
      handMs.toFixed(2),
      ratio.toFixed(3),
      String(documentRequests),
      String(handRequests),
    ]),
  };
}

await new Command('npm run bench:client --')
  .description('Compares a live document with the same work by hand on the AWS SDK, on the embedded engine.')
  .option('--repeat <n>', 'measurements of each operation; the result is their median', wholeNumber, 51)
  .option('--json', 'print one JSON document on standard output and nothing else', false)
  .option('--markdown', 'print the table in Markdown', false)
  .showHelpAfterError('(add --help for the options)')
  .action(async ({ repeat, json, markdown }) => {
    const directory = await mkdtemp(join(tmpdir(), 'logfold-bench-'));
    const engine = await joinEngine(join(directory, 'engine'));
    const credentials = { accessKeyId: 'local', secretAccessKey: 'local' };
    const client = new DynamoDBClient({ endpoint: engine.endpoint, region: 'local', credentials });
    try {
      await ensureTables(client, TABLES);
      const rows = await measure(client, directory, repeat);
      if (json) console.log(JSON.stringify({ rows }));
      else {
        const table = (markdown ? markdownTable : plainTable)(tableOf(rows));
        console.log(`${describeMachine()}; medians of ${repeat}\n\n${table}`);
      }
    } finally {
      client.destroy();
      await engine.leave();
      await rm(directory, { recursive: true, force: true });
    }
  })
  .parseAsync();
