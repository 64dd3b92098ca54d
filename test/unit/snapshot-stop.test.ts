import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import * as errors from '../../src/errors.ts';
import { nodeStore } from '../../src/snapshot/snapshots.ts';
import { clearStop, readStop } from '../../src/snapshot/stop.ts';
import { chunkKey } from '../../src/store/keys.ts';
import { walkChunks } from '../../src/tree/walk.ts';
import { SMALL_SHAPE } from '../support/chunks.ts';
import { FAULTY, NOTE, versionedSheet } from '../support/models/versioned-sheet.ts';
import { recordWrites, SheetLog, set } from '../support/sheet-log.ts';

describe('an entry that cannot be folded', () => {
  test('it stops its log with its position and the reason, until an operator resumes the log', {
    tags: ['I7'],
  }, async () => {
    const sheet = await SheetLog.create();
    const good = await sheet.completed();
    const poison = await sheet.append({ type: 'Pivot', version: 1 });
    const position = await sheet.snapshot();
    const stop = {
      code: 'ENTRY_TYPE_UNKNOWN',
      segment: 0,
      entry: poison.entry,
      reducer: { name: 'spreadsheet', version: 1 },
    };
    expect(await sheet.complete(position)).toMatchObject({ outcome: 'stopped', position, stop });
    const note = await readStop(sheet.blobs, sheet.log);
    expect(note).toMatchObject(stop);
    expect(note?.message).toContain(`log ${sheet.log}, segment 0, entry ${poison.entry}`);
    expect(note?.message).toContain("'Pivot'");
    expect(await sheet.lastSnapshot()).toBe(good.entry);

    const { writes, ports } = recordWrites(sheet);
    const later = await sheet.snapshot();
    expect(await sheet.complete(later, ports)).toMatchObject({ outcome: 'stopped', position: later, stop });
    expect(writes).toEqual([]);

    await clearStop(sheet.blobs, sheet.log);
    expect(await sheet.complete(later, ports)).toMatchObject({ outcome: 'stopped', stop });
    expect(writes).toEqual(['put']);
  });

  test('it does not delay an earlier snapshot, in any order of jobs', { tags: ['I7'] }, async () => {
    const sheet = await SheetLog.create();
    await sheet.edit(set(0, 0, 'a'));
    const before = await sheet.snapshot();
    await sheet.append({ type: 'Pivot', version: 1 });
    const after = await sheet.snapshot();
    expect(await sheet.complete(after)).toMatchObject({ outcome: 'stopped' });
    expect(await sheet.complete(before)).toMatchObject({ outcome: 'built' });
    expect(await sheet.lastSnapshot()).toBe(before.entry);
    expect(await readStop(sheet.blobs, sheet.log)).toMatchObject({ code: 'ENTRY_TYPE_UNKNOWN' });
  });

  test('it is folded after a fixed version of the reducer is deployed, and the stop is cleared', {
    tags: ['I7'],
  }, async () => {
    const sheet = await SheetLog.create();
    await sheet.edit(set(0, 0, 'a'));
    await sheet.append({ type: NOTE, version: 1 });
    const position = await sheet.snapshot();
    expect(await sheet.complete(position)).toMatchObject({ outcome: 'stopped' });
    expect(await sheet.complete(position, { reducer: versionedSheet(2) })).toMatchObject({ outcome: 'built' });
    expect(await readStop(sheet.blobs, sheet.log)).toBeUndefined();
    expect(await sheet.rows(position)).toEqual([['A']]);
  });

  test('it stops its log if the reducer fails with its own error', { tags: ['I7'] }, async () => {
    const sheet = await SheetLog.create();
    const poison = await sheet.append({ type: FAULTY, version: 1 });
    const result = await sheet.complete(await sheet.snapshot());
    expect(result).toMatchObject({ outcome: 'stopped', stop: { code: 'FOLD_FAILED', ...poison } });
    expect(result).toMatchObject({ stop: { message: expect.stringContaining('Cannot read properties of undefined') } });
  });

  test.each([
    ['a body that does not decode', { body: { format: 'bytes', bytes: Uint8Array.of(0xc1, 0) } }, 'BODY_UNDECODABLE'],
    ['a body of another form', { body: { format: 'json', text: '{"a":1}' } }, 'BODY_INVALID'],
    ['an unknown version', { version: 9 }, 'ENTRY_VERSION_UNKNOWN'],
    ['a missing object', { external: 'logs/x/bodies/y' }, 'EXTERNAL_MISSING'],
    ['a cell outside the sheet', { body: { format: 'json', text: '[[4294967296,0,"a"]]' } }, 'SHEET_LIMIT'],
  ] as const)('it stops its log: %s', async (_, changes, code) => {
    const sheet = await SheetLog.create();
    const position = { segment: 0, entry: 1 };
    await sheet.tables.putEntries([{ log: sheet.log, position, created: 1, type: 'Set', version: 1, ...changes }]);
    const result = await sheet.complete(await sheet.snapshot());
    expect(result).toMatchObject({ outcome: 'stopped', stop: { code, ...position } });
    expect(result).toMatchObject({ stop: { message: expect.stringContaining(sheet.log) } });
  });

  test('it stops its log if it is missing', { tags: ['I7'] }, async () => {
    const sheet = await SheetLog.create();
    const [missing, position] = [
      { segment: 0, entry: 1 },
      { segment: 0, entry: 3 },
    ];
    await sheet.tables.putEntries([
      { log: sheet.log, created: 1, type: 'Set', version: 1, position: { segment: 0, entry: 2 } },
      { log: sheet.log, created: 1, type: 'Snapshot', version: 1, position },
    ]);
    const result = await sheet.complete(position);
    expect(result).toMatchObject({ outcome: 'stopped', stop: { code: 'ENTRY_GAP', ...missing } });
  });
});

test('a missing chunk below the base snapshot stops the log, and the stop names it', {
  tags: ['I7'],
}, async () => {
  const sheet = await SheetLog.create({ shape: SMALL_SHAPE });
  await sheet.fill(40, 3);
  const base = await sheet.root(await sheet.completed());
  const top = base.state.maps.get('cells')?.tree.top ?? fail();
  const reached = await Array.fromAsync(walkChunks(nodeStore(sheet.deps, sheet.log), top, { values: false }));
  const lost = reached.find(({ holds }) => holds === 'leaf')?.id ?? fail();
  await sheet.blobs.delete([chunkKey(sheet.log, lost)]);
  await sheet.edit({ type: 'Delete Columns', position: 1, count: 1 });
  const result = await sheet.complete(await sheet.snapshot());
  expect(result).toMatchObject({ outcome: 'stopped', stop: { code: 'CHUNK_MISSING' } });
  expect(result).toMatchObject({ stop: { message: expect.stringContaining(lost) } });
});

function fail(): never {
  throw new Error('there is no such thing');
}

test('docs/operations.md says what to do for each error that stops a log', () => {
  const page = readFileSync(new URL('../../docs/operations.md', import.meta.url), 'utf8');
  const [, table = ''] = /## A log is stopped\n(.*?)\nLimits:/s.exec(page) ?? [];
  const codes = Object.values(errors).flatMap((Class) => {
    if (typeof Class !== 'function' || !(Class.prototype instanceof errors.LogfoldError)) return [];
    const { stopsLog, code }: errors.LogfoldError = Reflect.construct(Class, ['', {}]);
    return stopsLog ? [code] : [];
  });
  expect(codes.length).toBeGreaterThan(20);
  expect(codes.filter((code) => !table.includes(`\`${code}\``))).toEqual([]);
});
