import { afterEach, describe, expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { UrlBlobStore } from '../../src/adapters/web/url-blob-store.ts';
import { CredentialsError, StoreUnavailableError, UsageError } from '../../src/errors.ts';
import { saveBody } from '../../src/log/body.ts';
import { type Handler, ObjectServer } from '../support/stores/object-server.ts';

const RETRIES = { attempts: 3, baseMs: 0, capMs: 0 };
const BYTES = Uint8Array.from({ length: 100 }, (_, i) => i);

let server: ObjectServer | undefined;
afterEach(async () => {
  await server?.stop();
  server = undefined;
});

/** A store behind a server that holds one object and answers some requests by itself. */
async function open(handler?: Handler): Promise<UrlBlobStore> {
  const objects = new MemoryBlobStore();
  await objects.put('one', BYTES);
  server = await ObjectServer.start(objects, handler);
  return new UrlBlobStore({ urlOf: server.urlOf, retries: RETRIES });
}

/** Answers the first `count` requests with a status. */
function first(count: number, status: number, text = ''): Handler & { requests: number } {
  const handler: Handler & { requests: number } = Object.assign(
    ((_, response) => {
      handler.requests++;
      if (handler.requests > count) return false;
      response.writeHead(status).end(text);
      return true;
    }) satisfies Handler,
    { requests: 0 },
  );
  return handler;
}

describe('a blob store behind URLs', () => {
  test.each([400, 429, 503])('it reads again after status %i', async (status) => {
    const handler = first(2, status);
    const store = await open(handler);
    expect(await store.get('one')).toEqual(BYTES);
    expect(handler.requests).toBe(3);
  });

  test('it reads again after an object broke off', async () => {
    let requests = 0;
    const store = await open((_, response) => {
      if (++requests > 1) return false;
      response.writeHead(200, { 'Content-Length': 100 }).write(BYTES.subarray(0, 50), () => response.destroy());
      return true;
    });
    expect(await store.get('one')).toEqual(BYTES);
    expect(requests).toBe(2);
  });

  test('a server that stays unavailable is an error of the store', async () => {
    const handler = first(9, 503);
    const store = await open(handler);
    const error = await store.get('one').catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(StoreUnavailableError);
    expect(error).toHaveProperty(
      'message',
      "the server answered 503 Service Unavailable for 'one'. Try again later. If this repeats, check what `urlOf` returns.",
    );
    expect(handler.requests).toBe(RETRIES.attempts);
  });

  test('a server that does not answer is an error of the store', async () => {
    await open();
    const url = server?.urlOf('one') ?? '';
    await server?.stop();
    server = undefined;
    const store = new UrlBlobStore({ urlOf: () => url, retries: RETRIES });
    const error = await store.get('one').catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(StoreUnavailableError);
    expect(String(error)).toMatch(/'one' could not be fetched: .* Check the network/);
  });

  test('status 403 asks for access, and names the reason of S3 and s3:ListBucket', async () => {
    const handler = first(9, 403, '<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>');
    const store = await open(handler);
    const error = await store.get('one').catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(CredentialsError);
    expect(String(error)).toMatch(/answered 403 AccessDenied for 'one'\. .*give the signer of the URL s3:ListBucket/);
    expect(handler.requests).toBe(1);
  });

  test('it asks for a URL before every request', async () => {
    await open();
    const asked: string[] = [];
    const urlOf = async (key: string) => {
      asked.push(key);
      if (asked.length > 2) throw new Error('signed out');
      return server?.urlOf(key) ?? '';
    };
    const store = new UrlBlobStore({ urlOf, retries: { ...RETRIES, attempts: 1 } });
    await store.get('one');
    await store.get('one');
    const error = await store.get('one').catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(StoreUnavailableError);
    expect(String(error)).toContain("the URL of 'one' could not be found: Error: signed out");
    expect(asked).toEqual(['one', 'one', 'one']);
  });

  test('it reads a range from a server that ignores ranges, in one request', async () => {
    const whole = await open();
    const requests: (string | undefined)[] = [];
    const store = new UrlBlobStore({
      urlOf: (key) => server?.urlOf(key) ?? '',
      fetch: (url, { headers }) => {
        requests.push(headers.Range);
        return fetch(url);
      },
    });
    const range = { from: 90, to: 200 };
    expect(await store.getRange('one', range)).toEqual(await whole.getRange('one', range));
    expect(requests).toEqual(['bytes=90-199']);
  });

  test('it reads the whole object if the size is hidden from the page', async () => {
    const whole = await open();
    const store = new UrlBlobStore({
      urlOf: (key) => server?.urlOf(key) ?? '',
      fetch: async (url, init) => {
        const response = await fetch(url, init);
        // A new Response has no headers of the server.
        return new Response(await response.arrayBuffer(), { status: response.status });
      },
    });
    for (const range of [{ from: 10, to: 20 }, { last: 7 }, { from: 100, to: 101 }]) {
      expect(await store.getRange('one', range)).toEqual(await whole.getRange('one', range));
    }
  });

  test('it writes, deletes and lists nothing', async () => {
    const store = await open();
    const large = new Uint8Array(20_000);
    const log = 'log' as Parameters<typeof saveBody>[1];
    const refused: (() => unknown)[] = [
      () => store.put('one', BYTES),
      () => store.putStream(),
      () => store.update('one'),
      () => store.delete(),
      () => store.deleteUnchanged(),
      () => store.abort(),
      () => Array.fromAsync(store.list()),
      () => Array.fromAsync(store.uploads()),
      () => saveBody({ blobs: store, random: () => 0.5 }, log, { body: { format: 'bytes', bytes: large } }),
    ];
    for (const call of refused) await expect(Promise.try(call)).rejects.toBeInstanceOf(UsageError);
    expect(server?.asked).toEqual([]);
    expect(await store.get('one')).toEqual(BYTES);
  });
});
