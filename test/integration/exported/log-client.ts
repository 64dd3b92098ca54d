import { expect } from 'vitest';
import type { LogId } from '../../../src/ids/log-id.ts';
import type { LogClient, QueryRange } from '../../../src/log/client.ts';
import type { Entry } from '../../../src/log/entry.ts';
import type { StoredFile } from '../../../src/log/file.ts';
import { draftEntries } from '../../../src/log/new-entry.ts';
import type { MemberCalls } from './recorder.ts';
import { EDITS, FILE, IMPORT, LARGE, LARGE_VALUE, SEGMENTS, type World } from './world.ts';

const clientOf = (world: World): LogClient => world.record('LogClient', world.logs.client);

/** The entries of a range, in an archive or in the table. */
async function entriesOf(world: World, range: QueryRange, log: LogId = world.log): Promise<Entry[]> {
  const { entries } = await clientOf(world).query(log, range);
  return (await Array.fromAsync(entries)).flat();
}

/** An archived entry. */
async function entryAt(world: World, number: number): Promise<Entry> {
  const [entry] = await entriesOf(world, { from: { number } });
  if (entry === undefined) throw new Error(`the log lacks entry number ${number}`);
  return entry;
}

export const LOG_CLIENT: MemberCalls<LogClient> = {
  createLog: async (world) => {
    const log = await clientOf(world).createLog('created/1', { attributes: { org: 7 } });
    expect(log).toBe('created/1');
    expect(await world.logs.client.logAttributes(log)).toEqual({ org: 7 });
  },
  logAttributes: async (world) => {
    await world.logs.client.updateLogAttributes(world.log, { set: { owner: 'Ann' } });
    expect(await clientOf(world).logAttributes(world.log)).toMatchObject({ owner: 'Ann' });
  },
  updateLogAttributes: async (world) => {
    expect(await clientOf(world).updateLogAttributes(world.log, { set: { org: 8 } })).toEqual({ updated: true });
    const stale = await clientOf(world).updateLogAttributes(world.log, { set: { org: 9 }, if: { org: 7 } });
    expect(stale).toMatchObject({ updated: false });
  },
  addEntry: async (world) => {
    const added = await clientOf(world).addEntry(world.log, world.edit().entry);
    expect(added).toMatchObject({ position: { segment: SEGMENTS } });
    expect(added.number).toBeGreaterThan(SEGMENTS * EDITS);
  },
  addEntries: async (world) => {
    const { number = 0 } = await clientOf(world).addEntry(world.log, world.edit().entry);
    const entries = [world.edit().entry, world.edit().entry];
    const added = await clientOf(world).addEntries(world.log, entries, { after: { number } });
    expect(added).toMatchObject({ firstNumber: number + 1 });
    const stale = clientOf(world).addEntries(world.log, entries, { after: { number } });
    await expect(stale).rejects.toMatchObject({ code: 'ENTRY_EXISTS' });
  },
  transact: async (world) => {
    const log = await world.logs.create();
    const entries = [world.edit().entry];
    const added = await clientOf(world).transact([
      { log: world.log, entries },
      { log, entries },
    ]);
    expect(added).toMatchObject([{ firstNumber: expect.any(Number) }, { firstNumber: 1 }]);
  },
  addDrafted: async (world) => {
    const { deps, types } = world.stores();
    const drafts = draftEntries({ ...deps, types }, world.log, [world.edit().entry]);
    expect(await clientOf(world).addDrafted(world.log, drafts, {})).toMatchObject({ first: { segment: SEGMENTS } });
  },
  saveFile: async (world) => {
    const key = await clientOf(world).saveFile(world.log, async function* () {
      yield new TextEncoder().encode('city\n');
    });
    expect(await world.place.read(key)).toEqual(Buffer.from('city\n'));
  },
  addSnapshot: async (world) => {
    const log = await world.smallLog(world.logs);
    expect(await clientOf(world).addSnapshot(log)).toMatchObject({ position: { segment: 0, entry: 2 } });
  },
  startSegment: async (world) => {
    const log = await world.smallLog(world.logs);
    await world.place.json('sweep', '--log', log);
    expect(await clientOf(world).startSegment(log)).toMatchObject({ segment: 1 });
  },
  query: async (world) => {
    const [first, ...others] = await entriesOf(world, { from: { number: 1 }, to: { number: 3 } });
    expect([first?.number, others.length]).toEqual([1, 1]);
    const newest = await entriesOf(world, { from: 'start', to: { number: 3 }, reverse: true, limit: 1 });
    expect(newest).toMatchObject([{ number: 2, position: { segment: 0, entry: 2 } }]);
  },
  read: async (world) => {
    const range = { from: 'start', to: { segment: SEGMENTS, entry: 0 } } as const;
    const read = await Array.fromAsync(clientOf(world).read(world.log, range));
    expect(read.map(({ number }) => number)).toEqual(Array.from({ length: SEGMENTS * EDITS }, (_, i) => i + 1));
    expect(read[3]?.body).toEqual([[0, 0, 'value 4']]);
  },
  loadBody: async (world) => {
    expect(await clientOf(world).loadBody(await entryAt(world, 4))).toEqual([[0, 0, 'value 4']]);
    const large = await entryAt(world, LARGE);
    expect(large.external).toBeDefined();
    expect(await clientOf(world).loadBody(large)).toContainEqual([20, 20, LARGE_VALUE]);
  },
  loadFile: async (world) => {
    expect(await clientOf(world).loadFile(await entryAt(world, IMPORT))).toMatchObject({ size: FILE.length });
    expect(await clientOf(world).loadFile(await entryAt(world, 4))).toBeUndefined();
  },
  updateAttributes: async (world) => {
    const { position } = await world.logs.client.addEntry(world.log, world.edit().entry);
    const change = { set: { mark: 1 }, if: { mark: undefined } };
    expect(await clientOf(world).updateAttributes(world.log, position, change)).toEqual({ updated: true });
    const archived = clientOf(world).updateAttributes(world.log, { number: 4 }, change);
    await expect(archived).rejects.toMatchObject({ code: 'SEGMENT_CLOSED' });
  },
  sawEnd: async (world) => {
    const { position, number } = await world.others.client.addEntry(world.log, world.edit().entry);
    const client = world.record('LogClient', new world.logfold.LogClient(world.stores().deps));
    client.sawEnd({ log: world.log, position, number, type: 'Set' }, Date.now());
    const added = await client.addEntry(world.log, world.edit().entry);
    expect(added.position).toEqual({ ...position, entry: position.entry + 1 });
  },
};

async function fileOf(world: World): Promise<StoredFile> {
  const file = await world.logs.client.loadFile(await entryAt(world, IMPORT));
  if (file === undefined) throw new Error('the entry has no file');
  return world.record('StoredFile', file);
}

export const STORED_FILE: MemberCalls<StoredFile> = {
  size: async (world) => expect((await fileOf(world)).size).toBe(FILE.length),
  sha256: async (world) => expect((await fileOf(world)).sha256).toMatch(/^[\da-f]{64}$/),
  bytes: async (world) => {
    const file = await fileOf(world);
    expect(Buffer.concat(await Array.fromAsync(file.bytes())).toString()).toBe(FILE);
    const cell = { rows: { from: 10, to: 11 }, columns: { from: 9, to: 10 } };
    expect(await world.document.view(cell)).toEqual([['Colorado']]);
  },
  verify: async (world) => {
    const file = await fileOf(world);
    for await (const _ of file.bytes()) break;
    expect(await file.verify()).toBeUndefined();
  },
};
