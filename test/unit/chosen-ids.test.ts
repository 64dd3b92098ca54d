import { describe, expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import {
  EntryExistsError,
  LogIdInvalidError,
  LogNotFoundError,
  StoreUnavailableError,
  UsageError,
} from '../../src/errors.ts';
import { type LogListOptions, Logs } from '../../src/exports/logfold.ts';
import { parseLogId } from '../../src/ids/log-id.ts';
import { listedIdKey, parseListedId } from '../../src/store/keys.ts';
import { versionedSheet } from '../support/models/versioned-sheet.ts';
import { SheetLogs } from '../support/sheet-logs.ts';
import { type Interceptor, interceptBlobStore, interceptLogStore } from '../support/stores/interceptor.ts';
import { testDeployment } from '../support/test-deployment.ts';

/** Texts that could lead out of a directory, end a key, or be taken for something else. */
const HOSTILE = [
  '../..',
  '/',
  'a/../b',
  'a\0b',
  'Feed',
  'FEED',
  '__proto__',
  '.id',
  'é',
  'e\u0301',
  '-x',
  `'; rm -rf /`,
  'x'.repeat(256),
];

class Place {
  readonly tables = new MemoryLogStore();
  readonly blobs = new MemoryBlobStore();
  readonly requests: string[] = [];
  intercept: Interceptor = (_, effect) => effect();

  logs(): Logs {
    const note: Interceptor = (name, effect) => {
      this.requests.push(name);
      return this.intercept(name, effect);
    };
    const ports = { tables: interceptLogStore(this.tables, note), blobs: interceptBlobStore(this.blobs, note) };
    return new Logs({ ...testDeployment(ports), retries: { attempts: 2, baseMs: 1, capMs: 1 } });
  }

  async listed(options: LogListOptions): Promise<string[]> {
    return Array.fromAsync(this.logs().list(options), ({ log }) => log);
  }
}

const bytewise = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));

describe('a log with a chosen id', () => {
  test('it is created once, opened by its id, and listed', async () => {
    const place = new Place();
    const logs = place.logs();
    expect(await logs.create('org-7/budget')).toBe('org-7/budget');
    // The id is listed first, so that no crash leaves a log that is not.
    expect(place.requests).toEqual(['put', 'createLog']);
    await expect(logs.create('org-7/budget')).rejects.toThrow(EntryExistsError);
    const document = await logs.open('org-7/budget', { reducer: versionedSheet(1) });
    await document.append({ type: 'Set', version: 1, body: [[0, 0, 'Denver']] });
    expect(document.log).toBe('org-7/budget');
    expect(await Array.fromAsync(logs.list({ prefix: 'org-7/' }))).toEqual([
      { log: 'org-7/budget', created: expect.any(Number) },
    ]);
    await expect(logs.open('org-7/Budget', { reducer: versionedSheet(1) })).rejects.toThrow(LogNotFoundError);
  });

  test('if it may exist, creating it again leaves it as it is', async () => {
    const place = new Place();
    const logs = place.logs();
    const log = await logs.create('org-7/budget', { ifMissing: true, attributes: { owner: 'ann' } });
    const add = () => logs.client.addEntry(log, { type: 'Set', version: 1, body: [[0, 0, 'Denver']] });
    const { position } = await add();
    expect(await logs.create(log, { ifMissing: true, attributes: { owner: 'bob' } })).toBe('org-7/budget');
    expect(await logs.client.logAttributes(log)).toEqual({ owner: 'ann' });
    expect((await add()).position).toEqual({ ...position, entry: position.entry + 1 });
    place.intercept = async (name, effect) => {
      if (name === 'createLog') throw new StoreUnavailableError('the store does not answer');
      return effect();
    };
    await expect(logs.create('org-7/plan', { ifMissing: true })).rejects.toThrow('the store does not answer');
  });

  test('a log with a UUID is not listed by prefix, and costs no request more', async () => {
    const place = new Place();
    const log = await place.logs().create();
    await place.logs().create(log.replace(/^.{8}/, 'ABCDEF01'));
    expect(place.requests).toEqual(['createLog', 'createLog']);
    expect(await place.listed({ prefix: '' })).toEqual([]);
    const all = await Array.fromAsync(place.logs().list(), (listed) => listed.log);
    expect(all.sort()).toEqual([log, log.replace(/^.{8}/, 'abcdef01')].sort());
  });

  test('hostile ids are different logs, and are listed as they are', async () => {
    const place = new Place();
    const logs = place.logs();
    for (const id of HOSTILE) expect(await logs.create(id)).toBe(id);
    expect(await place.listed({ prefix: '' })).toEqual(HOSTILE.toSorted(bytewise));
    const all = await Array.fromAsync(logs.list(), (listed) => listed.log);
    expect(all.toSorted(bytewise)).toEqual(HOSTILE.toSorted(bytewise));
    for (const id of HOSTILE) expect((await logs.open(id, { reducer: versionedSheet(1) })).log).toBe(id);
    for (const id of ['', 'feed', 'x'.repeat(257), '\ud800', '0192f7a0-5b1c-0000-0000-2a3b4c5d6e7f']) {
      await expect(logs.create(id)).rejects.toThrow(LogIdInvalidError);
    }
  });

  test('a crash between listing and creating leaves no log in a listing, and the next create mends it', async () => {
    const place = new Place();
    place.intercept = async (name, effect) => {
      if (name === 'createLog') throw new StoreUnavailableError('the connection was lost');
      return effect();
    };
    await expect(place.logs().create('a')).rejects.toThrow(StoreUnavailableError);
    expect(await Array.fromAsync(place.blobs.list('ids/'), ({ key }) => parseListedId(key))).toEqual(['a']);
    place.intercept = (_, effect) => effect();
    expect(await place.listed({ prefix: '' })).toEqual([]);
    await place.logs().create('a');
    expect(await place.listed({ prefix: '' })).toEqual(['a']);
  });

  test('a log whose id cannot be listed is not created', async () => {
    const place = new Place();
    place.intercept = async (name, effect) => {
      if (name === 'put') throw new StoreUnavailableError('the bucket does not answer');
      return effect();
    };
    await expect(place.logs().create('a')).rejects.toThrow(StoreUnavailableError);
    expect(await Array.fromAsync(place.logs().list())).toEqual([]);
  });

  test('a listing that lost an id, as after a restore of an older bucket, gets it back by create', async () => {
    const place = new Place();
    await place.logs().create('a');
    await place.blobs.delete([listedIdKey(parseLogId('a'))]);
    expect(await place.listed({ prefix: '' })).toEqual([]);
    await expect(place.logs().create('a')).rejects.toThrow(EntryExistsError);
    expect(await place.listed({ prefix: '' })).toEqual(['a']);
  });

  test('garbage collection leaves the listed ids', async () => {
    const sheets = new SheetLogs(undefined, undefined, () => parseLogId('org-7/budget'));
    await sheets.atRest();
    await sheets.deps.blobs.put(listedIdKey(parseLogId('org-7/budget')), Uint8Array.of(1));
    sheets.nowMs += 400 * 86_400_000;
    await sheets.sweep({});
    expect(await Array.fromAsync(sheets.deps.blobs.list('ids/'))).toHaveLength(1);
  });
});

describe('a listing by prefix', () => {
  const IDS = ['org-6', 'org-7', 'org-7/', 'org-7/a', 'org-7/b', 'org-70', 'ärger', '😀'];

  async function filled(): Promise<Place> {
    const place = new Place();
    for (const id of IDS) await place.logs().create(id);
    place.requests.length = 0;
    return place;
  }

  test('it has the logs whose ids begin with the text, and scans nothing', async () => {
    const place = await filled();
    expect(await place.listed({ prefix: 'org-7/' })).toEqual(['org-7/', 'org-7/a', 'org-7/b']);
    expect(place.requests).not.toContain('allSegments');
    expect(await place.listed({ prefix: 'org-7' })).toEqual(['org-7', 'org-7/', 'org-7/a', 'org-7/b', 'org-70']);
    expect(await place.listed({ prefix: 'ä' })).toEqual(['ärger']);
    expect(await place.listed({ prefix: 'Org' })).toEqual([]);
  });

  test.each([1, 2, 3, 8, 20])('its pages of %i logs have every log once', async (limit) => {
    const place = await filled();
    const pages: string[] = [];
    for (let after: string | undefined; ; ) {
      const page = await place.listed({ prefix: '', limit, after });
      if (page.length === 0) break;
      expect(page.length).toBeLessThanOrEqual(limit);
      pages.push(...page);
      after = page.at(-1);
    }
    expect(pages).toEqual(IDS.toSorted(bytewise));
  });

  test('ids without a log do not fill its pages', async () => {
    const place = await filled();
    for (const id of ['org-7/0', 'org-7/1', 'org-7/2']) {
      await place.blobs.put(listedIdKey(parseLogId(id)), Uint8Array.of(1));
    }
    // Objects of other programs.
    for (const key of ['ids/x.id', 'ids/666565640.id', `ids/${Buffer.from('feed').toString('hex')}.id`]) {
      await place.blobs.put(key, Uint8Array.of(1));
    }
    expect(await place.listed({ prefix: 'org-7/', limit: 2 })).toEqual(['org-7/', 'org-7/a']);
    expect(await place.listed({ prefix: '' })).toEqual(IDS.toSorted(bytewise));
  });

  test.each([
    ['no prefix', {}],
    ['a prefix that is not text', { prefix: 7 }],
    ['a prefix with half a character', { prefix: '\ud800' }],
    ['a prefix that is longer than ids', { prefix: 'x'.repeat(257) }],
    ['a limit of 0', { prefix: '', limit: 0 }],
    ['a limit that is not a number', { prefix: '', limit: 'ten' }],
    ['an empty id to continue after', { prefix: '', after: '' }],
    ['another option', { prefix: '', from: 'a' }],
  ])('%s is refused without a request', async (_what, options) => {
    const place = await filled();
    const logs = place.logs();
    await expect(Reflect.apply(logs.list, logs, [options]).next()).rejects.toThrow(UsageError);
    expect(place.requests).toEqual([]);
  });
});
