import { createHash, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, readFile, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import {
  type AttributeValue,
  DeleteItemCommand,
  DynamoDBClient,
  GetItemCommand,
  ListTablesCommand,
  PutItemCommand,
  ScanCommand,
} from '@aws-sdk/client-dynamodb';
import pLimit from 'p-limit';
import { expect } from 'vitest';
import { DynamoDbLogStore } from '../../src/adapters/dynamodb/log-store.ts';
import { FilesystemBlobStore } from '../../src/adapters/filesystem/blob-store.ts';
import { type LogId, parseLogId } from '../../src/ids/log-id.ts';
import type { Position } from '../../src/ids/position.ts';
import { ENGINE_NAMES, engineArguments } from '../../src/local/engine-program.ts';
import { findProcesses } from '../../src/local/processes.ts';
import { ensureTables } from '../../src/local/tables.ts';
import type { StoredItem } from '../../src/log/attribute.ts';
import { LogClient } from '../../src/log/client.ts';
import { entryKey } from '../../src/log/item-codec.ts';
import { type SheetEdit, sheetBody } from '../../src/state/spreadsheet/reducer.ts';
import { type Answer, end, runCli, runJson, startCli } from './cli.ts';
import { unarchived } from './logs.ts';
import { clientConfig } from './stores/shared-engine.ts';

const TABLES = { entryTable: 'Entry', segmentTable: 'Segment' };

/** Commands that run at the same time. */
const AT_ONCE = 3;

export type Attributes = Record<string, AttributeValue>;

/** Returns the bytes that replace an object's bytes; undefined removes the object. */
export type Damage = (stored: Buffer) => Uint8Array | undefined;

/** The one JSON document that a failed command prints. */
export interface Refusal {
  readonly code: string;
  readonly message: string;
  readonly log: string | null;
  readonly segment: number | null;
  readonly entry: number | null;
  /** Type of the entry. */
  readonly type: string | null;
  readonly advice: string | null;
}

/** A data directory with a running `logfold engine`. Commands and tests share the engine. */
export class CliPlace {
  readonly directory: string;
  readonly endpoint: string;
  /** Arguments that every command needs here. */
  readonly words: readonly string[];
  readonly blobs: FilesystemBlobStore;
  readonly client: LogClient;
  /** The tables, without archives. */
  readonly tables: DynamoDbLogStore;
  readonly #db: DynamoDBClient;
  readonly #holder: ReturnType<typeof startCli>;

  private constructor(directory: string, endpoint: string, holder: ReturnType<typeof startCli>) {
    this.directory = directory;
    this.endpoint = endpoint;
    this.words = ['--local', directory];
    this.#holder = holder;
    this.#db = new DynamoDBClient(clientConfig(endpoint));
    this.blobs = new FilesystemBlobStore(join(directory, 'blobs'), { fsync: false });
    this.tables = new DynamoDbLogStore({ client: this.#db, ...TABLES });
    this.client = new LogClient({
      store: unarchived(this.tables),
      tables: this.tables,
      blobs: this.blobs,
      now: Date.now,
      random: Math.random,
      sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
      newLogId: () => parseLogId(randomUUID()),
    });
  }

  static async open(): Promise<CliPlace> {
    const directory = await realpath(await mkdtemp(join(tmpdir(), 'logfold-cli-')));
    const holder = startCli(['engine', '--local', directory, '--json']);
    if (holder.stdout === null) throw new Error('the engine command has no standard output');
    const [line]: string[] = await once(createInterface({ input: holder.stdout }), 'line');
    const { endpoint }: { endpoint: string } = JSON.parse(line ?? '');
    const place = new CliPlace(directory, endpoint, holder);
    await ensureTables(place.#db, TABLES);
    return place;
  }

  async close(): Promise<void> {
    this.#db.destroy();
    await end(this.#holder, 'SIGTERM');
    await rm(this.directory, { recursive: true });
  }

  /** Creates a log with a Set entry for each group of cells, or with other edits. */
  async log(...edits: readonly SheetEdit[]): Promise<LogId> {
    const log = await this.client.createLog();
    for (const edit of edits) await this.edit(log, edit);
    return log;
  }

  async edit(log: LogId, edit: SheetEdit): Promise<Position> {
    return (await this.client.addEntry(log, { type: edit.type, version: 1, body: sheetBody(edit) })).position;
  }

  /** Runs a command that must succeed. */
  json(...words: readonly string[]): Promise<Record<string, unknown>> {
    return runJson([...words, ...this.words]);
  }

  /**
   * Runs commands that must fail, {@link AT_ONCE} at a time, and checks that they change nothing.
   */
  refusals(...commands: readonly (readonly string[])[]): Promise<Refusal[]> {
    return this.refused(commands.map((words) => [...words, ...this.words]));
  }

  /**
   * Runs commands that must fail with the given environment, {@link AT_ONCE} at a time. Checks that
   * they change nothing here.
   */
  async refused(commands: readonly (readonly string[])[], environment: Readonly<Record<string, string>> = {}) {
    const before = await this.contents();
    const limit = pLimit(AT_ONCE);
    const run = async (words: readonly string[]) => refusalOf(await runCli([...words, '--json'], { environment }));
    const refusals = await Promise.all(commands.map((words) => limit(() => run(words))));
    expect(await this.contents()).toEqual(before);
    return refusals;
  }

  /** Every item of both tables and every object, each as name and hash. */
  async contents(): Promise<readonly string[]> {
    const objects: string[] = [];
    for await (const { key } of this.blobs.list('')) objects.push(`${key} ${sha256(await this.read(key))}`);
    const tables = await Promise.all(Object.values(TABLES).map((table) => this.#scan(table)));
    return [...tables.flat(), ...objects];
  }

  async #scan(table: string): Promise<string[]> {
    const items = (await this.items(table)).map((item) => {
      const { S, N } = item;
      return `${table} ${Buffer.from(S?.B ?? []).toString('hex')} ${N?.N} ${sha256(itemText(item))}`;
    });
    return items.sort();
  }

  /** Names of all tables. */
  async tableNames(): Promise<readonly string[]> {
    return (await this.#db.send(new ListTablesCommand({}))).TableNames ?? [];
  }

  /** Every item of a table, unordered. The default is the Entry table. */
  async items(table: string = TABLES.entryTable): Promise<Attributes[]> {
    const items: Attributes[] = [];
    let from: Attributes | undefined;
    do {
      const page = await this.#db.send(new ScanCommand({ TableName: table, ExclusiveStartKey: from }));
      items.push(...(page.Items ?? []));
      from = page.LastEvaluatedKey;
    } while (from !== undefined);
    return items;
  }

  /** Puts an item into the Entry table without conditions, like other software. */
  async putItem(log: LogId, position: Position, attributes: Attributes): Promise<void> {
    const item = { ...entryKey(log, position), ...attributes };
    await this.#db.send(new PutItemCommand({ TableName: TABLES.entryTable, Item: item }));
  }

  /**
   * Puts an item into the Segment table that belongs to no log.
   * @returns a function that deletes the item
   */
  async putStranger(): Promise<() => Promise<void>> {
    const Key = { S: { B: Uint8Array.of(1, 2, 3) }, N: { N: '0' } };
    await this.#db.send(new PutItemCommand({ TableName: TABLES.segmentTable, Item: Key }));
    return async () => void (await this.#db.send(new DeleteItemCommand({ TableName: TABLES.segmentTable, Key })));
  }

  async getItem(log: LogId, position: Position): Promise<Attributes> {
    const found = await this.#db.send(
      new GetItemCommand({ TableName: TABLES.entryTable, Key: entryKey(log, position) }),
    );
    if (found.Item === undefined) throw new Error(`no item at ${position.segment}/${position.entry}`);
    return found.Item;
  }

  async deleteItem(log: LogId, position: Position): Promise<void> {
    await this.#db.send(new DeleteItemCommand({ TableName: TABLES.entryTable, Key: entryKey(log, position) }));
  }

  /** The keys of a log's objects of one kind, such as `chunks`. */
  async keys(log: LogId, kind: 'chunks' | 'roots' | 'bodies' | 'archives'): Promise<string[]> {
    return (await Array.fromAsync(this.blobs.list(`logs/${log}/${kind}/`))).map(({ key }) => key);
  }

  /** An object's bytes, read from its file in the directory. */
  read(key: string): Promise<Buffer> {
    return readFile(join(this.directory, 'blobs', 'objects', key));
  }

  /**
   * Damages or removes an object.
   * @returns a function that restores the object
   */
  async harm(key: string, damage: Damage): Promise<() => Promise<void>> {
    const stored = await this.read(key);
    const harmed = damage(Buffer.from(stored));
    if (harmed === undefined) await this.blobs.delete([key]);
    else await this.blobs.put(key, harmed);
    return () => this.blobs.put(key, stored);
  }
}

/** Items as text, ordered by segment and entry, with all attributes. */
export function itemTexts(items: readonly StoredItem[]): string[] {
  const key = ({ S, N }: StoredItem) => `${Buffer.from(S?.B ?? []).toString('hex')}${N?.N?.padStart(10, '0')}`;
  return items.toSorted((a, b) => (key(a) < key(b) ? -1 : 1)).map(itemText);
}

function itemText(item: StoredItem): string {
  // The order of stored attributes is undefined.
  return JSON.stringify(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1)));
}

function sha256(bytes: Uint8Array | string): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** Checks the output of a failed command: exit code, one JSON document, no stack trace. */
export function refusalOf(answer: Answer): Refusal {
  expect(answer.code, answer.stderr).toBeGreaterThan(0);
  expectNoTrace(answer);
  expect(answer.stderr).not.toBe('');
  const document: { error: Refusal } = JSON.parse(answer.stdout);
  expect(answer.stdout).toBe(`${JSON.stringify(document)}\n`);
  expect(Object.keys(document)).toEqual(['error']);
  expect(Object.keys(document.error)).toEqual(['code', 'message', 'log', 'segment', 'entry', 'type', 'advice']);
  return document.error;
}

/** Expects no stack trace and no unhandled rejection. */
export function expectNoTrace({ stderr }: Pick<Answer, 'stderr'>): void {
  expect(stderr).not.toMatch(/^\s+at .+:\d+/m);
  expect(stderr).not.toMatch(/unhandled|node:internal/i);
}

/** Process ids of supervisors and engines that run for a data directory. */
export async function engineProcesses(directory: string): Promise<number[]> {
  const engines = await Promise.all(ENGINE_NAMES.map((name) => findProcesses(engineArguments(name, directory))));
  const supervisors = await findProcesses([directory]);
  return [...engines.flat(), ...supervisors];
}
