import { createHash, randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { PutObjectCommand, S3Client, UploadPartCommand } from '@aws-sdk/client-s3';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FilesystemBlobStore } from '../../src/adapters/filesystem/blob-store.ts';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { MeteredBlobStore } from '../../src/adapters/metered-blob-store.ts';
import { S3BlobStore } from '../../src/adapters/s3/blob-store.ts';
import { UrlBlobStore } from '../../src/adapters/web/url-blob-store.ts';
import {
  BlobDeleteError,
  BlobKeyInvalidError,
  BlobLockedError,
  CredentialsError,
  ResourceMissingError,
  UploadAbortedError,
} from '../../src/errors.ts';
import { type LogId, parseLogId, textLogId } from '../../src/ids/log-id.ts';
import type { BlobInfo, BlobPart, BlobRange, BlobStore, UploadInfo } from '../../src/store/blob-store.ts';
import {
  chunkKey,
  listedIdKey,
  listedIdPrefix,
  parseListedId,
  rootKey,
  rootPrefix,
  stopKey,
} from '../../src/store/keys.ts';
import { AwsGateway } from '../support/deployed/aws-gateway.ts';
import { type LocalAws, startLocalAws } from '../support/stores/fauxqs.ts';
import { streamOf } from '../support/stores/interceptor.ts';
import { ObjectServer } from '../support/stores/object-server.ts';

const LOG = parseLogId('0190b5a0-7e1c-7000-8000-0123456789ab');
const MIB = 1024 * 1024;
const CLIENT = {
  region: 'us-east-1',
  forcePathStyle: true,
  credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
};
const PRINTABLE = Array.from({ length: 0x7f - 0x20 }, (_, i) => String.fromCharCode(0x20 + i)).filter(
  (char) => char !== '\\' && char !== '/',
);

interface Backend {
  readonly name: string;
  /** False if lists are not in byte order for all keys. */
  readonly byteOrder: boolean;
  /** True if keys that `put` refuses can be read, because other programs may write them. */
  readonly foreignKeys: boolean;
  /** True if the server lists no uploads and has no conditional deletes, so two requests race. */
  readonly emulated: boolean;
  open(): Promise<BlobStore>;
  close(): Promise<void>;
}

function memory(): Backend {
  const open = async () => new MemoryBlobStore();
  return { name: 'memory', byteOrder: true, foreignKeys: true, emulated: false, open, close: async () => {} };
}

function filesystem(fsync: boolean): Backend {
  const made: string[] = [];
  return {
    name: `filesystem, fsync ${fsync}`,
    byteOrder: true,
    foreignKeys: false,
    emulated: false,
    async open() {
      const directory = await mkdtemp(join(tmpdir(), 'logfold-blobs-'));
      made.push(directory);
      return new FilesystemBlobStore(join(directory, 'not', 'made', 'yet'), { fsync });
    },
    async close() {
      await Promise.all(made.map((directory) => rm(directory, { recursive: true })));
    },
  };
}

// The emulator sorts lists by locale, S3 by bytes. Both give the same order for logfold's keys.
function s3(): Backend {
  let aws: LocalAws;
  let gateway: AwsGateway;
  let s3: S3Client;
  let buckets = 0;
  return {
    name: `S3 (fauxqs; lists in byte order only for logfold's own keys)`,
    byteOrder: false,
    foreignKeys: true,
    emulated: true,
    async open() {
      aws ??= await startLocalAws();
      const others = aws.server.address;
      gateway ??= await AwsGateway.start({ dynamodb: '', others, callers: new Set(), versioned: new Set() });
      s3 ??= new S3Client({ ...CLIENT, endpoint: gateway.endpoint });
      const bucket = `bucket-${++buckets}`;
      aws.server.createBucket(bucket);
      return new S3BlobStore({ client: s3, bucket });
    },
    async close() {
      s3.destroy();
      await gateway.stop();
      await aws.stop();
    },
  };
}

/** Reads its objects through the URLs of a server. All other methods use the memory. */
class MemoryBehindUrls extends MemoryBlobStore {
  reader: UrlBlobStore | undefined;

  override async get(key: string): Promise<Uint8Array | undefined> {
    return this.reader?.get(key);
  }

  override async getRange(key: string, range: BlobRange): Promise<BlobPart | undefined> {
    return this.reader?.getRange(key, range);
  }

  getDirectly(key: string): Promise<Uint8Array | undefined> {
    return super.get(key);
  }
}

function urls(): Backend {
  const servers: ObjectServer[] = [];
  return {
    name: 'URLs (reads only; memory behind a server)',
    byteOrder: true,
    foreignKeys: true,
    emulated: false,
    async open() {
      const store = new MemoryBehindUrls();
      const server = await ObjectServer.start({ get: (key) => store.getDirectly(key) });
      servers.push(server);
      store.reader = new UrlBlobStore({ urlOf: server.urlOf });
      return store;
    },
    async close() {
      await Promise.all(servers.map((server) => server.stop()));
    },
  };
}

const backends = [memory(), filesystem(true), filesystem(false), s3(), urls()];

describe.each(backends)('blob store: $name', (backend) => {
  let store: BlobStore;

  beforeAll(async () => {
    store = await backend.open();
  });
  afterAll(() => backend.close());

  test('an object is stored byte for byte, and listed with its size', async () => {
    const bytes = randomBytes(1000);
    await store.put('a/b/c', bytes);
    expect(hash(await store.get('a/b/c'))).toBe(hash(bytes));
    expect(await list(store, 'a/')).toMatchObject([{ key: 'a/b/c', bytes: 1000 }]);
  });

  test('any bytes are read back exactly', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), async (bytes) => {
        await store.put('binary', bytes);
        expect(await store.get('binary').then((got) => got && [...got])).toEqual([...bytes]);
      }),
      { numRuns: 50 },
    );
  });

  test('stored bytes do not change with the buffers of a put or get', async () => {
    const bytes = Uint8Array.of(1, 2, 3);
    await store.put('alias', bytes);
    bytes.fill(9);
    (await store.get('alias'))?.fill(8);
    expect([...((await store.get('alias')) ?? [])]).toEqual([1, 2, 3]);
  });

  test('bytes are a plain Uint8Array, whose slice is a copy', async () => {
    await store.put('plain', Uint8Array.of(1, 2, 3));
    const read = [await store.get('plain'), (await store.getRange('plain', { from: 0, to: 3 }))?.bytes];
    for (const bytes of read) {
      expect(Object.getPrototypeOf(bytes)).toBe(Uint8Array.prototype);
      bytes?.slice(0, 1).fill(9);
      expect(bytes).toEqual(Uint8Array.of(1, 2, 3));
    }
  });

  test('a missing key is undefined, also if it is the folder of another', async () => {
    await store.put('folder/object', Uint8Array.of(1));
    expect(await store.get('nowhere')).toBeUndefined();
    expect(await store.get('folder')).toBeUndefined();
    expect(await store.get('folder/object/below')).toBeUndefined();
  });

  test('an empty object exists', async () => {
    await store.put('empty', new Uint8Array());
    expect((await store.get('empty'))?.byteLength).toBe(0);
    expect(await list(store, 'empty')).toMatchObject([{ key: 'empty', bytes: 0 }]);
  });

  test('an object of 5 MB is read back exactly', async () => {
    const bytes = randomBytes(5_000_000);
    await store.put('large', bytes);
    expect(hash(await store.get('large'))).toBe(hash(bytes));
    expect(await list(store, 'large')).toMatchObject([{ bytes: 5_000_000 }]);
  });

  test('overwriting replaces the bytes and renews the date', async () => {
    await store.put('overwritten', Uint8Array.of(1, 2));
    const [before] = await list(store, 'overwritten');
    // Dates may be whole seconds.
    await sleep(1100);
    await store.put('overwritten', Uint8Array.of(3));
    const after = await list(store, 'overwritten');
    expect([...((await store.get('overwritten')) ?? [])]).toEqual([3]);
    expect(after).toHaveLength(1);
    expect(after[0]?.modified).toBeGreaterThan(before?.modified ?? Number.POSITIVE_INFINITY);
  });

  test('concurrent puts of one key leave one whole value', async () => {
    const values = Array.from({ length: 8 }, (_, i) => Buffer.alloc(200_000, i));
    await Promise.all(values.map((value) => store.put('raced', value)));
    expect(values.map(hash)).toContain(hash(await store.get('raced')));
    expect(await list(store, 'raced')).toHaveLength(1);
  });

  test('a reader beside writers sees only whole values', async () => {
    const values = [Buffer.alloc(300_000, 1), Buffer.alloc(200_000, 2)];
    await store.put('torn', Buffer.alloc(300_000, 1));
    const writes = Promise.all(Array.from({ length: 10 }, (_, i) => store.put('torn', values[i % 2] ?? Buffer.of())));
    for (let i = 0; i < 10; i++) expect(values.map(hash)).toContain(hash(await store.get('torn')));
    await writes;
  });

  test('delete removes current keys and ignores missing ones', async () => {
    await store.put('doomed/1', Uint8Array.of(1));
    await store.put('doomed/2', Uint8Array.of(2));
    await store.delete(['doomed/1', 'doomed/never', 'nowhere/at/all']);
    await store.delete(['doomed/1']);
    await store.delete([]);
    expect(await store.get('doomed/1')).toBeUndefined();
    expect((await list(store, 'doomed/')).map((blob) => blob.key)).toEqual(['doomed/2']);
  });

  test('deleting a folder of keys leaves the keys', async () => {
    await store.put('kept/inside', Uint8Array.of(1));
    await store.delete(['kept']);
    expect(await store.get('kept/inside')).toEqual(expect.anything());
  });

  test('every allowed character may be in a key', async () => {
    const keys = PRINTABLE.map((char) => `odd/x${char}y/${char}z`);
    for (const [i, key] of keys.entries()) await store.put(key, Uint8Array.of(i));
    for (const [i, key] of keys.entries()) expect([...((await store.get(key)) ?? [])], key).toEqual([i]);
    const listed = (await list(store, 'odd/')).map((blob) => blob.key);
    expect([...listed].sort()).toEqual([...keys].sort());
    if (backend.byteOrder) expect(listed).toEqual([...keys].sort());
    await store.delete(keys);
    expect(await list(store, 'odd/')).toEqual([]);
  });

  test.each(['', '/', '/absolute', 'a//b', 'a/', '..', '../up', 'a/../../b', 'a/..', '.', './a', 'a\\b', 'a\0b', 'ä'])(
    'key %j is refused, except for reads of keys that others may have written',
    async (key) => {
      if (!backend.foreignKeys) await expect(store.get(key)).rejects.toBeInstanceOf(BlobKeyInvalidError);
      else if (key !== '') expect(await store.get(key)).toBeUndefined();
      await expect(store.put(key, Uint8Array.of(1))).rejects.toBeInstanceOf(BlobKeyInvalidError);
      await expect(store.putStream(key, streamOf([]))).rejects.toBeInstanceOf(BlobKeyInvalidError);
      await expect(store.update(key, () => undefined)).rejects.toBeInstanceOf(BlobKeyInvalidError);
      await expect(store.delete([key])).rejects.toBeInstanceOf(BlobKeyInvalidError);
      await expect(store.deleteUnchanged([{ key, bytes: 1, modified: 0 }])).rejects.toBeInstanceOf(BlobKeyInvalidError);
      await expect(store.abort({ key, id: 'any', started: 0 })).rejects.toBeInstanceOf(BlobKeyInvalidError);
    },
  );

  test('parts of an object can be read', async () => {
    const bytes = Uint8Array.from({ length: 100 }, (_, i) => i);
    await store.put('parts/100', bytes);
    const part = async (key: string, range: Parameters<BlobStore['getRange']>[1]) => {
      const got = await store.getRange(key, range);
      return got && { bytes: [...got.bytes], size: got.size };
    };
    const expected = (from: number, to: number) => ({ bytes: [...bytes.slice(from, to)], size: 100 });
    expect(await part('parts/100', { from: 10, to: 20 })).toEqual(expected(10, 20));
    expect(await part('parts/100', { from: 0, to: 100 })).toEqual(expected(0, 100));
    expect(await part('parts/100', { from: 90, to: 1000 })).toEqual(expected(90, 100));
    expect(await part('parts/100', { from: 100, to: 101 })).toEqual(expected(0, 0));
    expect(await part('parts/100', { from: 10, to: 10 })).toEqual(expected(0, 0));
    expect(await part('parts/100', { last: 7 })).toEqual(expected(93, 100));
    expect(await part('parts/100', { last: 1000 })).toEqual(expected(0, 100));
    expect(await part('parts/100', { last: 0 })).toEqual(expected(0, 0));
    await store.put('parts/0', new Uint8Array());
    for (const range of [{ from: 0, to: 1 }, { from: 0, to: 0 }, { last: 1 }, { last: 0 }]) {
      expect(await part('parts/0', range)).toEqual({ bytes: [], size: 0 });
      expect(await part('parts/missing', range)).toBeUndefined();
      expect(await part('parts', range)).toBeUndefined();
    }
  });

  test('a part does not change the stored bytes', async () => {
    await store.put('parts/alias', Uint8Array.of(1, 2, 3));
    (await store.getRange('parts/alias', { from: 1, to: 3 }))?.bytes.fill(9);
    expect([...((await store.get('parts/alias')) ?? [])]).toEqual([1, 2, 3]);
  });

  test('streamed parts replace an object as a whole', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.uint8Array({ maxLength: 300 })), async (parts) => {
        await store.putStream('streamed/any', streamOf(parts));
        expect([...((await store.get('streamed/any')) ?? [])]).toEqual(parts.flatMap((part) => [...part]));
      }),
      { numRuns: 30 },
    );
    expect(await list(store, 'streamed/any')).toHaveLength(1);
    expect(await uploads(store, '')).toEqual([]);
  });

  test('a stream of 20 MiB is read back exactly', async () => {
    const bytes = randomBytes(20 * MIB);
    const cuts = [0, 5, 5, 9 * MIB, 9 * MIB + 1, 18 * MIB, bytes.byteLength];
    await store.putStream('streamed/large', streamOf(cuts.map((cut, i) => bytes.subarray(cut, cuts[i + 1] ?? cut))));
    expect(hash(await store.get('streamed/large'))).toBe(hash(bytes));
    expect(await list(store, 'streamed/large')).toMatchObject([{ bytes: bytes.byteLength }]);
    expect(hash((await store.getRange('streamed/large', { last: 12 * MIB }))?.bytes)).toBe(
      hash(bytes.subarray(8 * MIB)),
    );
  });

  test.each([0, 1000, 20 * MIB])('a stream that fails after %i bytes leaves the object before it', async (length) => {
    async function* failing(): AsyncGenerator<Uint8Array> {
      for (let left = length; left > 0; left -= 3 * MIB) yield randomBytes(Math.min(left, 3 * MIB));
      throw new Error('the source is gone');
    }
    await store.put('failing/old', Uint8Array.of(1));
    await expect(store.putStream('failing/new', failing())).rejects.toThrow('the source is gone');
    await expect(store.putStream('failing/old', failing())).rejects.toThrow('the source is gone');
    expect([...((await store.get('failing/old')) ?? [])]).toEqual([1]);
    expect((await list(store, 'failing/')).map(({ key }) => key)).toEqual(['failing/old']);
    expect(await uploads(store, 'failing/')).toEqual([]);
  });

  test('deleteUnchanged removes objects that are as listed, and leaves those that were written again', async () => {
    for (const name of ['same', 'other-bytes', 'other-size', 'gone', 'streamed']) {
      await store.put(`listed/${name}`, Uint8Array.of(1));
    }
    const listed = await list(store, 'listed/');
    await store.put('listed/other-bytes', Uint8Array.of(2));
    await store.put('listed/other-size', Uint8Array.of(1, 2));
    await store.putStream('listed/streamed', streamOf([Uint8Array.of(3)]));
    await store.delete(['listed/gone']);
    // The object that is gone already counts too.
    expect(await store.deleteUnchanged(listed)).toBe(2);
    const left = (await list(store, 'listed/')).map(({ key }) => key);
    expect(left).toEqual(['listed/other-bytes', 'listed/other-size', 'listed/streamed']);
    expect(await store.deleteUnchanged(await list(store, 'listed/'))).toBe(3);
    expect(await list(store, 'listed/')).toEqual([]);
    expect(await store.deleteUnchanged([])).toBe(0);
  });

  test('deleteUnchanged with only size and date leaves an object that was written again with equal bytes', async () => {
    await store.put('kept/renewed', Uint8Array.of(1));
    await store.put('kept/untouched', Uint8Array.of(1));
    const listed = (await list(store, 'kept/')).filter(({ key }) => key.endsWith('ed'));
    // Dates may be whole seconds.
    await sleep(1100);
    await store.put('kept/renewed', Uint8Array.of(1));
    const dated = listed.map(({ key, bytes, modified }) => ({ key, bytes, modified }));
    expect(await store.deleteUnchanged(dated)).toBe(1);
    expect(await store.get('kept/renewed')).toEqual(expect.anything());
    expect(await store.get('kept/untouched')).toBeUndefined();
  });

  test.skipIf(backend.emulated)('an object that is put during deleteUnchanged exists afterwards', async () => {
    for (let i = 0; i < 400; i++) {
      await store.put('vying/unchanged', Uint8Array.of(1));
      const listed = await list(store, 'vying/unchanged');
      const put = store.put('vying/unchanged', Uint8Array.of(1));
      // The delay differs in each round: some deletions check just before the put takes effect
      // and delete just after.
      for (let turn = 0; turn < i % 40; turn++) await setImmediate();
      await Promise.all([put, store.deleteUnchanged(listed)]);
      expect(await store.get('vying/unchanged')).toEqual(expect.anything());
    }
  });

  test.skipIf(backend.emulated)('an upload is listed until it is finished or aborted', async () => {
    const before = Date.now();
    const given = heldStream(Uint8Array.of(1));
    const finished = heldStream(Uint8Array.of(2));
    const long = `begun/${'long/'.repeat(50)}${'.'.repeat(200)}%2F x`;
    const writes = [store.putStream(long, given.stream), store.putStream('begun/finished', finished.stream)];
    const failure = writes[0]?.catch((error: unknown) => error);
    await expect.poll(async () => (await uploads(store, 'begun/')).length).toBe(2);
    const begun = await uploads(store, 'begun/long');
    expect(begun).toMatchObject([{ key: long }]);
    expect(begun[0]?.started).toBeGreaterThanOrEqual(before);
    expect(begun[0]?.started).toBeLessThanOrEqual(Date.now());
    expect(await uploads(store, 'other/')).toEqual([]);
    expect(await list(store, 'begun/')).toEqual([]);

    for (const upload of begun) await store.abort(upload);
    expect((await uploads(store, 'begun/')).map(({ key }) => key)).toEqual(['begun/finished']);
    const [other] = await uploads(store, 'begun/finished');
    given.end();
    finished.end();
    await writes[1];
    expect(await failure).toBeInstanceOf(UploadAbortedError);
    for (const upload of [...begun, ...(other ? [other] : [])]) await store.abort(upload);
    expect(await uploads(store, '')).toEqual([]);
    expect((await list(store, 'begun/')).map(({ key }) => key)).toEqual(['begun/finished']);
    expect([...((await store.get('begun/finished')) ?? [])]).toEqual([2]);
  });

  test('a prefix ends anywhere in a key and matches only beginnings', async () => {
    const hex = 'ab'.repeat(32);
    const roots = [
      rootKey(LOG, { segment: 0, entry: 9 }, hex),
      rootKey(LOG, { segment: 0, entry: 10 }, hex),
      rootKey(LOG, { segment: 1, entry: 0 }, hex),
      rootKey(LOG, { segment: 10, entry: 0 }, hex),
    ];
    for (const key of [...roots].reverse()) await store.put(key, Uint8Array.of(1));
    await store.put(stopKey(LOG), Uint8Array.of(1));
    await store.put(chunkKey(LOG, hex), Uint8Array.of(1));
    const keys = async (prefix: string) => (await list(store, prefix)).map((blob) => blob.key);
    expect(await keys(rootPrefix(LOG))).toEqual(roots);
    expect(await keys(`${rootPrefix(LOG)}0000000000-`)).toEqual(roots.slice(0, 2));
    expect(await keys(`logs/${LOG}`)).toEqual([chunkKey(LOG, hex), ...roots, stopKey(LOG)]);
    expect(await keys(`logs/${LOG}/r`)).toEqual(roots);
    expect(await keys('roots/')).toEqual([]);
    expect(await keys(`${roots[0]}/`)).toEqual([]);
  });

  test('a listing that starts after a key has the keys after it, in any folder', async () => {
    const keys = ['after/a-', 'after/a.b', 'after/a/x/1', 'after/a/x/2', 'after/a0', 'after/b/1', 'after/c'];
    for (const key of keys) await store.put(key, Uint8Array.of(1));
    const others = [
      'after/',
      'after/0',
      'after/a/',
      'after/a/x',
      'after/a/x/',
      'after/a/x/11',
      'after/b',
      'after/b~',
      'b',
    ];
    for (const after of [...keys, ...others]) {
      const listed = await Array.fromAsync(store.list('after/', { after }), ({ key }) => key);
      expect(listed.sort(), after).toEqual(keys.filter((key) => key > after).sort());
    }
    const below = await Array.fromAsync(store.list('after/a/', { after: 'after/a/x/1' }), ({ key }) => key);
    expect(below).toEqual(['after/a/x/2']);
  });

  test('the keys of chosen ids are listed by prefix, in the order of the bytes of the ids', async () => {
    const long = 'a'.repeat(100);
    const ids = [
      '../x',
      '\0',
      'A',
      'Z/b',
      'org-7',
      'org-7/a',
      'org-7/b/c',
      'org-70',
      long,
      `${long}a`,
      `${long}/`,
      '~',
      'é',
      '\uffff',
      '😀',
    ];
    const logs = ids.map(textLogId).sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    for (const log of logs) await store.put(listedIdKey(log), Buffer.from(log));
    const list = async (prefix: string, after?: LogId) => {
      const from = { after: after && listedIdKey(after) };
      return Array.fromAsync(store.list(listedIdPrefix(prefix), from), ({ key }) => parseListedId(key));
    };
    expect(await list('')).toEqual(logs);
    for (const prefix of ['org-7', 'org-7/', 'o', long, `${long}a`, '.', 'none']) {
      expect(await list(prefix), prefix).toEqual(logs.filter((log) => log.startsWith(prefix)));
    }
    for (const after of logs) {
      expect(await list('org', after)).toEqual(
        logs.slice(logs.indexOf(after) + 1).filter((log) => log.startsWith('org')),
      );
    }
  });

  test('an update creates, changes or leaves an object', async () => {
    const seen: (number[] | undefined)[] = [];
    const update = (to: number | undefined) =>
      store.update('updated/one', (bytes) => {
        seen.push(bytes && [...bytes]);
        return to === undefined ? undefined : Uint8Array.of(to);
      });
    await update(undefined);
    expect(await store.get('updated/one')).toBeUndefined();
    await update(1);
    await update(2);
    await update(undefined);
    expect(await store.get('updated/one')).toEqual(Uint8Array.of(2));
    expect(seen).toEqual([undefined, undefined, [1], [2]]);
  });

  test('an update whose change throws leaves the object', async () => {
    await store.put('updated/thrown', Uint8Array.of(1));
    const updating = store.update('updated/thrown', () => {
      throw new RangeError('no');
    });
    await expect(updating).rejects.toThrow(new RangeError('no'));
    expect(await store.get('updated/thrown')).toEqual(Uint8Array.of(1));
    await store.update('updated/thrown', () => Uint8Array.of(2));
    expect(await store.get('updated/thrown')).toEqual(Uint8Array.of(2));
  });

  test('no concurrent update of one object is lost, also while it is created', async () => {
    const add = (number: number) =>
      store.update('updated/raced', (bytes) => Uint8Array.from(new Set([...(bytes ?? []), number])));
    const numbers = Array.from({ length: 8 }, (_, i) => i);
    await Promise.all(numbers.map(add));
    expect([...((await store.get('updated/raced')) ?? [])].sort()).toEqual(numbers);
  });

  test('more than 1,000 keys are listed in order of bytes and deleted', async () => {
    const fresh = await backend.open();
    const numbered = Array.from({ length: 2010 }, (_, i) => chunkKey(LOG, hash(Uint8Array.of(i >> 8, i))));
    const [keys, absent] = [numbered.slice(0, 1010), numbered.slice(1010)];
    for (let start = 0; start < keys.length; start += 100) {
      await Promise.all(keys.slice(start, start + 100).map((key) => fresh.put(key, Uint8Array.of(1))));
    }
    expect((await list(fresh, '')).map((blob) => blob.key)).toEqual([...keys].sort());
    await fresh.delete([...keys.slice(0, 3), ...absent, ...keys.slice(3, 6)]);
    const left = await list(fresh, 'logs/');
    expect(await fresh.deleteUnchanged(left.slice(1))).toBe(1003);
    expect(await list(fresh, 'logs/')).toEqual(left.slice(0, 1));
  });
});

describe('filesystem blob store', () => {
  test('files of a crashed writer are neither listed nor read', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'logfold-blobs-'));
    try {
      const store = new FilesystemBlobStore(directory, { fsync: false });
      await mkdir(join(directory, 'temporary'), { recursive: true });
      await writeFile(join(directory, 'temporary', 'half-written'), 'half');
      await store.put('whole', Uint8Array.of(1));
      expect((await list(store, '')).map((blob) => blob.key)).toEqual(['whole']);
      expect(await store.get('temporary/half-written')).toBeUndefined();
      expect(await store.get('half-written')).toBeUndefined();
    } finally {
      await rm(directory, { recursive: true });
    }
  });

  test('a put that fails leaves nothing behind', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'logfold-blobs-'));
    try {
      const store = new FilesystemBlobStore(directory, { fsync: false });
      await store.put('a/b', Uint8Array.of(1));
      await expect(store.put('a', Uint8Array.of(2))).rejects.toThrow();
      expect((await list(store, '')).map((blob) => blob.key)).toEqual(['a/b']);
      expect(await readdir(join(directory, 'temporary'))).toEqual([]);
    } finally {
      await rm(directory, { recursive: true });
    }
  });

  test('uploads of another process are listed and aborted, and leave nothing behind', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'logfold-blobs-'));
    try {
      const writer = new FilesystemBlobStore(directory, { fsync: false });
      const other = new FilesystemBlobStore(directory, { fsync: false });
      const key = `${'long/'.repeat(100)}end`;
      const { stream, end } = heldStream(Uint8Array.of(1));
      const failure = writer.putStream(key, stream).catch((error: unknown) => error);
      await expect.poll(async () => (await uploads(other, 'long/')).length).toBe(1);
      await writeFile(join(directory, 'temporary', 'of-others'), 'any');
      for (const upload of await uploads(other, '')) await other.abort(upload);
      end();
      expect(await failure).toBeInstanceOf(UploadAbortedError);
      await writer.putStream(key, streamOf([Uint8Array.of(1)]));
      expect(await other.deleteUnchanged(await list(other, ''))).toBe(1);
      expect(await list(other, '')).toEqual([]);
      expect(await readdir(join(directory, 'temporary'))).toEqual(['of-others']);
    } finally {
      await rm(directory, { recursive: true });
    }
  });

  test('a prefix does not lead out of the directory', async () => {
    await expect(list(new FilesystemBlobStore(tmpdir()), '../')).rejects.toBeInstanceOf(BlobKeyInvalidError);
  });
});

describe('S3 blob store', () => {
  let aws: LocalAws;

  beforeAll(async () => {
    aws = await startLocalAws();
  });
  afterAll(() => aws.stop());

  test('every method names a missing bucket', async () => {
    const store = new S3BlobStore({ client: aws.s3, bucket: 'no-such-bucket' });
    const calls = [
      () => store.get('a'),
      () => store.put('a', Uint8Array.of(1)),
      () => store.delete(['a']),
      () => list(store, ''),
      () => store.getRange('a', { last: 1 }),
      () => store.getRange('a', { last: 0 }),
      () => store.putStream('a', streamOf([Uint8Array.of(1)])),
      () => store.putStream('a', streamOf([randomBytes(9 * MIB)])),
      () => store.deleteUnchanged([{ key: 'a', bytes: 1, modified: 0 }]),
      () => uploads(store, ''),
    ];
    for (const call of calls) {
      const error = await call().catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(ResourceMissingError);
      expect(error).toHaveProperty('message', expect.stringContaining("'no-such-bucket'"));
    }
  });

  test.each(['/absolute', 'a//b', 'a/', 'a\\b', 'ä/Ω 😀', 'a?b#c%2Fd+e&f', `long/${'ä'.repeat(500)}`])(
    'an object that other software wrote under %j is read',
    async (key) => {
      aws.server.createBucket('foreign');
      const store = new S3BlobStore({ client: aws.s3, bucket: 'foreign' });
      expect(await store.get(key)).toBeUndefined();
      await aws.s3.send(new PutObjectCommand({ Bucket: 'foreign', Key: key, Body: Uint8Array.of(1, 2) }));
      expect([...((await store.get(key)) ?? [])]).toEqual([1, 2]);
    },
  );

  test.each(['', 'ä'.repeat(513), 'x\ud800'])('a key that S3 does not allow is refused: %j', async (key) => {
    const store = new S3BlobStore({ client: aws.s3, bucket: 'foreign' });
    await expect(store.get(key)).rejects.toBeInstanceOf(BlobKeyInvalidError);
  });

  test('every method reports missing credentials', async () => {
    const client = new S3Client({
      endpoint: aws.server.address,
      region: 'us-east-1',
      forcePathStyle: true,
      credentials: async () => {
        throw Object.assign(new Error('Could not load credentials'), { name: 'CredentialsProviderError' });
      },
    });
    const store = new S3BlobStore({ client, bucket: 'any' });
    await expect(store.get('a')).rejects.toBeInstanceOf(CredentialsError);
    await expect(list(store, '')).rejects.toBeInstanceOf(CredentialsError);
  });

  // The emulator lists no uploads, so the test takes their ids from its answers.
  test('a failed stream leaves no upload, and an aborted upload cannot be finished', async () => {
    aws.server.createBucket('streams');
    const store = new S3BlobStore({ client: aws.s3, bucket: 'streams' });
    const ids: string[] = [];
    aws.s3.middlewareStack.add((next) => async (call) => {
      const answer = await next(call);
      if (!('UploadId' in call.input) && 'UploadId' in answer.output) ids.push(String(answer.output.UploadId));
      return answer;
    });
    const sendPart = (UploadId: string | undefined) =>
      aws.s3.send(new UploadPartCommand({ Bucket: 'streams', Key: 'a', UploadId, PartNumber: 1, Body: 'part' }));

    async function* failing(): AsyncGenerator<Uint8Array> {
      yield randomBytes(9 * MIB);
      throw new Error('the source is gone');
    }
    await expect(store.putStream('a', failing())).rejects.toThrow('the source is gone');
    expect(ids).toHaveLength(1);
    await expect(sendPart(ids[0])).rejects.toHaveProperty('name', 'NoSuchUpload');

    const { stream, end } = heldStream(randomBytes(9 * MIB));
    const failure = store.putStream('a', stream).catch((error: unknown) => error);
    await expect.poll(() => ids.length).toBe(2);
    await sendPart(ids[1]);
    const upload = { key: 'a', id: ids[1] ?? '', started: 0 };
    await store.abort(upload);
    await store.abort(upload);
    end();
    expect(await failure).toBeInstanceOf(UploadAbortedError);
    expect(await list(store, '')).toEqual([]);
  });

  // The emulator does not support the following requests, so a test server gives S3's answers.
  test('keys that S3 refuses to delete are an error', async () => {
    const xml =
      '<DeleteResult><Error><Key>a</Key><Code>AccessDenied</Code><Message>locked</Message></Error></DeleteResult>';
    await withServer(
      () => ({ xml }),
      async (store) => {
        const error = await store.delete(['a', 'c']).catch((thrown: unknown) => thrown);
        expect(error).toBeInstanceOf(BlobDeleteError);
        expect(error).toHaveProperty('message', expect.stringContaining("'a': AccessDenied: locked"));
      },
    );
  });

  test('uploads of all pages are listed', async () => {
    const page = (inner: string) => ({
      xml: `<ListMultipartUploadsResult><Bucket>b</Bucket>${inner}</ListMultipartUploadsResult>`,
    });
    const upload = (key: string, id: string) =>
      `<Upload><Key>${key}</Key><UploadId>${id}</UploadId><Initiated>2026-01-02T03:04:05.000Z</Initiated></Upload>`;
    const more =
      '<IsTruncated>true</IsTruncated><NextKeyMarker>p/b</NextKeyMarker><NextUploadIdMarker>2</NextUploadIdMarker>';
    const queries: URLSearchParams[] = [];
    await withServer(
      (request) => {
        const query = new URL(request.url ?? '', 'http://localhost').searchParams;
        queries.push(query);
        if (query.has('key-marker')) return page(`<IsTruncated>false</IsTruncated>${upload('p/b', '3')}`);
        return page(`${more}${upload('p/a', '1')}${upload('p/b', '2')}`);
      },
      async (store) => {
        const started = Date.UTC(2026, 0, 2, 3, 4, 5);
        expect(await uploads(store, 'p/')).toEqual([
          { key: 'p/a', id: '1', started },
          { key: 'p/b', id: '2', started },
          { key: 'p/b', id: '3', started },
        ]);
      },
    );
    expect(queries.map((query) => [query.has('uploads'), query.get('prefix')])).toEqual([
      [true, 'p/'],
      [true, 'p/'],
    ]);
    expect(queries.map((query) => [query.get('key-marker'), query.get('upload-id-marker')])).toEqual([
      [null, null],
      ['p/b', '2'],
    ]);
  });

  test('in a bucket with versioning, only the checked version is deleted', async () => {
    const bodies: string[] = [];
    await withServer(
      (request, body) => {
        if (request.method === 'POST') bodies.push(body);
        const headers = {
          'content-length': '1',
          'last-modified': 'Fri, 02 Jan 2026 03:04:05 GMT',
          'x-amz-version-id': request.url?.includes('plain') ? 'null' : 'v7',
        };
        return request.method === 'HEAD' ? { headers } : { xml: '<DeleteResult></DeleteResult>' };
      },
      async (store) => {
        const modified = Date.UTC(2026, 0, 2, 3, 4, 5, 678);
        const listed = ['versioned', 'plain'].map((key) => ({ key, bytes: 1, modified }));
        expect(await store.deleteUnchanged(listed)).toBe(2);
        expect(await store.deleteUnchanged([{ key: 'versioned', bytes: 1, modified: modified - 1000 }])).toBe(0);
      },
    );
    expect(bodies).toHaveLength(1);
    const objects = [...(bodies[0]?.matchAll(/<Object>(.*?)<\/Object>/g) ?? [])].map(([, object]) => object);
    expect(objects).toEqual(['<Key>versioned</Key><VersionId>v7</VersionId>', '<Key>plain</Key>']);
  });

  test('objects that Object Lock protects are named, after the others of all batches are deleted', async () => {
    const LOCKED = 'Access Denied because object protected by object lock.';
    const requests: number[] = [];
    await withServer(
      (request, body) => {
        const headers = {
          'content-length': '1',
          'last-modified': 'Fri, 02 Jan 2026 03:04:05 GMT',
          'x-amz-version-id': 'v7',
        };
        if (request.method === 'HEAD') return { headers };
        const keys = [...body.matchAll(/<Key>(.*?)<\/Key>/g)].map(([, key = '']) => key);
        requests.push(keys.length);
        const errors = keys
          .filter((key) => key.startsWith('locked'))
          .map((key) => `<Error><Key>${key}</Key><Code>AccessDenied</Code><Message>${LOCKED}</Message></Error>`);
        return { xml: `<DeleteResult>${errors.join('')}</DeleteResult>` };
      },
      async (store) => {
        const modified = Date.UTC(2026, 0, 2, 3, 4, 5);
        const keys = ['locked/1', ...Array.from({ length: 1000 }, (_, i) => `free/${i}`), 'locked/2'];
        const deletion = store.deleteUnchanged(keys.map((key) => ({ key, bytes: 1, modified })));
        await expect(deletion).rejects.toMatchObject({
          code: 'BLOB_LOCKED',
          keys: new Set(['locked/1', 'locked/2']),
          message: expect.stringContaining("protects 'locked/1' and 1 more"),
        });
        await expect(store.delete(['locked/3'])).rejects.toBeInstanceOf(BlobLockedError);
      },
    );
    expect(requests).toEqual([1000, 2, 1]);
  });

  test('an object that S3 denies access to is reported', async () => {
    await withServer(
      () => ({ status: 403 }),
      async (store) => {
        const deletion = store.deleteUnchanged([{ key: 'a', bytes: 1, modified: 0 }]);
        await expect(deletion).rejects.toBeInstanceOf(CredentialsError);
      },
    );
  });
});

interface Answer {
  readonly status?: number;
  readonly headers?: Record<string, string>;
  readonly xml?: string;
}

/** Calls `run` with a bucket on a server that gets its answers from `answer`. */
async function withServer(
  answer: (request: IncomingMessage, body: string) => Answer,
  run: (store: S3BlobStore) => Promise<void>,
): Promise<void> {
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await Array.fromAsync(request)).toString();
    const { status = 200, headers = {}, xml } = answer(request, body);
    response.writeHead(status, xml === undefined ? headers : { ...headers, 'content-type': 'application/xml' });
    response.end(xml);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const port = typeof address === 'object' ? address?.port : undefined;
  const client = new S3Client({ ...CLIENT, endpoint: `http://127.0.0.1:${port}` });
  try {
    await run(new S3BlobStore({ client, bucket: 'b' }));
  } finally {
    client.destroy();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

describe('metered blob store', () => {
  test('it counts requests and bytes', async () => {
    const store = new MeteredBlobStore(new MemoryBlobStore());
    for (let i = 0; i < 2001; i++) await store.put(`k/${i}`, Uint8Array.of(1, 2));
    await store.get('k/0');
    await store.get('missing');
    expect(await list(store, 'k/')).toHaveLength(2001);
    expect(await list(store, 'none/')).toHaveLength(0);
    await store.delete(Array.from({ length: 1001 }, (_, i) => `k/${i}`));
    expect(await list(store, 'k/')).toHaveLength(1000);
    expect(store.usage()).toEqual({
      gets: 2,
      puts: 2001,
      lists: 3 + 1 + 1,
      deletes: 2,
      bytesRead: 2,
      bytesWritten: 4002,
    });
  });

  test('it counts streams by their parts, checks before deletions, and uploads', async () => {
    const store = new MeteredBlobStore(new MemoryBlobStore());
    await store.putStream('a', streamOf([Uint8Array.of(1, 2), Uint8Array.of(3)]));
    await store.putStream('b', streamOf([new Uint8Array(8 * MIB), Uint8Array.of(1)]));
    await store.putStream('empty', streamOf([]));
    const listed = await list(store, '');
    await store.getRange('b', { last: 10 });
    await store.getRange('missing', { last: 10 });
    await store.put('a', Uint8Array.of(1, 2, 3));
    expect(await store.deleteUnchanged(listed)).toBe(2);
    expect(await uploads(store, '')).toEqual([]);
    await store.abort({ key: 'a', id: 'none', started: 0 });
    expect(store.usage()).toEqual({
      gets: 2 + 3,
      puts: 1 + (1 + 2 + 1) + 1 + 1,
      lists: 2,
      deletes: 1 + 1,
      bytesRead: 10,
      bytesWritten: 3 + 8 * MIB + 1 + 3,
    });
  });
});

/** Creates a stream that yields bytes and then waits for a call of `end`. */
function heldStream(bytes: Uint8Array) {
  const held = Promise.withResolvers<void>();
  async function* stream(): AsyncGenerator<Uint8Array> {
    yield bytes;
    await held.promise;
  }
  return { stream: stream(), end: () => held.resolve() };
}

async function uploads(store: BlobStore, prefix: string): Promise<UploadInfo[]> {
  return Array.fromAsync(store.uploads(prefix));
}

async function list(store: BlobStore, prefix: string): Promise<BlobInfo[]> {
  const blobs: BlobInfo[] = [];
  for await (const blob of store.list(prefix)) blobs.push(blob);
  return blobs;
}

function hash(bytes: Uint8Array | undefined): string {
  return bytes === undefined ? 'missing' : createHash('sha256').update(bytes).digest('hex');
}
