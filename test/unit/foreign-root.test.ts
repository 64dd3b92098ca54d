import { isDeepStrictEqual } from 'node:util';
import { beforeEach, describe, expect, test } from 'vitest';
import type { Position } from '../../src/ids/position.ts';
import type { Item } from '../../src/log/attribute.ts';
import { loadState } from '../../src/snapshot/load.ts';
import { readStop } from '../../src/snapshot/stop.ts';
import { bodyKey, chunkPrefix, rootKey } from '../../src/store/keys.ts';
import { verify } from '../../src/workers/inspect/verify.ts';
import { rebuildLog } from '../../src/workers/snapshot/rebuild-log.ts';
import { SMALL_SHAPE } from '../support/chunks.ts';
import type { Interceptor } from '../support/interceptor.ts';
import { interceptDeps, interceptPorts, recordWrites, SheetLog } from '../support/sheet-log.ts';
import { readRows } from '../support/versioned-sheet.ts';

let sheet: SheetLog;
let good: Position;
let position: Position;

/** A log with a complete snapshot, edits after it, and a pending snapshot. */
async function preparedSheet(): Promise<{ sheet: SheetLog; good: Position; position: Position }> {
  const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
  await sheet.fill(20, 3);
  const good = await sheet.completed();
  await sheet.fill(60, 3);
  return { sheet, good, position: await sheet.snapshot() };
}

beforeEach(async () => {
  ({ sheet, good, position } = await preparedSheet());
});

async function itemAt(of: SheetLog, { segment, entry }: Position): Promise<Item> {
  const item = (await of.items(segment)).find(({ N }) => isDeepStrictEqual(N, { N: String(entry) }));
  if (item === undefined) throw new Error(`no entry ${segment}/${entry}`);
  return item;
}

/** Changes attributes of the Snapshot entry as another program may. */
async function give(attributes: { readonly B?: Item['B']; readonly E?: Item['E'] }): Promise<void> {
  const { B: _, E: __, ...bare } = await itemAt(sheet, position);
  await sheet.tables.putItems([{ ...bare, ...attributes } as Item]);
}

/** Changes of the Snapshot entry and the bucket that another program may make. */
const FOREIGN: readonly (readonly [string, 'B' | 'E', () => Promise<void>])[] = [
  ['bytes that are not a root', 'B', () => give({ B: { B: Uint8Array.of(1, 2, 3) } })],
  ['a text', 'B', () => give({ B: { S: '[]' } })],
  ['a native value', 'B', () => give({ B: { L: [{ N: '1' }] } })],
  ['the root of another snapshot', 'B', async () => give({ B: { B: await storedRootOf(sheet, good) } })],
  [
    'the key of an object that does not exist',
    'E',
    () => give({ E: { S: rootKey(sheet.log, position, '0'.repeat(64)) } }),
  ],
  ['a text that is not a key', 'E', () => give({ E: { S: '../root' } })],
  [
    'the key of an object that is not a root',
    'E',
    async () => {
      const key = bodyKey(sheet.log, '0'.repeat(64), '0'.repeat(12));
      await sheet.blobs.put(key, Uint8Array.of(0x93, 1, 2, 3));
      await give({ E: { S: key } });
    },
  ],
  [
    'a root of this snapshot without its chunks',
    'B',
    async () => {
      const other = await preparedSheet();
      await other.sheet.complete(position);
      await give({ B: { B: await storedRootOf(other.sheet, position) } });
    },
  ],
  [
    'a root of this snapshot without one of its leaves',
    'B',
    async () => {
      const other = await preparedSheet();
      const before = await sheet.keys(chunkPrefix(sheet.log));
      await other.sheet.complete(position);
      const made = (await other.sheet.keys(chunkPrefix(sheet.log))).filter((key) => !before.includes(key));
      for (const key of made.slice(1))
        await sheet.blobs.put(key, (await other.sheet.blobs.get(key)) ?? Uint8Array.of());
      await give({ B: { B: await storedRootOf(other.sheet, position) } });
    },
  ],
];

async function storedRootOf(of: SheetLog, at: Position): Promise<Uint8Array> {
  const ref = await of.ref(at);
  if (ref === undefined) throw new Error('there is no root');
  return 'inline' in ref ? ref.inline : ((await of.blobs.get(ref.key)) ?? Uint8Array.of());
}

async function loadedRows(): Promise<string[][]> {
  return readRows((await loadState(sheet.deps, sheet.log)).draft);
}

describe('a Snapshot entry with a foreign root', () => {
  test.each(FOREIGN)('%s has no effect after its segment is archived', async (_, _attribute, plant) => {
    await sheet.completed();
    await plant();
    await sheet.covered();
    await sheet.archive();
    const before = await sheet.contents();
    expect(['obsolete', 'present']).toContain((await sheet.complete(position)).outcome);
    expect(await sheet.contents()).toEqual(before);
    expect(await readStop(sheet.blobs, sheet.log)).toBeUndefined();
  });

  test.each(FOREIGN)('%s stops its log, and Last Snapshot stays', { tags: ['I2'] }, async (_, attribute, plant) => {
    const rows = await loadedRows();
    await plant();
    const before = await sheet.contents();
    expect(await sheet.complete(position)).toMatchObject({ outcome: 'stopped' });
    const { objects, ...tables } = await sheet.contents();
    expect(tables).toEqual({ entries: before.entries, segments: before.segments });
    expect(objects).toMatchObject(before.objects);
    expect(await sheet.lastSnapshot()).toBe(good.entry);
    const stop = await readStop(sheet.blobs, sheet.log);
    expect(stop).toMatchObject({ code: 'ROOT_INVALID', ...position });
    expect(stop?.message).toContain(sheet.log);
    expect(stop?.message).toContain(`Remove attribute '${attribute}'`);
    expect(await loadedRows()).toEqual(rows);
    // The stop blocks later snapshots too, until a person corrects the entry.
    expect(await sheet.complete(await sheet.snapshot())).toMatchObject({ outcome: 'stopped' });
  });

  test.each(FOREIGN)('%s can be removed, and then the log continues', { tags: ['I2'] }, async (_, __, plant) => {
    const rows = await loadedRows();
    await plant();
    await sheet.complete(position);
    await give({});
    expect(await sheet.complete(position)).toMatchObject({ outcome: 'built' });
    expect(await readStop(sheet.blobs, sheet.log)).toBeUndefined();
    expect(await sheet.lastSnapshot()).toBe(position.entry);
    expect(await sheet.rows(position)).toEqual(rows);
    expect((await verify(sheet.deps, sheet.log)).problems).toEqual([]);
  });

  test.each(FOREIGN)('%s that appears during the build stops its log', async (_, __, plant) => {
    const interceptor: Interceptor = async (name, effect) => {
      if (name === 'completeSnapshot') await plant();
      return effect();
    };
    const { outcome } = await sheet.complete(position, interceptPorts(sheet, interceptor));
    if (outcome === 'stopped') expect(await sheet.lastSnapshot()).toBe(good.entry);
    // The build itself may have written the missing chunks.
    else expect((await verify(sheet.deps, sheet.log)).problems).toEqual([]);
  });

  test.each(FOREIGN)('%s is replaced by the right root in a rebuild, if it may be a root', async (name, _, plant) => {
    const rows = await loadedRows();
    await plant();
    await sheet.complete(position);
    const rebuilt = await rebuildLog(sheet.deps, { kind: 'rebuild', log: sheet.log });
    if (name === 'a text' || name === 'a native value') {
      expect(rebuilt).toMatchObject({ outcome: 'stopped', stop: { code: 'ROOT_INVALID', ...position } });
      expect(await sheet.lastSnapshot()).toBe(good.entry);
      return;
    }
    expect(rebuilt).toMatchObject({ outcome: 'rebuilt' });
    expect(await readStop(sheet.blobs, sheet.log)).toBeUndefined();
    expect(await sheet.lastSnapshot()).toBe(position.entry);
    expect(await sheet.rows(position)).toEqual(rows);
    expect((await verify(sheet.deps, sheet.log)).problems).toEqual([]);
  });
});

describe('a rebuild', () => {
  test('a rebuild does not move Last Snapshot to a root that another program writes meanwhile', async () => {
    let done = false;
    const interceptor: Interceptor = async (name, effect, ...rest) => {
      if (name === 'replaceRoot' && !done) {
        done = true;
        await give({ B: { B: Uint8Array.of(4, 5) } });
      }
      return effect(...rest);
    };
    await give({ B: { B: Uint8Array.of(1, 2, 3) } });
    const result = await rebuildLog(interceptDeps(sheet, interceptor), { kind: 'rebuild', log: sheet.log });
    expect(result).toMatchObject({ outcome: 'stopped', stop: { code: 'ROOT_INVALID', ...position } });
    expect(await sheet.lastSnapshot()).toBe(good.entry);
  });
});

describe('a root that another worker wrote', () => {
  test('a root is read whole before Last Snapshot moves, and not read if it does not move', {
    tags: ['I2'],
  }, async () => {
    const dies: Interceptor = (name, effect) =>
      name === 'advanceLastSnapshot' ? Promise.reject(new Error('the process died')) : effect();
    await expect(sheet.complete(position, interceptPorts(sheet, dies))).rejects.toThrow('the process died');
    const chunks = new Set(await sheet.keys(chunkPrefix(sheet.log)));
    const read: string[] = [];
    const { writes, ports } = recordWrites(sheet);
    const get = (key: string): Promise<Uint8Array | undefined> => {
      if (chunks.has(key)) read.push(key);
      return ports.blobs.get(key);
    };
    const blobs = new Proxy(ports.blobs, {
      get: (target, name) => (name === 'get' ? get : Reflect.get(target, name, target)),
    });
    expect(await sheet.complete(position, { ...ports, blobs })).toMatchObject({ outcome: 'present' });
    expect(writes).toEqual(['advanceLastSnapshot']);
    expect(read.length).toBeGreaterThan(3);
    read.length = 0;
    expect(await sheet.complete(position, { ...ports, blobs })).toMatchObject({ outcome: 'present' });
    expect(read).toEqual([]);
  });
});
