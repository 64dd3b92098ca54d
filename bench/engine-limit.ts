import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { DynamoDBClient, QueryCommand } from '@aws-sdk/client-dynamodb';
import pLimit from 'p-limit';
import { DynamoDbLogStore, type DynamoDbLogStoreOptions } from '../src/adapters/dynamodb/log-store.ts';
import { FilesystemBlobStore } from '../src/adapters/filesystem/blob-store.ts';
import { MeteredBlobStore } from '../src/adapters/metered-blob-store.ts';
import { nativePlatform } from '../src/adapters/platform/native.ts';
import { ArchivedLogStore } from '../src/archive/archived-log-store.ts';
import { type LogId, parseLogId } from '../src/ids/log-id.ts';
import type { Position } from '../src/ids/position.ts';
import { joinEngine } from '../src/local/engine.ts';
import { ensureTables } from '../src/local/tables.ts';
import { LogClient } from '../src/log/client.ts';
import { type Entry, RESERVED_TYPES } from '../src/log/entry.ts';
import { entryKey } from '../src/log/item-codec.ts';
import { readEntries } from '../src/log/read-entries.ts';
import { buildState } from '../src/snapshot/build.ts';
import { spreadsheet } from '../src/state/spreadsheet/reducer.ts';
import { completeSnapshot } from '../src/workers/snapshot/build-snapshot.ts';
import { type Measured, peakBytes, type Report } from './measured.ts';
import { LIMIT_ENTRIES } from './phases.ts';
import { Stopwatch } from './stopwatch.ts';
import { Workload } from './workload.ts';

const TABLES = { entryTable: 'entries', segmentTable: 'segments' };
const TRANSACTION_ENTRIES = 100;
/** As in a build: the entries of one request, and the requests that run at the same time. */
const RANGE_ENTRIES = 500;
const CONCURRENCY = 4;

/**
 * Measures a snapshot job from a real DynamoDB API to the blob store, and its parts:
 * - `build` is the whole job.
 * - `requests` sends the same queries and drops the items.
 * - `sdk-cpu` is the processor time of this process during `requests`; the database takes the rest.
 * - `fold` is the same build from entries in memory.
 */
export async function engineLimit(directory: string, rows: number): Promise<Report> {
  const engine = await joinEngine(join(directory, 'engine'));
  const client = new DynamoDBClient({
    endpoint: engine.endpoint,
    region: 'local',
    credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
  });
  try {
    await ensureTables(client, TABLES);
    return await measure(client, directory, new Workload(rows));
  } finally {
    client.destroy();
    await engine.leave();
  }
}

async function measure(client: DynamoDBClient, directory: string, workload: Workload): Promise<Report> {
  let requests = 0;
  const options = { client, ...TABLES, meter: () => requests++ };
  const store = new DynamoDbLogStore(options);
  const blobs = new MeteredBlobStore(new FilesystemBlobStore(join(directory, 'blobs'), { fsync: false }));
  const { log, position } = await fill(store, blobs, workload);

  requests = 0;
  const whole = new ArchivedLogStore(store, { blobs, platform: nativePlatform });
  const stores = { store: whole, tables: store, blobs, platform: nativePlatform, types: RESERVED_TYPES };
  const deps = { ...stores, reducer: spreadsheet, now: Date.now };
  const clock = new Stopwatch();
  const { outcome } = await clock.time(() => completeSnapshot(deps, { kind: 'snapshot', log, position }));
  if (outcome !== 'built') throw new Error(`the snapshot job ended with '${outcome}' instead of 'built'`);
  const { gets, puts, bytesWritten } = blobs.usage();
  const build = {
    seconds: clock.seconds,
    cpuSeconds: clock.cpuSeconds,
    bytes: bytesWritten,
    objects: puts,
    requests: requests + gets + puts,
  };

  const alone = await measureRequests(client, log, position);
  const fold = await measureFold(options, blobs, { log, position });
  const results = Object.entries({ build, ...alone, fold }).map(([system, measured]) => ({ system, ...measured }));
  return { results, peakBytes: peakBytes() };
}

/** Appends the entries and a Snapshot entry. Returns the position of the Snapshot entry. */
async function fill(store: DynamoDbLogStore, blobs: MeteredBlobStore, workload: Workload): Promise<Place> {
  const client = new LogClient({
    store: new ArchivedLogStore(store, { blobs, platform: nativePlatform }),
    tables: store,
    blobs,
    now: Date.now,
    random: Math.random,
    sleep: (ms) => sleep(ms),
    newLogId: () => parseLogId(randomUUID()),
  });
  const log = await client.createLog();
  let appended = 0;
  for (const page of workload.pages('shuffled')) {
    if (appended === LIMIT_ENTRIES) break;
    for (let from = 0; from < page.length; from += TRANSACTION_ENTRIES) {
      await client.addEntries(log, page.slice(from, from + TRANSACTION_ENTRIES));
    }
    appended += page.length;
  }
  const { position } = await client.addSnapshot(log);
  return { log, position };
}

interface Place {
  readonly log: LogId;
  readonly position: Position;
}

async function measureRequests(
  client: DynamoDBClient,
  log: LogId,
  { segment, entry: end }: Position,
): Promise<Record<'requests' | 'sdk-cpu', Measured>> {
  const limit = pLimit(CONCURRENCY);
  let bytes = 0;
  let requests = 0;
  const query = async (from: number): Promise<void> => {
    const first = entryKey(log, { segment, entry: from });
    const last = entryKey(log, { segment, entry: Math.min(from + RANGE_ENTRIES, end) - 1 });
    const output = await client.send(
      new QueryCommand({
        TableName: TABLES.entryTable,
        KeyConditionExpression: 'S = :s AND N BETWEEN :first AND :last',
        ExpressionAttributeValues: { ':s': first.S, ':first': first.N, ':last': last.N },
      }),
    );
    requests++;
    for (const { B } of output.Items ?? []) bytes += B?.B?.length ?? 0;
  };
  const clock = new Stopwatch();
  const starts = Array.from({ length: Math.ceil(end / RANGE_ENTRIES) }, (_, i) => i * RANGE_ENTRIES);
  await clock.time(() => Promise.all(starts.map((from) => limit(() => query(from)))));
  const { seconds, cpuSeconds } = clock;
  const counts = { cpuSeconds, bytes, objects: 0, requests };
  return { requests: { seconds, ...counts }, 'sdk-cpu': { seconds: cpuSeconds, ...counts } };
}

/** A log store that holds all entries of one segment in memory. */
class ReadLogStore extends DynamoDbLogStore {
  readonly #entries: readonly Entry[];

  constructor(options: DynamoDbLogStoreOptions, entries: readonly Entry[]) {
    super(options);
    this.#entries = entries;
  }

  override async *entries(_: LogId, { from, to }: { readonly from: number; readonly to: number }) {
    yield this.#entries.slice(from, to);
  }
}

async function measureFold(
  options: DynamoDbLogStoreOptions,
  blobs: MeteredBlobStore,
  { log, position }: Place,
): Promise<Measured> {
  const range = { from: { segment: position.segment, entry: 0 }, to: position };
  const pages = await Array.fromAsync(
    readEntries({ store: new DynamoDbLogStore(options), types: RESERVED_TYPES }, log, range),
  );
  const store = new ReadLogStore(options, pages.flat());
  const before = blobs.usage();
  const clock = new Stopwatch();
  const whole = new ArchivedLogStore(store, { blobs, platform: nativePlatform });
  const deps = { store: whole, blobs, platform: nativePlatform, types: RESERVED_TYPES, reducer: spreadsheet };
  await clock.time(() => buildState(deps, log, { at: position, only: 'beginning' }));
  const after = blobs.usage();
  const objects = after.puts - before.puts;
  const { seconds, cpuSeconds } = clock;
  return { seconds, cpuSeconds, bytes: after.bytesWritten - before.bytesWritten, objects, requests: objects };
}
