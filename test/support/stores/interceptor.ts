import type { GroupStore } from '../../../src/feed/group-store.ts';
import type { LogStore } from '../../../src/log/log-store.ts';
import type { MappedItems } from '../../../src/mapping/mapped-items.ts';
import type { BlobStore } from '../../../src/store/blob-store.ts';
import type { JobQueue } from '../../../src/store/job-queue.ts';

/**
 * Code that runs around an operation of a port. It may call `effect` never, once or several times,
 * immediately or later. It may return the result of `effect` or another one, or throw. Each page of
 * a paged operation is one operation.
 */
export type Interceptor = <T>(name: string, effect: () => Promise<T>) => Promise<T>;

export function interceptLogStore(inner: LogStore, intercept: Interceptor): LogStore {
  return {
    reads: inner.reads,
    createLog: (segment, first) => intercept('createLog', () => inner.createLog(segment, first)),
    newestSegments: (log, limit, consistency) =>
      intercept('newestSegments', () => inner.newestSegments(log, limit, consistency)),
    getSegment: (log, segment, consistency) =>
      intercept('getSegment', () => inner.getSegment(log, segment, consistency)),
    segments: (log, consistency) => interceptPages('segments', inner.segments(log, consistency), intercept),
    allSegments: (part, onInvalid) => interceptPages('allSegments', inner.allSegments(part, onInvalid), intercept),
    newestEntry: (log, segment, consistency) =>
      intercept('newestEntry', () => inner.newestEntry(log, segment, consistency)),
    getEntry: (log, position, consistency) => intercept('getEntry', () => inner.getEntry(log, position, consistency)),
    entries: (log, range, consistency) => interceptPages('entries', inner.entries(log, range, consistency), intercept),
    items: (log, range, consistency) => interceptPages('items', inner.items(log, range, consistency), intercept),
    putEntries: (entries) => intercept('putEntries', () => inner.putEntries(entries)),
    startSegment: (items) => intercept('startSegment', () => inner.startSegment(items)),
    putAhead: (items, unread) => intercept('putAhead', () => inner.putAhead(items, unread)),
    replaceAttributes: (place, from, to) =>
      intercept('replaceAttributes', () => inner.replaceAttributes(place, from, to)),
    updateAttributes: (log, position, update) =>
      intercept('updateAttributes', () => inner.updateAttributes(log, position, update)),
    completeSnapshot: (log, position, root, id) =>
      intercept('completeSnapshot', () => inner.completeSnapshot(log, position, root, id)),
    replaceRoot: (log, position, from, to) =>
      intercept('replaceRoot', () => inner.replaceRoot(log, position, from, to)),
    advanceLastSnapshot: (log, to, from) =>
      intercept('advanceLastSnapshot', () => inner.advanceLastSnapshot(log, to, from)),
    removeAttributes: (place, attributes) =>
      intercept('removeAttributes', () => inner.removeAttributes(place, attributes)),
    setArchive: (segment, archive) => intercept('setArchive', () => inner.setArchive(segment, archive)),
    replaceArchive: (segment, archive) => intercept('replaceArchive', () => inner.replaceArchive(segment, archive)),
    setExpiration: (segment, to) => intercept('setExpiration', () => inner.setExpiration(segment, to)),
    setEntryExpiry: (log, position, expires) =>
      intercept('setEntryExpiry', () => inner.setEntryExpiry(log, position, expires)),
    deleteEntries: (log, segment, entries) =>
      intercept('deleteEntries', () => inner.deleteEntries(log, segment, entries)),
    expireEntries: (segment, entries, how) =>
      intercept('expireEntries', () => inner.expireEntries(segment, entries, how)),
    unexpireEntries: (segment, entries) => intercept('unexpireEntries', () => inner.unexpireEntries(segment, entries)),
    putItems: (items) => intercept('putItems', () => inner.putItems(items)),
    putSegment: (segment) => intercept('putSegment', () => inner.putSegment(segment)),
    isRetryable: (error) => inner.isRetryable(error),
  };
}

export function interceptMappedItems(inner: MappedItems, intercept: Interceptor): MappedItems {
  return {
    newest: (log, below, consistency) => intercept('newestItem', () => inner.newest(log, below, consistency)),
    pages: (log, range, consistency) => interceptPages('itemPages', inner.pages(log, range, consistency), intercept),
    logs: (part, onInvalid) => interceptPages('scanLogs', inner.logs(part, onInvalid), intercept),
    putSegment: (segment) => intercept('putMappedSegment', () => inner.putSegment(segment)),
    put: (items) => intercept('putMappedItems', () => inner.put(items)),
    beginSegment: (segment) => intercept('beginSegment', () => inner.beginSegment(segment)),
    expire: (segment, indexes, how) => intercept('expireItems', () => inner.expire(segment, indexes, how)),
    unexpire: (segment, indexes) => intercept('unexpireItems', () => inner.unexpire(segment, indexes)),
    setExpiry: (log, index, expires) => intercept('setItemExpiry', () => inner.setExpiry(log, index, expires)),
  };
}

export function interceptBlobStore(inner: BlobStore, intercept: Interceptor): BlobStore {
  return {
    get: (key) => intercept('get', () => inner.get(key)),
    getRange: (key, range) => intercept('getRange', () => inner.getRange(key, range)),
    put: (key, bytes) => intercept('put', () => inner.put(key, bytes)),
    putStream: async (key, bytes) => {
      await intercept('putStream', nothing);
      await inner.putStream(key, interceptParts(bytes, intercept));
      await intercept('finishUpload', nothing);
    },
    delete: (keys) => intercept('delete', () => inner.delete(keys)),
    deleteUnchanged: (blobs) => intercept('deleteUnchanged', () => inner.deleteUnchanged(blobs)),
    update: (key, change) => intercept('update', () => inner.update(key, change)),
    list: (prefix, options) => interceptPages('list', inner.list(prefix, options), intercept),
    uploads: (prefix) => interceptPages('uploads', inner.uploads(prefix), intercept),
    abort: (upload) => intercept('abort', () => inner.abort(upload)),
  };
}

export function interceptJobQueue(inner: JobQueue, intercept: Interceptor): JobQueue {
  return {
    send: (message) => intercept('send', () => inner.send(message)),
    receive: (options) => intercept('receive', () => inner.receive(options)),
    depth: () => intercept('depth', () => inner.depth()),
    delete: (receipt) => intercept('deleteMessage', () => inner.delete(receipt)),
    changeVisibility: (receipt, visibilityMs) =>
      intercept('changeVisibility', () => inner.changeVisibility(receipt, visibilityMs)),
  };
}

export function interceptGroupStore(inner: GroupStore, intercept: Interceptor): GroupStore {
  return {
    get: (name) => intercept('getGroup', () => inner.get(name)),
    list: () => interceptPages('listGroups', inner.list(), intercept),
    take: (name, lease, first, over) => intercept('takeGroup', () => inner.take(name, lease, first, over)),
    save: (name, lease, progress) => intercept('saveGroup', () => inner.save(name, lease, progress)),
    release: (name, owner, progress) => intercept('releaseGroup', () => inner.release(name, owner, progress)),
  };
}

const nothing = async (): Promise<void> => {};

/**
 * Intercepts each part of an upload. A process that dies between two parts leaves an unfinished
 * upload.
 */
async function* interceptParts(parts: AsyncIterable<Uint8Array>, intercept: Interceptor): AsyncGenerator<Uint8Array> {
  for await (const part of parts) {
    await intercept('uploadPart', nothing);
    yield part;
  }
}

export async function* streamOf(parts: Iterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield* parts;
}

async function* interceptPages<T>(name: string, pages: AsyncIterable<T>, intercept: Interceptor): AsyncGenerator<T> {
  const iterator = pages[Symbol.asyncIterator]();
  for (;;) {
    const page = await intercept(name, () => iterator.next());
    if (page.done === true) return;
    yield page.value;
  }
}
