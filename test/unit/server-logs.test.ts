import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import type { ObjectAnswer, ObjectOptions } from '../../src/adapters/web/answer-object-request.ts';
import { openLogs } from '../../src/adapters/web/open-logs.ts';
import { ServerLogs } from '../../src/adapters/web/server-logs.ts';
import { LogsClosedError, UsageError } from '../../src/errors.ts';
import { type LogId, textLogId } from '../../src/ids/log-id.ts';
import { clampRange } from '../../src/store/blob-store.ts';
import {
  archiveKey,
  bodyKey,
  chunkKey,
  collectedKey,
  condemnedKey,
  logPrefix,
  progressKey,
  rootKey,
  stopKey,
} from '../../src/store/keys.ts';
import { LOG, newLogId } from '../support/logs.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { SheetLog, set } from '../support/sheet-log.ts';
import { testDeployment } from '../support/test-deployment.ts';

const ID = 'ab'.repeat(32);
const AT = { segment: 0, entry: 1 };
const KEPT = 'private, max-age=31536000, immutable';
const LONG = textLogId(`order/${'x'.repeat(300)}`);

/** The keys of every kind of object of a log. */
function keysOf(log: LogId) {
  return {
    chunk: chunkKey(log, ID),
    root: rootKey(log, AT, ID),
    body: bodyKey(log, ID, '0123456789ab'),
    collected: collectedKey(log),
    archive: archiveKey(log, 0, 'ab'.repeat(16)),
    progress: progressKey(log, { target: AT, targetCreated: 1, reached: AT, id: ID }),
    stop: stopKey(log),
    condemned: condemnedKey(log),
  };
}

/** A server with the objects of two logs, each of 1,000 bytes. */
async function server(parseLog?: (text: string) => LogId) {
  const blobs = new MemoryBlobStore();
  const other = newLogId();
  for (const log of [LOG, other, LONG]) {
    for (const key of Object.values(keysOf(log)))
      await blobs.put(
        key,
        Uint8Array.from({ length: 1_000 }, (_, i) => i),
      );
  }
  await blobs.put('sweep.json', Uint8Array.of(1));
  await blobs.put('logs/claim.json', Uint8Array.of(1));
  const logs = new ServerLogs({
    ...testDeployment({ tables: new MemoryLogStore(), blobs }),
    ...(parseLog && { parseLog }),
  });
  const asked: LogId[] = [];
  const allows = (log: LogId): boolean => {
    asked.push(log);
    return log === LOG || log === LONG;
  };
  const object = (key: string, options: Partial<ObjectOptions> = {}) => logs.object(key, { allows, ...options });
  return { logs, blobs, other, asked, object };
}

function shown({ status, headers, body }: ObjectAnswer) {
  return { status, range: headers['Content-Range'], bytes: [body[0], body.at(-1), body.length] };
}

describe('an object for a page', () => {
  test.each(['chunk', 'root', 'body'] as const)(
    'a %s of a log that the user may read is kept by the browser',
    async (kind) => {
      const { object, asked } = await server();
      const { status, headers, body } = await object(keysOf(LOG)[kind]);
      expect({ status, bytes: body.length, asked }).toEqual({ status: 200, bytes: 1_000, asked: [LOG] });
      // A file of an entry may be a page with a script. No browser may run it.
      expect(headers).toEqual({
        'Content-Type': 'application/octet-stream',
        'X-Content-Type-Options': 'nosniff',
        'Cache-Control': KEPT,
        'Accept-Ranges': 'bytes',
      });
    },
  );

  test('the note on collections, which changes, is not kept', async () => {
    const { object } = await server();
    const { status, headers } = await object(collectedKey(LOG));
    expect([status, headers['Cache-Control'], headers['Content-Type']]).toEqual([200, 'no-store', 'application/json']);
  });

  test.each(['archive', 'progress', 'stop', 'condemned'] as const)('a page gets no object of kind %s', async (kind) => {
    const { object, asked } = await server();
    expect((await object(keysOf(LOG)[kind])).status).toBe(403);
    expect(asked).toEqual([]);
  });

  test('a missing object is 404 for a user who may read the log, and 403 for all others', async () => {
    const { object, other } = await server();
    const missing = '0'.repeat(64);
    const answers = [await object(chunkKey(LOG, missing)), await object(chunkKey(other, missing))];
    expect(answers.map(({ status }) => status)).toEqual([404, 403]);
    // A missing object may exist later.
    expect(answers.map(({ headers }) => headers['Cache-Control'])).toEqual(['no-store', 'no-store']);
    expect((await object(chunkKey(other, ID))).status).toBe(403);
  });

  test.each([
    'sweep.json',
    'logs/claim.json',
    'logs/',
    '',
    '/',
    '..',
    `logs/${LOG}/chunks/../../../sweep.json`,
    `logs/${LOG}/chunks/%2e%2e/${ID}`,
    encodeURIComponent(chunkKey(LOG, ID)),
    `/${chunkKey(LOG, ID)}`,
    `${chunkKey(LOG, ID)}/`,
    `${chunkKey(LOG, ID)}\n`,
    `${chunkKey(LOG, ID)}\0`,
    `logs//${LOG}/chunks/${ID}`,
    `logs\\${LOG}\\chunks\\${ID}`,
    `logs/${LOG.toUpperCase()}/chunks/${ID}`,
    `logs/${LOG}/chunks/${ID.toUpperCase()}`,
    `logs/${LOG}/other/${ID}`,
    `logs/~feed/chunks/${ID}`,
    `logs/~~${'0'.repeat(64)}/chunks/${ID}`,
    `logs/~order=2F7/chunks/${ID}`,
  ])('the key %j is refused without a look at the bucket', async (key) => {
    const { object, asked } = await server();
    expect((await object(key)).status).toBe(403);
    expect(asked).toEqual([]);
  });

  test('values of other types, as frameworks give for repeated parameters, are refused', async () => {
    const { object } = await server();
    for (const key of [undefined, null, 7, [chunkKey(LOG, ID)], { toString: () => chunkKey(LOG, ID) }]) {
      expect((await object(key as unknown as string)).status).toBe(403);
    }
  });

  test('only exactly true allows', async () => {
    const { object } = await server();
    for (const answer of [undefined, 1, 'true', null, {}, Promise.resolve(1)]) {
      const allows = () => answer as unknown as boolean;
      expect((await object(chunkKey(LOG, ID), { allows })).status).toBe(403);
    }
    const down = () => object(chunkKey(LOG, ID), { allows: () => Promise.reject(new Error('no database')) });
    await expect(down()).rejects.toThrow('no database');
  });

  test('no key of another log is answered, however it is written', async () => {
    const { object, other } = await server();
    const keys = [...Object.values(keysOf(other)), ...Object.values(keysOf(LOG))];
    const part = fc.oneof(
      fc.constantFrom(...keys.flatMap((key) => key.split('/')), '..', '.', '', '%2f', '\\'),
      fc.string(),
    );
    const key = fc.oneof(
      fc.constantFrom(...keys),
      fc.array(part, { maxLength: 6 }).map((parts) => parts.join('/')),
    );
    await fc.assert(
      fc.asyncProperty(key, async (given) => {
        const { status } = await object(given);
        if (status !== 403) expect(given.startsWith(logPrefix(LOG))).toBe(true);
      }),
      { numRuns: propertyRuns(2_000) },
    );
  });

  test('a log whose keys have a hash instead of its id is named by the page', async () => {
    const { object } = await server(textLogId);
    const key = chunkKey(LONG, ID);
    expect((await object(key)).status).toBe(403);
    expect((await object(key, { log: LONG })).status).toBe(200);
    expect((await object(key, { log: LOG })).status).toBe(403);
    expect((await object(chunkKey(LOG, ID), { log: LONG })).status).toBe(403);
  });

  test.each([
    ['bytes=0-9', 206, 'bytes 0-9/1000', [0, 9, 10]],
    ['bytes=990-', 206, 'bytes 990-999/1000', [990 % 256, 999 % 256, 10]],
    ['bytes=-3', 206, 'bytes 997-999/1000', [997 % 256, 999 % 256, 3]],
    ['bytes=0-5000', 206, 'bytes 0-999/1000', [0, 999 % 256, 1_000]],
    ['bytes=-5000', 206, 'bytes 0-999/1000', [0, 999 % 256, 1_000]],
    ['bytes=0-999999999999999', 206, 'bytes 0-999/1000', [0, 999 % 256, 1_000]],
    ['bytes=5-2', 200, undefined, [0, 999 % 256, 1_000]],
    ['bytes=0-1,5-6', 200, undefined, [0, 999 % 256, 1_000]],
    ['bytes=0-99999999999999999999', 200, undefined, [0, 999 % 256, 1_000]],
    ['bytes=-', 200, undefined, [0, 999 % 256, 1_000]],
    ['rows=0-9', 200, undefined, [0, 999 % 256, 1_000]],
  ] as const)('the range %s is answered with %d', async (range, status, contentRange, bytes) => {
    const { object } = await server();
    expect(shown(await object(chunkKey(LOG, ID), { range }))).toEqual({ status, range: contentRange, bytes });
  });

  test.each(['bytes=1000-', 'bytes=5000-6000', 'bytes=-0'])('the range %s is outside of the object', async (range) => {
    const { object } = await server();
    const { status, headers } = await object(chunkKey(LOG, ID), { range });
    expect([status, headers['Content-Range']]).toEqual([416, 'bytes */1000']);
  });

  test('an empty file is an empty answer', async () => {
    const { object, blobs } = await server();
    await blobs.put(keysOf(LOG).body, new Uint8Array());
    const { status, body } = await object(keysOf(LOG).body);
    expect([status, body.length]).toEqual([200, 0]);
  });

  describe('a large file', () => {
    const MIB = 1024 * 1024;

    /** A server with a file of this size, and the numbers of bytes that it reads. */
    function largeFile(size: number) {
      const read: number[] = [];
      const blobs = new MemoryBlobStore();
      blobs.getRange = async (_, range) => {
        const { from, to } = clampRange(range, size);
        read.push(to - from);
        // The first byte of each mebibyte has its number.
        const bytes = new Uint8Array(to - from);
        for (let i = Math.ceil(from / MIB); i * MIB < to; i++) bytes[i * MIB - from] = i;
        return { bytes, size };
      };
      const logs = new ServerLogs(testDeployment({ tables: new MemoryLogStore(), blobs }));
      return { read, object: (range?: string) => logs.object(keysOf(LOG).body, { allows: () => true, range }) };
    }

    test.each([undefined, 'bytes=0-', 'bytes=-67108865'])(
      'is refused after 8 MiB: no answer fills the memory of the server (%s)',
      async (range) => {
        const { read, object } = largeFile(64 * MIB + 1);
        expect((await object(range)).status).toBe(413);
        expect(read).toEqual([8 * MIB]);
      },
    );

    test.each([
      [undefined, 20, 0],
      ['bytes=0-', 20, 0],
      ['bytes=1048576-', 19, 1],
      ['bytes=-10485760', 10, 10],
      ['bytes=1048576-2097151', 1, 1],
    ])('is answered with the bytes that %s asks for, in a buffer without others', async (range, length, first) => {
      const { read, object } = largeFile(20 * MIB);
      const { body } = await object(range);
      expect([body.length, body.buffer.byteLength]).toEqual([length * MIB, length * MIB]);
      const numbers = Array.from({ length }, (_, i) => body[i * MIB]);
      expect(numbers).toEqual(numbers.map((__, i) => first + i));
      expect(read.length).toBe(length > 8 ? 2 : 1);
    });

    test('is not copied', async () => {
      const bytes = new Uint8Array(9 * MIB);
      const blobs = new MemoryBlobStore();
      blobs.getRange = async (_, range) => {
        const { from, to } = clampRange(range, bytes.length);
        return { bytes: from === 0 && to === bytes.length ? bytes : bytes.subarray(from, to), size: bytes.length };
      };
      const logs = new ServerLogs(testDeployment({ tables: new MemoryLogStore(), blobs }));
      const { body } = await logs.object(keysOf(LOG).body, { allows: () => true });
      expect(body.buffer).toBe(bytes.buffer);
      const part = await logs.object(keysOf(LOG).body, { allows: () => true, range: 'bytes=0-9' });
      expect(part.body.buffer.byteLength).toBe(10);
    });
  });
});

describe('a page on the answers of its server', () => {
  test('it opens a log, reads its chunks and appends', async () => {
    const sheet = await SheetLog.create();
    await sheet.fill(300, 20);
    await sheet.completed();
    const logs = new ServerLogs(testDeployment({ tables: sheet.tables, blobs: sheet.blobs }));
    const allows = (log: LogId): boolean => log === sheet.log;
    const json = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
    const page = await openLogs({
      platform: nativePlatform,
      urlOf: encodeURIComponent,
      fetch: async (url, { headers }) => {
        const { status, body, ...answer } = await logs.object(decodeURIComponent(url), {
          allows,
          range: headers.Range,
        });
        return new Response(body, { status, headers: { ...answer.headers } });
      },
      send: async (request) => json(await logs.answer(json(request), { allows })),
    });
    const document = await page.open(sheet.log, { reducer: sheet.deps.reducer });
    const corner = { rows: { from: 0, to: 1 }, columns: { from: 0, to: 1 } };
    expect(await document.view(corner)).not.toEqual([[null]]);
    await document.append({ type: 'Set', version: 1, body: [[0, 0, 'of the page']] });
    expect(await document.view(corner)).toEqual([['of the page']]);
    await expect(page.open(newLogId(), { reducer: sheet.deps.reducer })).rejects.toMatchObject({ code: 'NOT_ALLOWED' });
    await sheet.edit(set(1, 0, 'later'));
    expect(await document.refresh()).toBe(true);
  });

  test('closed logs, and calls without a check of permissions, are refused', async () => {
    const { logs } = await server();
    const key = chunkKey(LOG, ID);
    const none = {} as unknown as ObjectOptions;
    await expect(logs.object(key, none)).rejects.toThrow(UsageError);
    await expect(logs.answer({}, none)).rejects.toThrow(UsageError);
    await expect(logs.answer({}, undefined as unknown as ObjectOptions)).rejects.toThrow(UsageError);
    await logs.close();
    await expect(logs.object(key, { allows: () => true })).rejects.toThrow(LogsClosedError);
    await expect(logs.answer({}, { allows: () => true })).rejects.toThrow(LogsClosedError);
  });
});
