import { join } from 'node:path';
import fc from 'fast-check';
import { FilesystemBlobStore, openLogs } from 'logfold/local';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { PAGE_NAMES, PrefixBlobStore } from '../../examples/infinisheet/blob-store.ts';
import { eventLog, eventLogOf, type LogEntry, LogWorkerHost } from '../../examples/infinisheet/event-log.ts';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { findDynoxide } from '../../src/local/engine-program.ts';
import { FoldedLogs } from '../support/folded-logs.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { temporaryDirectory } from '../support/stores/shared-engine.ts';

type Test = LogEntry & { readonly type: 'test'; readonly index: number };
const entry = (index: number): Test => ({ type: 'test', index });
const readTest = (given: { readonly [name: string]: unknown }): Test => ({
  ...given,
  type: 'test',
  index: Number(given.index),
});

/** A new event log, and its document. */
function newEventLog(place = new FoldedLogs(eventLog)) {
  const logs = place.logs();
  const document = logs.create().then((log) => logs.open(log, { reducer: eventLog }));
  return { place, document, log: eventLogOf(document, readTest) };
}

/** Opens the log of a document as another process. */
async function reopened(place: FoldedLogs, log: string) {
  const document = await place.logs().open(log, { reducer: eventLog });
  return { document, log: eventLogOf(document, readTest) };
}

describe('an event log', () => {
  test('adds an entry only with the next sequence id, and a conflict names it', async () => {
    const { place, document, log } = newEventLog();
    expect((await log.addEntry(entry(0), 0n)).isOk()).toBe(true);
    const other = await reopened(place, (await document).log);
    expect((await other.log.addEntry(entry(1), 1n)).isOk()).toBe(true);
    const late = await log.addEntry(entry(2), 1n);
    expect(late._unsafeUnwrapErr()).toMatchObject({ type: 'ConflictError', nextSequenceId: 2n });
    const early = await log.addEntry(entry(2), 3n);
    expect(early._unsafeUnwrapErr()).toMatchObject({ type: 'ConflictError', nextSequenceId: 2n });
    const { entries } = (await log.query('start', 'end'))._unsafeUnwrap();
    expect(entries.map(({ index }) => index)).toEqual([0, 1]);
  });

  test('answers with an error of its store instead of throwing', async () => {
    const { document, log } = newEventLog();
    (await document).close();
    expect((await log.query('start', 'end'))._unsafeUnwrapErr().type).toBe('StorageError');
    expect((await log.addEntry(entry(0), 0n))._unsafeUnwrapErr().type).toBe('StorageError');
    expect((await log.truncate(0n))._unsafeUnwrapErr().type).toBe('StorageError');
  });

  test('is the same after its document was loaded from a snapshot', async () => {
    const { place, document, log } = newEventLog();
    for (let i = 0n; i < 25n; i++) await log.addEntry(entry(Number(i)), i);
    await log.setMetadata(12n, { snapshot: 'twelve', pending: 'more' });
    await log.setMetadata(20n, { snapshot: 'twenty' });
    await log.truncate(5n);
    expect(await place.snapshot((await document).log)).toMatchObject({ outcome: 'built' });
    const other = await reopened(place, (await document).log);
    expect(other.document.snapshot).toBeDefined();
    for (const from of ['start', 'snapshot', 12n] as const) {
      expect(await other.log.query(from, 'end', 12n)).toEqual(await log.query(from, 'end', 12n));
    }
    expect((await other.log.query('start', 'end', 12n))._unsafeUnwrap()).toMatchObject({
      startSequenceId: 5n,
      endSequenceId: 15n,
      isComplete: false,
      lastSnapshot: { sequenceId: 20n, blobId: 'twenty' },
    });
  });

  type Call =
    | { readonly call: 'add'; readonly off: number; readonly known: bigint; readonly pending: boolean }
    | { readonly call: 'metadata'; readonly at: bigint; readonly snapshot: string | undefined }
    | { readonly call: 'truncate'; readonly to: bigint }
    | { readonly call: 'query'; readonly from: bigint | 'start' | 'snapshot'; readonly to: bigint | 'end' };
  const id = fc.bigInt({ min: -1n, max: 30n });
  const calls = fc.array(
    fc.oneof(
      {
        weight: 5,
        arbitrary: fc.record({
          call: fc.constant('add' as const),
          off: fc.constantFrom(0, 0, 0, 0, 1, -1),
          known: id,
          pending: fc.boolean(),
        }),
      },
      fc.record({ call: fc.constant('metadata' as const), at: id, snapshot: fc.constantFrom('a', 'b', '', undefined) }),
      fc.record({ call: fc.constant('truncate' as const), to: id }),
      {
        weight: 3,
        arbitrary: fc.record({
          call: fc.constant('query' as const),
          from: fc.oneof(id, fc.constantFrom('start' as const, 'snapshot' as const)),
          to: fc.oneof(id, fc.constant('end' as const)),
        }),
      },
    ),
    { maxLength: 60 },
  );

  test('answers each call of two processes as a plain array does', async () => {
    await fc.assert(
      fc.asyncProperty(calls, fc.infiniteStream(fc.boolean()), async (made, second) => {
        const first = newEventLog();
        const other = await reopened(first.place, (await first.document).log);
        const model = new PlainEventLog();
        for (const call of made as readonly Call[]) {
          const { log } = second.next().value === true ? other : first;
          if (call.call === 'add') {
            const added = { ...entry(model.end), ...(call.pending && { pending: 'w' }) };
            const at = BigInt(model.end + call.off);
            expect(plain(await log.addEntry(added, at, call.known))).toEqual(model.addEntry(added, at, call.known));
          } else if (call.call === 'metadata') {
            const fields = { snapshot: call.snapshot };
            expect(plain(await log.setMetadata(call.at, fields))).toEqual(model.setMetadata(call.at, fields));
          } else if (call.call === 'truncate') {
            expect(plain(await log.truncate(call.to))).toEqual(model.truncate(call.to));
          } else {
            expect(plain(await log.query(call.from, call.to, 3n))).toEqual(model.query(call.from, call.to, 3n));
          }
        }
      }),
      { numRuns: propertyRuns(200) },
    );
  });
});

/** A result without the texts of errors. */
function plain(result: {
  isOk(): boolean;
  _unsafeUnwrap(): unknown;
  _unsafeUnwrapErr(): { readonly type: string; readonly nextSequenceId?: bigint };
}): unknown {
  if (result.isOk()) return { ok: result._unsafeUnwrap() };
  const { type, nextSequenceId } = result._unsafeUnwrapErr();
  return { type, ...(nextSequenceId !== undefined && { nextSequenceId }) };
}

/** The event log as an array, whose answers have the form of {@link plain}. */
class PlainEventLog {
  #start = 0;
  #entries: Test[] = [];

  get end(): number {
    return this.#start + this.#entries.length;
  }

  addEntry(added: Test, at: bigint, known: bigint): unknown {
    if (Number(at) !== this.end) return { type: 'ConflictError', nextSequenceId: BigInt(this.end) };
    this.#entries.push(added);
    return { ok: this.#newer(known) };
  }

  setMetadata(at: bigint, fields: { readonly snapshot: string | undefined }): unknown {
    const index = Number(at) - this.#start;
    const found = this.#entries[index];
    if (found === undefined) return { type: 'InfinisheetRangeError' };
    this.#entries[index] = { ...found, ...fields };
    return { ok: undefined };
  }

  truncate(to: bigint): unknown {
    if (Number(to) < this.#start || Number(to) > this.end) return { type: 'InfinisheetRangeError' };
    this.#entries = this.#entries.slice(Number(to) - this.#start);
    this.#start = Number(to);
    return { ok: undefined };
  }

  query(from: bigint | 'start' | 'snapshot', to: bigint | 'end', known: bigint): unknown {
    const newest = this.#snapshot();
    const first = typeof from === 'bigint' ? Number(from) : from === 'start' ? this.#start : (newest ?? this.#start);
    if (first < this.#start || first > this.end) return { type: 'InfinisheetRangeError' };
    const last = to === 'end' ? this.end : Number(to);
    const entries = this.#entries.filter((_, i) => {
      const at = this.#start + i;
      return at >= first && at < last && at < first + 10;
    });
    const ids = { startSequenceId: BigInt(first), endSequenceId: BigInt(first + entries.length) };
    return { ok: { ...this.#newer(known), ...ids, isComplete: last - first <= 10, entries } };
  }

  #snapshot(): number | undefined {
    const index = this.#entries.findLastIndex(({ snapshot }) => snapshot !== undefined && snapshot !== '');
    return index < 0 ? undefined : this.#start + index;
  }

  #newer(known: bigint): object {
    const at = this.#snapshot();
    if (at === undefined || BigInt(at) === known) return {};
    return { lastSnapshot: { sequenceId: BigInt(at), blobId: this.#entries[at - this.#start]?.snapshot } };
  }
}

describe('the host of a worker', () => {
  test('gives the worker each pending entry once, also one from before its start', async () => {
    const { place, document, log } = newEventLog();
    await log.addEntry({ ...entry(0), pending: 'snapshot' }, 0n);
    const done: bigint[] = [];
    const worker = await reopened(place, (await document).log);
    const failed: unknown[] = [];
    const host = new LogWorkerHost(
      worker.document,
      {
        onReceiveMessage: ({ sequenceId, workflow }) => {
          done.push(sequenceId);
          return worker.log.setMetadata(sequenceId, { pending: undefined, snapshot: workflow });
        },
      },
      (error) => failed.push(error),
    );
    expect(host.isHost()).toBe(true);
    await vi.waitFor(async () =>
      expect(plain(await log.query(0n, 1n))).toMatchObject({ ok: { entries: [{ snapshot: 'snapshot' }] } }),
    );
    await log.addEntry({ ...entry(1), pending: 'snapshot' }, 1n);
    await worker.document.refresh();
    await vi.waitFor(() => expect(done).toEqual([0n, 1n]));
    expect(failed).toEqual([]);
  });

  test('gives a message again if the worker failed', async () => {
    const { document, log } = newEventLog();
    const failed: unknown[] = [];
    let attempts = 0;
    new LogWorkerHost(
      await document,
      {
        onReceiveMessage: ({ sequenceId }) => {
          attempts++;
          return log.setMetadata(attempts === 1 ? 99n : sequenceId, { pending: undefined });
        },
      },
      (error) => failed.push(error),
    );
    await log.addEntry({ ...entry(0), pending: 'snapshot' }, 0n);
    await vi.waitFor(() => expect(failed).toMatchObject([{ type: 'InfinisheetRangeError' }]));
    await log.addEntry(entry(1), 1n);
    await vi.waitFor(() => expect(attempts).toBe(2));
  });
});

describe('a blob store', () => {
  const HOSTILE = ['a', 'a.blob', 'a.dir', '.', '..', 'a/b', '%2F', 'ä ö', '\\', '__proto__', 'x'.repeat(100)];

  test('keeps blobs and directories with any names apart', async () => {
    const blobs = new MemoryBlobStore();
    const root = (await new PrefixBlobStore(blobs).getRootDir())._unsafeUnwrap();
    const inner = (await root.getDir('inner'))._unsafeUnwrap();
    for (const [i, name] of HOSTILE.entries()) {
      expect((await root.writeBlob(name, Uint8Array.of(i))).isOk()).toBe(true);
      expect((await inner.writeBlob(name, Uint8Array.of(i, i))).isOk()).toBe(true);
    }
    for (const [i, name] of HOSTILE.entries()) {
      expect((await root.readBlob(name))._unsafeUnwrap()).toEqual(Uint8Array.of(i));
      expect((await inner.readBlob(name))._unsafeUnwrap()).toEqual(Uint8Array.of(i, i));
    }
    const { blobs: names, dirs } = (await root.query())._unsafeUnwrap();
    expect({ names: names.toSorted(), dirs }).toEqual({ names: HOSTILE.toSorted(), dirs: ['inner'] });
    await inner.removeAll();
    expect((await root.query())._unsafeUnwrap().dirs).toEqual([]);
    expect((await root.readBlob('a')).isOk()).toBe(true);
  });

  test.each(['', 'x'.repeat(101), '\ud800'])('refuses the name %j', async (name) => {
    const root = (await new PrefixBlobStore(new MemoryBlobStore()).getRootDir())._unsafeUnwrap();
    for (const answer of [
      root.readBlob(name),
      root.writeBlob(name, Uint8Array.of()),
      root.removeBlob(name),
      root.getDir(name),
    ]) {
      expect((await answer)._unsafeUnwrapErr().type).toBe('InvalidBlobNameError');
    }
  });

  test('lists many names page by page, and skips the contents of directories', async () => {
    const root = (await new PrefixBlobStore(new MemoryBlobStore()).getRootDir())._unsafeUnwrap();
    for (let i = 0; i < PAGE_NAMES + 20; i++) await root.writeBlob(`b${i}`, Uint8Array.of());
    for (let i = 0; i < PAGE_NAMES; i++) {
      const directory = (await root.getDir(`d${i}`))._unsafeUnwrap();
      for (const name of ['x', 'y']) await directory.writeBlob(name, Uint8Array.of());
    }
    const pages = [(await root.query())._unsafeUnwrap()];
    for (let next = pages[0]?.continuation; next !== undefined; next = pages.at(-1)?.continuation) {
      pages.push((await root.query(next))._unsafeUnwrap());
    }
    expect(pages).toHaveLength(3);
    expect(new Set(pages.flatMap(({ blobs }) => blobs)).size).toBe(PAGE_NAMES + 20);
    expect(new Set(pages.flatMap(({ dirs }) => dirs)).size).toBe(PAGE_NAMES);
  });
});

test.skipIf(findDynoxide() === undefined)('an event log and a blob store work on the embedded engine', async () => {
  const directory = await temporaryDirectory();
  const logs = await openLogs({ directory });
  onTestFinished(() => logs.close());
  const document = await logs.open(await logs.create(), { reducer: eventLog });
  const log = eventLogOf(document, readTest);
  for (let i = 0n; i < 12n; i++) expect(plain(await log.addEntry(entry(Number(i)), i))).toEqual({ ok: {} });
  await log.setMetadata(4n, { snapshot: 'four' });
  const other = eventLogOf(logs.open(document.log, { reducer: eventLog }), readTest);
  expect((await other.query('snapshot', 'end'))._unsafeUnwrap()).toMatchObject({
    startSequenceId: 4n,
    endSequenceId: 12n,
  });

  const blobs = new FilesystemBlobStore(join(directory, 'blobs'));
  const root = (await new PrefixBlobStore(blobs).getRootDir())._unsafeUnwrap();
  const tiles = (await root.getDir('four'))._unsafeUnwrap();
  await tiles.writeBlob('0-0', Uint8Array.of(1, 2));
  expect((await tiles.readBlob('0-0'))._unsafeUnwrap()).toEqual(Uint8Array.of(1, 2));
});

/** A checkout of InfiniSheet with its dependencies. Its suites run only if there is one. */
const CHECKOUT = process.env.LOGFOLD_INFINISHEET;

describe.runIf(CHECKOUT !== undefined)("InfiniSheet's suites", async () => {
  if (CHECKOUT === undefined) return;
  const packages = join(CHECKOUT, 'packages');
  Object.assign(globalThis, { describe, it: test, expect, vi, afterEach, beforeEach });
  await import(join(CHECKOUT, 'shared/test/setup-jsdom.ts'));
  const { eventLogInterfaceTests } = await import(join(packages, 'infinisheet-types/src/EventLog.interface-test.ts'));
  const { blobStoreInterfaceTests } = await import(join(packages, 'infinisheet-types/src/BlobStore.interface-test.ts'));
  const { spreadsheetDataInterfaceTests } = await import(
    join(packages, 'infinisheet-types/src/SpreadsheetData.interface-test.ts')
  );
  const { EventSourcedSpreadsheetData, EventSourcedSpreadsheetWorkflow } = await import(
    join(packages, 'event-sourced-spreadsheet-data/src/index.ts')
  );

  eventLogInterfaceTests(() => newEventLog().log);
  blobStoreInterfaceTests(() => new PrefixBlobStore(new MemoryBlobStore()), PAGE_NAMES);

  /** InfiniSheet's spreadsheet and its worker, each with another document. */
  function newSpreadsheet(options = {}) {
    const { place, document, log } = newEventLog();
    const blobs = new PrefixBlobStore(place.blobs);
    const failed: unknown[] = [];
    const working = document.then(async ({ log: id }) => {
      const other = await reopened(place, id);
      const worker = { onReceiveMessage: undefined };
      new EventSourcedSpreadsheetWorkflow(other.log, blobs, worker, options);
      new LogWorkerHost(other.document, worker, (error) => failed.push(error));
      return other.document;
    });
    const data = new EventSourcedSpreadsheetData(log, blobs, { isHost: () => true }, options);
    return { place, document, log, blobs, data, working, failed };
  }

  spreadsheetDataInterfaceTests(() => newSpreadsheet().data, true, 1);

  test('its worker makes snapshots in another process, from which a client loads', async () => {
    const { place, document, log, blobs, data, working, failed } = newSpreadsheet({ snapshotInterval: 15 });
    for (let row = 0; row < 20; row++) {
      expect((await data.setCellValueAndFormat(row, 0, row, undefined)).isOk()).toBe(true);
      await (await working).refresh();
    }
    // Only one snapshot: the second of InfiniSheet's worker lacks cells, on its own log too.
    const newest = await vi.waitFor(async () => {
      const { startSequenceId, entries } = (await log.query('snapshot', 'end'))._unsafeUnwrap();
      expect(startSequenceId).toBeGreaterThanOrEqual(14n);
      expect(entries[0]).toMatchObject({ snapshot: String(startSequenceId) });
      return startSequenceId;
    });
    expect(failed).toEqual([]);

    const other = await reopened(place, (await document).log);
    const loaded = new EventSourcedSpreadsheetData(other.log, blobs);
    const loads = Promise.withResolvers<void>();
    loaded.subscribe(() => {
      const status = loaded.getLoadStatus(loaded.getSnapshot());
      if (status.isOk() && status.value) loads.resolve();
    });
    await loads.promise;
    expect(loaded.content.logSegment.startSequenceId).toBe(newest);
    for (let row = 0; row < 20; row++) expect(loaded.getCellValue(loaded.getSnapshot(), row, 0)).toBe(row);
  });
});
