import { PRICES } from '../../examples/demo/prices.ts';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { MemoryGroupStore } from '../../src/adapters/memory/group-store.ts';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { MeteredBlobStore } from '../../src/adapters/metered-blob-store.ts';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { ArchivedLogStore } from '../../src/archive/archived-log-store.ts';
import { Logs } from '../../src/client/logs.ts';
import { withFeed } from '../../src/feed/feed-log-store.ts';
import type { GroupLease, GroupProgress } from '../../src/feed/group-store.ts';
import { streamFunction } from '../../src/functions/stream-function.ts';
import { type LogId, parseLogId } from '../../src/ids/log-id.ts';
import { NO_DIVISION } from '../../src/log/division-policy.ts';
import { type Entry, RESERVED_TYPES } from '../../src/log/entry.ts';
import { encodeEntry, entryKey } from '../../src/log/item-codec.ts';
import { itemBytes } from '../../src/log/item-size.ts';
import { DEFAULT_POLICY } from '../../src/retention/retention-policy.ts';
import type { ImageChange } from '../../src/revisions/image-change.ts';
import { items } from '../../src/state/items/reducer.ts';
import { runJob } from '../../src/workers/dispatch/run-job.ts';
import { dividedFeed, FeedWriter } from '../../src/workers/feed/feed-writer.ts';
import { decodeJob } from '../../src/workers/jobs/job.ts';
import { recordRevisions } from '../../src/workers/revisions/record-revisions.ts';
import { RevisionLogs } from '../../src/workers/revisions/revision-logs.ts';
import { toLambdaRecord } from '../../test/support/deployed/lambda-records.ts';
import { Random } from '../random.ts';
import { markdownTable, type Table } from '../tables.ts';
import { BilledLogStore } from './billed-log-store.ts';
import { BilledQueue } from './billed-queue.ts';
import { MEMORY_MB } from './model.ts';
import { addWork, NO_WORK, type Work } from './work.ts';

const MILLION = 1_000_000;
/** Volumes of a month, and how many records start a function together. */
const MONTHS = [
  { volume: MILLION, batch: 1 },
  { volume: MILLION, batch: 4 },
  { volume: 1_000 * MILLION, batch: 100 },
];
/** Counted batches of a million writes: enough for a snapshot, which is due every 1,000 entries. */
const BATCHES = 1_010;
/** Counted batches of more writes. They have as many snapshots for as many entries of the feed. */
const FEW_BATCHES = 40;
/** Logs of the feed, in which the appends fall at random. */
const LOGS = 1_000;
/** Items of the plain table that change at random: more than the function keeps open, and fewer. */
const ITEMS = [300, 50];
const START_MS = 1_767_225_600_000;
const VISIBILITY_MS = 90 * 60_000;

/** The work of a kind, with its messages to the topic. */
interface Counted {
  readonly work: Work;
  readonly published: number;
}

const NOTHING: Counted = { work: NO_WORK, published: 0 };

/** Groups in memory that count requests. Each request but a read is one write unit. */
class BilledGroups extends MemoryGroupStore {
  writes = 0;

  override async take(...given: Parameters<MemoryGroupStore['take']>): ReturnType<MemoryGroupStore['take']> {
    this.writes++;
    return super.take(...given);
  }

  override async save(name: string, lease: GroupLease, progress: GroupProgress): Promise<boolean> {
    this.writes++;
    return super.save(name, lease, progress);
  }

  override async release(name: string, owner: string, progress: GroupProgress): Promise<void> {
    this.writes++;
    await super.release(name, owner, progress);
  }
}

/** Tables, a bucket and a queue in memory, which count requests and units as AWS does. */
class CountedStores {
  nowMs = START_MS;
  readonly items = new MemoryLogStore();
  readonly tables = new BilledLogStore(this.items, () => undefined);
  readonly feedTable = new BilledLogStore(new MemoryLogStore(), () => undefined);
  readonly blobs = new MeteredBlobStore(new MemoryBlobStore(() => this.nowMs));
  readonly queue = new BilledQueue({ now: () => this.nowMs });
  readonly groups = new BilledGroups();
  readonly both = withFeed(this.tables, this.feedTable);
  readonly store = new ArchivedLogStore(this.both, { blobs: this.blobs, platform: nativePlatform });
  readonly random = new Random(7);
  published = 0;
  /** Items that the consumer has read. */
  read = 0;

  open(): Logs {
    return new Logs({
      store: this.store,
      tables: this.both,
      blobs: this.blobs,
      feedGroups: this.groups,
      platform: nativePlatform,
      now: () => this.nowMs,
      random: () => this.random.next(),
      // Leases are not renewed: a consumer works for less than a second.
      sleep: async (_, signal) => {
        if (signal !== undefined) await new Promise((resolve) => signal.addEventListener('abort', resolve));
      },
      newLogId: () => logOf(0),
    });
  }

  async during(counted: Counted, invocations: number, work: () => Promise<unknown>): Promise<Counted> {
    const [before, published, started] = [this.#counts(), this.published, performance.now()];
    await work();
    const milliseconds = performance.now() - started;
    const after = { ...this.#counts(), milliseconds, invocations };
    return {
      work: addWork(counted.work, addWork(after, before, -1)),
      published: counted.published + this.published - published,
    };
  }

  #counts(): Work {
    const { puts, gets, lists } = this.blobs.usage();
    const tables = addWork({ ...NO_WORK, ...this.tables.counts }, { ...NO_WORK, ...this.feedTable.counts });
    const { writes } = this.groups;
    const groups = { ...NO_WORK, requests: writes, writeUnits: writes };
    return addWork(tables, { ...groups, puts, gets, lists, queueRequests: this.queue.requests });
  }
}

/** The cost of the feed in a month, from counted requests. */
export async function feedCosts(requestMs: number): Promise<Table> {
  const rows: string[][] = [];
  let snapshots = NOTHING;
  for (const { volume, batch } of MONTHS) {
    const batches = volume === MILLION ? BATCHES : FEW_BATCHES;
    const run = await runFeed(batch, batches);
    const { writing, consumer } = run;
    const times = volume / (batches * batch);
    if (batches === BATCHES) snapshots = run.snapshots;
    const first = [count(volume), count(batch)];
    rows.push([...first, 'stream function', ...figures(writing, { times, requestMs, memoryMb: MEMORY_MB.stream })]);
    rows.push([
      ...first,
      'snapshots of the feed',
      ...figures(snapshots, { times: volume / (BATCHES * batch), requestMs, memoryMb: MEMORY_MB.jobs }),
    ]);
    rows.push([...first, 'each consumer', ...figures(consumer, { times, requestMs, memoryMb: MEMORY_MB.stream })]);
  }
  return { title: 'The feed in a month', head: ['appends', 'records a batch', 'for', ...FIGURES], rows };
}

/** The cost of revisions in a month, from counted requests. */
export async function revisionCosts(requestMs: number): Promise<Table> {
  const rows: string[][] = [];
  for (const { volume, batch } of MONTHS) {
    for (const busy of ITEMS) {
      const counted = await runRevisions(batch, busy);
      const times = volume / (FEW_BATCHES * batch);
      const name = `writes to ${count(busy)} items`;
      rows.push([
        count(volume),
        count(batch),
        name,
        ...figures(counted, { times, requestMs, memoryMb: MEMORY_MB.stream }),
      ]);
    }
  }
  return {
    title: 'Revisions of a plain table in a month',
    head: ['writes', 'records a batch', 'for', ...FIGURES],
    rows,
  };
}

/** Both tables in Markdown, as in `docs/operations.md`. */
export async function streamCostsReport(requestMs: number): Promise<string> {
  return [await feedCosts(requestMs), await revisionCosts(requestMs)].map(markdownTable).join('\n\n');
}

const FIGURES = [
  'invocations',
  'DynamoDB requests',
  'write units',
  'read units',
  'S3 PUTs',
  'S3 GETs',
  'SQS requests',
  'messages to SNS',
  'US dollars',
];

function figures(
  { work, published }: Counted,
  { times, requestMs, memoryMb }: { readonly times: number; readonly requestMs: number; readonly memoryMb: number },
): string[] {
  const { requests, writeUnits, readUnits, puts, gets, queueRequests, invocations, milliseconds } = work;
  const { dynamodb, s3, sqs, sns, lambda } = PRICES;
  const waits = (requests + puts + gets + queueRequests + published) * requestMs;
  const gigabyteSeconds = ((milliseconds + waits) / 1000) * (memoryMb / 1024);
  const millionths =
    writeUnits * dynamodb.perMillion.writeUnits +
    readUnits * dynamodb.perMillion.readUnits +
    puts * s3.perMillion.puts +
    gets * s3.perMillion.gets +
    queueRequests * sqs.perMillion.requests +
    published * sns.perMillion.publishes +
    invocations * lambda.perMillion.invocations +
    gigabyteSeconds * lambda.perMillion.gigabyteSeconds;
  const counts = [invocations, requests, writeUnits, readUnits, puts, gets, queueRequests, published];
  return [...counts.map((each) => count(each * times)), dollars((millionths * times) / 1e6)];
}

async function runFeed(batch: number, batches: number): Promise<Record<'writing' | 'snapshots' | 'consumer', Counted>> {
  const stores = new CountedStores();
  const { both, store, blobs, queue, random } = stores;
  const now = (): number => stores.nowMs;
  const logs = stores.open();
  const numbers = new Map<LogId, number>();
  for (let i = 0; i < LOGS; i++) numbers.set(await logs.client.createLog(logOf(i)), 0);
  const writer = new FeedWriter({ logs, random: () => random.next(), sleep: async () => undefined });
  await writer.add(Array.from(numbers.keys(), (log) => ({ log, position: { segment: 0, entry: 0 } })));
  const feed = stores.open().feed;
  for await (const _ of feed.consume('group')) stores.read++;
  const onStream = streamFunction({
    queue,
    types: RESERVED_TYPES,
    feed: dividedFeed(writer, queue),
    publish: async () => void stores.published++,
    report: failOnTrouble,
  });
  const deps = { tables: both, store, blobs, queue, platform: nativePlatform, types: RESERVED_TYPES, reducer: items };
  const jobs = { ...deps, now, random: () => random.next(), division: NO_DIVISION, policyOf: () => DEFAULT_POLICY };
  let [writing, snapshots, consumer] = [NOTHING, NOTHING, NOTHING];
  for (let i = 0; i < batches; i++) {
    stores.nowMs += 1000;
    const entries: Entry[] = [];
    for (let j = 0; j < batch; j++) entries.push(nextEntry(random, numbers));
    for (const entry of entries) await stores.items.putEntries([entry]);
    writing = await stores.during(writing, 1, () => onStream({ Records: entries.map(recordOf) }));
    for (;;) {
      const [message] = await queue.receive({ max: 1, visibilityMs: VISIBILITY_MS });
      if (message === undefined) break;
      snapshots = await stores.during(snapshots, 1, async () => {
        await runJob(jobs, decodeJob(message.body));
        await queue.delete(message.receipt);
      });
    }
    // A message starts a consumer, which reads up to the end.
    consumer = await stores.during(consumer, 1, async () => {
      for await (const _ of feed.consume('group')) stores.read++;
    });
  }
  return { writing, snapshots, consumer };
}

async function runRevisions(batch: number, busy: number): Promise<Counted> {
  const stores = new CountedStores();
  const source = { table: 'Orders', keyNames: ['id'], per: 'item' } as const;
  const logs = new RevisionLogs({ logs: stores.open(), source, platform: nativePlatform });
  const versions = new Map<number, number>();
  let sequence = 0;
  const change = (id: number): ImageChange => {
    const version = (versions.get(id) ?? 0) + 1;
    versions.set(id, version);
    const imageOf = (number: number) => ({
      id: { S: `order-${id}` },
      version: { N: String(number) },
      text: { S: 'x'.repeat(300) },
    });
    const place = { stream: '2026-01-01T00:00:00.000', sequence: String(++sequence) };
    const old = version === 1 ? undefined : imageOf(version - 1);
    const images = { keys: { id: { S: `order-${id}` } }, newImage: imageOf(version), ...(old && { oldImage: old }) };
    return { ...place, ...images, change: 'Put', created: Math.floor(stores.nowMs / 1000) };
  };
  const record = async (changes: readonly ImageChange[]): Promise<void> => {
    const { failed } = await recordRevisions({ logs, onFailure: (error) => fail(error) }, changes);
    if (failed.length > 0) throw new Error(`${failed.length} changes were not recorded`);
  };
  for (let id = 0; id < busy; id++) await record([change(id)]);
  let counted = NOTHING;
  for (let i = 0; i < FEW_BATCHES; i++) {
    stores.nowMs += 1000;
    const changes = Array.from({ length: batch }, () => change(stores.random.below(busy)));
    counted = await stores.during(counted, 1, () => record(changes));
  }
  return counted;
}

function nextEntry(random: Random, numbers: Map<LogId, number>): Entry {
  const log = logOf(random.below(LOGS));
  const entry = (numbers.get(log) ?? 0) + 1;
  numbers.set(log, entry);
  const body = { format: 'bytes', bytes: new Uint8Array(400) } as const;
  return { log, position: { segment: 0, entry }, type: 'Set', version: 1, created: START_MS / 1000, body };
}

function recordOf(entry: Entry) {
  const keys = entryKey(entry.log, entry.position);
  const newImage = encodeEntry(entry);
  const common = { eventId: '', eventName: 'INSERT', sequenceNumber: '1' } as const;
  return toLambdaRecord({ ...common, bytes: itemBytes(newImage), keys, newImage });
}

function logOf(number: number): LogId {
  return parseLogId(`0192f7a0-5b1c-7d3e-8f10-${String(number).padStart(12, '0')}`);
}

function failOnTrouble(event: object): void {
  if ('error' in event) fail(event.error);
}

function fail(error: unknown): never {
  throw new Error('the count failed', { cause: error });
}

function count(number: number): string {
  return number.toLocaleString('en-US', { maximumFractionDigits: 0 });
}

function dollars(amount: number): string {
  return amount.toLocaleString('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 2 });
}
