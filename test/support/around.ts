import type { LogStore } from '../../src/log/log-store.ts';
import type { BlobStore } from '../../src/store/blob-store.ts';
import type { JobQueue } from '../../src/store/job-queue.ts';

/**
 * What is to happen around one operation of a port: it calls `effect` or not, once or twice, at once or later, and
 * gives its answer on, or another, or none. A page of a paged operation is an operation of its own.
 */
export type Around = <T>(name: string, effect: () => Promise<T>) => Promise<T>;

export function aroundLogStore(inner: LogStore, around: Around): LogStore {
  return {
    reads: inner.reads,
    createLog: (segment, first) => around('createLog', () => inner.createLog(segment, first)),
    newestSegments: (log, limit, consistency) =>
      around('newestSegments', () => inner.newestSegments(log, limit, consistency)),
    getSegment: (log, segment, consistency) => around('getSegment', () => inner.getSegment(log, segment, consistency)),
    segments: (log, consistency) => aroundPages('segments', inner.segments(log, consistency), around),
    allSegments: (part, onInvalid) => aroundPages('allSegments', inner.allSegments(part, onInvalid), around),
    newestEntry: (log, segment, consistency) =>
      around('newestEntry', () => inner.newestEntry(log, segment, consistency)),
    getEntry: (log, position, consistency) => around('getEntry', () => inner.getEntry(log, position, consistency)),
    entries: (log, range, consistency) => aroundPages('entries', inner.entries(log, range, consistency), around),
    items: (log, range, consistency) => aroundPages('items', inner.items(log, range, consistency), around),
    putEntries: (entries) => around('putEntries', () => inner.putEntries(entries)),
    startSegment: (items) => around('startSegment', () => inner.startSegment(items)),
    completeSnapshot: (log, position, root) =>
      around('completeSnapshot', () => inner.completeSnapshot(log, position, root)),
    replaceRoot: (log, position, from, to) => around('replaceRoot', () => inner.replaceRoot(log, position, from, to)),
    advanceLastSnapshot: (log, position) =>
      around('advanceLastSnapshot', () => inner.advanceLastSnapshot(log, position)),
    setArchive: (segment, archive) => around('setArchive', () => inner.setArchive(segment, archive)),
    replaceArchive: (segment, archive) => around('replaceArchive', () => inner.replaceArchive(segment, archive)),
    setExpiration: (segment, to) => around('setExpiration', () => inner.setExpiration(segment, to)),
    setEntryExpiry: (log, position, expires) =>
      around('setEntryExpiry', () => inner.setEntryExpiry(log, position, expires)),
    deleteEntries: (log, segment, entries) => around('deleteEntries', () => inner.deleteEntries(log, segment, entries)),
    expireEntries: (segment, entries, how) => around('expireEntries', () => inner.expireEntries(segment, entries, how)),
    unexpireEntries: (segment, entries) => around('unexpireEntries', () => inner.unexpireEntries(segment, entries)),
    putItems: (items) => around('putItems', () => inner.putItems(items)),
    putSegment: (segment) => around('putSegment', () => inner.putSegment(segment)),
    isRetryable: (error) => inner.isRetryable(error),
  };
}

export function aroundBlobStore(inner: BlobStore, around: Around): BlobStore {
  return {
    get: (key) => around('get', () => inner.get(key)),
    getRange: (key, range) => around('getRange', () => inner.getRange(key, range)),
    put: (key, bytes) => around('put', () => inner.put(key, bytes)),
    putStream: async (key, bytes) => {
      await around('putStream', nothing);
      await inner.putStream(key, eachAround(bytes, around));
      await around('finishUpload', nothing);
    },
    delete: (keys) => around('delete', () => inner.delete(keys)),
    deleteUnchanged: (blobs) => around('deleteUnchanged', () => inner.deleteUnchanged(blobs)),
    update: (key, change) => around('update', () => inner.update(key, change)),
    list: (prefix, options) => aroundPages('list', inner.list(prefix, options), around),
    uploads: (prefix) => aroundPages('uploads', inner.uploads(prefix), around),
    abort: (upload) => around('abort', () => inner.abort(upload)),
  };
}

export function aroundJobQueue(inner: JobQueue, around: Around): JobQueue {
  return {
    send: (message) => around('send', () => inner.send(message)),
    receive: (options) => around('receive', () => inner.receive(options)),
    depth: () => around('depth', () => inner.depth()),
    delete: (receipt) => around('deleteMessage', () => inner.delete(receipt)),
    changeVisibility: (receipt, visibilityMs) =>
      around('changeVisibility', () => inner.changeVisibility(receipt, visibilityMs)),
  };
}

const nothing = async (): Promise<void> => {};

/** The parts of an upload. Whoever dies between two of them leaves one behind that was begun and never finished. */
async function* eachAround(parts: AsyncIterable<Uint8Array>, around: Around): AsyncGenerator<Uint8Array> {
  for await (const part of parts) {
    await around('uploadPart', nothing);
    yield part;
  }
}

/** Parts as a stream. */
export async function* streamOf(parts: Iterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield* parts;
}

async function* aroundPages<T>(name: string, pages: AsyncIterable<T>, around: Around): AsyncGenerator<T> {
  const iterator = pages[Symbol.asyncIterator]();
  for (;;) {
    const page = await around(name, () => iterator.next());
    if (page.done === true) return;
    yield page.value;
  }
}
