import { isDeepStrictEqual } from 'node:util';
import { beforeEach, describe, expect, test } from 'vitest';
import type { Position } from '../../src/ids/position.ts';
import type { Item } from '../../src/log/attribute.ts';
import { loadState } from '../../src/snapshot/load.ts';
import { readStop } from '../../src/snapshot/stop.ts';
import { bodyKey, chunkPrefix, rootKey } from '../../src/store/keys.ts';
import { replay } from '../../src/workers/audit/replay.ts';
import { verify } from '../../src/workers/audit/verify.ts';
import { collectLog } from '../../src/workers/gc/collect.ts';
import { restoreSegment } from '../../src/workers/retention/restore-segment.ts';
import { rebuildLog } from '../../src/workers/snapshot/rebuild-log.ts';
import { MemoryChunks, SMALL_SHAPE } from '../support/chunks.ts';
import { DAMAGED_ROOT } from '../support/damage.ts';
import { newLogId } from '../support/logs.ts';
import { readRows } from '../support/models/versioned-sheet.ts';
import { interceptDeps, interceptPorts, recordWrites, SheetLog } from '../support/sheet-log.ts';
import type { Interceptor } from '../support/stores/interceptor.ts';

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

/** Changes of the Snapshot entry that do not have the form of a root. */
const FOREIGN: readonly (readonly [string, () => Promise<void>])[] = [
  ['bytes that are not a root', () => give({ B: { B: Uint8Array.of(1, 2, 3) } })],
  ['a text', () => give({ B: { S: '[]' } })],
  ['a native value', () => give({ B: { L: [{ NS: ['1', '2'] }] } })],
  ['a text that is not a key', () => give({ E: { S: '../root' } })],
  ['the key of a root of another log', () => give({ E: { S: rootKey(newLogId(), position, '0'.repeat(64)) } })],
  [
    'the key of a body',
    async () => {
      const key = bodyKey(sheet.log, '0'.repeat(64), '0'.repeat(12));
      await sheet.blobs.put(key, Uint8Array.of(0x93, 1, 2, 3));
      await give({ E: { S: key } });
    },
  ],
];

/** Changes of the Snapshot entry and the bucket that have the form of a root and are none. */
const DAMAGED: readonly (readonly [string, 'B' | 'E', () => Promise<void>])[] = [
  ['bytes that begin like a root', 'B', () => give({ B: { B: DAMAGED_ROOT } })],
  ['the root of another snapshot', 'B', async () => give({ B: { B: await storedRootOf(sheet, good) } })],
  [
    'the key of an object that does not exist',
    'E',
    () => give({ E: { S: rootKey(sheet.log, position, '0'.repeat(64)) } }),
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
  const reason = `another program wrote a body onto the Snapshot entry`;

  test.each(FOREIGN)('%s is passed over, and later snapshots are right', { tags: ['I2'] }, async (_, plant) => {
    const rows = await loadedRows();
    await plant();
    const before = await itemAt(sheet, position);
    const contents = await sheet.contents();
    expect(await sheet.complete(position)).toMatchObject({
      outcome: 'foreign',
      position,
      reason: expect.stringContaining(reason),
    });
    expect(await sheet.contents()).toEqual(contents);
    expect(await readStop(sheet.blobs, sheet.log)).toBeUndefined();
    expect(await sheet.lastSnapshot()).toBe(good.entry);
    expect(await loadedRows()).toEqual(rows);

    const later = await sheet.completed();
    expect(await sheet.lastSnapshot()).toBe(later.entry);
    expect(await sheet.rows(later)).toEqual(rows);
    expect(await verify(sheet.deps, sheet.log)).toMatchObject({ problems: [], foreign: { roots: 1, pointers: 0 } });
    expect((await replay({ ...sheet.deps, scratch: new MemoryChunks() }, sheet.log)).equal).toBe(true);
    expect(await itemAt(sheet, position)).toEqual(before);
  });

  test.each(FOREIGN)('%s that appears during the build is passed over', async (_, plant) => {
    const interceptor: Interceptor = async (name, effect) => {
      if (name === 'completeSnapshot') await plant();
      return effect();
    };
    const result = await sheet.complete(position, interceptPorts(sheet, interceptor));
    expect(result).toMatchObject({ outcome: 'foreign' });
    expect(await sheet.lastSnapshot()).toBe(good.entry);
    expect((await verify(sheet.deps, sheet.log)).problems).toEqual([]);
  });

  test.each(FOREIGN)(
    '%s stays as it is in a flush, a rebuild, a collection, an archive and an expiry',
    async (_, plant) => {
      await plant();
      const before = await itemAt(sheet, position);
      expect(await sheet.flush(position)).toMatchObject({ outcome: 'foreign' });
      expect(await rebuildLog(sheet.deps, { kind: 'rebuild', log: sheet.log })).toMatchObject({
        outcome: 'rebuilt',
        passedOver: [expect.stringContaining(reason)],
      });
      expect(await itemAt(sheet, position)).toEqual(before);
      const keys = await sheet.keys();
      sheet.nowMs += 3 * 24 * 3600_000;
      expect(await collectLog(sheet.deps, sheet, { graceSeconds: 0, keepSnapshots: 'all' })).toMatchObject({
        outcome: 'collected',
      });
      const { E } = before;
      if (E !== undefined && 'S' in E && keys.includes(E.S)) expect(await sheet.keys()).toContain(E.S);
      await sheet.completed();
      await sheet.covered();
      await sheet.archive();
      expect(await itemAt(sheet, position)).toEqual(before);
      await sheet.tables.deleteEntries(sheet.log, 0, [position.entry]);
      await restoreSegment(sheet.deps, { log: sheet.log, segment: 0 }, { holdSeconds: 1 });
      expect(await itemAt(sheet, position)).toEqual(before);
    },
  );

  test.each(FOREIGN)('%s is replaced if a person asks for it', { tags: ['I2'] }, async (_, plant) => {
    const rows = await loadedRows();
    await plant();
    expect(await sheet.complete(position, { replaceForeign: true })).toMatchObject({ outcome: 'built' });
    expect(await sheet.lastSnapshot()).toBe(position.entry);
    expect(await sheet.rows(position)).toEqual(rows);
    expect(await verify(sheet.deps, sheet.log)).toMatchObject({ problems: [], foreign: { roots: 0 } });
  });

  test.each(FOREIGN)('%s is replaced in a rebuild if a person asks for it', async (_, plant) => {
    const rows = await loadedRows();
    await plant();
    const rebuilt = await rebuildLog({ ...sheet.deps, replaceForeign: true }, { kind: 'rebuild', log: sheet.log });
    expect(rebuilt).toMatchObject({ outcome: 'rebuilt' });
    expect(await sheet.rows(position)).toEqual(rows);
    expect(await verify(sheet.deps, sheet.log)).toMatchObject({ problems: [], foreign: { roots: 0 } });
  });
});

describe('a Snapshot entry with a damaged root', () => {
  test.each(DAMAGED)('%s has no effect after its segment is archived', async (_, _attribute, plant) => {
    await sheet.completed();
    await plant();
    await sheet.covered();
    await sheet.archive();
    const before = await sheet.contents();
    expect(['obsolete', 'present']).toContain((await sheet.complete(position)).outcome);
    expect(await sheet.contents()).toEqual(before);
    expect(await readStop(sheet.blobs, sheet.log)).toBeUndefined();
  });

  test.each(DAMAGED)('%s stops its log, and Last Snapshot stays', { tags: ['I2'] }, async (_, attribute, plant) => {
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

  test.each(DAMAGED)('%s can be removed, and then the log continues', { tags: ['I2'] }, async (_, __, plant) => {
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

  test.each(DAMAGED)('%s that appears during the build stops its log', async (_, __, plant) => {
    const interceptor: Interceptor = async (name, effect) => {
      if (name === 'completeSnapshot') await plant();
      return effect();
    };
    const { outcome } = await sheet.complete(position, interceptPorts(sheet, interceptor));
    if (outcome === 'stopped') expect(await sheet.lastSnapshot()).toBe(good.entry);
    // The build itself may have written the missing chunks.
    else expect((await verify(sheet.deps, sheet.log)).problems).toEqual([]);
  });

  test.each(DAMAGED)('%s is replaced by the right root in a rebuild', async (_, __, plant) => {
    const rows = await loadedRows();
    await plant();
    await sheet.complete(position);
    expect(await rebuildLog(sheet.deps, { kind: 'rebuild', log: sheet.log })).toMatchObject({ outcome: 'rebuilt' });
    expect(await readStop(sheet.blobs, sheet.log)).toBeUndefined();
    expect(await sheet.lastSnapshot()).toBe(position.entry);
    expect(await sheet.rows(position)).toEqual(rows);
    expect((await verify(sheet.deps, sheet.log)).problems).toEqual([]);
  });
});

describe('a rebuild', () => {
  test('a rebuild does not move Last Snapshot to a root that another program writes in the meantime', async () => {
    let done = false;
    const interceptor: Interceptor = async (name, effect, ...rest) => {
      if (name === 'replaceRoot' && !done) {
        done = true;
        await give({ B: { B: Uint8Array.of(4, 5) } });
      }
      return effect(...rest);
    };
    await give({ B: { B: DAMAGED_ROOT } });
    const result = await rebuildLog(interceptDeps(sheet, interceptor), { kind: 'rebuild', log: sheet.log });
    expect(result).toMatchObject({ outcome: 'rebuilt', passedOver: [expect.stringContaining('another program')] });
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
