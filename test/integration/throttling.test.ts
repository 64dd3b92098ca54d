import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { DynamoDBClient, paginateScan } from '@aws-sdk/client-dynamodb';
import { S3Client } from '@aws-sdk/client-s3';
import { SQSClient } from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { SDK_RETRIES, sdkConfig } from '../../src/adapters/aws/sdk-config.ts';
import { DynamoDbLogStore } from '../../src/adapters/dynamodb/log-store.ts';
import { S3BlobStore } from '../../src/adapters/s3/blob-store.ts';
import { SqsJobQueue } from '../../src/adapters/sqs/job-queue.ts';
import { encodeItemLine } from '../../src/archive/item-line.ts';
import { AttemptsExhaustedError, LogfoldError } from '../../src/errors.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { formatPosition, type Position } from '../../src/ids/position.ts';
import type { RetryLimits } from '../../src/log/backoff.ts';
import { LogClient } from '../../src/log/client.ts';
import { RESERVED_TYPES } from '../../src/log/entry.ts';
import { encodeEntry, entryKey } from '../../src/log/item-codec.ts';
import { DEFAULT_POLICY, type RetentionPolicy } from '../../src/retention/retention-policy.ts';
import { spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { parseKey } from '../../src/store/keys.ts';
import { type ReplayDeps, replay } from '../../src/workers/audit/replay.ts';
import { route } from '../../src/workers/dispatch/route-stream-records.ts';
import { type JobDeps, type JobResult, runJob } from '../../src/workers/dispatch/run-job.ts';
import { decodeJob, encodeJob } from '../../src/workers/jobs/job.ts';
import { restoreSegment } from '../../src/workers/retention/restore-segment.ts';
import { completeSnapshot } from '../../src/workers/snapshot/build-snapshot.ts';
import { type SweepOptions, sweep } from '../../src/workers/sweep/sweep.ts';
import { MemoryChunks, SMALL_SHAPE } from '../support/chunks.ts';
import { FAULTS } from '../support/deployed/aws-faults.ts';
import { always, atRandom, type Decide, FaultyHttp, firstOf } from '../support/deployed/faulty-http.ts';
import { newLogId, unarchived } from '../support/logs.ts';
import { Random } from '../support/models/random.ts';
import { startTestEngine, type TestEngine } from '../support/stores/engine.ts';
import { type LocalAws, startLocalAws } from '../support/stores/fauxqs.ts';
import { streamOf } from '../support/stores/interceptor.ts';
import { testDeployment } from '../support/test-deployment.ts';

/** Everything that is left of some logs, without parts that differ in each run. */
interface EndState {
  readonly entries: readonly string[];
  /** All items of the Segment table, without the random part of archive keys. */
  readonly segments: readonly string[];
  /**
   * SHA-256 of each object. Archives have keys without the random part, and collection notes are
   * hashed without their times.
   */
  readonly objects: Readonly<Record<string, string>>;
  /** Number of entries and state hash, for each log. */
  readonly replayed: readonly string[];
}

/**
 * @throws Error if a replay differs from the newest snapshot, or if a segment has more than one
 * archive
 */
async function endState(from: {
  readonly client: DynamoDBClient;
  readonly entryTable: string;
  readonly segmentTable: string;
  readonly blobs: S3BlobStore;
  readonly logs: readonly LogId[];
  readonly deps: Omit<ReplayDeps, 'scratch'>;
}): Promise<EndState> {
  const objects: Record<string, string> = {};
  for await (const { key } of from.blobs.list('')) {
    const kind = parseKey(key)?.kind;
    const name = withoutRandom(key);
    if (name in objects) throw new Error(`two objects have the name ${name}`);
    const bytes = (await from.blobs.get(key)) ?? new Uint8Array();
    const hash = createHash('sha256').update(bytes).digest('hex');
    objects[name] = kind === 'collected' || kind === 'condemned' ? '' : hash;
  }
  const replayed: string[] = [];
  for (const log of from.logs) {
    const result = await replay({ ...from.deps, scratch: new MemoryChunks() }, log);
    if (!result.equal) throw new Error(`a replay of ${log} differs from its newest snapshot`);
    replayed.push(`${result.entries} ${result.replayed}`);
  }
  const segments = await itemLines(from.client, from.segmentTable);
  return {
    entries: await itemLines(from.client, from.entryTable),
    segments: segments.map(withoutRandom),
    objects,
    replayed,
  };
}

async function itemLines(client: DynamoDBClient, TableName: string): Promise<string[]> {
  const lines: string[] = [];
  for await (const { Items = [] } of paginateScan({ client }, { TableName })) {
    lines.push(...Items.map((item) => encodeItemLine(item)));
  }
  return lines.sort();
}

/** Removes the random part of archive keys from a text. */
function withoutRandom(text: string): string {
  return text.replace(/(\/archives\/\d+)-[0-9a-f]{32}/g, '$1');
}

/** As many attempts as in production, with short waits. */
const QUICK: RetryLimits = { attempts: SDK_RETRIES.attempts, baseMs: 0.5, capMs: 4 };

const CONSISTENT = { consistent: true };
const START: Position = { segment: 0, entry: 0 };
const VISIBILITY_MS = 1_000;
/** Attempts at an operation that must succeed in the end. */
const TRIES = 50;

interface LifeOptions {
  readonly engine: TestEngine;
  readonly aws: LocalAws;
  readonly http: FaultyHttp;
  /** The entries of the first log expire by deletion, those of the second by TTL. */
  readonly logs: readonly [LogId, LogId];
  /** {@link QUICK} by default. */
  readonly retries?: RetryLimits;
  /**
   * Number of deliveries after which a job is moved to the dead-letter queue. The default is 5, as
   * in production.
   */
  readonly maxReceives?: number;
}

/** An operation that failed and was repeated. */
interface Failure {
  readonly what: string;
  readonly error: unknown;
}

/**
 * A deployment on a real engine and real servers, and the life of two logs in it. Faults are
 * injected between clients and servers. Operations run one after the other, and each is repeated
 * until it succeeds.
 */
class ThrottledLife {
  readonly client: LogClient;
  readonly deps: JobDeps;
  readonly blobs: S3BlobStore;
  readonly queue: SqsJobQueue;
  readonly failures: Failure[] = [];
  /** Number of SDK client calls in operations that failed. */
  wasted = 0;
  readonly results: JobResult[] = [];
  /** Errors of logs that sweeps could not process. */
  readonly unswept: unknown[] = [];
  readonly #options: LifeOptions;
  readonly #names: { readonly entryTable: string; readonly segmentTable: string };
  /** Clients without faults. */
  readonly #plain: { readonly tables: DynamoDbLogStore; readonly blobs: S3BlobStore };
  readonly #queueName = `jobs-${randomUUID()}`;
  readonly #created = new Set<LogId>();
  readonly #random = new Random(3);
  #sweeps = 0;

  static async open(options: LifeOptions): Promise<ThrottledLife> {
    return new ThrottledLife(options, await options.engine.createTables());
  }

  private constructor(options: LifeOptions, names: { readonly entryTable: string; readonly segmentTable: string }) {
    const { engine, aws, http, logs, retries = QUICK, maxReceives = 5 } = options;
    this.#options = options;
    this.#names = names;
    const bucket = `bucket-${randomUUID()}`;
    aws.server.createBucket(bucket);
    const dead = aws.server.createQueue(`${this.#queueName}-dead.fifo`, { attributes: { FifoQueue: 'true' } });
    const RedrivePolicy = JSON.stringify({ deadLetterTargetArn: dead.queueArn, maxReceiveCount: maxReceives });
    const attributes = { FifoQueue: 'true', RedrivePolicy };
    const { queueUrl } = aws.server.createQueue(`${this.#queueName}.fifo`, { attributes });
    const credentials = { accessKeyId: 'test', secretAccessKey: 'test' };
    const here = { region: 'us-east-1', credentials, ...sdkConfig({ retries }) };
    const endpoint = aws.server.address;
    const dynamodb = http.between(new DynamoDBClient({ ...here, endpoint: engine.endpoint }), 'dynamodb');
    const s3 = http.between(new S3Client({ ...here, endpoint, forcePathStyle: true }), 's3');
    const sqs = http.between(new SQSClient({ ...here, endpoint, useQueueUrlAsEndpoint: false }), 'sqs');

    const tables = new DynamoDbLogStore({ client: dynamodb, ...names, batchRetries: QUICK });
    this.blobs = new S3BlobStore({ client: s3, bucket, retries: QUICK });
    this.queue = new SqsJobQueue({ client: sqs, queueUrl });
    this.#plain = {
      tables: new DynamoDbLogStore({ client: engine.client, ...names }),
      blobs: new S3BlobStore({ client: aws.s3, bucket }),
    };
    this.deps = testDeployment({
      ...{ tables, blobs: this.blobs, queue: this.queue, reducer: spreadsheet, nodes: { shape: SMALL_SHAPE } },
      policyOf: (log: LogId) => this.#policyOf(log),
    });
    this.client = new LogClient({
      ...{ store: unarchived(tables), tables, blobs: this.blobs, now: this.deps.now },
      // External bodies have the same names in every life.
      random: () => 0.5,
      sleep: (ms) => sleep(Math.min(ms, 1)),
      newLogId: () => logs.find((log) => !this.#created.has(log)) ?? logs[0],
    });
  }

  /**
   * Lives from the first entry to the last collection. Segments are snapshotted, archived and
   * expired, and one is restored.
   */
  async live(): Promise<void> {
    for (const log of this.#options.logs) await this.create(log);
    await this.#drain();
    let ends: readonly Position[] = [START, START];
    for (let segment = 0; segment < 3; segment++) {
      ends = await this.#inEach((log, i) => this.#edit(log, ends[i]));
      await this.#drain();
      ends = await this.#inEach((log, i) => this.#startSegment(log, ends[i]));
      await this.#drain();
    }
    // The second sweep expires what the first one archives.
    await this.#sweep();
    await this.#sweep();
    await this.#inEach((log) => this.#restore(log, 1));
    ends = await this.#inEach((log, i) => this.#edit(log, ends[i]));
    await this.#drain();
    await this.#sweep({ collect: true });
  }

  async create(log: LogId): Promise<void> {
    await this.#write('create', { log, position: START }, () => this.client.createLog());
    this.#created.add(log);
    await this.#route(log, START);
  }

  /** Reads the end state without faults. */
  endState(): Promise<EndState> {
    const { tables, blobs } = this.#plain;
    const { store } = testDeployment({ tables, blobs });
    const { engine, logs } = this.#options;
    return endState({ client: engine.client, ...this.#names, blobs, logs, deps: { ...this.deps, store, blobs } });
  }

  /** Number of messages in the dead-letter queues. */
  deadLetters(): number {
    return this.#messages(`${this.#queueName}-dead.fifo`);
  }

  /**
   * Appends edits of all kinds, one by one and in a batch. One of them is too large for the table.
   * Then asks for a snapshot.
   */
  async #edit(log: LogId, end: Position = START): Promise<Position> {
    const cell = (length: number) => {
      return [this.#random.integer(0, 30), this.#random.integer(0, 8), this.#random.text(length)];
    };
    const set = (count: number, length = 8) => {
      return { type: 'Set', version: 1, body: Array.from({ length: count }, () => cell(length)) };
    };
    const insert = { type: 'Insert Rows', version: 1, body: [this.#random.integer(0, 9), 1] };
    const batches = [[set(9)], [insert], Array.from({ length: 14 }, () => set(2)), [set(3, 12_000)], [set(1)]];
    let after = end;
    for (const batch of batches) {
      const last = { segment: after.segment, entry: after.entry + batch.length };
      await this.#write('append', { log, position: last }, () => this.client.addEntries(log, batch, { after }));
      after = last;
    }
    const position = { segment: after.segment, entry: after.entry + 1 };
    await this.#write('ask for a snapshot', { log, position }, () => this.client.addSnapshot(log));
    await this.#route(log, position);
    return position;
  }

  async #startSegment(log: LogId, end: Position = START): Promise<Position> {
    const position = { segment: end.segment + 1, entry: 0 };
    await this.#write('start a segment', { log, position }, () => this.client.startSegment(log));
    await this.#route(log, position);
    return position;
  }

  /** Routes the insertion of a Snapshot entry like the stream. */
  async #route(log: LogId, position: Position): Promise<void> {
    const entry = await this.#plain.tables.getEntry(log, position, CONSISTENT);
    if (entry === undefined) throw new Error(`no entry at ${formatPosition(position)}`);
    const keys = entryKey(log, position);
    const record = {
      eventId: 'e',
      eventName: 'INSERT',
      sequenceNumber: '1',
      keys,
      newImage: encodeEntry(entry),
    } as const;
    await this.#retry('route', async () => {
      const report = (_: unknown, error: unknown): void => {
        this.failures.push({ what: 'record', error });
      };
      const { batchItemFailures } = await route({ queue: this.queue, types: RESERVED_TYPES, report }, [record]);
      if (batchItemFailures.length > 0) throw new Error('the record failed');
    });
  }

  async #sweep(options: SweepOptions = {}): Promise<void> {
    const run = ++this.#sweeps;
    const send: Parameters<typeof sweep>[0]['send'] = async (job) => {
      const body = encodeJob(job);
      const deduplicationId = `${run}:${createHash('sha256').update(body).digest('hex')}`;
      await this.queue.send({ group: job.log, deduplicationId, body });
    };
    const onFailure = (_: unknown, error: unknown) => this.unswept.push(error);
    const deps = { ...this.deps, policyOf: (log: LogId) => this.#policyOf(log), send, onFailure };
    await this.#retry('sweep', () => sweep(deps, options));
    await this.#drain();
  }

  async #restore(log: LogId, segment: number): Promise<void> {
    await this.#retry('restore', () => restoreSegment(this.deps, { log, segment }, { holdSeconds: 3600 }));
  }

  /** Runs jobs until none is left. */
  async #drain(): Promise<void> {
    while (this.#messages(`${this.#queueName}.fifo`) > 0) await this.#retry('consume', () => this.#consume());
  }

  async #consume(): Promise<void> {
    const [message] = await this.queue.receive({ max: 1, visibilityMs: VISIBILITY_MS });
    if (message === undefined) return sleep(20);
    const job = decodeJob(message.body);
    const from = this.#options.http.sent.length;
    try {
      this.results.push(await runJob(this.deps, job));
    } catch (error) {
      this.#failed({ what: job.kind, error }, from);
      return this.queue.changeVisibility(message.receipt, 0);
    }
    await this.queue.delete(message.receipt);
  }

  /**
   * Appends to a log that has no other writer. After a failure it first checks whether the entries
   * were written anyway.
   */
  #write(
    what: string,
    { log, position }: { readonly log: LogId; readonly position: Position },
    write: () => Promise<unknown>,
  ): Promise<void> {
    return this.#retry(what, async (number) => {
      const isThere = number > 1 && (await this.#plain.tables.getEntry(log, position, CONSISTENT)) !== undefined;
      if (!isThere) await write();
    });
  }

  async #retry(what: string, attempt: (number: number) => Promise<unknown>): Promise<void> {
    for (let number = 1; ; number++) {
      const from = this.#options.http.sent.length;
      try {
        await attempt(number);
        return;
      } catch (error) {
        this.#failed({ what, error }, from);
        if (number === TRIES) throw error;
      }
    }
  }

  #failed(failure: Failure, from: number): void {
    this.failures.push(failure);
    this.wasted += this.#options.http.invocations(from).length;
  }

  async #inEach<T>(work: (log: LogId, index: number) => Promise<T>): Promise<T[]> {
    const results: T[] = [];
    for (const [i, log] of this.#options.logs.entries()) results.push(await work(log, i));
    return results;
  }

  #policyOf(log: LogId): RetentionPolicy {
    const expire = log === this.#options.logs[0] ? 'delete' : 'ttl';
    return { ...DEFAULT_POLICY, keepSegments: 2, keepDays: 0, graceSeconds: 0, expire, keepSnapshots: 'last' };
  }

  #messages(queue: string): number {
    const found = this.#options.aws.server.inspectQueue(queue)?.messages;
    if (found === undefined) throw new Error(`no queue ${queue}`);
    return found.ready.length + found.delayed.length + found.inflight.length;
  }
}

const MIB = 1024 * 1024;
const LOGS: readonly [LogId, LogId] = [newLogId(), newLogId()];
const SET = { type: 'Set', version: 1, body: [[0, 0, 'once']] };

let engine: TestEngine;
let aws: LocalAws;

beforeAll(async () => {
  engine = await startTestEngine();
  aws = await startLocalAws();
});
afterAll(async () => {
  await engine.stop();
  await aws.stop();
});

interface Stage {
  readonly life: ThrottledLife;
  readonly http: FaultyHttp;
  /** Sets the faults from now on. */
  readonly set: (decide: Decide) => void;
}

/** Opens a deployment without faults. */
async function open(options: Partial<LifeOptions> = {}): Promise<Stage> {
  let decide: Decide = () => undefined;
  const http = new FaultyHttp((request, faults) => decide(request, faults));
  const life = await ThrottledLife.open({ engine, aws, http, logs: LOGS, ...options });
  const set = (next: Decide): void => {
    http.sent.length = 0;
    decide = next;
  };
  return { life, http, set };
}

describe('the life of two logs while AWS throttles, fails and loses answers', () => {
  const met = new Set<string>();
  /** The end state of a life without faults. */
  let plain: EndState;
  let plainCalls: number;

  beforeAll(async () => {
    const { life, http } = await open();
    await life.live();
    plain = await life.endState();
    plainCalls = calls(http);
    expect(life.failures).toEqual([]);
  });

  /** Counts the calls of clients, except those that poll a queue. */
  function calls(http: FaultyHttp): number {
    return http.invocations().filter(([first]) => first?.operation !== 'ReceiveMessage').length;
  }

  function check({ life, http }: Stage, end: EndState, { attempts } = QUICK): void {
    expect(end).toEqual(plain);
    expect(life.unswept).toEqual([]);
    expect(life.deadLetters()).toBe(0);
    const bad = life.results.filter(({ outcome }) => outcome === 'stopped' || outcome === 'refused');
    expect(bad).toEqual([]);
    const lasting = life.failures.filter(({ error }) => error instanceof LogfoldError && error.stopsLog);
    expect(lasting).toEqual([]);

    for (const requests of http.invocations()) {
      // The SDK sends a request again only after a fault, once per fault, up to a limit.
      const [, ...again] = requests.toReversed();
      expect(again.every(({ fault }) => fault?.seenBy === 'sdk')).toBe(true);
      expect(requests.map(({ attempt }) => attempt)).toEqual(requests.map((_, i) => i + 1));
      expect(requests.length).toBeLessThanOrEqual(attempts);
    }
    // A partial answer costs one more call. So does the check of a write whose answer was lost.
    // A failed job returns its message and runs again, and its calls in flight are wasted.
    const more = http.sent.filter(({ fault }) => fault?.carriedOut === true).length;
    expect(calls(http)).toBeLessThanOrEqual(plainCalls + more + life.wasted + 20 * life.failures.length);
    for (const { fault } of http.sent) if (fault !== undefined) met.add(fault.name);
  }

  test.each([0.05, 0.25, 0.5])(
    'it ends the same if %d of all requests meet a fault',
    { tags: ['I5'] },
    async (share) => {
      const stage = await open();
      stage.set(atRandom(7, share));
      await stage.life.live();
      check(stage, await stage.life.endState());
      const faults = stage.http.sent.filter(({ fault }) => fault !== undefined).length;
      expect(faults).toBeGreaterThan(plainCalls * share * 0.7);
    },
  );

  test('it ends the same if clients give up soon, so that jobs fail and are delivered again', async () => {
    const retries = { ...QUICK, attempts: 3 };
    const stage = await open({ retries, maxReceives: 100 });
    stage.set(atRandom(8, 0.2));
    await stage.life.live();
    expect(stage.life.failures.length).toBeGreaterThan(0);
    check(stage, await stage.life.endState(), retries);
  });

  test('it has met every kind of fault', () => {
    // This fault needs an archive of more than 8 MiB: a test below has one.
    expect(FAULTS.map(({ name }) => name).filter((name) => !met.has(name))).toEqual(['S3: error in a success']);
  });
});

describe('a single fault', () => {
  test('an entry whose answer was lost before the table throttled is not appended twice', {
    tags: ['I5', 'I8'],
  }, async () => {
    const { life, http, set } = await open();
    const [log] = LOGS;
    await life.create(log);
    set(firstOf(always('answer lost', 'PutItem', { to: 1 }), always('DynamoDB: throttling', 'PutItem')));
    await expect(life.client.addEntry(log, SET)).rejects.toMatchObject({
      code: 'STORE_UNAVAILABLE',
      cause: { name: 'ThrottlingException' },
    });
    // Only the SDK retries: the client adds no retries of its requests.
    expect(http.sent).toHaveLength(SDK_RETRIES.attempts);
    set(() => undefined);
    expect((await life.client.addEntry(log, SET)).position).toEqual({ segment: 0, entry: 2 });
  });

  test('a transaction conflict does not fail an append', async () => {
    const { life, http, set } = await open();
    const [log] = LOGS;
    await life.create(log);
    set(
      firstOf(
        always('DynamoDB: conflict', 'PutItem', { to: 2 }),
        always('DynamoDB: cancelled, TransactionConflict', 'TransactWriteItems', { to: 2 }),
      ),
    );
    await life.client.addEntry(log, SET);
    await life.client.addEntries(log, [SET, SET]);
    expect(http.sent.map(({ operation }) => operation)).toEqual([
      ...Array(3).fill('PutItem'),
      ...Array(3).fill('TransactWriteItems'),
    ]);
  });

  test.each([
    ['S3: slow down', 'SlowDown'],
    ['S3: KMS throttles, with prefix', 'KMS.ThrottlingException'],
    ['DynamoDB: throughput', 'ProvisionedThroughputExceededException'],
    ['DynamoDB: internal error', 'InternalServerError'],
    ['connection reset', 'Error'],
  ])(
    'a job that meets only this fault fails after one bounded call and does not stop its log: %s',
    async (fault, name) => {
      const { life, http, set } = await open();
      const [log] = LOGS;
      await life.create(log);
      const job = { kind: 'snapshot', log, position: { segment: 0, entry: 0 } } as const;
      set(always(fault));
      await expect(completeSnapshot(life.deps, job)).rejects.toMatchObject({
        code: 'STORE_UNAVAILABLE',
        cause: { name },
      });
      expect(http.invocations().filter((requests) => requests.length > 1)).toHaveLength(1);
      expect(http.sent.filter((sent) => sent.fault !== undefined)).toHaveLength(SDK_RETRIES.attempts);
      set(() => undefined);
      expect(await completeSnapshot(life.deps, job)).toMatchObject({ outcome: 'built' });
    },
  );

  test('a stream in parts is stored completely', async () => {
    const { life, http, set } = await open();
    set(
      firstOf(
        always('S3: slow down, by KMS', 'CreateMultipartUpload', { to: 2 }),
        always('answer lost', 'UploadPart', { to: 1 }),
        always('S3: KMS throttles', 'UploadPart', { to: 2 }),
        always('S3: error in a success', 'CompleteMultipartUpload', { to: 2 }),
      ),
    );
    const bytes = randomBytes(9 * MIB);
    await life.blobs.putStream('a', streamOf([bytes]));
    expect(hash(await life.blobs.get('a'))).toBe(hash(bytes));
    expect(
      http
        .invocations()
        .map((requests) => `${requests[0]?.operation} ${requests.length}`)
        .sort(),
    ).toEqual(['CompleteMultipartUpload 3', 'CreateMultipartUpload 3', 'GetObject 1', 'UploadPart 3', 'UploadPart 3']);
  });

  test('an object that always breaks off is unavailable, not damaged', async () => {
    const { life, http, set } = await open();
    await life.blobs.put('a', randomBytes(1000));
    set(always('S3: object breaks off'));
    await expect(life.blobs.get('a')).rejects.toBeInstanceOf(AttemptsExhaustedError);
    await expect(life.blobs.getRange('a', { last: 10 })).rejects.toBeInstanceOf(AttemptsExhaustedError);
    expect(http.sent).toHaveLength(2 * QUICK.attempts);
  });

  test('keys that S3 is too busy to delete are deleted in retries', async () => {
    const { life, http, set } = await open();
    const keys = Array.from({ length: 20 }, (_, i) => `k/${i}`);
    for (const key of keys) await life.blobs.put(key, Uint8Array.of(1));
    let busy = 3;
    const undeleted = always('S3: undeleted keys');
    set((request, faults) => (busy-- > 0 ? undeleted(request, faults) : undefined));
    await life.blobs.delete(keys);
    expect(http.sent).toHaveLength(4);
    expect(await Array.fromAsync(life.blobs.list('k/'))).toEqual([]);

    await life.blobs.put('one', Uint8Array.of(1));
    set(undeleted);
    await expect(life.blobs.delete(['one'])).rejects.toBeInstanceOf(AttemptsExhaustedError);
    expect(http.sent).toHaveLength(QUICK.attempts);
  });

  test('a request is sent again if the server accepts it and stays silent', async () => {
    let requests = 0;
    const server = createServer((_, response) => {
      requests++;
      if (requests > 1) response.end('here');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    const client = new S3Client({
      ...sdkConfig({ retries: QUICK, idleMs: 100 }),
      endpoint: `http://127.0.0.1:${port}`,
      region: 'us-east-1',
      forcePathStyle: true,
      credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    });
    try {
      const bytes = await new S3BlobStore({ client, bucket: 'b' }).get('a');
      expect(Buffer.from(bytes ?? []).toString()).toBe('here');
      expect(requests).toBe(2);
    } finally {
      client.destroy();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
  });
});

function hash(bytes: Uint8Array | undefined): string {
  return createHash('sha256')
    .update(bytes ?? '')
    .digest('hex');
}
