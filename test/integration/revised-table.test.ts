import { mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  BatchWriteItemCommand,
  DeleteItemCommand,
  DynamoDBClient,
  PutItemCommand,
  UpdateItemCommand,
} from '@aws-sdk/client-dynamodb';
import { DynamoDBStreamsClient } from '@aws-sdk/client-dynamodb-streams';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DynamoDbLogStore } from '../../src/adapters/dynamodb/log-store.ts';
import { DynamoDbSourceItems } from '../../src/adapters/dynamodb/source-items.ts';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { decodeItemLine, encodeItemLine } from '../../src/archive/item-line.ts';
import { Logs } from '../../src/client/logs.ts';
import { fromLambdaChange } from '../../src/functions/lambda-change.ts';
import { joinEngine } from '../../src/local/engine.ts';
import { StreamRequests } from '../../src/local/stream-requests.ts';
import { ensureTables } from '../../src/local/tables.ts';
import type { Item } from '../../src/log/attribute.ts';
import type { ImageChange } from '../../src/revisions/image-change.ts';
import type { SourceTable } from '../../src/revisions/source-table.ts';
import { readItemRevision } from '../../src/state/items/edit.ts';
import { itemKey } from '../../src/state/items/item-key.ts';
import { ITEMS_MAP, items } from '../../src/state/items/reducer.ts';
import { compareTable } from '../../src/workers/revisions/compare-table.ts';
import { exportTable } from '../../src/workers/revisions/export-table.ts';
import { recordRevisions } from '../../src/workers/revisions/record-revisions.ts';
import { RevisionLogs } from '../../src/workers/revisions/revision-logs.ts';
import { completeSnapshot } from '../../src/workers/snapshot/build-snapshot.ts';
import { toLambdaChange } from '../support/deployed/lambda-records.ts';
import { Random } from '../support/models/random.ts';
import { createItemTable } from '../support/stores/item-table.ts';
import { clientConfig } from '../support/stores/shared-engine.ts';
import { testDeployment } from '../support/test-deployment.ts';

const CHANGES = 10_000;
const ITEMS = 40;
const OWNERS = 8;
const KEY_NAMES = ['owner', 'number'] as const;
const KEYS = { owner: 'S', number: 'N' } as const;

/** A change as the test made it: the item after it, as a line; undefined after a removal. */
interface Made {
  readonly key: string;
  readonly line: string | undefined;
}

/** A plain table in the engine, the changes that were made, and the records of its stream. */
class ChangedTable {
  readonly name: string;
  readonly made: Made[] = [];
  readonly #client: DynamoDBClient;
  readonly #streams: DynamoDBStreamsClient;
  readonly #streamArn: string;
  readonly #random: Random;
  readonly #present = new Map<string, Item>();

  private constructor(client: DynamoDBClient, endpoint: string, name: string, streamArn: string) {
    this.#client = client;
    this.#streams = new DynamoDBStreamsClient(clientConfig(endpoint));
    this.name = name;
    this.#streamArn = streamArn;
    this.#random = new Random(41);
  }

  static async create(client: DynamoDBClient, endpoint: string, name: string): Promise<ChangedTable> {
    const stream = await createItemTable(client, name, { keys: KEYS, stream: 'NEW_AND_OLD_IMAGES' });
    return new ChangedTable(client, endpoint, name, stream);
  }

  /** The lines of all items as they are. */
  get lines(): string[] {
    return Array.from(this.#present.values(), encodeItemLine).sort();
  }

  /** Makes random puts, updates and deletes. Each changes something, so each gives a record. */
  async change(count: number): Promise<void> {
    for (let i = 0; i < count; i++) {
      const number = this.#random.integer(0, ITEMS - 1);
      const Key: Item = { owner: { S: `owner ${number % OWNERS}` }, number: { N: String(number) } };
      const key = encodeItemLine(Key);
      const present = this.#present.get(key);
      const TableName = this.name;
      const n = { N: String(this.made.length) };
      if (present === undefined || this.#random.chance(0.3)) {
        const item: Item = { ...Key, n, ...this.#attributes() };
        await this.#client.send(new PutItemCommand({ TableName, Item: item }));
        this.#set(key, item);
      } else if (this.#random.chance(0.7)) {
        const by = this.#random.pick(['ann', 'bob', 'cyd']);
        await this.#client.send(
          new UpdateItemCommand({
            TableName,
            Key,
            UpdateExpression: 'SET n = :n, #by = :by REMOVE tags',
            ExpressionAttributeNames: { '#by': 'by' },
            ExpressionAttributeValues: { ':n': n, ':by': { S: by } },
          }),
        );
        const { tags: _, ...others } = present;
        this.#set(key, { ...others, n, by: { S: by } });
      } else {
        await this.#client.send(new DeleteItemCommand({ TableName, Key }));
        this.#present.delete(key);
        this.made.push({ key, line: undefined });
      }
    }
  }

  /** All records of the stream, as the function gets them. */
  async records(): Promise<ImageChange[]> {
    const { signal } = new AbortController();
    const time = { now: Date.now, sleep: async () => undefined };
    const requests = new StreamRequests({ client: this.#streams, streamArn: this.#streamArn, time });
    const changes: ImageChange[] = [];
    for (const { ShardId = '' } of (await requests.shards(signal)) ?? []) {
      let next = await requests.iterator(ShardId, undefined, signal);
      while (next !== undefined) {
        const page = await requests.records(next, 1_000, signal);
        if (page === undefined || page.records.length === 0) break;
        changes.push(...page.records.map((each) => fromLambdaChange(toLambdaChange(each, this.#streamArn))));
        next = page.next;
      }
    }
    return changes;
  }

  close(): void {
    this.#streams.destroy();
  }

  #set(key: string, item: Item): void {
    this.#present.set(key, item);
    this.made.push({ key, line: encodeItemLine(item) });
  }

  #attributes(): Item {
    const random = this.#random;
    const of: readonly Item[] = [
      { text: { S: random.text(random.integer(0, 20)) } },
      { bytes: { B: new Uint8Array([random.integer(0, 255), 0]) }, none: { NULL: true } },
      { tags: { SS: ['a', 'b', random.text(3)].sort() } },
      { list: { L: [{ N: '1.5' }, { M: { deep: { BOOL: random.chance(0.5) } } }] } },
    ];
    return random.pick(of) ?? {};
  }
}

/** The revisions of a changed table, in tables of the engine. */
class Revised {
  readonly source: SourceTable;
  readonly deps;
  readonly logs: Logs;
  /** Two processes that record, which know nothing of each other. */
  readonly recorders: readonly [RevisionLogs, RevisionLogs];
  readonly #client: DynamoDBClient;

  constructor(client: DynamoDBClient, source: SourceTable, names: { entryTable: string; segmentTable: string }) {
    this.#client = client;
    this.source = source;
    const blobs = new MemoryBlobStore();
    const tables = new DynamoDbLogStore({ client, ...names });
    const random = new Random(42);
    this.deps = testDeployment({ tables, blobs, reducer: items, now: Date.now, random: () => random.next() });
    this.logs = new Logs({
      ...this.deps,
      newLogId: () => {
        throw new Error('the ids of these logs are made of keys');
      },
    });
    const recorder = () => new RevisionLogs({ logs: this.logs, source, platform: nativePlatform, most: 40 });
    this.recorders = [recorder(), recorder()];
  }

  /** Delivers records in batches, some of them twice or again later, to either process. */
  async deliver(changes: readonly ImageChange[]): Promise<void> {
    const random = new Random(43);
    let delivered = 0;
    while (delivered < changes.length) {
      const size = random.integer(1, 400);
      const from = random.chance(0.1) ? Math.max(0, delivered - random.integer(1, 600)) : delivered;
      const batch = changes.slice(from, delivered + size);
      const logs = random.pick(this.recorders);
      const { failed } = await recordRevisions({ logs }, batch);
      expect(failed).toEqual([]);
      delivered += size;
      if (random.chance(0.2)) await this.#snapshot(random, batch);
    }
  }

  /** Makes a snapshot of some logs, and may start a segment. */
  async #snapshot(random: Random, batch: readonly ImageChange[]): Promise<void> {
    for (const { keys } of batch.slice(0, 10)) {
      const log = this.recorders[0].logOf(keys);
      const { position } = await this.logs.client.addSnapshot(log);
      await completeSnapshot(this.deps, { kind: 'snapshot', log, position });
      if (random.chance(0.3)) await this.logs.client.startSegment(log);
    }
  }

  async export(at?: Date): Promise<string[]> {
    return (await Array.fromAsync(exportTable(this.deps, { at }))).sort();
  }

  async revisionsOf(keys: Item) {
    const document = await this.logs.open(this.recorders[0].logOf(keys), { reducer: items });
    const place = { map: ITEMS_MAP, key: itemKey(this.source, keys) };
    const values = await Array.fromAsync(document.history(place), ({ value }) => value);
    document.close();
    return values.map((value) => readItemRevision(value ?? null));
  }

  compare() {
    const { table, keyNames } = this.source;
    const source = new DynamoDbSourceItems({ client: this.#client, table, keyNames });
    const sleep = async () => undefined;
    return compareTable({ ...this.deps, items: source, logs: this.recorders[0], sleep }, { settleSeconds: 0 });
  }
}

let directory: string;
let engine: Awaited<ReturnType<typeof joinEngine>>;
let client: DynamoDBClient;
let table: ChangedTable;
let records: readonly ImageChange[];
/** Each record's change as the test made it, in order, with the time of the record. */
let made: readonly (Made & { readonly created: number })[];

beforeAll(async () => {
  // On a disk, stream records have an index. Without it, each write would read all of them.
  directory = await realpath(await mkdtemp(join(tmpdir(), 'logfold-revised-')));
  engine = await joinEngine(directory);
  client = new DynamoDBClient(clientConfig(engine.endpoint));
  table = await ChangedTable.create(client, engine.endpoint, 'Orders');
  await table.change(CHANGES);
  records = await table.records();
  made = table.made.map((each, i) => ({ ...each, created: records[i]?.created ?? Number.NaN }));
});
afterAll(async () => {
  table.close();
  client.destroy();
  await engine.leave();
  await rm(directory, { recursive: true });
});

/** Creates tables for the revisions of a table. */
async function createTables(name: string) {
  const names = { entryTable: `${name}-entries`, segmentTable: `${name}-segments` };
  await ensureTables(client, names);
  return names;
}

describe.each([
  { per: 'item', changes: CHANGES, times: 50 },
  { per: 'partition', changes: CHANGES / 5, times: 10 },
] as const)('a plain table with a log per $per', ({ per, changes, times }) => {
  let revised: Revised;
  const mine = () => made.slice(0, changes);

  /** The lines of the table after all changes up to a second. */
  function linesAt(seconds: number): string[] {
    const lines = new Map<string, string | undefined>();
    for (const { key, line, created } of mine()) if (created <= seconds) lines.set(key, line);
    return [...lines.values()].filter((line) => line !== undefined).sort();
  }

  function timesOfChanges(): { readonly first: number; readonly last: number } {
    return { first: mine()[0]?.created ?? 0, last: mine().at(-1)?.created ?? 0 };
  }

  beforeAll(async () => {
    const source: SourceTable = { table: table.name, keyNames: KEY_NAMES, per, actor: 'by' };
    revised = new Revised(client, source, await createTables(per));
    await revised.deliver(records.slice(0, changes));
  });

  test('every change is a revision of its item, in order, with its time', async () => {
    expect(records).toHaveLength(CHANGES);
    const expected = Map.groupBy(mine(), ({ key }) => key);
    expect(expected.size).toBe(ITEMS);
    for (const [key, ofItem] of expected) {
      const revisions = await revised.revisionsOf(decodeItemLine(key));
      const found = revisions.map(({ revision, created, item }) => ({
        revision,
        created,
        line: item && encodeItemLine(item),
      }));
      expect(found, key).toEqual(ofItem.map(({ line, created }, i) => ({ revision: i + 1, created, line })));
    }
  });

  test('an export at any time has every item as it was', async () => {
    const random = new Random(44);
    const { first, last } = timesOfChanges();
    for (let i = 0; i < times; i++) {
      const seconds = random.integer(first - 1, last);
      expect(await revised.export(new Date(seconds * 1000)), String(seconds - first)).toEqual(linesAt(seconds));
    }
    expect(await revised.export()).toEqual(linesAt(last));
  });

  test('an export that is loaded into an empty table makes it as it was', async () => {
    const { first, last } = timesOfChanges();
    const middle = Math.floor((first + last) / 2);
    const lines = await revised.export(new Date(middle * 1000));
    const copy = `Copy-${per}`;
    await createItemTable(client, copy, { keys: KEYS });
    for (let from = 0; from < lines.length; from += 25) {
      const puts = lines.slice(from, from + 25).map((line) => ({ PutRequest: { Item: decodeItemLine(line) } }));
      await client.send(new BatchWriteItemCommand({ RequestItems: { [copy]: puts } }));
    }
    const scan = new DynamoDbSourceItems({ client: client, table: copy, keyNames: KEY_NAMES });
    const pages = await Array.fromAsync(scan.scan({ index: 0, of: 1 }));
    expect(pages.flatMap((page) => page.items.map(encodeItemLine)).sort()).toEqual(linesAt(middle));
  });
});

test.each(['item', 'partition'] as const)(
  'changes that a stream lost become known gaps, with a log per %s',
  async (per) => {
    const other = await ChangedTable.create(client, engine.endpoint, `Lossy-${per}`);
    const source: SourceTable = { table: other.name, keyNames: KEY_NAMES, per };
    const revised = new Revised(client, source, await createTables(`lossy-${per}`));
    await other.change(1_000);
    const random = new Random(45);
    const kept = (await other.records()).filter(() => random.chance(0.6));
    await revised.deliver(kept);
    expect(await revised.export()).not.toEqual(other.lines);
    const { gaps } = await revised.compare();
    expect(gaps).toBeGreaterThan(10);
    expect(await revised.export()).toEqual(other.lines);
    expect(await revised.compare()).toMatchObject({ gaps: 0, failed: 0 });
    // Each revision has its number, and every change that was delivered is one of them.
    const delivered = Map.groupBy(kept, ({ keys }) => encodeItemLine(keys));
    for (const [key, changes] of delivered) {
      const revisions = await revised.revisionsOf(decodeItemLine(key));
      expect(revisions.map(({ revision }) => revision)).toEqual(revisions.map((_, i) => i + 1));
      const known = revisions.filter(({ change }) => change !== 'Gap');
      expect(known.map(({ sequence }) => sequence)).toEqual(changes.map(({ sequence }) => sequence));
    }
    other.close();
  },
);
