import { expect } from 'vitest';
import type { DynamoDbLogStore } from '../../../src/adapters/dynamodb/log-store.ts';
import type { RemoteLogStore } from '../../../src/adapters/web/remote-log-store.ts';
import type { ServerLogs } from '../../../src/adapters/web/server-logs.ts';
import type { UrlBlobStore } from '../../../src/adapters/web/url-blob-store.ts';
import type { ArchivedLogStore } from '../../../src/archive/archived-log-store.ts';
import type { ChunkPlatform } from '../../../src/codec/chunk.ts';
import { UsageError } from '../../../src/errors.ts';
import type { LogId } from '../../../src/ids/log-id.ts';
import { RESERVED_TYPES } from '../../../src/log/entry.ts';
import { encodeEntry } from '../../../src/log/item-codec.ts';
import type { LogReader, TableReader } from '../../../src/log/log-store.ts';
import type { Segment } from '../../../src/log/segment.ts';
import type { BlobStore } from '../../../src/store/blob-store.ts';
import { entryAt, NOON, newLogId } from '../../support/logs.ts';
import { expiring, lastAt, ON_HOLD } from '../../support/segments.ts';
import { logsCalls } from './clients.ts';
import type { MemberCalls } from './recorder.ts';
import { CONSISTENT, EDITS, PAST, SEGMENTS, type World } from './world.ts';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const FIRST = { segment: 0, entry: 0 };
const SECOND = { segment: 0, entry: 1 };

/** The key of an archive of the log. */
async function archiveKey(world: World): Promise<string> {
  const [key = ''] = await world.place.keys(world.log, 'archives');
  return key;
}

/** Calls of a blob store that has the objects of the log. */
export function blobStoreCalls(storeOf: (world: World) => BlobStore): MemberCalls<BlobStore> {
  const listed = async (store: BlobStore, prefix: string) => Array.fromAsync(store.list(prefix), ({ key }) => key);
  return {
    get: async (world) => {
      const key = await archiveKey(world);
      expect(Buffer.from((await storeOf(world).get(key)) ?? [])).toEqual(await world.place.read(key));
    },
    getRange: async (world) => {
      const key = await archiveKey(world);
      const { length: size } = await world.place.read(key);
      expect(await storeOf(world).getRange(key, { last: 4 })).toMatchObject({ size, bytes: { length: 4 } });
    },
    list: async (world) =>
      expect(await listed(storeOf(world), `logs/${world.log}/archives/`)).toEqual(
        await world.place.keys(world.log, 'archives'),
      ),
    put: async (world) => {
      await storeOf(world).put('calls/put', bytes('put'));
      expect(await storeOf(world).get('calls/put')).toEqual(bytes('put'));
    },
    putStream: async (world) => {
      const parts = async function* () {
        yield bytes('two ');
        yield bytes('parts');
      };
      await storeOf(world).putStream('calls/stream', parts());
      expect(await storeOf(world).get('calls/stream')).toEqual(bytes('two parts'));
    },
    update: async (world) => {
      for (const text of ['a', 'b']) {
        await storeOf(world).update('calls/update', (now = new Uint8Array()) => Buffer.concat([now, bytes(text)]));
      }
      expect(await storeOf(world).get('calls/update')).toEqual(bytes('ab'));
    },
    delete: async (world) => {
      const store = storeOf(world);
      await store.put('calls/delete', bytes('gone'));
      await store.delete(['calls/delete']);
      expect(await store.get('calls/delete')).toBeUndefined();
    },
    deleteUnchanged: async (world) => {
      const store = storeOf(world);
      await store.put('calls/unchanged', bytes('gone'));
      expect(await store.deleteUnchanged(await Array.fromAsync(store.list('calls/unchanged')))).toBe(1);
      expect(await listed(store, 'calls/unchanged')).toEqual([]);
    },
    uploads: async (world) => expect(await Array.fromAsync(storeOf(world).uploads('calls/'))).toEqual([]),
    abort: async (world) => {
      const upload = { key: 'calls/none', id: 'none', started: 0 };
      expect(await storeOf(world).abort(upload)).toBeUndefined();
    },
  };
}

/** The part of the first segment, whose entries expired, that a store shows. */
interface Shown {
  readonly entries: number;
  readonly past: object | undefined;
}

const WHOLE: Shown = { entries: EDITS + 2, past: { type: 'Set', number: 4 } };
const TABLES_ONLY: Shown = { entries: 0, past: undefined };

/** Calls that read a log. */
function readerCalls<Store extends LogReader | TableReader>(
  storeOf: (world: World) => Store,
  { entries, past }: Shown,
): Omit<MemberCalls<LogReader>, 'nameItem' | 'meaningOf'> {
  const range = { segment: 0, from: 0, to: 100 };
  return {
    reads: (world) => expect(storeOf(world).reads).toMatch(/^tables/),
    newestSegments: async (world) =>
      expect(await storeOf(world).newestSegments(world.log, 2, CONSISTENT)).toMatchObject([
        { segment: SEGMENTS },
        { segment: SEGMENTS - 1 },
      ]),
    getSegment: async (world) =>
      expect(await storeOf(world).getSegment(world.log, 0, CONSISTENT)).toMatchObject({
        segment: 0,
        archive: { key: await archiveKey(world) },
      }),
    segments: async (world) =>
      expect(await Array.fromAsync(storeOf(world).segments(world.log), ({ segment }) => segment)).toEqual(
        Array.from({ length: SEGMENTS + 1 }, (_, segment) => segment),
      ),
    allSegments: async (world) =>
      expect(await Array.fromAsync(storeOf(world).allSegments(), ({ log }) => log)).toContain(world.log),
    newestEntry: async (world) =>
      expect(await storeOf(world).newestEntry(world.log, 0, CONSISTENT)).toMatchObject({ type: 'End Segment' }),
    getEntry: async (world) => {
      const found = await storeOf(world).getEntry(world.log, PAST, CONSISTENT);
      expect(found).toEqual(past && expect.objectContaining(past));
    },
    entries: async (world) =>
      expect((await Array.fromAsync(storeOf(world).entries(world.log, range, CONSISTENT))).flat()).toHaveLength(
        entries,
      ),
    items: async (world) =>
      expect((await Array.fromAsync(storeOf(world).items(world.log, range, CONSISTENT))).flat()).toHaveLength(entries),
  };
}

const archivedStore = (world: World): ArchivedLogStore => world.record('ArchivedLogStore', world.stores().store);

export const ARCHIVED_LOG_STORE: MemberCalls<ArchivedLogStore> = {
  ...readerCalls(archivedStore, WHOLE),
  // The log has logfold's own schema.
  nameItem: async (world) => expect(await archivedStore(world).nameItem(world.log, PAST)).toBeUndefined(),
  meaningOf: (world) => expect(archivedStore(world).meaningOf(world.log)).toBeUndefined(),
};

const remoteStore = (world: World): RemoteLogStore =>
  world.record('RemoteLogStore', new world.logfold.RemoteLogStore(world.page().send));

export const REMOTE_LOG_STORE: MemberCalls<RemoteLogStore> = {
  ...readerCalls(remoteStore, WHOLE),
  segments: (world) => expect(() => remoteStore(world).segments()).toThrow(UsageError),
  allSegments: (world) => expect(() => remoteStore(world).allSegments()).toThrow(UsageError),
  putEntries: async (world) => {
    const log = await world.smallLog(world.logs);
    await remoteStore(world).putEntries([entryAt(log, { segment: 0, entry: 2 })]);
    expect(await remoteStore(world).newestEntry(log, 0, CONSISTENT)).toMatchObject({ position: { entry: 2 } });
  },
  createLog: async (world) => expect(remoteStore(world).createLog()).rejects.toThrow(UsageError),
  startSegment: async (world) => expect(remoteStore(world).startSegment()).rejects.toThrow(UsageError),
  updateAttributes: async (world) => expect(remoteStore(world).updateAttributes()).rejects.toThrow(UsageError),
  replaceAttributes: async (world) => expect(remoteStore(world).replaceAttributes()).rejects.toThrow(UsageError),
  isRetryable: (world) => expect(remoteStore(world).isRetryable(new Error('lost'))).toBe(false),
};

const urlStore = (world: World): UrlBlobStore => {
  const { urlOf, fetch } = world.page();
  return world.record('UrlBlobStore', new world.logfold.UrlBlobStore({ urlOf, fetch }));
};

export const URL_BLOB_STORE: MemberCalls<UrlBlobStore> = {
  ...blobStoreCalls(urlStore),
  get: async (world) => {
    const [key = ''] = await world.place.keys(world.log, 'bodies');
    expect(Buffer.from((await urlStore(world).get(key)) ?? [])).toEqual(await world.place.read(key));
  },
  getRange: async (world) => {
    const [key = ''] = await world.place.keys(world.log, 'bodies');
    expect(await urlStore(world).getRange(key, { from: 0, to: 4 })).toMatchObject({ bytes: { length: 4 } });
  },
  put: async (world) => expect(urlStore(world).put('calls/put', Uint8Array.of(1))).rejects.toThrow(UsageError),
  putStream: async (world) => expect(urlStore(world).putStream()).rejects.toThrow(UsageError),
  update: async (world) => expect(urlStore(world).update('calls/put')).rejects.toThrow(UsageError),
  delete: async (world) => expect(urlStore(world).delete()).rejects.toThrow(UsageError),
  deleteUnchanged: async (world) => expect(urlStore(world).deleteUnchanged()).rejects.toThrow(UsageError),
  abort: async (world) => expect(urlStore(world).abort()).rejects.toThrow(UsageError),
  list: (world) => expect(() => urlStore(world).list()).toThrow(UsageError),
  uploads: (world) => expect(() => urlStore(world).uploads()).toThrow(UsageError),
};

const tablesOf = (world: World): DynamoDbLogStore => world.record('DynamoDbLogStore', world.stores().tables);

const segmentOf = (log: LogId, segment = 0): Segment => ({ log, segment, created: NOON });
const snapshotAt = (log: LogId, segment: number) => ({
  ...{ log, position: { segment, entry: 0 }, created: NOON, type: 'Snapshot', version: 1 },
});
const endAt = (log: LogId, entry: number) => ({
  ...{ log, position: { segment: 0, entry }, created: NOON, type: 'End Segment', version: 1 },
});
const rootOf = (text: string) => ({ inline: bytes(text) });

/** A log with a Snapshot entry and one more. */
async function tableLog(world: World): Promise<LogId> {
  const log = newLogId();
  await tablesOf(world).createLog(segmentOf(log), snapshotAt(log, 0));
  await tablesOf(world).putEntries([entryAt(log, SECOND, { number: 1 })]);
  return log;
}

/** The first segment of the log, which has an archive. */
async function archived(world: World) {
  const segment = await tablesOf(world).getSegment(world.log, 0, CONSISTENT);
  if (segment?.archive === undefined) throw new Error('the segment has no archive');
  return { segment, archive: segment.archive };
}

export const DYNAMODB_LOG_STORE: MemberCalls<DynamoDbLogStore> = {
  ...readerCalls(tablesOf, TABLES_ONLY),
  newestEntry: async (world) => {
    expect(await tablesOf(world).newestEntry(world.log, 0, CONSISTENT)).toBeUndefined();
    expect(await tablesOf(world).newestEntry(world.log, SEGMENTS, CONSISTENT)).toMatchObject({ log: world.log });
  },
  createLog: async (world) => {
    const log = newLogId();
    await tablesOf(world).createLog(segmentOf(log), snapshotAt(log, 0));
    expect(await tablesOf(world).newestSegments(log, 1, CONSISTENT)).toEqual([segmentOf(log)]);
  },
  putEntries: async (world) => {
    const log = await tableLog(world);
    const again = tablesOf(world).putEntries([entryAt(log, SECOND)]);
    await expect(again).rejects.toMatchObject({ code: 'ENTRY_EXISTS', log });
    expect(await tablesOf(world).getEntry(log, SECOND, CONSISTENT)).toEqual(entryAt(log, SECOND, { number: 1 }));
  },
  startSegment: async (world) => {
    const log = await tableLog(world);
    const next = { end: endAt(log, 2), segment: segmentOf(log, 1), first: snapshotAt(log, 1) };
    await tablesOf(world).startSegment(next);
    expect(await tablesOf(world).getSegment(log, 1, CONSISTENT)).toEqual(segmentOf(log, 1));
  },
  putAhead: async (world) => {
    const log = await tableLog(world);
    const entries = [entryAt(log, { segment: 0, entry: 2 }, { number: 2 })];
    const unread = { log, after: { position: FIRST, number: 0 }, count: 1, types: RESERVED_TYPES };
    await tablesOf(world).putAhead({ entries }, unread);
    expect(await tablesOf(world).newestEntry(log, 0, CONSISTENT)).toMatchObject({ number: 2 });
  },
  replaceAttributes: async (world) => {
    const place = { log: await tableLog(world), segment: 0 };
    expect(await tablesOf(world).replaceAttributes(place, undefined, { org: { N: '7' } })).toBe(true);
    expect(await tablesOf(world).replaceAttributes(place, undefined, { org: { N: '8' } })).toBe(false);
  },
  updateAttributes: async (world) => {
    const update = { set: { mark: { S: 'x' } }, remove: [], expected: { mark: undefined } };
    expect(await tablesOf(world).updateAttributes(await tableLog(world), SECOND, update)).toBeUndefined();
    const closed = tablesOf(world).updateAttributes(world.log, PAST, update);
    await expect(closed).rejects.toMatchObject({ code: 'SEGMENT_CLOSED' });
  },
  removeAttributes: async (world) => {
    const log = await tableLog(world);
    const mark = { mark: { S: 'x' } };
    await tablesOf(world).updateAttributes(log, SECOND, { set: mark, remove: [], expected: {} });
    expect(await tablesOf(world).removeAttributes({ log, segment: 0, entry: 1 }, mark)).toBe(true);
    expect(await tablesOf(world).removeAttributes({ log, segment: 0, entry: 1 }, mark)).toBe(false);
  },
  completeSnapshot: async (world) => {
    const log = await tableLog(world);
    expect(await tablesOf(world).completeSnapshot(log, FIRST, rootOf('one'))).toEqual(rootOf('one'));
    expect(await tablesOf(world).completeSnapshot(log, FIRST, rootOf('two'))).toEqual(rootOf('one'));
  },
  replaceRoot: async (world) => {
    const log = await tableLog(world);
    await tablesOf(world).completeSnapshot(log, FIRST, rootOf('one'));
    expect(await tablesOf(world).replaceRoot(log, FIRST, rootOf('one'), rootOf('two'))).toBe(true);
    expect(await tablesOf(world).replaceRoot(log, FIRST, rootOf('one'), rootOf('two'))).toBe(true);
    expect(await tablesOf(world).replaceRoot(log, FIRST, rootOf('one'), rootOf('six'))).toBe(false);
  },
  advanceLastSnapshot: async (world) => {
    const log = await tableLog(world);
    expect(await tablesOf(world).advanceLastSnapshot(log, lastAt(0, 0))).toBe(true);
    expect(await tablesOf(world).advanceLastSnapshot(world.log, lastAt(0, 0))).toBe(false);
  },
  isRetryable: (world) => expect(tablesOf(world).isRetryable(new Error('lost'))).toBe(false),
  setArchive: async (world) => {
    const { segment, archive } = await archived(world);
    expect(await tablesOf(world).setArchive(segment, { ...archive, root: undefined })).toBe(true);
    const other = { key: 'calls/archive', hash: bytes('x'.repeat(32)), root: undefined };
    expect(await tablesOf(world).setArchive(segment, other)).toBe(false);
  },
  replaceArchive: async (world) => {
    const { segment, archive } = await archived(world);
    expect(await tablesOf(world).replaceArchive(segment, archive)).toBe(true);
    const stale = { ...segment, archive: { ...archive, key: 'calls/archive' } };
    expect(await tablesOf(world).replaceArchive(stale, stale.archive)).toBe(false);
  },
  setExpiration: async (world) => {
    const { segment } = await archived(world);
    expect(segment.expiry).toMatchObject({ state: 'expired' });
    expect(await tablesOf(world).setExpiration(segment, segment.expiry)).toBe(true);
    expect(await tablesOf(world).setExpiration({ ...segment, expiry: ON_HOLD }, undefined)).toBe(false);
  },
  setEntryExpiry: async (world) => {
    expect(await tablesOf(world).setEntryExpiry(await tableLog(world), SECOND, NOON)).toBe(true);
    expect(await tablesOf(world).setEntryExpiry(world.log, PAST, NOON)).toBe(false);
  },
  deleteEntries: async (world) => {
    const log = await tableLog(world);
    await tablesOf(world).deleteEntries(log, 0, [1, 2]);
    expect(await tablesOf(world).getEntry(log, SECOND, CONSISTENT)).toBeUndefined();
  },
  expireEntries: async (world) => {
    const log = await tableLog(world);
    await tablesOf(world).setExpiration(segmentOf(log), expiring(NOON));
    const leaving = { log, segment: 0, expiry: expiring(NOON) };
    expect(await tablesOf(world).expireEntries({ ...leaving, expiry: expiring(NOON + 1) }, [1], 'delete')).toBe(false);
    expect(await tablesOf(world).expireEntries(leaving, [1], 'delete')).toBe(true);
    expect(await tablesOf(world).getEntry(log, SECOND, CONSISTENT)).toBeUndefined();
  },
  unexpireEntries: async (world) => {
    const log = await tableLog(world);
    expect(await tablesOf(world).unexpireEntries({ log, segment: 0 }, [1])).toBe(false);
    await tablesOf(world).setExpiration(segmentOf(log), ON_HOLD);
    expect(await tablesOf(world).unexpireEntries({ log, segment: 0 }, [1])).toBe(true);
  },
  putItems: async (world) => {
    const log = await tableLog(world);
    await tablesOf(world).putItems([encodeEntry(entryAt(log, SECOND, { type: 'Other' }))]);
    expect(await tablesOf(world).getEntry(log, SECOND, CONSISTENT)).toMatchObject({ type: 'Other' });
  },
  putSegment: async (world) => {
    expect(await tablesOf(world).putSegment(segmentOf(newLogId()))).toBe(true);
    expect(await tablesOf(world).putSegment(segmentOf(world.log))).toBe(false);
  },
};

/** Calls of the logs of a server. */
export function serverLogsCalls(
  open: (world: World) => ServerLogs | Promise<ServerLogs>,
  log = (world: World): LogId => world.log,
): MemberCalls<ServerLogs> {
  const allows = () => true;
  return {
    ...logsCalls(open, log),
    answer: async (world) => {
      const logs = await open(world);
      const request = { format: 1, op: 'getEntry', log: log(world), ...PAST, consistent: true };
      expect(await logs.answer(request, { allows })).toEqual({ lines: [expect.stringContaining('Set')] });
      expect(await logs.answer(request, { allows: () => false })).toMatchObject({ error: { code: 'NOT_ALLOWED' } });
    },
    warm: async (world) => {
      expect((await open(world)).warm).toEqual({ logs: expect.any(Number), bytes: expect.any(Number) });
    },
    object: async (world) => {
      const logs = await open(world);
      const key = await keyOf(logs, log(world));
      expect(await logs.object(key, { allows })).toMatchObject({ status: 200 });
      expect(await logs.object(key, { allows, range: 'bytes=0-3' })).toMatchObject({ status: 206 });
      expect(await logs.object(key, { allows: () => false })).toMatchObject({ status: 403 });
    },
  };
}

/** The key of an object that a page of these logs asks for. */
async function keyOf(logs: ServerLogs, log: LogId): Promise<string> {
  const { client } = logs;
  return client.saveFile(log, async function* () {
    yield bytes('file');
  });
}

export function platformCalls(platformOf: (world: World) => ChunkPlatform): MemberCalls<ChunkPlatform> {
  const text = bytes('value '.repeat(100));
  return {
    compress: (world) => expect(platformOf(world).compress(text).length).toBeLessThan(100),
    decompress: (world) => {
      const { compress, decompress } = platformOf(world);
      expect(Buffer.from(decompress(compress(text), 1000)).toString()).toBe('value '.repeat(100));
    },
    sha256: (world) => expect(platformOf(world).sha256(text)).toHaveLength(32),
  };
}
