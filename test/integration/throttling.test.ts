import { createHash, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import { S3Client } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { SDK_RETRIES, sdkConfig } from '../../src/adapters/aws/sdk-config.ts';
import { S3BlobStore } from '../../src/adapters/s3/blob-store.ts';
import { AttemptsExhaustedError, LogfoldError } from '../../src/errors.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { completeSnapshot } from '../../src/workers/snapshot/build-snapshot.ts';
import { FAULTS } from '../support/deployed/aws-faults.ts';
import type { EndState } from '../support/deployed/end-state.ts';
import { always, atRandom, type Decide, FaultyHttp, firstOf } from '../support/deployed/faulty-http.ts';
import { type LifeOptions, QUICK, ThrottledLife } from '../support/deployed/throttled-life.ts';
import { newLogId } from '../support/logs.ts';
import { startTestEngine, type TestEngine } from '../support/stores/engine.ts';
import { type LocalAws, startLocalAws } from '../support/stores/fauxqs.ts';
import { streamOf } from '../support/stores/interceptor.ts';

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
