import type { DynamoDBRecord } from 'aws-lambda';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { MeteredBlobStore } from '../../src/adapters/metered-blob-store.ts';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { ArchivedLogStore } from '../../src/archive/archived-log-store.ts';
import type { JobEvent, StreamEvent, SweepEvent } from '../../src/functions/function-event.ts';
import type { Invocation } from '../../src/functions/invocation.ts';
import { jobsFunction } from '../../src/functions/jobs-function.ts';
import { streamFunction } from '../../src/functions/stream-function.ts';
import { sweepFunction } from '../../src/functions/sweep-function.ts';
import { type LogId, parseLogId } from '../../src/ids/log-id.ts';
import { MAX_NUMBER } from '../../src/ids/position.ts';
import { LogClient } from '../../src/log/client.ts';
import { type Entry, RESERVED_TYPES } from '../../src/log/entry.ts';
import { encodeEntry, encodeSegment, entryKey } from '../../src/log/item-codec.ts';
import { itemBytes } from '../../src/log/item-size.ts';
import { readPolicies } from '../../src/retention/policies.ts';
import { spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import type { ReceivedMessage } from '../../src/store/job-queue.ts';
import { CONDEMNED_PREFIX } from '../../src/store/keys.ts';
import type { JobDeps } from '../../src/workers/dispatch/run-job.ts';
import { decodeJob, jobQueues } from '../../src/workers/jobs/job.ts';
import { toLambdaRecord, toSqsEvent } from '../../test/support/deployed/lambda-records.ts';
import { Random } from '../random.ts';
import { BilledLogStore } from './billed-log-store.ts';
import { BilledQueue } from './billed-queue.ts';
import { Edits } from './edits.ts';
import { MONTH_DAYS, type UsageModel } from './model.ts';
import { storedBytes } from './units.ts';
import { addWork, NO_WORK, type Work } from './work.ts';

/** The kinds of work: the application's appends, and the work of the functions. */
export const KINDS = [
  'append',
  'stream',
  'divide',
  'snapshot',
  'flush',
  'archive',
  'expire',
  'collect',
  'sweep',
] as const;
export type Kind = (typeof KINDS)[number];

/** The work and storage of a deployment in a month. */
export interface Month {
  readonly work: Readonly<Record<Kind, Work>>;
  /** Bytes in both tables, on average over the month. */
  readonly tableBytes: number;
  /** Bytes in the bucket, on average over the month. */
  readonly bucketBytes: number;
}

const SECOND_MS = 1000;
const HOUR_MS = 3600 * 1000;
const DAY_HOURS = 24;
/** 2026-01-01T00:00:00Z. */
const START_MS = 1_767_225_600_000;
/** The hour of the first edit of a day, and the least time between edits. */
const MORNING_HOUR = 8;
const TYPING_MS = 10_000;
const FUNCTION_MS = 15 * 60_000;
const VISIBILITY_MS = 90 * 60_000;
const SAMPLE_EVERY_DAYS = 5;
/** DynamoDB takes up to a few days to delete expired items. */
const TTL_EVERY_DAYS = 2;
const LOG = parseLogId('0192f7a0-5b1c-7d3e-8f10-2a3b4c5d6e7f');

/**
 * A deployment in this process, with at most one log. It runs the deployed functions on a simulated
 * clock. The tables, the bucket and the queue count requests and units as AWS does.
 */
export class Deployment {
  readonly #model: UsageModel;
  #nowMs = START_MS;
  readonly #items = new MemoryLogStore();
  readonly #objects = new MemoryBlobStore(() => this.#nowMs);
  readonly #inserted: Entry[] = [];
  readonly #tables = new BilledLogStore(this.#items, (entry) => this.#inserted.push(entry));
  readonly #blobs = new MeteredBlobStore(this.#objects);
  readonly #queue = new BilledQueue({ now: () => this.#nowMs });
  readonly #edits: Edits;
  readonly #client: LogClient;
  readonly #onStream: ReturnType<typeof streamFunction>;
  readonly #onMessages: ReturnType<typeof jobsFunction>;
  readonly #onSchedule: ReturnType<typeof sweepFunction>;
  readonly #batch: DynamoDBRecord[] = [];
  #done = noWork();
  #invocations = 0;
  #log: LogId | undefined;
  #day = 0;
  #entries = 0;

  constructor(model: UsageModel) {
    this.#model = model;
    this.#edits = new Edits(model);
    const random = new Random(2);
    const now = (): number => this.#nowMs;
    const queues = { snapshot: this.#queue, maintenance: this.#queue };
    const queue = jobQueues(queues);
    const jobs: JobDeps = {
      store: new ArchivedLogStore(this.#tables, { blobs: this.#blobs, platform: nativePlatform }),
      tables: this.#tables,
      blobs: this.#blobs,
      queue,
      types: RESERVED_TYPES,
      platform: nativePlatform,
      reducer: spreadsheet,
      now,
      random: () => random.next(),
      policyOf: async (log) => (await readPolicies(this.#blobs, model.policy)).of(log),
      division: model.division?.policy,
    };
    const sleep = async (): Promise<void> => undefined;
    this.#client = new LogClient({ ...jobs, tables: this.#tables, sleep, newLogId: () => LOG });
    this.#onStream = streamFunction({ ...jobs, report: failOnTrouble });
    const changeVisibility = (receipt: string, ms: number) => this.#queue.changeVisibility(receipt, ms);
    this.#onMessages = jobsFunction({ jobs: async () => jobs, report: failOnTrouble, changeVisibility });
    this.#onSchedule = sweepFunction({ ...jobs, queues, policy: model.policy, report: failOnTrouble });
  }

  /** Creates the log. */
  async createLog(): Promise<void> {
    this.#log = await this.#during('append', () => this.#client.createLog());
    await this.#doWork();
  }

  /**
   * Runs days without counting.
   * @param active whether the log is edited
   */
  async pass(days: number, active: boolean): Promise<void> {
    for (let day = 0; day < days; day++) await this.#passDay(active);
  }

  /**
   * Runs a month and counts its work.
   * @param active whether the log is edited
   */
  async month(active: boolean): Promise<Month> {
    this.#done = noWork();
    const samples: { readonly tableBytes: number; readonly bucketBytes: number }[] = [];
    for (let day = 1; day <= MONTH_DAYS; day++) {
      await this.#passDay(active);
      if (day % SAMPLE_EVERY_DAYS === 0) samples.push(await this.#stored());
    }
    const mean = (of: (sample: (typeof samples)[number]) => number): number =>
      samples.reduce((sum, sample) => sum + of(sample), 0) / samples.length;
    return {
      work: { ...this.#done },
      tableBytes: mean(({ tableBytes }) => tableBytes),
      bucketBytes: mean(({ bucketBytes }) => bucketBytes),
    };
  }

  /**
   * Appends entries, a second apart, and counts the work, also of entries that are still on their
   * way in the stream. No sweep runs.
   */
  async appends(count: number): Promise<Month['work']> {
    this.#done = noWork();
    for (let i = 0; i < count; i++) {
      this.#nowMs += SECOND_MS;
      await this.#append();
    }
    return { ...this.#done };
  }

  async #passDay(active: boolean): Promise<void> {
    const midnight = START_MS + this.#day * DAY_HOURS * HOUR_MS;
    const { entriesADay, sweepHours } = this.#model;
    const typingMs = Math.min(TYPING_MS, ((DAY_HOURS - MORNING_HOUR) * HOUR_MS) / entriesADay);
    let typed = active ? 0 : entriesADay;
    this.#edits.nextDay();
    for (let hour = 0; hour < DAY_HOURS; hour++) {
      this.#nowMs = midnight + hour * HOUR_MS;
      if (hour % sweepHours === 0) await this.#sweep();
      for (; typed < entriesADay; typed++) {
        const at = midnight + MORNING_HOUR * HOUR_MS + typed * typingMs;
        if (at >= midnight + (hour + 1) * HOUR_MS) break;
        this.#nowMs = at;
        await this.#append();
      }
    }
    this.#day++;
    if (this.#day % TTL_EVERY_DAYS === 0) this.#items.expireNow(this.#nowMs / 1000);
  }

  /** Appends an entry. Adds a snapshot or starts a segment if it is due. */
  async #append(): Promise<void> {
    const log = this.#log;
    if (log === undefined) return;
    const { snapshotEvery, segmentEvery, division } = this.#model;
    this.#entries++;
    await this.#during('append', async () => {
      await this.#client.addEntry(log, this.#edits.next());
      if (division !== undefined) return;
      if (this.#entries % segmentEvery === 0) await this.#client.startSegment(log);
      else if (this.#entries % snapshotEvery === 0) await this.#client.addSnapshot(log);
    });
    await this.#doWork();
  }

  async #sweep(): Promise<void> {
    const condemned = await Array.fromAsync(this.#objects.list(CONDEMNED_PREFIX));
    const { puts } = this.#blobs.usage();
    await this.#during('sweep', () => this.#onSchedule({}, this.#invocation()));
    // A sweep writes at most one note, for all logs together. This sets the count to exactly one,
    // so that it does not grow with the number of logs.
    const notes = 1 + puts - this.#blobs.usage().puts;
    this.#add('sweep', { ...NO_WORK, invocations: 1, listedKeys: condemned.length, puts: notes });
    await this.#doWork();
  }

  /** Routes the new stream records, then runs jobs until the queue is empty. */
  async #doWork(): Promise<void> {
    for (const entry of this.#inserted.splice(0)) await this.#route(entry);
    for (;;) {
      const [message] = await this.#queue.receive({ max: 1, visibilityMs: VISIBILITY_MS });
      if (message === undefined) return;
      await this.#work(message);
    }
  }

  /**
   * Invokes the stream function once per record, which is the maximum: a batch may have several
   * records. With a division policy, once per batch.
   */
  async #route(entry: Entry): Promise<void> {
    const { division } = this.#model;
    if (division === undefined && !RESERVED_TYPES.includes(entry.type)) return;
    const keys = entryKey(entry.log, entry.position);
    const newImage = encodeEntry(entry);
    const sequenceNumber = '1';
    const record = {
      eventId: '',
      eventName: 'INSERT',
      sequenceNumber,
      bytes: itemBytes(newImage),
      keys,
      newImage,
    } as const;
    this.#batch.push(toLambdaRecord(record));
    if (this.#batch.length < (division?.batchRecords ?? 1)) return;
    await this.#during('stream', () => this.#onStream({ Records: this.#batch.splice(0) }));
    this.#add('stream', { ...NO_WORK, invocations: 1 });
  }

  /** Invokes the jobs function once per message. */
  async #work(message: ReceivedMessage): Promise<void> {
    const { kind } = decodeJob(message.body);
    if (kind === 'rebuild') throw new Error('this deployment has no rebuild jobs');
    await this.#during(kind, async () => {
      await this.#onMessages(toSqsEvent([message]), this.#invocation());
      await this.#queue.delete(message.receipt);
    });
    // One more request for the receive, which ran before.
    this.#add(kind, { ...NO_WORK, invocations: 1, queueRequests: 1 });
  }

  #invocation(): Invocation {
    this.#invocations++;
    return { awsRequestId: `request-${this.#invocations}`, getRemainingTimeInMillis: () => FUNCTION_MS };
  }

  /** Runs work and adds its counts to its kind. */
  async #during<T>(kind: Kind, work: () => Promise<T>): Promise<T> {
    const before = this.#counted();
    const started = performance.now();
    const result = await work();
    const milliseconds = performance.now() - started;
    this.#add(kind, addWork({ ...this.#counted(), milliseconds }, before, -1));
    return result;
  }

  #add(kind: Kind, work: Work): void {
    this.#done[kind] = addWork(this.#done[kind], work);
  }

  /** All counts so far. */
  #counted(): Work {
    const { puts, gets, lists } = this.#blobs.usage();
    return { ...NO_WORK, ...this.#tables.counts, puts, gets, lists, queueRequests: this.#queue.requests };
  }

  async #stored(): Promise<{ readonly tableBytes: number; readonly bucketBytes: number }> {
    const segments = await Array.fromAsync(this.#items.allSegments());
    let tableBytes = storedBytes(segments.map(encodeSegment));
    for (const { log, segment } of segments) {
      const range = { segment, from: 0, to: MAX_NUMBER + 1 };
      for await (const items of this.#items.items(log, range)) tableBytes += storedBytes(items);
    }
    let bucketBytes = 0;
    for await (const { bytes } of this.#objects.list('')) bucketBytes += bytes;
    return { tableBytes, bucketBytes };
  }
}

/** Every failure is an error of this program. */
function failOnTrouble(event: StreamEvent | JobEvent | SweepEvent): void {
  if ('error' in event) throw event.error;
  if (event.kind === 'job' && (event.result.outcome === 'stopped' || event.result.outcome === 'refused')) {
    throw new Error(`a ${event.job.kind} job ended: ${event.result.outcome}`);
  }
}

function noWork(): Record<Kind, Work> {
  return {
    append: NO_WORK,
    stream: NO_WORK,
    divide: NO_WORK,
    snapshot: NO_WORK,
    flush: NO_WORK,
    archive: NO_WORK,
    expire: NO_WORK,
    collect: NO_WORK,
    sweep: NO_WORK,
  };
}
