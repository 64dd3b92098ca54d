import { randomUUID } from 'node:crypto';
import { mkdir, readdir } from 'node:fs/promises';
import { isBuiltin } from 'node:module';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import {
  type AttributeValue,
  DescribeTableCommand,
  type DynamoDBClient,
  PutItemCommand,
  paginateScan,
  UpdateTableCommand,
  UpdateTimeToLiveCommand,
} from '@aws-sdk/client-dynamodb';
import { CreateMultipartUploadCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import { SubscribeCommand } from '@aws-sdk/client-sns';
import {
  CreateQueueCommand,
  GetQueueAttributesCommand,
  ReceiveMessageCommand,
  SendMessageCommand,
} from '@aws-sdk/client-sqs';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { FEED_LOG } from '../../src/feed/feed-log.ts';
import { type LogId, parseLogId, textLogId } from '../../src/ids/log-id.ts';
import { formatPosition, START } from '../../src/ids/position.ts';
import { ensureTables } from '../../src/local/tables.ts';
import { expiresAt } from '../../src/log/segment.ts';
import { writePolicy } from '../../src/retention/policies.ts';
import { DEFAULT_POLICY } from '../../src/retention/retention-policy.ts';
import { archiveKey, CONDEMNED_PREFIX, chunkPrefix, LOGS_PREFIX } from '../../src/store/keys.ts';
import { FeedWriter } from '../../src/workers/feed/feed-writer.ts';
import { encodeJob } from '../../src/workers/jobs/job.ts';
import { readSweepNote } from '../../src/workers/sweep/sweep-note.ts';
import { deployedFunctions } from '../support/deployed/deployed-functions.ts';
import { DeployedWorld } from '../support/deployed/deployed-world.ts';
import type { Deployment } from '../support/deployed/deployment.ts';
import { readTemplate } from '../support/deployed/template.ts';
import { notAllowed, useOfRights } from '../support/deployed/used-rights.ts';
import { SheetModel } from '../support/models/sheet-model.ts';
import { EXPIRING_ORDERS } from '../support/orders.ts';
import { expiredEntries } from '../support/segments.ts';
import { createItemTable } from '../support/stores/item-table.ts';

type DynamoDbItem = Readonly<Record<string, AttributeValue>>;

/** An attribute that an item has otherwise than its application wrote it. */
interface Difference {
  readonly log: string;
  readonly index: number;
  /** The attributes of the item in the table that differ from the written ones. */
  readonly attributes: DynamoDbItem;
}

/**
 * The table of an application that knows nothing of logfold. Its writer appends to sheets, beside
 * items of something else. It remembers what it wrote.
 */
class OrderTable {
  readonly name = 'orders';
  /** A log whose items are older than the stream. */
  readonly old = textLogId('an old one');
  readonly #written = new Map<string, DynamoDbItem>();
  readonly #sheets = new Map<LogId, SheetModel>();
  #dynamodb: DynamoDBClient | undefined;

  /**
   * Creates the table, with an old log, and switches its stream on.
   * @returns the ARN of the stream, whose records have only keys
   */
  async create(dynamodb: DynamoDBClient): Promise<string> {
    this.#dynamodb = dynamodb;
    await createItemTable(dynamodb, this.name);
    await dynamodb.send(
      new UpdateTimeToLiveCommand({
        TableName: this.name,
        TimeToLiveSpecification: { Enabled: true, AttributeName: 'expiresAt' },
      }),
    );
    await this.put(this.old, { from: 0, to: 45 });
    const StreamSpecification = { StreamEnabled: true, StreamViewType: 'KEYS_ONLY' } as const;
    await dynamodb.send(new UpdateTableCommand({ TableName: this.name, StreamSpecification }));
    await this.#write({ pk: { S: 'user#1' }, sk: { N: '0' }, name: { S: 'Ada' } });
    const { Table } = await dynamodb.send(new DescribeTableCommand({ TableName: this.name }));
    return Table?.LatestStreamArn ?? '';
  }

  /** Appends the items with these indexes, each of which sets a cell. */
  async put(log: LogId, { from, to }: { readonly from: number; readonly to: number }): Promise<void> {
    const sheet = this.#sheets.get(log) ?? new SheetModel();
    this.#sheets.set(log, sheet);
    for (let index = from; index < to; index++) {
      const text = `${log}, item ${index}`;
      sheet.apply({ type: 'Set', cells: [[index, 0, text]] });
      await this.#write({
        pk: { S: `order#${log}` },
        sk: { N: String(index) },
        type: { S: 'Set' },
        ts: { S: new Date(Date.UTC(2026, 0, 1, 0, index)).toISOString() },
        payload: { L: [{ L: [{ N: String(index) }, { N: '0' }, { S: text }] }] },
        customer: { M: { name: { S: 'Grace' }, tags: { SS: ['a', 'b'] } } },
      });
    }
  }

  /** The rows that all items of a log make. */
  rows(log: LogId): string[][] {
    return this.#sheets.get(log)?.trimmed() ?? [];
  }

  /** Compares every item with the written one. @throws Error if there are other items */
  async differences(): Promise<Difference[]> {
    const items: DynamoDbItem[] = [];
    for await (const { Items = [] } of paginateScan({ client: this.#client }, { TableName: this.name })) {
      items.push(...Items);
    }
    if (items.length !== this.#written.size) throw new Error(`${items.length} items of ${this.#written.size}`);
    return items.flatMap((item) => {
      const written = this.#written.get(nameOf(item)) ?? {};
      const names = new Set([...Object.keys(item), ...Object.keys(written)]);
      const changed = [...names].filter((name) => !isDeepStrictEqual(item[name], written[name]));
      if (changed.length === 0) return [];
      const attributes = Object.fromEntries(changed.map((name) => [name, item[name] ?? { NULL: true }]));
      return { log: (item.pk?.S ?? '').replace('order#', ''), index: Number(item.sk?.N), attributes };
    });
  }

  get #client(): DynamoDBClient {
    if (this.#dynamodb === undefined) throw new Error('the table does not exist');
    return this.#dynamodb;
  }

  async #write(Item: DynamoDbItem): Promise<void> {
    await this.#client.send(new PutItemCommand({ TableName: this.name, Item }));
    this.#written.set(nameOf(Item), Item);
  }
}

function nameOf({ pk, sk }: DynamoDbItem): string {
  return `${pk?.S} ${sk?.N}`;
}

const GRACE_SECONDS = 3600;
/** Fewer than in the template, because a test waits for all deliveries. */
const MAX_RECEIVES = 5;
/** In its last minute a function starts no work that can wait. */
const NO_TIME = { remainingMs: 59_000 };
const POLICY = {
  KeepSegments: '1',
  KeepDays: '0',
  GraceSeconds: String(GRACE_SECONDS),
  ExpireWriteUnits: '1000000',
};
const DAY_SECONDS = 24 * 3600;
/** A sweep leaves entries to the stream until they are older. */
const OLD_SECONDS = 1_000;
/**
 * Sizes of the bundles, and about 2 % more. The functions that fold have the readers of workbooks
 * with `numfmt` and `saxes`, 115 kB, which run only for imports. A larger bundle starts more
 * slowly, so raise a limit only for code that the function needs.
 */
const MAX_BYTES: Readonly<Record<string, number>> = {
  MaintainFunction: 1_062_000,
  ReplayFunction: 1_002_000,
  SnapshotFunction: 1_062_000,
  StreamFunction: 373_000,
  SweepFunction: 750_000,
};
/** The most bytes of the modules that a stack with the feed loads instead. */
const MAX_FEED_BYTES: Readonly<Record<string, number>> = {
  StreamFunction: 1_122_000,
  SweepFunction: 1_146_000,
};
const FUNCTIONS = [...deployedFunctions(readTemplate().expand()).keys()];

/** The used permissions of both deployments, for the last test. */
const use: Map<string, boolean>[] = [];

// The tests of a deployment depend on each other: each continues where the last one ended.
describe('a stack with its own tables and bucket', () => {
  let world: DeployedWorld;
  let deployment: Deployment;
  let log: LogId;
  let sheet: SheetModel;

  beforeAll(async () => {
    world = await DeployedWorld.start(async () => ({ ...POLICY, Expire: 'delete', KeepSnapshots: 'last' }));
    deployment = world.deployment;
  });

  afterAll(() => world.stop());

  test('its bundles are small, have source maps, and need no missing module', () => {
    expect([...deployment.bundles.keys()]).toEqual(FUNCTIONS);
    for (const [id, { bytes, mapBytes, sources, imports }] of deployment.bundles) {
      expect(bytes, id).toBeLessThan(MAX_BYTES[id] ?? 0);
      // Node reads the map at each start, so the map contains no sources.
      expect(mapBytes, id).toBeLessThan(2 * bytes);
      expect(
        sources.some((source) => source.endsWith('/src/errors/logfold-error.ts')),
        id,
      ).toBe(true);
      expect(sources.filter((source) => /\.node$|node-gyp-build|bindings|-extract/.test(source))).toEqual([]);
      // The bundles' directory has no such module, so the other tests show that none is loaded.
      const others = imports.filter((name) => !isBuiltin(name) && !/credential-provider/.test(name));
      expect(others, id).toEqual([]);
    }
  });

  test('it turns edits in several segments into snapshots that clients load', async () => {
    ({ log, sheet } = await world.addLog(4));
    const newest = { lastSnapshot: { segment: 3, entry: 9 }, lagEntries: 5, stopped: null };
    expect(await world.status(log)).toMatchObject(newest);
    expect(await world.rows(log)).toEqual(sheet.trimmed());
  });

  test('it archives old segments, expires them, collects garbage, and replays it all', {
    tags: ['I5'],
  }, async () => {
    const closed = [0, 1, 2];
    const segment = (number: number) => world.tables.getSegment(log, number, { consistent: true });
    const chunks = await world.keys(chunkPrefix(log));
    await world.sweepAfter(GRACE_SECONDS);
    for (const number of closed) expect(await segment(number)).toHaveProperty('archive');
    for (let times = 0; times < 4; times++) await world.sweepAfter(GRACE_SECONDS);
    for (const number of closed) {
      expect(await segment(number)).toMatchObject({ expiry: { state: 'expired', entries: 16 } });
      const range = { segment: number, from: 0, to: 1_000 };
      expect(await Array.fromAsync(world.tables.items(log, range, { consistent: true }))).toEqual([]);
    }
    const left = await world.keys(chunkPrefix(log));
    expect(left.length).toBeGreaterThan(0);
    expect(left.length).toBeLessThan(chunks.length);
    expect(await world.keys(CONDEMNED_PREFIX)).toEqual([]);
    expect(await world.rows(log)).toEqual(sheet.trimmed());
    // An invocation that Lambda killed leaves such a directory.
    await mkdir(join(deployment.temporaryDirectory('ReplayFunction'), 'logfold-scratch-left'));
    const answer = await deployment.invoke('ReplayFunction', { log });
    expect(answer).toMatchObject({ log, equal: true, position: { segment: 3, entry: 9 } });
    for (const id of FUNCTIONS) expect(await readdir(deployment.temporaryDirectory(id)), id).toEqual([]);
  });

  test('it completes a snapshot that takes several runs, flushes it, and rebuilds it', async () => {
    const large = await world.client.createLog();
    const table = new SheetModel();
    const cells = Array.from({ length: 12_000 }, (_, i) => [Math.floor(i / 10), i % 10] as const);
    await world.set(large, table, cells);
    for (let entry = 0; entry < 600; entry++) await world.set(large, table, [[2_000 + entry, 0]]);
    await world.client.addSnapshot(large);
    await deployment.deliverAll(NO_TIME);
    const few = cells.filter((_, i) => i % 4 === 0).map(([row, column]) => [row, column, 'x']);
    await world.client.addEntry(large, { type: 'Set', version: 1, body: few });
    const { position } = await world.client.addSnapshot(large);
    await deployment.deliverAll();
    expect(await world.status(large)).toMatchObject({ lastSnapshot: position, bufferedEdits: 0, stopped: null });
    // The queue drops a second copy of a job for five minutes.
    deployment.pass(300);
    await deployment.invoke('SweepFunction', { log: large, rebuild: true });
    await deployment.deliverAll(NO_TIME);
    expect(await world.status(large)).toMatchObject({ lastSnapshot: position, bufferedEdits: 0, stopped: null });
    expect(await deployment.invoke('ReplayFunction', { log: large })).toMatchObject({ equal: true });
    const outcomes = world
      .output()
      .log.filter((line) => line.log === large && line.job !== undefined && line.outcome !== undefined);
    expect(outcomes.map(({ message }) => message)).toEqual([
      'snapshot: built',
      'snapshot: progress',
      'snapshot: built',
      'snapshot: built',
      'flush: flushed',
      'rebuild: progress',
      'rebuild: rebuilt',
      'flush: flushed',
    ]);
  });

  test('it sweeps many logs in several runs, each of which continues the previous one', async () => {
    for (let count = 0; count < 12; count++) await world.client.createLog();
    await deployment.deliverAll();
    const [first] = await deployment.runSchedules(NO_TIME);
    expect(first).toHaveProperty('rest');
    expect(await readSweepNote(world.blobs)).toHaveProperty('rest');
    const [second] = await deployment.runSchedules();
    expect(second).not.toHaveProperty('rest');
    expect(await readSweepNote(world.blobs)).toBeUndefined();
    const logs = [first, second].map((answer) => z.object({ logs: z.number() }).parse(answer).logs);
    expect((logs[0] ?? 0) + (logs[1] ?? 0)).toBe(14);
  });

  test('it aborts an unfinished upload', async () => {
    const { BucketName: Bucket } = deployment.stack.outputs;
    const Key = archiveKey(log, 3, '0'.repeat(32));
    await deployment.aws.s3.send(new CreateMultipartUploadCommand({ Bucket: String(Bucket), Key }));
    expect(await Array.fromAsync(world.blobs.uploads(LOGS_PREFIX))).toMatchObject([{ key: Key }]);
    deployment.pass(25 * 3600);
    await world.sweepAfter(GRACE_SECONDS);
    expect(await Array.fromAsync(world.blobs.uploads(LOGS_PREFIX))).toEqual([]);
  });

  test('it has no dead letters and has given up nothing, so far', async () => {
    expect(await deployment.messages('DeadSnapshotJobs')).toEqual([]);
    expect(await deployment.messages('DeadMaintenanceJobs')).toEqual([]);
    expect(deployment.discarded).toEqual([]);
    expect(world.output().log.filter(({ level }) => level !== 'INFO')).toEqual([]);
  });

  test('it moves messages that are not jobs, or whose jobs fail, to the dead letters, and logs the reason', {
    tags: ['I7'],
  }, async () => {
    const job = (format: number, archived: LogId) =>
      encodeJob({ kind: 'archive', log: archived, segment: 0 }).replace('"format":2', `"format":${format}`);
    const missing = parseLogId(randomUUID());
    const sent: [queue: string, body: string, reason: RegExp][] = [
      ['SnapshotJobs', 'not JSON', /the message is not JSON/],
      ['MaintenanceJobs', '{"kind":"archive"}', /does not come from logfold/],
      ['MaintenanceJobs', job(3, log), /has format 3, and this version reads up to 2/],
      ['MaintenanceJobs', job(2, missing), /the segment does not exist/],
    ];
    await deployment.limitReceives(MAX_RECEIVES);
    const ids: string[] = [];
    for (const [queue, MessageBody] of sent) {
      const { MessageId = '' } = await deployment.aws.sqs.send(
        new SendMessageCommand({
          QueueUrl: deployment.stack.ref(queue),
          MessageBody,
          MessageGroupId: MessageBody,
          MessageDeduplicationId: randomUUID(),
        }),
      );
      ids.push(MessageId);
    }
    await deployment.deliverAll();
    // A malformed message dies without delay. A failed job or a newer message is retried.
    expect(await deployment.messages('DeadMaintenanceJobs')).toHaveLength(1);
    for (let times = 1; times <= MAX_RECEIVES; times++) {
      deployment.pass(900);
      await deployment.deliverAll();
    }
    const dead = [
      ...(await deployment.messages('DeadSnapshotJobs')),
      ...(await deployment.messages('DeadMaintenanceJobs')),
    ];
    expect(dead.map(({ Body }) => Body).sort()).toEqual(sent.map(([, body]) => body).sort());
    expect(dead.map(({ MessageId }) => MessageId).sort()).toEqual([...ids].sort());
    const { log: lines, metrics } = world.output();
    for (const [i, id] of ids.entries()) {
      const said = lines.filter(({ correlationId, level }) => correlationId === id && level === 'ERROR');
      expect(said).toHaveLength(MAX_RECEIVES);
      for (const { error } of said) expect(JSON.stringify(error)).toMatch(sent[i]?.[2] ?? /never/);
    }
    const failed = metrics.filter(({ name }) => name === 'JobsFailed').length;
    const retried = metrics.filter(({ name }) => name === 'JobRetries').length;
    expect([failed, retried]).toEqual([sent.length * MAX_RECEIVES, sent.length * (MAX_RECEIVES - 1)]);
  });

  test('its stack traces name places in the sources', async () => {
    const invoked = deployment.invoke('ReplayFunction', { log: 'no id' });
    await expect(invoked).rejects.toThrow(/\/src\/functions\/replay-function\.ts:\d+/);
  });

  test('it gives up a malformed stream record and routes the others', { tags: ['I7'] }, async () => {
    const { EntryTableName } = deployment.stack.outputs;
    const before = await world.client.createLog();
    await deployment.aws.dynamodb.send(
      new PutItemCommand({
        TableName: String(EntryTableName),
        Item: { S: { B: Uint8Array.of(1, 2, 3) }, N: { N: '7' }, T: { S: 'Snapshot' } },
      }),
    );
    const after = await world.client.createLog();
    await deployment.deliverAll();
    for (const each of [before, after]) {
      expect(await world.status(each)).toMatchObject({ lastSnapshot: { segment: 0, entry: 0 } });
    }
    expect(deployment.discarded).toMatchObject([{ records: 1 }]);
    const Bucket = deployment.stack.ref('LostRecords');
    const { KeyCount } = await deployment.aws.s3.send(new ListObjectsV2Command({ Bucket }));
    expect(KeyCount).toBe(1);
    const said = world.output().log.filter(({ message }) => message.startsWith('a stream record failed'));
    expect(new Set(said.map(({ correlationId }) => correlationId)).size).toBe(1);
    expect(JSON.stringify(said[0]?.error)).toMatch(/MESSAGE_INVALID|ITEM_INVALID/);
  });

  test('each log line has log, position, job and correlation id, and no other data', {
    tags: ['I7'],
  }, () => {
    const { log: lines } = world.output();
    const ofJobs = lines.filter(({ job }) => job !== undefined);
    expect(new Set(ofJobs.map(({ job }) => job))).toEqual(
      new Set(['snapshot', 'flush', 'archive', 'expire', 'collect', 'rebuild']),
    );
    for (const line of ofJobs) {
      expect(line.log, line.message).toMatch(/^[0-9a-f-]{36}$/);
      const wholeLog = line.job === 'collect' || line.job === 'rebuild';
      expect(wholeLog || line.position !== undefined || line.segment !== undefined, line.message).toBe(true);
    }
    const archived = lines.filter(({ message }) => message === 'archive: archived');
    for (const { hash } of archived) expect(hash).toMatch(/^[0-9a-f]{64}$/);
    // The lines show a snapshot's way from the stream record to the job, and a job's way from the
    // sweep to its end.
    const built = lines.filter(({ message }) => message === 'snapshot: built');
    for (const { log: of, position } of built) {
      expect(lines).toContainEqual(
        expect.objectContaining({ message: 'a stream record became a job', log: of, position }),
      );
    }
  });

  test('its metrics agree with its log lines', () => {
    const { log: lines, metrics } = world.output();
    const valuesOf = (name: string) => metrics.filter((metric) => metric.name === name).map(({ value }) => value);
    const sumOf = (name: string) => valuesOf(name).reduce((sum, value) => sum + value, 0);
    const sumOfLines = (pattern: RegExp, field: string) =>
      lines.filter(({ message }) => pattern.test(message)).reduce((sum, line) => sum + Number(line[field]), 0);
    const folding = /^snapshot: (built|progress)$/;
    expect(sumOf('EntriesFolded')).toBe(sumOfLines(folding, 'entries'));
    expect(sumOf('ChunksReused')).toBe(sumOfLines(folding, 'chunksRead'));
    expect(sumOf('ChunksWritten')).toBe(sumOfLines(/^(snapshot: (built|progress)|flush: flushed)$/, 'chunksWritten'));
    expect(sumOf('JobsSent')).toBe(lines.filter(({ message }) => message.startsWith('the sweep requests')).length);
    expect(sumOf('LogsStopped') + sumOf('LogsFailed') + sumOf('ReplaysDiffered')).toBe(0);
    expect(valuesOf('SnapshotLagEntries')).toHaveLength(
      lines.filter(({ message }) => message === 'snapshot: built').length,
    );
    expect(valuesOf('SnapshotLagSeconds').every((value) => value >= 0)).toBe(true);
    expect(sumOf('BuildSeconds')).toBeGreaterThan(0);
    expect(sumOf('BytesWritten')).toBeGreaterThan(0);
    expect(valuesOf('OldestUnsnapshottedSeconds').every((value) => value === 0)).toBe(true);
    const services = new Set(metrics.map(({ service }) => service));
    expect(services).toEqual(
      new Set(['stream', 'snapshot', 'maintain', 'sweep', 'replay'].map((id) => `logfold-${id}`)),
    );
  });

  test('the roles allow all requests of its functions', () => {
    use.push(useOfRights(deployment.functions, deployment.needed));
    expect(notAllowed(deployment.functions, deployment.needed)).toEqual([]);
  });
});

describe('a stack beside an existing log, whose entries expire by TTL', () => {
  let world: DeployedWorld;
  let deployment: Deployment;

  beforeAll(async () => {
    world = await DeployedWorld.start(async (engine, aws) => {
      const names = { entryTable: 'orders-entries', segmentTable: 'orders-segments' };
      const streamArn = await ensureTables(engine.client, names);
      aws.server.createBucket('snapshots');
      return {
        ...POLICY,
        EntryTableName: names.entryTable,
        EntryTableStreamArn: streamArn,
        SegmentTableName: names.segmentTable,
        BucketName: 'snapshots',
        Expire: 'ttl',
        SnapshotEveryEntries: '20',
        SegmentEveryEntries: '40',
      };
    });
    deployment = world.deployment;
  });

  afterAll(() => world.stop());

  test('it folds the log, archives it, and gives entries a TTL', async () => {
    const { log, sheet } = await world.addLog(2);
    const chunks = await world.keys(chunkPrefix(log));
    for (let times = 0; times < 4; times++) await world.sweepAfter(GRACE_SECONDS);
    const segment = await world.tables.getSegment(log, 0, { consistent: true });
    expect(segment?.archive?.key).toMatch(/\.ndjson\.zst$/);
    const pages = world.tables.items(log, { segment: 0, from: 0, to: 100 }, { consistent: true });
    const items = (await Array.fromAsync(pages)).flat();
    expect(items.map(({ X }) => X?.N)).toEqual(Array.from({ length: 16 }, () => String(segment && expiresAt(segment))));
    expect(await world.rows(log)).toEqual(sheet.trimmed());
    expect(await world.keys(chunkPrefix(log))).not.toEqual(chunks);
    expect(await deployment.invoke('ReplayFunction', { log })).toMatchObject({ equal: true });
    expect(await deployment.messages('DeadMaintenanceJobs')).toEqual([]);
  });

  test('it takes snapshots and starts segments of a log in which nothing asks for them', async () => {
    const log = await world.client.createLog();
    const sheet = new SheetModel();
    for (let row = 0; row < 25; row++) await world.set(log, sheet, [[row, 0]]);
    await deployment.deliverAll();
    expect(await world.status(log)).toMatchObject({ segments: 1, lastSnapshot: { segment: 0, entry: 26 } });
    for (let row = 25; row < 50; row++) await world.set(log, sheet, [[row, 0]]);
    await deployment.deliverAll();
    expect(await world.status(log)).toMatchObject({ segments: 2, lastSnapshot: { segment: 1, entry: 0 } });
    expect(await world.rows(log)).toEqual(sheet.trimmed());
    expect(await deployment.invoke('ReplayFunction', { log })).toMatchObject({ equal: true });
  });

  test('it deletes the entries of a log without archives, a few days later', async () => {
    const { log, sheet } = await world.addLog(2);
    const changes = { archive: false, expire: 'delete', keepDays: 2 } as const;
    await writePolicy(world.blobs, DEFAULT_POLICY, { log, change: () => changes });
    await world.sweepAfter(DAY_SECONDS);
    expect((await world.tables.getSegment(log, 0, { consistent: true }))?.expiry).toBeUndefined();
    await world.sweepAfter(DAY_SECONDS);
    await world.sweepAfter(GRACE_SECONDS);
    const segment = await world.tables.getSegment(log, 0, { consistent: true });
    expect([segment?.archive, segment && expiredEntries(segment)]).toEqual([undefined, 16]);
    const pages = world.tables.items(log, { segment: 0, from: 0, to: 100 }, { consistent: true });
    expect((await Array.fromAsync(pages)).flat()).toEqual([]);
    expect(await world.rows(log)).toEqual(sheet.trimmed());
    expect(await deployment.messages('DeadMaintenanceJobs')).toEqual([]);
  });

  test('the roles allow all requests of its functions', () => {
    use.push(useOfRights(deployment.functions, deployment.needed));
    expect(notAllowed(deployment.functions, deployment.needed)).toEqual([]);
  });
});

describe("a stack beside an application's table, whose items expire by TTL", () => {
  const orders = new OrderTable();
  let world: DeployedWorld;
  let deployment: Deployment;

  beforeAll(async () => {
    world = await DeployedWorld.start(async (engine) => {
      const streamArn = await orders.create(engine.client);
      return {
        ...POLICY,
        EntryTableName: orders.name,
        EntryTableStreamArn: streamArn,
        Mapping: JSON.stringify(EXPIRING_ORDERS),
        AdoptSchedule: 'rate(1 day)',
        Expire: 'ttl',
        SnapshotEveryEntries: '10',
        SegmentEveryEntries: '20',
      };
    });
    deployment = world.deployment;
  });

  afterAll(() => world.stop());

  test('its scan registers logs that are older than the stream, and its sweep has them folded', async () => {
    await deployment.deliverAll();
    expect(await world.tables.newestSegments(orders.old, 1, { consistent: false })).toEqual([]);
    await world.sweepAfter(GRACE_SECONDS);
    await world.sweepAfter(GRACE_SECONDS);
    expect(await world.status(orders.old)).toMatchObject({ segments: 3, stopped: null });
    expect(await world.rows(orders.old)).toEqual(orders.rows(orders.old));
    expect(await deployment.invoke('ReplayFunction', { log: orders.old })).toMatchObject({ equal: true });
  });

  test('its stream builds a snapshot after every ten items, without other writes to the table', async () => {
    const log = textLogId('2024/eu/17');
    await orders.put(log, { from: 0, to: 33 });
    await deployment.deliverAll();
    expect(await world.status(log)).toMatchObject({
      segments: 2,
      lastSnapshot: { segment: 1, entry: 11 },
      lagEntries: 3,
      stopped: null,
    });
    expect(await world.rows(log)).toEqual(orders.rows(log));
    await orders.put(log, { from: 33, to: 40 });
    await deployment.deliverAll();
    expect(await world.status(log)).toMatchObject({ segments: 3, lastSnapshot: { segment: 2, entry: 0 } });
    expect(await orders.differences()).toEqual([]);
    expect(await deployment.invoke('ReplayFunction', { log })).toMatchObject({ log, equal: true });
  });

  test('another division changes only segments to come, which the scan or the stream registers', async () => {
    const [byScan, byStream] = [textLogId('before, by scan'), textLogId('before, by stream')];
    const { mapped, tables } = world;
    if (mapped === undefined) throw new Error('the tables have no mapping');
    const putBefore = async (log: LogId): Promise<void> => {
      await orders.put(log, { from: 0, to: 5 });
      await mapped.registrar.register(log, { items: 10, snapshotEvery: 5 });
    };
    await putBefore(byStream);
    await orders.put(byStream, { from: 5, to: 10 });
    await deployment.deliverAll();
    await putBefore(byScan);
    // A scan without time for the whole table notes where it stopped.
    for (const options of [NO_TIME, {}]) await deployment.runSchedules(options);
    await orders.put(byScan, { from: 5, to: 12 });
    await deployment.runSchedules();
    await orders.put(byStream, { from: 10, to: 12 });
    await world.sweepAfter(GRACE_SECONDS);
    for (const log of [byScan, byStream]) {
      const schedules = (await tables.newestSegments(log, 2, { consistent: true })).map(({ schedule }) => schedule);
      expect(schedules).toEqual([
        { first: 10, items: 20, snapshotEvery: 10 },
        { first: 0, items: 10, snapshotEvery: 5 },
      ]);
      expect(await world.rows(log)).toEqual(orders.rows(log));
    }
    expect(await orders.differences()).toEqual([]);
  });

  test('it archives and stamps closed segments; no other attribute of any item changes', async () => {
    for (let times = 0; times < 4; times++) await world.sweepAfter(GRACE_SECONDS);
    const segment = await world.tables.getSegment(orders.old, 0, { consistent: true });
    expect(segment?.archive?.key).toMatch(/\.ndjson\.zst$/);
    const expires = segment && String(expiresAt(segment));
    const changed = await orders.differences();
    // The next segment stays until a snapshot is after the first item of the one that follows it.
    const ofOld = changed.filter(({ log }) => log === orders.old);
    expect(ofOld.map(({ index }) => index).sort((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, i) => i));
    expect(ofOld.find(({ index }) => index === 0)?.attributes).toEqual({ expiresAt: { N: expires } });
    for (const { attributes } of changed) expect(Object.keys(attributes)).toEqual(['expiresAt']);
    expect(await world.rows(orders.old)).toEqual(orders.rows(orders.old));
    expect(await deployment.invoke('ReplayFunction', { log: orders.old })).toMatchObject({ equal: true });
  });

  test('it leaves other items alone, and has no dead letters', async () => {
    expect(await deployment.messages('DeadSnapshotJobs')).toEqual([]);
    expect(await deployment.messages('DeadMaintenanceJobs')).toEqual([]);
    expect(deployment.discarded).toEqual([]);
    expect(world.output().log.filter(({ level }) => level !== 'INFO')).toEqual([]);
  });

  test('the roles allow all requests of its functions', () => {
    use.push(useOfRights(deployment.functions, deployment.needed));
    expect(notAllowed(deployment.functions, deployment.needed)).toEqual([]);
  });
});

describe('a stack with the feed of all appends', () => {
  let world: DeployedWorld;
  let deployment: Deployment;
  let queueUrl: string;
  /** A checkpoint. After it, the feed has each entry of the tables once. */
  let begin: number;

  beforeAll(async () => {
    world = await DeployedWorld.start(async () => ({ ...POLICY, Expire: 'delete', Feed: 'topic' }));
    deployment = world.deployment;
    const { sns, sqs } = deployment.aws;
    const queue = await sqs.send(new CreateQueueCommand({ QueueName: 'subscriber' }));
    queueUrl = String(queue.QueueUrl);
    const { Attributes } = await sqs.send(
      new GetQueueAttributesCommand({ QueueUrl: queueUrl, AttributeNames: ['QueueArn'] }),
    );
    const TopicArn = String(deployment.stack.outputs.FeedTopicArn);
    await sns.send(new SubscribeCommand({ TopicArn, Protocol: 'sqs', Endpoint: Attributes?.QueueArn }));
    // The state of the feed gets chunks in the bucket. No reader goes back to these logs.
    const made = Array.from({ length: 2_000 }, () => ({ log: parseLogId(randomUUID()), position: START }));
    const fed = await feedWriter().add(made);
    begin = fed.checkpoint ?? 0;
    await world.client.addSnapshot(FEED_LOG);
    deployment.pass(OLD_SECONDS);
    await deployment.runSchedules();
    await deployment.deliverAll();
  });

  afterAll(() => world.stop());

  /** A writer outside the stack. */
  function feedWriter(): FeedWriter {
    return new FeedWriter({ logs: world.logs, random: Math.random, sleep: (ms) => sleep(ms) });
  }

  /** The positions of each log, in the order in which the feed has them. */
  async function fed(from = begin): Promise<Map<LogId, string[]>> {
    const positions = new Map<LogId, string[]>();
    for await (const { log, entry } of world.logs.feed.read({ from })) {
      positions.set(log, [...(positions.get(log) ?? []), formatPosition(entry.position)]);
    }
    return positions;
  }

  /** The positions of all entries that a log has in the tables. */
  async function stored(log: LogId): Promise<string[]> {
    const positions: string[] = [];
    for await (const { segment } of world.tables.segments(log, { consistent: true })) {
      const range = { segment, from: 0, to: 1_000 };
      for await (const page of world.tables.entries(log, range, { consistent: true })) {
        positions.push(...page.map(({ position }) => formatPosition(position)));
      }
    }
    return positions;
  }

  /** The checkpoints that the topic has announced since the last call. */
  async function announced(): Promise<number[]> {
    const checkpoints: number[] = [];
    for (;;) {
      const command = new ReceiveMessageCommand({
        QueueUrl: queueUrl,
        MaxNumberOfMessages: 10,
        VisibilityTimeout: 3600,
      });
      const { Messages = [] } = await deployment.aws.sqs.send(command);
      if (Messages.length === 0) return checkpoints;
      checkpoints.push(...Messages.map(({ Body = '' }) => JSON.parse(JSON.parse(Body).Message).checkpoint));
    }
  }

  test('its bundles are small', () => {
    for (const [id, max] of Object.entries({ ...MAX_BYTES, ...MAX_FEED_BYTES })) {
      expect(deployment.bundles.get(id)?.bytes, id).toBeLessThan(max);
    }
  });

  test('its stream function feeds all entries of all logs, and announces the end', async () => {
    const added = [await world.addLog(2), await world.addLog(1)];
    const positions = await fed();
    expect([...positions.keys()].sort()).toEqual(added.map(({ log }) => log).sort());
    for (const { log } of added) expect(positions.get(log)).toEqual(await stored(log));
    const checkpoints = await announced();
    expect(Math.max(...checkpoints)).toBe(await world.logs.feed.end());
    expect((await world.keys(`${LOGS_PREFIX}${FEED_LOG}/`)).length).toBeGreaterThan(0);
  });

  test('its sweep feeds what the stream does not, and announces it too', async () => {
    const before = await fed();
    deployment.pass(OLD_SECONDS);
    await deployment.runSchedules();
    expect(await fed()).toEqual(before);
    begin = await feedWriter().restart();
    expect(await fed()).toEqual(new Map());
    await announced();
    await deployment.runSchedules();
    expect(await fed()).toEqual(before);
    expect(await announced()).toEqual([await world.logs.feed.end()]);
  });

  test('its feed gets a snapshot, and old epochs move to the bucket, where readers find them', async () => {
    const before = await fed();
    const feed = feedWriter();
    // A thousand entries make a snapshot due.
    for (let entry = 0; entry < 1_000; entry++) await feed.restart();
    await world.sweepAfter(GRACE_SECONDS);
    const { lastSnapshot } = await world.status(FEED_LOG);
    expect(lastSnapshot?.entry).toBeGreaterThan(1_000);
    await world.client.startSegment(FEED_LOG);
    for (let times = 0; times < 4; times++) await world.sweepAfter(GRACE_SECONDS);
    const epoch = await world.tables.getSegment(FEED_LOG, 0, { consistent: true });
    expect(epoch).toMatchObject({ archive: expect.anything(), expiry: { state: 'expired' } });
    // The reader begins at the last restart of the feed.
    expect(await fed(0)).toEqual(before);
    expect(await deployment.invoke('ReplayFunction', { log: 'feed' })).toMatchObject({ log: FEED_LOG, equal: true });
    expect(await deployment.messages('DeadSnapshotJobs')).toEqual([]);
    expect(await deployment.messages('DeadMaintenanceJobs')).toEqual([]);
  });

  test('the roles allow all requests of its functions', () => {
    use.push(useOfRights(deployment.functions, deployment.needed));
    expect(notAllowed(deployment.functions, deployment.needed)).toEqual([]);
  });
});

describe("a stack with the feed beside an application's table", () => {
  const orders = new OrderTable();
  let world: DeployedWorld;
  let deployment: Deployment;

  beforeAll(async () => {
    world = await DeployedWorld.start(async (engine) => {
      const streamArn = await orders.create(engine.client);
      return {
        ...POLICY,
        EntryTableName: orders.name,
        EntryTableStreamArn: streamArn,
        Mapping: JSON.stringify(EXPIRING_ORDERS),
        SnapshotEveryEntries: '10',
        SegmentEveryEntries: '20',
        Feed: 'on',
      };
    });
    deployment = world.deployment;
  });

  afterAll(() => world.stop());

  test('its stream function registers logs, and feeds each entry of them, also virtual ones', async () => {
    const log = textLogId('2024/eu/17');
    const positions: string[] = [];
    for (const [from, to] of [
      [0, 25],
      [25, 33],
    ] as const) {
      await orders.put(log, { from, to });
      await deployment.deliverAll();
    }
    for await (const item of world.logs.feed.read()) {
      if (item.log === log) positions.push(formatPosition(item.entry.position));
    }
    const expected: string[] = [];
    for await (const { segment } of world.tables.segments(log, { consistent: true })) {
      const range = { segment, from: 0, to: 1_000 };
      for await (const page of world.tables.entries(log, range, { consistent: true })) {
        expected.push(...page.map(({ position }) => formatPosition(position)));
      }
    }
    expect(positions).toEqual(expected);
    expect(await orders.differences()).toEqual([]);
    expect(world.output().log.filter(({ level }) => level !== 'INFO')).toEqual([]);
  });

  test('the roles allow all requests of its functions', () => {
    use.push(useOfRights(deployment.functions, deployment.needed));
    expect(notAllowed(deployment.functions, deployment.needed)).toEqual([]);
  });
});

/** Rights that functions need only at rare moments, for which no test here waits. */
const RARE = [
  // An item leaves the table while its stamp is written.
  'MaintainFunction: dynamodb:GetItem (ExpireItems)',
  // A divide job is slower than an application, and writes after entries that it has not read.
  'SnapshotFunction: dynamodb:ConditionCheckItem (CheckEntries)',
  // The feed does with these what a log does. A rebuild of the feed replaces a flushed snapshot, an
  // epoch expires without an archive, and an epoch moves while it is flushed.
  'SnapshotFunction: dynamodb:ConditionCheckItem (DivideFeed)',
  // A rebuild that writes an archive again, if an upload of several parts fails.
  'SnapshotFunction: s3:AbortMultipartUpload (WriteObjects)',
  'MaintainFunction: dynamodb:DeleteItem (ExpireFeed)',
];

test('no function of any stack has an unused permission', () => {
  expect(use).toHaveLength(5);
  const rights = new Set(use.flatMap((each) => [...each.keys()]));
  for (const right of RARE) {
    expect(rights).toContain(right);
    rights.delete(right);
  }
  const unused = [...rights].filter((right) => !use.some((each) => each.get(right) === true));
  expect(unused).toEqual([]);
});
