import { describe, expect, test } from 'vitest';
import { EntryNotFoundError, MessageInvalidError } from '../../src/errors.ts';
import type { Position } from '../../src/ids/position.ts';
import { readStop } from '../../src/snapshot/stop.ts';
import { SMALL_SHAPE } from '../support/chunks.ts';
import { dieAt } from '../support/die-at.ts';
import { type Contents, interceptPorts, recordWrites, SheetLog, set } from '../support/sheet-log.ts';
import type { Interceptor } from '../support/stores/interceptor.ts';

describe('a job that runs again', () => {
  test('it writes nothing if its snapshot is complete', { tags: ['I5'] }, async () => {
    const sheet = await SheetLog.create();
    await sheet.fill(1_000, 1);
    const position = await sheet.completed();
    const before = await sheet.contents();
    const { writes, ports } = recordWrites(sheet);
    expect(await sheet.complete(position, ports)).toEqual({ outcome: 'present', position });
    expect(writes).toEqual([]);
    expect(await sheet.contents()).toEqual(before);
  });

  test('it does not move Last Snapshot back if a newer snapshot is complete', { tags: ['I2'] }, async () => {
    const sheet = await SheetLog.create();
    const first = await sheet.completed();
    const second = await sheet.completed();
    await sheet.complete(first);
    expect(await sheet.lastSnapshot()).toBe(second.entry);
  });

  test('it moves Last Snapshot and nothing else if the entry carries the root already', { tags: ['I5'] }, async () => {
    const sheet = await SheetLog.create();
    await sheet.fill(1_000, 1);
    const position = await sheet.snapshot();
    const stranded: Interceptor = async (name, effect) => {
      if (name === 'advanceLastSnapshot') throw new Error('the connection is lost');
      return effect();
    };
    await expect(sheet.complete(position, interceptPorts(sheet, stranded))).rejects.toThrow('the connection is lost');
    expect(await sheet.lastSnapshot()).toBeUndefined();
    const { writes, ports } = recordWrites(sheet);
    expect(await sheet.complete(position, ports)).toEqual({ outcome: 'present', position });
    expect(writes).toEqual(['advanceLastSnapshot']);
    expect(await sheet.lastSnapshot()).toBe(position.entry);
  });

  test('it has the same result, wherever the first run died', { tags: ['I2', 'I5'] }, async () => {
    const prepared = async (): Promise<{ sheet: SheetLog; position: Position }> => {
      const sheet = await SheetLog.create();
      await sheet.fill(5, 5);
      await sheet.completed();
      await sheet.fill(30, 1, 300);
      await sheet.fill(3, 1, 5_000);
      return { sheet, position: await sheet.snapshot() };
    };
    const reference = await prepared();
    const operations: string[] = [];
    const whole = await sheetAfter(reference, async (name, effect) => {
      operations.push(name);
      return effect();
    });
    for (const name of ['getEntry', 'entries', 'get', 'put', 'completeSnapshot', 'advanceLastSnapshot']) {
      expect(operations).toContain(name);
    }
    for (const when of ['before', 'after'] as const) {
      for (let dies = 1; dies <= operations.length; dies++) {
        const again = await prepared();
        await dieAt(again.sheet, { operation: dies, when }, (ports) => again.sheet.complete(again.position, ports));
        const carried = await again.sheet.ref(again.position);
        // Last Snapshot never runs ahead of what the entry carries.
        if ((await again.sheet.lastSnapshot()) === again.position.entry) expect(carried).toBeDefined();
        expect(await sheetAfter(again), `died ${when} operation ${dies}`).toEqual(whole);
      }
    }
  });
});

async function sheetAfter(
  { sheet, position }: { readonly sheet: SheetLog; readonly position: Position },
  interceptor: Interceptor = (_, effect) => effect(),
): Promise<Contents> {
  await sheet.complete(position, interceptPorts(sheet, interceptor));
  return sheet.contents();
}

describe('a job that cannot be done', () => {
  test('it fails if its entry does not exist, and stops nothing', async () => {
    const sheet = await SheetLog.create();
    await expect(sheet.complete({ segment: 0, entry: 7 })).rejects.toThrow(EntryNotFoundError);
    await expect(sheet.complete({ segment: 3, entry: 0 })).rejects.toMatchObject({ segment: 3, entry: 0 });
    expect(await readStop(sheet.blobs, sheet.log)).toBeUndefined();
  });

  test('it fails if its entry is of another type, and does not change that entry', async () => {
    const sheet = await SheetLog.create();
    const position = await sheet.edit(set(0, 0, 'a'));
    const before = await sheet.contents();
    await expect(sheet.complete(position)).rejects.toThrow(MessageInvalidError);
    expect(await sheet.contents()).toEqual(before);
  });

  test('it fails and is retried if a store does not answer', { tags: ['I5'] }, async () => {
    const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
    await sheet.fill(40, 3);
    await sheet.completed();
    await sheet.edit({ type: 'Delete Columns', position: 1, count: 2 });
    const position = await sheet.snapshot();
    for (const failing of [
      'get',
      'put',
      'getEntry',
      'getSegment',
      'entries',
      'completeSnapshot',
      'advanceLastSnapshot',
    ]) {
      const interceptor: Interceptor = (name, effect) =>
        name === failing ? Promise.reject(new Error('no answer')) : effect();
      await expect(sheet.complete(position, interceptPorts(sheet, interceptor)), failing).rejects.toThrow('no answer');
    }
    expect(await readStop(sheet.blobs, sheet.log)).toBeUndefined();
    expect(await sheet.complete(position)).toMatchObject({ position });
    expect((await sheet.rows(position)).map((row) => row.length)).toEqual(Array.from({ length: 40 }, () => 1));
  });
});
