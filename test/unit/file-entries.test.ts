import { describe, expect, test } from 'vitest';
import { NodeFoldWatch } from '../../src/adapters/platform/fold-watch.ts';
import type { ByteSource } from '../../src/codec/bytes.ts';
import { ItemInvalidError, StoreUnavailableError, TooLargeError, UsageError } from '../../src/errors.ts';
import type { NewEntry } from '../../src/log/client.ts';
import { type Entry, RESERVED_TYPES, snapshotStatus } from '../../src/log/entry.ts';
import { decodeEntry, encodeEntry } from '../../src/log/item-codec.ts';
import { type FoldOptions, foldEntries, saveWhenOver } from '../../src/snapshot/fold.ts';
import { Draft } from '../../src/state/draft.ts';
import type { FoldFile, Reducer, ReducerDraft } from '../../src/state/reducer.ts';
import type { BlobStore } from '../../src/store/blob-store.ts';
import { bodyKey, bodyPrefix } from '../../src/store/keys.ts';
import { nodeStore } from '../support/chunks.ts';
import { deathsOf, dieDuring } from '../support/die-at.ts';
import { collectAfterEachGrace, expectWhole } from '../support/gc-scenario.ts';
import { LiveLog, rowsOf } from '../support/live-logs.ts';
import { entryAt, LOG, newLogId, testLogClient } from '../support/logs.ts';
import { SheetLog } from '../support/sheet-log.ts';
import { interceptBlobStore } from '../support/stores/interceptor.ts';

const MB = 1024 * 1024;

/** A source of bytes, each slice of which has a third of them at most. */
function sourceOf(bytes: Uint8Array): ByteSource {
  return async function* () {
    const length = Math.ceil(bytes.length / 3);
    for (let from = 0; from < bytes.length; from += length) yield bytes.slice(from, from + length);
  };
}

function bytesOf(length: number): Uint8Array {
  const bytes = new Uint8Array(length);
  for (let i = 0; i < length; i++) bytes[i] = (i * 31 + (i >> 8)) % 251;
  return bytes;
}

async function clientWithLog() {
  const made = testLogClient();
  return { ...made, log: await made.client.createLog() };
}

describe('an entry with a file', () => {
  const file = bodyKey(LOG, 'ab'.repeat(32), '0123456789ab');

  test.each<[string, Partial<Entry>]>([
    ['bytes', {}],
    ['JSON', { body: { format: 'json', text: '{}' } }],
    ['a native body', { body: { format: 'native', value: { format: 'csv' } } }],
  ])('it is stored with %s in B and the key in E, and read as it was', (_, rest) => {
    const entry = entryAt(LOG, { segment: 2, entry: 7 }, { ...rest, file });
    const item = encodeEntry(entry);
    expect(item.E).toEqual({ S: file });
    expect(item.B).toBeDefined();
    expect(decodeEntry(item)).toEqual(entry);
  });

  test('the object is the body if B is NULL', () => {
    const item = encodeEntry(entryAt(LOG, { segment: 2, entry: 7 }, { file }));
    expect(decodeEntry({ ...item, B: { NULL: true } })).toMatchObject({ external: file });
  });

  test('a key without a hash is refused beside a body', () => {
    const item = encodeEntry(entryAt(LOG, { segment: 2, entry: 7 }));
    expect(() => decodeEntry({ ...item, E: { S: `${bodyPrefix(LOG)}a` } })).toThrow(ItemInvalidError);
  });

  test('a Snapshot entry with one belongs to another program', () => {
    expect(snapshotStatus(entryAt(LOG, { segment: 2, entry: 7 }, { type: 'Snapshot', file }))).toBe('foreign');
  });

  test('a client appends it for one request more than an entry without a file', async () => {
    const { client, log, store, blobs } = await clientWithLog();
    const bytes = bytesOf(100_000);
    const key = await client.saveFile(log, sourceOf(bytes));
    expect(await blobs.get(key)).toEqual(bytes);
    const { position } = await client.addEntry(log, { type: 'Import', version: 1, body: { format: 'csv' }, file: key });
    expect(await store.getEntry(log, position, { consistent: true })).toMatchObject({ file: key, type: 'Import' });
  });

  test('an entry that no reader could fold is refused, and nothing is appended', async () => {
    const { client, log, requests } = await clientWithLog();
    const key = await client.saveFile(log, sourceOf(bytesOf(10)));
    const other = newLogId();
    const refused: [Partial<NewEntry>, typeof UsageError | typeof TooLargeError][] = [
      [{ file: key, body: undefined }, UsageError],
      [{ file: key, body: null }, UsageError],
      [{ file: key, body: 'x'.repeat(20_000) }, TooLargeError],
      [{ file: 'file.csv' }, UsageError],
      [{ file: '' }, UsageError],
      [{ file: bodyKey(other, 'ab'.repeat(32), '0123456789ab') }, UsageError],
      [{ file: bodyKey(log, 'ab'.repeat(32), '0123456789ab') }, UsageError],
    ];
    requests.length = 0;
    for (const [change, Class] of refused) {
      const entry = { type: 'Import', version: 1, body: {}, ...change };
      await expect(client.addEntry(log, entry)).rejects.toBeInstanceOf(Class);
    }
    expect(requests).not.toContain('putEntries');
  });

  test('a file that changes between the two reads is not written', async () => {
    const { client, log, blobs } = await clientWithLog();
    let reads = 0;
    const changing: ByteSource = async function* () {
      yield Uint8Array.of(++reads);
    };
    await expect(client.saveFile(log, changing)).rejects.toBeInstanceOf(UsageError);
    // @ts-expect-error for callers without types
    const texts: ByteSource = async function* () {
      yield 'text';
    };
    await expect(client.saveFile(log, texts)).rejects.toBeInstanceOf(UsageError);
    expect(await Array.fromAsync(blobs.list(bodyPrefix(log)))).toEqual([]);
    expect(await Array.fromAsync(blobs.uploads(''))).toEqual([]);
  });
});

describe('a fold', () => {
  /** Folds one entry with a file. */
  async function foldFile(
    blobs: BlobStore,
    file: string,
    fold: (file: FoldFile, draft: ReducerDraft) => Promise<void>,
    { nodes = nodeStore(), ...options }: Partial<FoldOptions> & { readonly nodes?: ReturnType<typeof nodeStore> } = {},
  ): Promise<Draft> {
    const draft = new Draft(nodes);
    const reducer: Reducer = {
      name: 'files',
      version: 1,
      fold: async (folded, entry) => {
        if (entry.file === undefined) throw new Error('the entry has no file');
        await fold(entry.file, folded);
      },
    };
    async function* pages() {
      yield [entryAt(LOG, { segment: 0, entry: 5 }, { file })];
    }
    await foldEntries(draft, pages(), { reducer, blobs, types: RESERVED_TYPES, ...options });
    draft.use.release();
    return draft;
  }

  async function savedFile(length: number) {
    const { client, blobs } = testLogClient();
    const bytes = bytesOf(length);
    return { blobs, bytes, key: await client.saveFile(LOG, sourceOf(bytes)) };
  }

  test.each([0, 1, 256 * 1024, 4 * MB, 4 * MB + 1])(
    'it reads a file of %i bytes in order, as often as it likes',
    async (length) => {
      const { blobs, bytes, key } = await savedFile(length);
      const ranges: string[] = [];
      const counted = interceptBlobStore(blobs, (name, effect) => {
        ranges.push(name);
        return effect();
      });
      await foldFile(counted, key, async (file) => {
        expect(file.size).toBe(length);
        for (let time = 0; time < 2; time++) {
          const slices = await Array.fromAsync(file.bytes());
          expect(Buffer.concat(slices).equals(bytes)).toBe(true);
          expect(Math.max(0, ...slices.map((slice) => slice.length))).toBeLessThanOrEqual(256 * 1024);
        }
      });
      const parts = Math.max(1, Math.ceil(length / (4 * MB)));
      expect(ranges).toEqual(Array.from({ length: 2 * parts }, () => 'getRange'));
    },
  );

  test.each<[string, (file: FoldFile) => Promise<void>]>([
    ['reads all of it', async (file) => void (await Array.fromAsync(file.bytes()))],
    ['reads its first slice', async (file) => void (await file.bytes()[Symbol.asyncIterator]().next())],
    [
      'catches every error',
      async (file) => {
        try {
          for await (const _ of file.bytes());
        } catch {
          // Some reducers do.
        }
      },
    ],
    [
      'cannot use what it reads',
      async (file) => {
        for await (const [byte] of file.bytes()) throw new Error(`not a file: ${byte}`);
      },
    ],
  ])('a file that does not have its hash stops the log, also if the reducer %s', async (_, read) => {
    const { blobs, bytes, key } = await savedFile(600_000);
    await blobs.put(key, bytes.with(599_999, 7));
    const stopped = { code: 'EXTERNAL_CORRUPT', log: LOG, segment: 0, entry: 5, stopsLog: true };
    await expect(foldFile(blobs, key, read)).rejects.toMatchObject(stopped);
    await blobs.put(key, bytes.slice(0, 300_000));
    await expect(foldFile(blobs, key, read)).rejects.toMatchObject(stopped);
    await blobs.delete([key]);
    await expect(foldFile(blobs, key, read)).rejects.toMatchObject({ ...stopped, code: 'EXTERNAL_MISSING' });
  });

  test('an error of the store fails the fold, also if the reducer catches it', async () => {
    const { blobs, key } = await savedFile(5 * MB);
    let requests = 0;
    const failing = interceptBlobStore(blobs, (_, effect) => {
      if (++requests === 2) throw new StoreUnavailableError('busy');
      return effect();
    });
    const folding = foldFile(failing, key, async (file) => void (await Array.fromAsync(file.bytes()).catch(() => [])));
    await expect(folding).rejects.toMatchObject({ code: 'STORE_UNAVAILABLE', entry: 5 });
  });

  test('it puts any number of items of one file in bounded memory', { tags: ['I9'] }, async () => {
    const { blobs, key } = await savedFile(4 * MB);
    const BOUND = MB / 2;
    const put = async (file: FoldFile, draft: ReducerDraft, seen: () => void): Promise<void> => {
      const map = draft.map('slices', 'number', { buffers: true });
      let next = 0;
      for await (const slice of file.bytes()) {
        for (let at = 0; at < slice.length; at += 256)
          map.put(next++, Buffer.from(slice.subarray(at, at + 64)).toString('hex'));
        seen();
      }
    };
    const nodes = nodeStore();
    let most = 0;
    let held = (): number => 0;
    const bounded = await foldFile(
      blobs,
      key,
      (file, draft) => {
        if (draft instanceof Draft) held = () => draft.heldBytes;
        return put(file, draft, () => {
          most = Math.max(most, held());
        });
      },
      { nodes, keepBounded: saveWhenOver(nodes, 4 * BOUND) },
    );
    const unbounded = await foldFile(blobs, key, (file, draft) => put(file, draft, () => undefined));
    expect(unbounded.heldBytes).toBeGreaterThan(2 * BOUND);
    expect(most).toBeGreaterThan(BOUND / 2);
    expect(most).toBeLessThan(1.5 * BOUND);
    const items = (draft: Draft) => Array.fromAsync(draft.map('slices', 'number', { buffers: true }).items());
    expect(await items(bounded)).toEqual(await items(unbounded));
  });

  test('the time limit is for a slice, not for the whole file', async () => {
    const { blobs, key } = await savedFile(3 * MB);
    const ticks: (() => void)[] = [];
    const watchOf = () =>
      new NodeFoldWatch({
        limitMs: 60_000,
        every: (_, tick) => {
          ticks.push(tick);
          return () => ticks.splice(ticks.indexOf(tick), 1);
        },
      });
    const tick = (times: number): void => {
      for (let i = 0; i < times; i++) for (const each of ticks) each();
    };
    let slices = 0;
    const slow = async (file: FoldFile): Promise<void> => {
      for await (const _ of file.bytes()) {
        slices++;
        tick(15);
      }
    };
    await foldFile(blobs, key, slow, { watch: watchOf() });
    expect(slices).toBe(12);
    const hangs = async (file: FoldFile): Promise<void> => {
      for await (const _ of file.bytes()) tick(30);
    };
    await expect(foldFile(blobs, key, hangs, { watch: watchOf() })).rejects.toMatchObject({
      code: 'FOLD_FAILED',
      entry: 5,
    });
  });
});

test('a file stays while an entry names it, in the table and in an archive, and an orphan is collected', {
  tags: ['I4'],
}, async () => {
  const sheet = await SheetLog.create();
  const [named, orphan] = [await sheet.saveFile(bytesOf(1000)), await sheet.saveFile(bytesOf(2000))];
  await sheet.append({ type: 'Set', version: 1, body: [[0, 0, 'with a file']], file: named });
  await sheet.completed();
  await collectAfterEachGrace(sheet, 3);
  expect(await sheet.keys(bodyPrefix(sheet.log))).toEqual([named]);
  expect(orphan).not.toBe(named);
  const items = await sheet.items();
  await sheet.covered();
  await sheet.archive();
  const [entry] = (
    await Array.fromAsync(sheet.deps.store.entries(sheet.log, { segment: 0, from: 1, to: 2 }, { consistent: true }))
  ).flat();
  expect(encodeEntry(entry ?? entryAt(LOG, { segment: 0, entry: 0 }))).toEqual(items[1]);
  await collectAfterEachGrace(sheet, 3);
  expect(await sheet.keys(bodyPrefix(sheet.log))).toEqual([named]);
  await expectWhole(sheet);
});

test('an import that dies at any point leaves a whole log, and an orphaned file is collected', {
  tags: ['I4', 'I5'],
}, async () => {
  const bytes = bytesOf(1000);
  const importFile = async ({ tables, blobs }: SheetLog['deps']): Promise<void> => {
    const { client } = testLogClient({ store: tables, blobs });
    const file = await client.saveFile(LOG, sourceOf(bytes));
    await client.addEntry(LOG, { type: 'Set', version: 1, body: [[0, 0, 'imported']], file });
  };
  const deaths = await deathsOf(await SheetLog.create(), importFile);
  expect(deaths.map(({ name }) => name)).toEqual(expect.arrayContaining(['putStream', 'getRange', 'putEntries']));
  const outcomes = new Set<string>();
  for (const death of deaths) {
    const sheet = await SheetLog.create();
    await dieDuring(sheet, death, importFile);
    const uploaded = await sheet.keys(bodyPrefix(LOG));
    const rows = await sheet.rows(await sheet.completed());
    await collectAfterEachGrace(sheet, 3);
    expect(await sheet.keys(bodyPrefix(LOG))).toEqual(rows.length === 0 ? [] : uploaded);
    expect(await Array.fromAsync(sheet.blobs.uploads(''))).toEqual([]);
    await expectWhole(sheet);
    outcomes.add(`${uploaded.length} uploaded, ${rows.length} imported`);
  }
  expect([...outcomes].sort()).toEqual(['0 uploaded, 0 imported', '1 uploaded, 0 imported', '1 uploaded, 1 imported']);
});

test('a document folds and shows an import before it appends it, and refuses a file that is not a workbook', async () => {
  const live = await LiveLog.create();
  const document = await live.open();
  const save = (text: string) => live.sheet.saveFile(new TextEncoder().encode(text));
  const entry = { type: 'Import', version: 1, body: { format: 'csv' } };
  await document.append({ ...entry, file: await save('city\nDenver\n') });
  await document.mutate({ ...entry, body: { format: 'csv', row: 2 }, file: await save('Austin') });
  const reader = await live.open();
  for (const each of [document, reader]) expect(await rowsOf(each)).toEqual([['city'], ['Denver'], ['Austin']]);
  const refused = document.append({ ...entry, file: await save('"Boise') });
  await expect(refused).rejects.toMatchObject({ code: 'ENTRY_REJECTED' });
  await document.refresh();
  expect(await rowsOf(document)).toHaveLength(3);
});
