import { setTimeout } from 'node:timers/promises';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { DynamoDBStreamsClient } from '@aws-sdk/client-dynamodb-streams';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { sdkConfig } from '../../src/adapters/aws/sdk-config.ts';
import { DynamoDbGroupStore } from '../../src/adapters/dynamodb/group-store.ts';
import { DynamoDbLogStore } from '../../src/adapters/dynamodb/log-store.ts';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { MemoryJobQueue } from '../../src/adapters/memory/job-queue.ts';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import type { ArchivedLogStore } from '../../src/archive/archived-log-store.ts';
import type { FeedItem } from '../../src/client/feed.ts';
import { isFinal } from '../../src/client/log-writer.ts';
import { Logs } from '../../src/client/logs.ts';
import { FeedGroupBusyError } from '../../src/errors.ts';
import { checkpointOf } from '../../src/feed/checkpoint.ts';
import { readSpans } from '../../src/feed/feed-entry.ts';
import { FEED_LOG } from '../../src/feed/feed-log.ts';
import { withFeed } from '../../src/feed/feed-log-store.ts';
import { streamFunction } from '../../src/functions/stream-function.ts';
import { sweepFunction } from '../../src/functions/sweep-function.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { comparePositions, formatPosition, type Position, START } from '../../src/ids/position.ts';
import { StreamPoller } from '../../src/local/stream-poller.ts';
import { decodeEntryBody } from '../../src/log/body.ts';
import { type Entry, RESERVED_TYPES } from '../../src/log/entry.ts';
import type { LogStore } from '../../src/log/log-store.ts';
import { DEFAULT_POLICY } from '../../src/retention/retention-policy.ts';
import type { StreamRecord } from '../../src/workers/dispatch/route-stream-records.ts';
import { FeedWriter } from '../../src/workers/feed/feed-writer.ts';
import { rebuildFeed } from '../../src/workers/sweep/rebuild-feed.ts';
import { atRandom, type Decide, FaultyHttp } from '../support/deployed/faulty-http.ts';
import { toLambdaRecord } from '../support/deployed/lambda-records.ts';
import { fedEnds, feedEntries } from '../support/feed.ts';
import { NOON, newLogId } from '../support/logs.ts';
import { Random } from '../support/models/random.ts';
import { type FeedTruth, SeenEntries, type SeenReading } from '../support/simulation/seen-entries.ts';
import { startTestEngine, type TestEngine } from '../support/stores/engine.ts';
import { MemoryCheckpoints, shortWaits } from '../support/stores/scripted-stream.ts';
import { testDeployment } from '../support/test-deployment.ts';

const LOGS = 1_000;
/** Appends to each log, of one to three entries. */
const APPENDS = 2;
const APPENDERS = 4;
/** The share of requests that meet a fault. */
const FAULTS = 0.03;
/** How much faster than the machine's the clock of all processes goes, so that leases end soon. */
const SPEED = 10;
/** Items of a group after which the member that works is cut off. */
const CUT_ITEMS = 1_000;
/** Logs whose records never come, beside those of some batches. */
const UNSEEN_LOGS = 50;
const CONSISTENT = { consistent: true };

let engine: TestEngine;
let streams: DynamoDBStreamsClient;
let ownTables: { readonly entryTable: string; readonly segmentTable: string; readonly streamArn: string };
let feedTable: { readonly entryTable: string; readonly streamArn: string };
const blobs = new MemoryBlobStore(now);
const random = new Random(17);
const processes: Process[] = [];
const started = performance.now();

beforeAll(async () => {
  engine = await startTestEngine();
  const credentials = { accessKeyId: 'local', secretAccessKey: 'local' };
  streams = new DynamoDBStreamsClient({ endpoint: engine.endpoint, region: 'eu-central-1', credentials });
  ownTables = await engine.createTables();
  feedTable = await engine.createTables();
});
afterAll(async () => {
  for (const { client } of processes) client.destroy();
  streams.destroy();
  await engine.stop();
});

function now(): number {
  return NOON * 1000 + Math.floor((performance.now() - started) * SPEED);
}

async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  await setTimeout(ms / SPEED, undefined, { signal }).catch((error: unknown) => {
    if (signal?.aborted !== true) throw error;
  });
}

interface Stores {
  readonly tables: LogStore;
  readonly store: ArchivedLogStore;
}

function storesOn(client: DynamoDBClient): Stores {
  const { entryTable } = feedTable;
  const feed = new DynamoDbLogStore({ client, entryTable, segmentTable: entryTable });
  const tables = withFeed(new DynamoDbLogStore({ client, ...ownTables }), feed);
  return { tables, store: testDeployment({ tables, blobs }).store };
}

/** A process with its own connection, which meets faults, and its own caches. */
class Process {
  readonly client: DynamoDBClient;
  readonly http: FaultyHttp;
  readonly tables: LogStore;
  readonly logs: Logs;
  /** Whether none of its requests arrives. */
  isCutOff = false;

  /** @param attempts of each request; with few of them, whole calls fail too */
  constructor(attempts = 2, faults = FAULTS) {
    const atTimes = atRandom(processes.length, faults);
    const decide: Decide = (request, faults) =>
      this.isCutOff ? faults.find(({ name }) => name === 'connection reset') : atTimes(request, faults);
    this.http = new FaultyHttp(decide);
    const credentials = { accessKeyId: 'local', secretAccessKey: 'local' };
    const config = { endpoint: engine.endpoint, region: 'eu-central-1', credentials };
    const retries = { attempts, baseMs: 0.5, capMs: 4 };
    this.client = this.http.between(new DynamoDBClient({ ...config, ...sdkConfig({ retries }) }), 'dynamodb');
    const stores = storesOn(this.client);
    this.tables = stores.tables;
    this.logs = new Logs({
      ...stores,
      blobs,
      feedGroups: new DynamoDbGroupStore({ client: this.client, feedTable: feedTable.entryTable }),
      platform: nativePlatform,
      now,
      random: Math.random,
      sleep,
      newLogId,
    });
    processes.push(this);
  }

  writer(): FeedWriter {
    return new FeedWriter({ logs: this.logs, sleep, random: Math.random });
  }
}

/** Makes an attempt after the other, until one succeeds. */
async function persist<T>(attempt: () => Promise<T>): Promise<T> {
  for (let left = 1_000; ; left--) {
    try {
      return await attempt();
    } catch (error) {
      if (left === 0 || (isFinal(error) && !(error instanceof FeedGroupBusyError))) throw error;
      await sleep(500);
    }
  }
}

/** An item that a consumer saw, and the iteration in which it did, which began at a checkpoint. */
interface Sight {
  readonly reading: { readonly from: number };
  readonly item: FeedItem;
}

/** A consumer: a plain reader, or a group of two members. */
class Consumer {
  readonly name: string;
  readonly isGroup: boolean;
  readonly members: readonly Process[];
  readonly sights: Sight[] = [];
  readonly #stop = new AbortController();
  #following: Promise<unknown> = Promise.resolve();
  #cutOff: Process | undefined;
  /** The checkpoint at which a plain reader goes on. */
  checkpoint: number;

  constructor(name: string, { isGroup = false, from = 0 } = {}) {
    this.name = name;
    this.isGroup = isGroup;
    this.checkpoint = from;
    this.members = Array.from({ length: isGroup ? 2 : 1 }, () => new Process());
  }

  /** Whether a member was cut off, and the other one has taken over. */
  get hasChangedHands(): boolean {
    return this.#cutOff?.isCutOff === false;
  }

  /** Follows the feed, with all members. */
  follow(): void {
    this.#following = Promise.all(this.members.map((member) => this.#live(member)));
  }

  async #live(member: Process): Promise<void> {
    while (!this.#stop.signal.aborted) {
      try {
        await this.#read(member, { follow: true, signal: this.#stop.signal });
      } catch (error) {
        if (isFinal(error) && !(error instanceof FeedGroupBusyError)) throw error;
        await sleep(1_000);
      }
    }
  }

  /** Stops following, and reads up to the end that the feed has now. */
  async end(): Promise<void> {
    this.#stop.abort();
    await this.#following;
    const member = this.members.find(({ isCutOff }) => !isCutOff);
    if (member !== undefined) await persist(() => this.#read(member, {}));
  }

  async #read(member: Process, options: { readonly follow?: boolean; readonly signal?: AbortSignal }): Promise<void> {
    const { feed } = member.logs;
    const reading = { from: this.isGroup ? 0 : this.checkpoint };
    const items = this.isGroup ? feed.consume(this.name, options) : feed.read({ ...options, from: this.checkpoint });
    for await (const item of items) {
      if (!this.isGroup) this.checkpoint = item.checkpoint;
      this.sights.push({ reading, item });
      if (this.isGroup) this.#cutOffInTheMiddle(member);
    }
  }

  /** Cuts off the member that works, until the other one has taken over. */
  #cutOffInTheMiddle(member: Process): void {
    if (this.sights.length >= CUT_ITEMS && this.#cutOff === undefined) {
      this.#cutOff = member;
      member.isCutOff = true;
    } else if (this.#cutOff !== undefined && this.#cutOff !== member) this.#cutOff.isCutOff = false;
  }
}

/** Appends to logs that it shares with others, until all have their entries. */
async function append(left: { logs: number; open: LogId[] }): Promise<void> {
  const { client } = new Process().logs;
  while (left.logs + left.open.length > 0) {
    const isNew = random.next() * (APPENDS * left.logs + left.open.length) < APPENDS * left.logs;
    if (isNew) {
      left.logs--;
      // If the answer is lost, the log may be there all the same.
      const log = await persist(() => client.createLog());
      left.open.push(...Array.from({ length: APPENDS }, () => log));
    } else {
      const [log] = left.open.splice(random.below(left.open.length), 1);
      if (log === undefined) continue;
      const entries = Array.from({ length: random.integer(1, 3) }, () => {
        return { type: 'Set', version: 1, body: random.text(8) };
      });
      await persist(() => client.addEntries(log, entries));
    }
  }
}

/** The stream functions of two processes, and the deliveries that go wrong. */
class Deliveries {
  readonly #functions = [new Process(1, 0.2), new Process(1, 0.2)].map((process) =>
    streamFunction({
      queue: new MemoryJobQueue(),
      types: RESERVED_TYPES,
      feed: process.writer(),
      report: (event) => {
        if (event.kind === 'unfed' && !isFinal(event.error)) this.failed++;
        else if ('error' in event) throw event.error;
      },
    }),
  );
  readonly #unseen = new Set<string>();
  #batches = 0;
  #earlier: readonly StreamRecord[] = [];
  /** Batches that came again. */
  repeated = 0;
  /** Batches that never came. */
  lost = 0;
  /** Batches whose ends could not be fed, so that they failed. */
  failed = 0;

  /** Delivers a batch as a whole or not at all. */
  readonly deliver = async (batch: readonly StreamRecord[]): ReturnType<ReturnType<typeof streamFunction>> => {
    const records = shuffleLogs(batch.filter((record) => this.#isSeen(record)));
    this.#batches++;
    if (this.#batches % 8 === 0) {
      this.lost++;
      return { batchItemFailures: [] };
    }
    const Records = records.map(toLambdaRecord);
    const [one, two] = this.#functions.toSorted(() => random.next() - 0.5);
    if (this.#batches % 3 === 0) {
      this.repeated++;
      await two?.({ Records: [...this.#earlier, ...records].map(toLambdaRecord) });
    }
    const answers = [one?.({ Records })];
    if (this.#batches % 4 === 1) {
      this.repeated++;
      answers.push(two?.({ Records }));
    }
    this.#earlier = records;
    const [answer = { batchItemFailures: [] }] = await Promise.all(answers);
    const hasFailed = answer.batchItemFailures.length > 0;
    return { batchItemFailures: hasFailed ? batch.map((each) => ({ itemIdentifier: each.sequenceNumber })) : [] };
  };

  #isSeen({ keys }: StreamRecord): boolean {
    const name = partitionOf(keys);
    if (this.#unseen.size < UNSEEN_LOGS) this.#unseen.add(name);
    return !this.#unseen.has(name);
  }
}

function partitionOf(keys: StreamRecord['keys']): string {
  return Buffer.from(keys.S?.B ?? []).toString('hex');
}

/** The records of each log in order, and the logs in any order. */
function shuffleLogs(records: readonly StreamRecord[]): StreamRecord[] {
  const byLog = Map.groupBy(records, ({ keys }) => partitionOf(keys));
  const order = [...byLog.values()].map((of) => ({ of, at: random.next() }));
  return order.sort((a, b) => a.at - b.at).flatMap(({ of }) => of);
}

/** Starts a poller of a stream; the function that waits until it has read all of it. */
function poll(
  streamArn: string,
  handler: ConstructorParameters<typeof StreamPoller>[0]['handler'],
  batchSize = 100,
): () => Promise<void> {
  const unexpected = async (what: unknown): Promise<never> => {
    throw new Error(`unexpected: ${JSON.stringify(what)}`);
  };
  const poller = new StreamPoller({
    client: streams,
    streamArn,
    handler,
    checkpoints: new MemoryCheckpoints(),
    onDiscard: unexpected,
    onTrimmed: unexpected,
    batchSize,
    time: shortWaits,
  });
  const stop = new AbortController();
  const ended = poller.run(stop.signal);
  return async () => {
    await poller.caughtUp();
    stop.abort();
    await ended;
  };
}

/**
 * Sweeps as the deployed function does, until one sweep has read every log.
 * @returns the number of spans that it fed
 */
async function sweepAll(): Promise<number> {
  const process = new Process();
  const queue = new MemoryJobQueue();
  const feed = process.writer();
  let fed = 0;
  for (let run = 1; ; run++) {
    let failures = 0;
    const onSchedule = sweepFunction({
      tables: process.tables,
      blobs,
      queues: { snapshot: queue, maintenance: queue },
      types: RESERVED_TYPES,
      // No entry is young any more.
      now: () => now() + 3600_000,
      policy: DEFAULT_POLICY,
      feed,
      report: (event) => {
        if (event.kind === 'fed') fed += event.spans;
        else if ('error' in event) failures++;
      },
    });
    const invocation = { awsRequestId: `sweep ${run}`, getRemainingTimeInMillis: () => 900_000 };
    const hasFailed = await onSchedule({}, invocation).then(
      () => false,
      (error: unknown) => {
        if (isFinal(error)) throw error;
        return true;
      },
    );
    if (!hasFailed && failures === 0) return fed;
    if (run === 100) throw new Error('each of 100 sweeps failed in part');
  }
}

/** Reads the contents of the tables, without faults. */
async function readTruth({ tables, store }: Stores): Promise<FeedTruth> {
  const segments = await Array.fromAsync(tables.allSegments());
  const logs = segments.map(({ log }) => log).filter((log) => log !== FEED_LOG);
  const entries = new Map<LogId, Entry[]>();
  for (const log of logs) {
    const range = { segment: 0, from: 0, to: 2 ** 32 };
    entries.set(log, (await Array.fromAsync(tables.entries(log, range, CONSISTENT))).flat());
  }
  const restarts = (await feedEntries(store)).filter(({ type }) => type === 'Restart');
  return {
    logs,
    restarts: restarts.map(({ position }) => checkpointOf(position)),
    entriesOf: (log) => entries.get(log) ?? [],
    numberOf: (log, position) => {
      const number = entries.get(log)?.findIndex((entry) => comparePositions(entry.position, position) === 0) ?? -1;
      if (number < 0) throw new Error(`the feed has ${log}/${formatPosition(position)}, which does not exist`);
      return number;
    },
  };
}

/** The last entry of each log that the feed has before a checkpoint. */
async function fedBefore({ store }: Stores, checkpoint: number): Promise<Map<LogId, Position>> {
  const before = (await feedEntries(store)).filter(({ position }) => checkpointOf(position) < checkpoint);
  const spans = before.flatMap((entry) => (entry.type === 'Appends' ? readSpans(decodeEntryBody(entry)) : []));
  return new Map(spans.map(({ log, to }) => [log, to]));
}

/**
 * Checks all that a consumer saw.
 * @param before the last entry of each log that the feed had before the consumer's first checkpoint
 */
function check(consumer: Consumer, truth: FeedTruth, before: ReadonlyMap<LogId, Position>): SeenEntries {
  const seen = new SeenEntries(consumer.name, truth);
  for (const [log, to] of before) seen.skip(log, to);
  const readings = new Map<object, SeenReading>();
  for (const { reading, item } of consumer.sights) {
    const of = readings.get(reading) ?? seen.reading(reading.from);
    readings.set(reading, of);
    of.see(item);
  }
  return seen;
}

/** Every checkpoint that each group saved, in order, from the stream of the feed's table. */
async function savedCheckpoints(): Promise<Map<string, number[]>> {
  const saved = new Map<string, number[]>();
  await poll(
    feedTable.streamArn,
    async (records) => {
      for (const { newImage } of records) {
        const [name, checkpoint] = [newImage?.G?.S, newImage?.K?.N];
        if (name === undefined || checkpoint === undefined) continue;
        saved.set(name, [...(saved.get(name) ?? []), Number(checkpoint)]);
      }
      return { batchItemFailures: [] };
    },
    1_000,
  )();
  return saved;
}

test('ten consumers see every entry of 1,000 logs in order, whatever fails', { tags: ['I10'] }, async () => {
  const early = ['from the start', 'from the start too', 'once more'].map((name) => new Consumer(name));
  const groups = ['billing', 'search', 'mail', 'audit'].map((name) => new Consumer(name, { isGroup: true }));
  const consumers = [...early, ...groups];
  for (const consumer of consumers) consumer.follow();
  const deliveries = new Deliveries();
  const caughtUp = poll(ownTables.streamArn, deliveries.deliver);

  const left = { logs: LOGS, open: [] };
  const appending = Array.from({ length: APPENDERS }, () => append(left));
  const plain = storesOn(engine.client);
  const froms = new Map<Consumer, number>();
  for (const share of [0.4, 0.8]) {
    while (left.logs > LOGS * (1 - share)) await setTimeout(20);
    const from = await persist(() => new Process().logs.feed.end());
    const consumer = new Consumer(`from ${share}`, { from });
    froms.set(consumer, from);
    consumers.push(consumer);
    consumer.follow();
  }
  await Promise.all(appending);
  await caughtUp();
  expect(await sweepAll()).toBeGreaterThanOrEqual(UNSEEN_LOGS);
  consumers.push(new Consumer('late'));
  await Promise.all(consumers.map((consumer) => consumer.end()));

  const truth = await readTruth(plain);
  expect(consumers.length).toBe(10);
  expect(truth.logs.length).toBeGreaterThanOrEqual(LOGS);
  for (const consumer of consumers) {
    const seen = check(consumer, truth, await fedBefore(plain, froms.get(consumer) ?? 0));
    expect(seen.missing()).toEqual([]);
  }
  expect(groups.every(({ hasChangedHands }) => hasChangedHands)).toBe(true);
  expect(Math.min(deliveries.repeated, deliveries.lost, deliveries.failed)).toBeGreaterThan(0);

  const writer = new Process();
  const rebuilt = await persist(() =>
    rebuildFeed({
      tables: writer.tables,
      blobs,
      types: RESERVED_TYPES,
      now,
      policyOf: () => DEFAULT_POLICY,
      feed: writer.writer(),
      // The sweep after it feeds what this one could not read.
      onFailure: () => undefined,
    }),
  );
  await sweepAll();
  const again = new Consumer('from the restart', { from: rebuilt.from });
  // A reader, a group and the late reader go on into the restarted feed.
  const restarted = [again, ...consumers.filter((_, i) => i % 5 === 4), ...early.slice(0, 1)];
  await Promise.all(restarted.map((consumer) => consumer.end()));
  const rebuiltTruth = await readTruth(plain);
  expect(rebuiltTruth.restarts).toContain(rebuilt.from);
  for (const consumer of restarted) {
    const seen = check(consumer, rebuiltTruth, new Map());
    expect(seen.missing()).toEqual([]);
  }
  const ends = truth.logs.map((log) => [log, truth.entriesOf(log).at(-1)?.position ?? START] as const);
  expect(await fedEnds(plain.store)).toEqual(Object.fromEntries(ends.map(([log, end]) => [log, formatPosition(end)])));

  const saved = await savedCheckpoints();
  expect([...saved.keys()].sort()).toEqual(groups.map(({ name }) => name).sort());
  for (const checkpoints of saved.values()) {
    expect(checkpoints.length).toBeGreaterThan(3);
    expect(checkpoints).toEqual(checkpoints.toSorted((a, b) => a - b));
  }
});
