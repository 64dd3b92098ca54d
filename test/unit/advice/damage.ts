import { expect } from 'vitest';
import { openArchive } from '../../../src/archive/reader.ts';
import { LogfoldError } from '../../../src/errors.ts';
import type { Position } from '../../../src/ids/position.ts';
import type { Item } from '../../../src/log/attribute.ts';
import { checkBodyBytes, loadBody, MAX_BODY_BYTES } from '../../../src/log/body.ts';
import { RESERVED_TYPES, ReservedTypes } from '../../../src/log/entry.ts';
import { queryNewest } from '../../../src/log/newest.ts';
import { readPolicies, writePolicy } from '../../../src/retention/policies.ts';
import { DEFAULT_POLICY, type RetentionPolicy } from '../../../src/retention/retention-policy.ts';
import { ADOPT_KEY, collectedKey, condemnedKey, logPrefix, POLICIES_KEY, SWEEP_KEY } from '../../../src/store/keys.ts';
import { readAdoptNote } from '../../../src/workers/adopt/adopt-logs.ts';
import { type ReplayRange, replay } from '../../../src/workers/audit/replay.ts';
import { verify } from '../../../src/workers/audit/verify.ts';
import { collectLog } from '../../../src/workers/gc/collect.ts';
import { expireSegment } from '../../../src/workers/retention/expire-segment.ts';
import { restoreSegment } from '../../../src/workers/retention/restore-segment.ts';
import { undoExpiry } from '../../../src/workers/retention/undo-expiry.ts';
import { rebuildLog } from '../../../src/workers/snapshot/rebuild-log.ts';
import { readSweepNote } from '../../../src/workers/sweep/sweep-note.ts';
import { newLogId } from '../../support/logs.ts';
import { versionedSheet } from '../../support/models/versioned-sheet.ts';
import { SheetLog, set } from '../../support/sheet-log.ts';
import { SheetLogs } from '../../support/sheet-logs.ts';
import { build, type Cases, type Follow, quoted, type Refused } from './case.ts';

const NOW: RetentionPolicy = { ...DEFAULT_POLICY, keepSegments: 1, keepDays: 0, expire: 'delete', graceSeconds: 0 };
const HOLD = { holdSeconds: 3600 };

/** Creates a log of two segments; the first is covered and archived. */
async function archivedSheet(): Promise<SheetLog> {
  const sheet = await SheetLog.create();
  await sheet.edit(set(0, 0, 'a'));
  await sheet.completed();
  await sheet.edit(set(1, 0, 'b'));
  await sheet.covered();
  await sheet.archive();
  return sheet;
}

async function itemAt(sheet: SheetLog, { segment, entry }: Position): Promise<Item> {
  const item = (await sheet.items(segment)).find(({ N }) => N !== undefined && 'N' in N && N.N === String(entry));
  if (item === undefined) throw new Error(`no entry ${segment}/${entry}`);
  return item;
}

/** Runs a worker and throws the error with which it stops the log. */
async function stopping(work: () => Promise<unknown>): Promise<void> {
  const result = await work();
  if (typeof result !== 'object' || result === null || !('error' in result)) return;
  throw result.error instanceof LogfoldError ? result.error : new Error(JSON.stringify(result.error));
}

/** Removes or changes an object, then restores its bytes. */
function objectBroughtBack(
  of: () => Promise<{ readonly sheet: SheetLog; readonly key: string; readonly read: () => Promise<unknown> }>,
  damage: 'lost' | 'altered',
): Follow {
  return async (refused) => {
    const { sheet, key, read } = await of();
    const backup = (await sheet.blobs.get(key)) ?? Uint8Array.of();
    if (damage === 'lost') await sheet.blobs.delete([key]);
    else
      await sheet.blobs.put(
        key,
        backup.map((byte) => byte ^ 1),
      );
    await refused(read);
    await sheet.blobs.put(key, backup);
    await read();
  };
}

async function archiveRead() {
  const sheet = await archivedSheet();
  const segment = await sheet.segmentItem();
  const read = () => openArchive(sheet.deps, segment);
  return { sheet, key: segment.archive?.key ?? '', read };
}

async function externalRead() {
  const sheet = await SheetLog.create();
  const position = await sheet.append({ type: 'Set', version: 1, body: [[0, 0, 'x'.repeat(300_000)]] });
  const entry = await sheet.tables.getEntry(sheet.log, position);
  if (entry?.external === undefined) throw new Error('the body is in the item');
  return { sheet, key: entry.external, read: () => loadBody(sheet.blobs, entry) };
}

async function bothExternal(refused: Refused): Promise<void> {
  await objectBroughtBack(externalRead, 'lost')(refused);
  await objectBroughtBack(externalRead, 'altered')(refused);
}

/** Damages an internal object of logfold. */
async function damagedNote(sheet: SheetLog | SheetLogs, key: string): Promise<void> {
  await sheet.blobs.put(key, Buffer.from('{'));
}

/** Advice about damage to a log, its tables or its bucket. */
export const DAMAGE: Cases = {
  'Restore the object from a version or a backup of the bucket': objectBroughtBack(archiveRead, 'lost'),
  'No part of it was used. Restore the original object from a version or a backup of the bucket': objectBroughtBack(
    archiveRead,
    'altered',
  ),
  'Restore it, from a version or a backup of the bucket': bothExternal,
  'Replace the entry with several entries that have smaller bodies': async (refused) => {
    await refused(() => checkBodyBytes(MAX_BODY_BYTES + 1));
    checkBodyBytes(MAX_BODY_BYTES);
  },
  'Find out what wrote this entry; bodies are MessagePack, JSON or native DynamoDB values': async (refused) => {
    const sheet = await SheetLog.create();
    const position = await sheet.edit(set(0, 0, 'a'));
    const right = await itemAt(sheet, position);
    const at = await sheet.snapshot();
    await sheet.tables.putItems([{ ...right, B: { B: Uint8Array.of(0xc1) } }]);
    await refused(() => build(sheet, at));
    const { B: _, ...bare } = right;
    const cells = { L: [{ L: [{ N: '0' }, { N: '0' }, { S: 'a' }] }] };
    for (const B of [right.B, { S: '[[0,0,"a"]]' }, cells]) {
      await sheet.tables.putItems([{ ...bare, ...(B && { B }) }]);
      await build(sheet, at);
    }
  },
  'Restore the entry from a backup of the Entry table': async (refused) => {
    const sheet = await SheetLog.create();
    const position = await sheet.edit(set(0, 0, 'a'));
    const at = await sheet.snapshot();
    const backup = await itemAt(sheet, position);
    await sheet.tables.deleteEntries(sheet.log, 0, [position.entry]);
    await refused(() => build(sheet, at));
    await sheet.tables.putItems([backup]);
    await build(sheet, at);
  },
  'Restore the entries of the segment from a backup of the Entry table': async (refused) => {
    const sheet = await SheetLog.create();
    const backup = await sheet.items();
    await sheet.tables.deleteEntries(sheet.log, 0, [0]);
    const source = { store: sheet.tables, types: RESERVED_TYPES };
    const end = () => queryNewest(source, sheet.log, { consistent: true });
    await refused(end);
    await sheet.tables.putItems(backup);
    expect(await end()).toMatchObject({ position: { segment: 0, entry: 0 } });
  },
  'Configure all functions with the same type names': async (refused) => {
    const sheet = await SheetLog.create();
    const position = await sheet.snapshot();
    await refused(() =>
      sheet.complete(position, { types: new ReservedTypes({ snapshot: 'Other', endSegment: 'End' }) }),
    );
    await sheet.complete(position);
  },
  'Do nothing: after the snapshot is complete, it is flushed when this is due': async (refused) => {
    const sheet = await SheetLog.create();
    await sheet.edit(set(0, 0, 'a'));
    const position = await sheet.snapshot();
    await refused(() => sheet.flush(position));
    await sheet.complete(position);
    expect(await sheet.flush(position)).toMatchObject({ outcome: 'empty' });
  },
  'No archive was written. Restore the entry from a backup of the table': async (refused) => {
    const sheet = await SheetLog.create();
    const position = await sheet.edit(set(0, 0, 'a'));
    await sheet.completed();
    await sheet.covered();
    const backup = await itemAt(sheet, position);
    await sheet.tables.deleteEntries(sheet.log, 0, [position.entry]);
    await refused(() => sheet.archive());
    await sheet.tables.putItems([backup]);
    expect(await sheet.archive()).toMatchObject({ outcome: 'archived' });
  },
  'This run expired neither this entry nor a later one. Find out which program changed the entry, and restore the entry':
    async (refused) => {
      const sheet = await archivedSheet();
      const right = await itemAt(sheet, { segment: 0, entry: 1 });
      await sheet.tables.putItems([{ ...right, T: { S: 'Other' } }]);
      const expire = () => expireSegment(sheet.deps, { log: sheet.log, segment: 0 }, NOW, { byHand: true });
      await refused(expire);
      await sheet.tables.putItems([right]);
      await expire();
      expect(await expire()).toMatchObject({ outcome: 'present' });
      expect(await sheet.items()).toEqual([]);
    },
  "Append its change to the log again before the entry expires; 'logfold expire LOG … --undo' keeps it until then":
    async (refused) => {
      const sheet = await archivedSheet();
      await expireSegment(sheet.deps, { log: sheet.log, segment: 0 }, { ...NOW, expire: 'ttl' }, { byHand: true });
      const stamped = await itemAt(sheet, { segment: 0, entry: 1 });
      await sheet.tables.putItems([{ ...stamped, note: { S: 'reviewed' } }]);
      await refused(async () => {
        const { problems } = await verify(sheet.deps, sheet.log);
        for (const { message } of problems) throw Object.assign(new Error(message), { advice: message });
      });
      await undoExpiry(sheet.deps, { log: sheet.log, segment: 0 });
      expect(await itemAt(sheet, { segment: 0, entry: 1 })).not.toHaveProperty('X');
      await sheet.append({ type: 'Set', version: 1, body: [[1, 0, 'reviewed']] });
      expect((await sheet.rows(await sheet.completed()))[1]).toEqual(['reviewed']);
    },
  'Nothing was overwritten; compare both, and delete the entry in the table if it is wrong': async (refused) => {
    const sheet = await archivedSheet();
    const right = await itemAt(sheet, { segment: 0, entry: 1 });
    await sheet.tables.putItems([{ ...right, T: { S: 'Other' } }]);
    const restore = () => restoreSegment(sheet.deps, { log: sheet.log, segment: 0 }, HOLD);
    await refused(restore);
    await sheet.tables.deleteEntries(sheet.log, 0, [1]);
    expect(await restore()).toMatchObject({ restored: 1 });
    expect(await itemAt(sheet, { segment: 0, entry: 1 })).toEqual(right);
  },
  'A client with a wrong clock appended this entry. Append its content to the log again, then delete the misplaced entry':
    async (refused) => {
      const sheet = await SheetLog.create();
      await sheet.edit(set(0, 0, 'a'));
      await sheet.completed();
      const after = (await sheet.items()).length + 1;
      await sheet.covered();
      const stray = { ...(await itemAt(sheet, { segment: 0, entry: 1 })), N: { N: String(after) } };
      await sheet.tables.putItems([stray]);
      const policy = { ...NOW, archive: false, keepDays: 1 };
      const expire = () => expireSegment(sheet.deps, { log: sheet.log, segment: 0 }, policy, { byHand: true });
      await refused(expire);
      await sheet.edit(set(0, 0, 'a'));
      await sheet.tables.deleteEntries(sheet.log, 0, [after]);
      await expire();
      expect(await sheet.items()).toEqual([]);
    },
  'Delete the entry from the table. Readers then read it from its archive': async (refused) => {
    const sheet = await archivedSheet();
    const last = { segment: 0, entry: 2 };
    await withoutRootInTable(sheet, last);
    await refused(() => rebuildLog(sheet.deps, { kind: 'rebuild', log: sheet.log }));
    await sheet.tables.deleteEntries(sheet.log, 0, [last.entry]);
    await rebuildLog(sheet.deps, { kind: 'rebuild', log: sheet.log });
    expect((await verify(sheet.deps, sheet.log)).problems).toEqual([]);
  },
  "Run 'logfold sweep --log LOG --replace-foreign' to replace it; nothing was changed": async (refused) => {
    const sheet = await SheetLog.create();
    await sheet.completed();
    const next = await sheet.segment();
    sheet.tables.setForeign({ log: sheet.log, segment: 1 }, { L: { S: 'theirs' } });
    await refused(() => sheet.archive(0));
    await sheet.complete(next, { replaceForeign: true });
    await sheet.archive(0);
  },
  'Another program changed the entry. Delete it from the table, so that readers take it from its archive': async (
    refused,
  ) => {
    const sheet = await archivedSheet();
    const last = { segment: 0, entry: 2 };
    await withoutRootInTable(sheet, last);
    const check = async () => {
      const [problem] = (await verify(sheet.deps, sheet.log)).problems;
      if (problem === undefined) return;
      throw Object.assign(new Error(problem.message), { advice: problem.message });
    };
    await refused(check);
    await sheet.tables.deleteEntries(sheet.log, 0, [last.entry]);
    await check();
  },
  'Deploy the reducer that made the newest snapshot, or restore the table from a backup; archive segments before they expire':
    async (refused) => {
      const { sheet, items } = await goneUnarchived();
      await sheet.edit(set(2, 0, 'c'));
      const at = await sheet.snapshot();
      await refused(() => build(sheet, at, versionedSheet(2)));
      await build(sheet, at);
      await sheet.tables.putItems(items);
      await build(sheet, at, versionedSheet(2));
    },
  'Replay with the reducer that made it, or after this reducer has made a newer snapshot': async (refused) => {
    const sheet = await SheetLog.create();
    await sheet.edit(set(0, 0, 'a'));
    const first = await sheet.completed();
    const run = (version: number, at?: Position) =>
      replay({ ...sheet.deps, scratch: scratchOf(), reducer: versionedSheet(version) }, sheet.log, { at });
    await refused(() => run(2, first));
    expect(await run(1, first)).toMatchObject({ equal: true });
    await sheet.completed({ reducer: versionedSheet(2) });
    expect(await run(2)).toMatchObject({ equal: true });
  },
  "Leave out 'from' to start at the beginning of the log": async (refused) => {
    const sheet = await SheetLog.create();
    const from = await sheet.edit(set(0, 0, 'a'));
    await sheet.completed();
    const run = (range: ReplayRange) => replay({ ...sheet.deps, scratch: scratchOf() }, sheet.log, range);
    await refused(() => run({ from }));
    expect(await run({})).toMatchObject({ equal: true });
  },
  'Correct it, or remove it: then every log has the policy of the deployment': async (refused) => {
    const sheets = new SheetLogs();
    const log = newLogId();
    const read = () => readPolicies(sheets.blobs, DEFAULT_POLICY);
    await writePolicy(sheets.blobs, DEFAULT_POLICY, { log, change: () => ({ keepDays: 7 }) });
    const right = (await sheets.blobs.get(POLICIES_KEY)) ?? Uint8Array.of();
    await damagedNote(sheets, POLICIES_KEY);
    await refused(read);
    await sheets.blobs.put(POLICIES_KEY, right);
    expect((await read()).of(log).keepDays).toBe(7);
    await sheets.blobs.delete([POLICIES_KEY]);
    expect((await read()).of(log)).toEqual(DEFAULT_POLICY);
  },
  'Remove it: the next sweep then looks at all logs, and requests every due job again': async (refused) => {
    const sheets = new SheetLogs();
    await damagedNote(sheets, SWEEP_KEY);
    await refused(() => readSweepNote(sheets.blobs));
    await sheets.blobs.delete([SWEEP_KEY]);
    expect(await readSweepNote(sheets.blobs)).toBeUndefined();
  },
  'Remove it: the next run then looks for logs in the whole table': async (refused) => {
    const sheets = new SheetLogs();
    await damagedNote(sheets, ADOPT_KEY);
    await refused(() => readAdoptNote(sheets.blobs, 'orders'));
    await sheets.blobs.delete([ADOPT_KEY]);
    expect(await readAdoptNote(sheets.blobs, 'orders')).toBeUndefined();
  },
  "Remove '…' and '…'. The next collection then starts over and takes longer": async (refused) => {
    const sheet = await SheetLog.create();
    await sheet.completed();
    const collect = () => stopping(() => collectLog(sheet.deps, sheet, { graceSeconds: 1, keepSnapshots: 'all' }));
    await collect();
    for (const damaged of [collectedKey(sheet.log), condemnedKey(sheet.log)]) {
      await damagedNote(sheet, damaged);
      const keys = quoted(await refused(collect));
      expect(keys).toHaveLength(2);
      await sheet.blobs.delete(keys);
      await collect();
    }
  },
  "Restore the tables. If the log was deleted on purpose, remove all objects under '…' and '…'": async (refused) => {
    const sheets = new SheetLogs();
    const log = newLogId();
    await sheets.blobs.put(`${logPrefix(log)}bodies/x`, Uint8Array.of(1));
    await sheets.blobs.put(condemnedKey(log), Buffer.from('{"format":1,"condemned":[],"dropped":[]}'));
    sheets.nowMs += 2 * DEFAULT_POLICY.graceSeconds * 1000;
    const look = async () => {
      const [failure] = (await sheets.sweep()).failures;
      if (failure !== undefined) throw failure.error;
    };
    const [objects = '', note = ''] = quoted(await refused(look));
    await sheets.blobs.delete(await Array.fromAsync(sheets.blobs.list(objects), ({ key }) => key));
    await sheets.blobs.delete(await Array.fromAsync(sheets.blobs.list(note), ({ key }) => key));
    await look();
  },
  'Wait until its snapshot is complete, then start the segment': async (refused) => {
    const sheet = await SheetLog.create();
    await refused(() => sheet.segment());
    await sheet.completed();
    expect(await sheet.segment()).toEqual({ segment: 1, entry: 0 });
  },
  "Nothing was changed. While all of them are in the table, run 'logfold expire LOG … --undo' to keep them, then rebuild again":
    async (refused) => {
      const sheet = await SheetLog.create();
      await sheet.completed();
      await sheet.covered();
      const policy: RetentionPolicy = { ...NOW, archive: false, keepDays: 1, expire: 'ttl', graceSeconds: 3600 };
      await expireSegment(sheet.deps, { log: sheet.log, segment: 0 }, policy, { byHand: true });
      const rebuild = () => rebuildLog(sheet.deps, { kind: 'rebuild', log: sheet.log });
      await refused(rebuild);
      await undoExpiry(sheet.deps, { log: sheet.log, segment: 0 });
      await rebuild();
    },
};

function scratchOf() {
  const chunks = new Map<string, Uint8Array>();
  return {
    get: async (id: string) => chunks.get(id),
    put: async (id: string, stored: Uint8Array) => void chunks.set(id, stored),
  };
}

/** Resets a Snapshot entry in the table to its content before its snapshot was complete. */
async function withoutRootInTable(sheet: SheetLog, position: Position): Promise<void> {
  const { B: _, E: __, ...bare } = await itemAt(sheet, position);
  await sheet.tables.putItems([bare]);
}

/** Creates a log whose first segment has expired without an archive. @returns also its items */
async function goneUnarchived(): Promise<{ readonly sheet: SheetLog; readonly items: readonly Item[] }> {
  const sheet = await SheetLog.create();
  await sheet.edit(set(0, 0, 'a'));
  await sheet.completed();
  await sheet.covered();
  const items = await sheet.items();
  const policy = { ...NOW, archive: false, keepDays: 1 };
  await expireSegment(sheet.deps, { log: sheet.log, segment: 0 }, policy, { byHand: true });
  expect(await sheet.items()).toEqual([]);
  return { sheet, items };
}
