import { createHash, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { S3Client } from '@aws-sdk/client-s3';
import { SQSClient } from '@aws-sdk/client-sqs';
import { SDK_RETRIES, sdkConfig } from '../../../src/adapters/aws/sdk-config.ts';
import { DynamoDbLogStore } from '../../../src/adapters/dynamodb/log-store.ts';
import { nativePlatform } from '../../../src/adapters/platform/native.ts';
import { S3BlobStore } from '../../../src/adapters/s3/blob-store.ts';
import { SqsJobQueue } from '../../../src/adapters/sqs/job-queue.ts';
import { ArchivedLogStore } from '../../../src/archive/archived-log-store.ts';
import type { LogId } from '../../../src/ids/log-id.ts';
import { formatPosition, type Position } from '../../../src/ids/position.ts';
import type { RetryLimits } from '../../../src/log/backoff.ts';
import { LogClient } from '../../../src/log/client.ts';
import { RESERVED_TYPES } from '../../../src/log/entry.ts';
import { encodeEntry, entryKey } from '../../../src/log/item-codec.ts';
import { DEFAULT_POLICY, type RetentionPolicy } from '../../../src/retention/retention-policy.ts';
import { spreadsheet } from '../../../src/state/spreadsheet/reducer.ts';
import { route } from '../../../src/workers/dispatch/route-stream-records.ts';
import { type JobDeps, type JobResult, runJob } from '../../../src/workers/dispatch/run-job.ts';
import { decodeJob, encodeJob } from '../../../src/workers/jobs/job.ts';
import { restoreSegment } from '../../../src/workers/retention/restore-segment.ts';
import { type SweepOptions, sweep } from '../../../src/workers/sweep/sweep.ts';
import { SMALL_SHAPE } from '../chunks.ts';
import { NOON, unarchived } from '../logs.ts';
import { Random } from '../models/random.ts';
import type { TestEngine } from '../stores/engine.ts';
import type { LocalAws } from '../stores/fauxqs.ts';
import { type EndState, endState } from './end-state.ts';
import type { FaultyHttp } from './faulty-http.ts';

/** As many attempts as in production, with short waits. */
export const QUICK: RetryLimits = { attempts: SDK_RETRIES.attempts, baseMs: 0.5, capMs: 4 };

const CONSISTENT = { consistent: true };
const START: Position = { segment: 0, entry: 0 };
const VISIBILITY_MS = 1_000;
/** Attempts at an operation that must succeed in the end. */
const TRIES = 50;

export interface LifeOptions {
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
export interface Failure {
  readonly what: string;
  readonly error: unknown;
}

/**
 * A deployment on a real engine and real servers, and the life of two logs in it. Faults are
 * injected between clients and servers. Operations run one after the other, and each is repeated
 * until it succeeds.
 */
export class ThrottledLife {
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
    const now = (): number => NOON * 1000;
    this.deps = {
      store: new ArchivedLogStore(tables, { blobs: this.blobs, platform: nativePlatform }),
      tables,
      blobs: this.blobs,
      queue: this.queue,
      platform: nativePlatform,
      types: RESERVED_TYPES,
      reducer: spreadsheet,
      nodes: { shape: SMALL_SHAPE },
      now,
      random: Math.random,
      policyOf: (log) => this.#policyOf(log),
    };
    this.client = new LogClient({
      store: unarchived(tables),
      tables,
      blobs: this.blobs,
      now,
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
    const store = new ArchivedLogStore(tables, { blobs, platform: nativePlatform });
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
