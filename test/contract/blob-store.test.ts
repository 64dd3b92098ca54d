import { createHash, randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { PutObjectCommand, S3Client } from '@aws-sdk/client-s3';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FilesystemBlobStore } from '../../src/adapters/filesystem-blob-store.ts';
import { MemoryBlobStore } from '../../src/adapters/memory-blob-store.ts';
import { MeteredBlobStore } from '../../src/adapters/metered-blob-store.ts';
import { S3BlobStore } from '../../src/adapters/s3-blob-store.ts';
import { BlobDeleteError, BlobKeyInvalidError, CredentialsError, ResourceMissingError } from '../../src/errors.ts';
import { parseLogId } from '../../src/log/log-id.ts';
import type { BlobInfo, BlobStore } from '../../src/store/blob-store.ts';
import { chunkKey, rootKey, rootPrefix, stopKey } from '../../src/store/keys.ts';
import { type LocalAws, startLocalAws } from '../support/fauxqs.ts';

const LOG = parseLogId('0190b5a0-7e1c-7000-8000-0123456789ab');
const PRINTABLE = Array.from({ length: 0x7f - 0x20 }, (_, i) => String.fromCharCode(0x20 + i)).filter(
  (char) => char !== '\\' && char !== '/',
);

interface Backend {
  readonly name: string;
  /** False where lists are not in byte order for all keys. */
  readonly byteOrder: boolean;
  /** Whether keys that `put` refuses may be read all the same, since others may have written there. */
  readonly foreignKeys: boolean;
  open(): Promise<BlobStore>;
  close(): Promise<void>;
}

function memory(): Backend {
  const open = async () => new MemoryBlobStore();
  return { name: 'memory', byteOrder: true, foreignKeys: true, open, close: async () => {} };
}

function filesystem(fsync: boolean): Backend {
  const made: string[] = [];
  return {
    name: `filesystem, fsync ${fsync}`,
    byteOrder: true,
    foreignKeys: false,
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

// The emulator sorts lists by locale, where S3 sorts by bytes. Our own keys come out the same either way.
function s3(): Backend {
  let aws: LocalAws;
  let buckets = 0;
  return {
    name: `S3 (fauxqs; lists in byte order only for keys of our own)`,
    byteOrder: false,
    foreignKeys: true,
    async open() {
      aws ??= await startLocalAws();
      const bucket = `bucket-${++buckets}`;
      aws.server.createBucket(bucket);
      return new S3BlobStore({ client: aws.s3, bucket });
    },
    async close() {
      await aws.stop();
    },
  };
}

const backends = [memory(), filesystem(true), filesystem(false), s3()];

describe.each(backends)('blob store: $name', (backend) => {
  let store: BlobStore;

  beforeAll(async () => {
    store = await backend.open();
  });
  afterAll(() => backend.close());

  test('what was put is there, byte for byte, and listed with its size', async () => {
    const bytes = randomBytes(1000);
    await store.put('a/b/c', bytes);
    expect(hash(await store.get('a/b/c'))).toBe(hash(bytes));
    expect(await list(store, 'a/')).toMatchObject([{ key: 'a/b/c', bytes: 1000 }]);
  });

  test('any bytes come back exactly', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 300 }), async (bytes) => {
        await store.put('binary', bytes);
        expect(await store.get('binary').then((got) => got && [...got])).toEqual([...bytes]);
      }),
      { numRuns: 50 },
    );
  });

  test('stored bytes do not change with the buffers that went in or came out', async () => {
    const bytes = Uint8Array.of(1, 2, 3);
    await store.put('alias', bytes);
    bytes.fill(9);
    (await store.get('alias'))?.fill(8);
    expect([...((await store.get('alias')) ?? [])]).toEqual([1, 2, 3]);
  });

  test('a missing key is undefined, also where it is the folder of another', async () => {
    await store.put('folder/object', Uint8Array.of(1));
    expect(await store.get('nowhere')).toBeUndefined();
    expect(await store.get('folder')).toBeUndefined();
    expect(await store.get('folder/object/below')).toBeUndefined();
  });

  test('an empty object is an object', async () => {
    await store.put('empty', new Uint8Array());
    expect((await store.get('empty'))?.byteLength).toBe(0);
    expect(await list(store, 'empty')).toMatchObject([{ key: 'empty', bytes: 0 }]);
  });

  test('5 MB', async () => {
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

  test('a reader beside writers sees whole values only', async () => {
    const values = [Buffer.alloc(300_000, 1), Buffer.alloc(200_000, 2)];
    await store.put('torn', Buffer.alloc(300_000, 1));
    const writes = Promise.all(Array.from({ length: 10 }, (_, i) => store.put('torn', values[i % 2] ?? Buffer.of())));
    for (let i = 0; i < 10; i++) expect(values.map(hash)).toContain(hash(await store.get('torn')));
    await writes;
  });

  test('deleting removes what is there and forgives what is not', async () => {
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

  test('every allowed character in a key', async () => {
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
    'key %j is refused, but for reading where others may have written under it',
    async (key) => {
      if (!backend.foreignKeys) await expect(store.get(key)).rejects.toBeInstanceOf(BlobKeyInvalidError);
      else if (key !== '') expect(await store.get(key)).toBeUndefined();
      await expect(store.put(key, Uint8Array.of(1))).rejects.toBeInstanceOf(BlobKeyInvalidError);
      await expect(store.delete([key])).rejects.toBeInstanceOf(BlobKeyInvalidError);
    },
  );

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

  test('more than 1,000 keys list in order of bytes and are deleted', async () => {
    const fresh = await backend.open();
    const keys = Array.from({ length: 2345 }, (_, i) => chunkKey(LOG, hash(Uint8Array.of(i >> 8, i))));
    for (let start = 0; start < keys.length; start += 100) {
      await Promise.all(keys.slice(start, start + 100).map((key) => fresh.put(key, Uint8Array.of(1))));
    }
    expect((await list(fresh, '')).map((blob) => blob.key)).toEqual([...keys].sort());
    await fresh.delete(keys.slice(1));
    expect((await list(fresh, 'logs/')).map((blob) => blob.key)).toEqual(keys.slice(0, 1));
  });
});

describe('filesystem blob store', () => {
  test('what a crashed writer left is neither listed nor read', async () => {
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

  test('a missing bucket is named, whatever is asked of it', async () => {
    const store = new S3BlobStore({ client: aws.s3, bucket: 'no-such-bucket' });
    const calls = [
      () => store.get('a'),
      () => store.put('a', Uint8Array.of(1)),
      () => store.delete(['a']),
      () => list(store, ''),
    ];
    for (const call of calls) {
      const error = await call().catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(ResourceMissingError);
      expect(error).toHaveProperty('message', expect.stringContaining("'no-such-bucket'"));
    }
  });

  test.each(['/absolute', 'a//b', 'a/', 'a\\b', 'ä/Ω 😀', 'a?b#c%2Fd+e&f', `long/${'ä'.repeat(500)}`])(
    'what other software wrote under %j is read',
    async (key) => {
      aws.server.createBucket('foreign');
      const store = new S3BlobStore({ client: aws.s3, bucket: 'foreign' });
      expect(await store.get(key)).toBeUndefined();
      await aws.s3.send(new PutObjectCommand({ Bucket: 'foreign', Key: key, Body: Uint8Array.of(1, 2) }));
      expect([...((await store.get(key)) ?? [])]).toEqual([1, 2]);
    },
  );

  test.each(['', 'ä'.repeat(513), 'x\ud800'])('a key that S3 does not have is refused: %j', async (key) => {
    const store = new S3BlobStore({ client: aws.s3, bucket: 'foreign' });
    await expect(store.get(key)).rejects.toBeInstanceOf(BlobKeyInvalidError);
  });

  test('no credentials', async () => {
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

  // The emulator never refuses a delete, so a server of our own gives the answer that S3 would.
  test('keys that S3 refuses to delete are an error', async () => {
    const server = createServer((_request, response) => {
      response.setHeader('content-type', 'application/xml');
      response.end(
        '<DeleteResult><Error><Key>a</Key><Code>InternalError</Code><Message>try later</Message></Error></DeleteResult>',
      );
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    const client = new S3Client({
      endpoint: `http://127.0.0.1:${port}`,
      region: 'us-east-1',
      forcePathStyle: true,
      credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
    });
    try {
      const error = await new S3BlobStore({ client, bucket: 'b' })
        .delete(['a', 'c'])
        .catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(BlobDeleteError);
      expect(error).toHaveProperty('message', expect.stringContaining("'a': InternalError: try later"));
    } finally {
      client.destroy();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    }
  });
});

describe('metered blob store', () => {
  test('counts requests and bytes', async () => {
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
});

async function list(store: BlobStore, prefix: string): Promise<BlobInfo[]> {
  const blobs: BlobInfo[] = [];
  for await (const blob of store.list(prefix)) blobs.push(blob);
  return blobs;
}

function hash(bytes: Uint8Array | undefined): string {
  return bytes === undefined ? 'missing' : createHash('sha256').update(bytes).digest('hex');
}
