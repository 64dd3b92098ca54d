import { expect } from 'vitest';
import type { Document } from '../../../src/client/document.ts';
import type { DocumentState, PastState } from '../../../src/client/document-state.ts';
import type { Feed } from '../../../src/client/feed.ts';
import type { Logs } from '../../../src/client/logs.ts';
import { DocumentClosedError, LogsClosedError, UsageError } from '../../../src/errors.ts';
import { nodeStore } from '../../../src/snapshot/snapshots.ts';
import type { FrozenMap, FrozenState } from '../../../src/state/frozen-state.ts';
import { spreadsheet } from '../../../src/state/spreadsheet/reducer.ts';
import type { Call, MemberCalls } from './recorder.ts';
import { CORNER, EDITS, PAST, SEGMENTS, type World } from './world.ts';

/** Calls of logs that an application opened. */
export function logsCalls(open: (world: World) => Logs | Promise<Logs>, log = ofWorld): MemberCalls<Logs> {
  return {
    client: async (world) => {
      const { client } = await open(world);
      expect((await client.query(log(world), { from: { number: 1 } })).start).toMatchObject({ segment: 0 });
    },
    feed: async (world) => expect(await (await open(world)).feed.end()).toBeGreaterThan(1),
    create: async (world) => expect(await (await open(world)).create()).toMatch(/^[\da-f-]{36}$/),
    open: async (world) => {
      const document = await (await open(world)).open(log(world), { reducer: spreadsheet });
      expect(document.log).toBe(log(world));
      expect((await document.view(CORNER))[2]?.[0]).toBe('value 15');
    },
    at: async (world) => {
      const past = await (await open(world)).at(log(world), { number: 2 }, { reducer: spreadsheet });
      expect(past.number).toBe(1);
      expect(await past.view(CORNER)).not.toEqual([]);
    },
    list: async (world) => {
      const logs = await open(world);
      expect(await Array.fromAsync(logs.list(), (listed) => listed.log)).toContain(log(world));
      expect(await Array.fromAsync(logs.list({ prefix: 'none/' }))).toEqual([]);
    },
    close: async (world) => {
      const logs = await open(world);
      await logs.close();
      await expect(logs.create()).rejects.toThrow(LogsClosedError);
    },
  };
}

function ofWorld(world: World) {
  return world.log;
}

/** Logs that an application wired of the exported stores. */
export const LOGS: MemberCalls<Logs> = {
  ...logsCalls((world) => world.record('Logs', new world.logfold.Logs(world.stores().deps))),
  feed: (world) => {
    const logs = world.record('Logs', new world.logfold.Logs(world.stores().deps));
    expect(() => logs.feed).toThrow(UsageError);
  },
};

const feedOf = (world: World): Feed => world.record('Feed', world.logs.feed);

export const FEED: MemberCalls<Feed> = {
  read: async (world) => {
    const all = await Array.fromAsync(feedOf(world).read({ from: 0 }));
    expect(all.filter(({ log }) => log === world.log)).toHaveLength(SEGMENTS * (EDITS + 2) + 1);
    const bodies = await Promise.all(all.map((item) => item.body()));
    expect(bodies).toContainEqual([[0, 0, 'value 1']]);
    const [first] = all;
    expect(await Array.fromAsync(feedOf(world).read({ from: first?.checkpoint ?? 0 }))).toHaveLength(all.length - 1);
  },
  consume: async (world) => {
    const bodies: unknown[] = [];
    for await (const item of feedOf(world).consume('one by one')) bodies.push(await item.body());
    // The import has an object as its body. Snapshot and End Segment entries have none.
    expect(bodies.filter((body) => Array.isArray(body))).toHaveLength(SEGMENTS * EDITS - 1);
  },
  consumeBatches: async (world) => {
    const sizes: number[] = [];
    for await (const batch of feedOf(world).consumeBatches('in batches', { size: 4 })) sizes.push(batch.length);
    expect(Math.max(...sizes)).toBe(4);
  },
  end: async (world) => {
    const end = await feedOf(world).end();
    expect(await Array.fromAsync(world.logs.feed.read({ from: end }))).toEqual([]);
  },
  release: async (world) => {
    for await (const _ of world.logs.feed.consume('released'));
    expect(await feedOf(world).release('released')).toMatchObject({ name: 'released' });
  },
  groups: async (world) => {
    for await (const _ of world.logs.feed.consume('listed'));
    expect(await feedOf(world).groups()).toContainEqual(expect.objectContaining({ name: 'listed', lagSeconds: 0 }));
  },
};

/** The change of entry number 4. */
const CHANGE = { kind: 'cell', before: { value: 'value 1' }, after: { row: 0, column: 0, value: 'value 4' } };

const documentOf = (world: World): Document => world.record('Document', world.document);
/** A document that no other call uses. */
const another = async (world: World): Promise<Document> => {
  return world.record('Document', await world.logs.open(world.log, { reducer: spreadsheet }));
};

export const DOCUMENT: MemberCalls<Document> & { readonly open: Call } = {
  open: async (world) => {
    const { deps, types } = world.stores();
    const client = new world.logfold.LogClient(deps);
    const document = await world.logfold.Document.open({ ...deps, types, client }, world.log, { reducer: spreadsheet });
    expect((await document.view(CORNER))[0]?.[0]).toBe('value 13');
  },
  log: (world) => expect(documentOf(world).log).toBe(world.log),
  state: async (world) => expect((await documentOf(world).state.view(CORNER))[0]?.[0]).toBe('value 13'),
  getSnapshot: (world) => expect(documentOf(world).getSnapshot()).toBe(world.document.state),
  position: (world) => expect(documentOf(world).position.segment).toBe(SEGMENTS),
  newest: (world) => expect(documentOf(world).newest?.segment).toBe(SEGMENTS),
  number: (world) => expect(documentOf(world).number).toBeGreaterThanOrEqual(SEGMENTS * EDITS),
  snapshot: (world) => expect(documentOf(world).snapshot).toEqual({ segment: SEGMENTS, entry: 0 }),
  attributes: async (world) => {
    await world.logs.client.updateLogAttributes(world.log, { set: { title: 'Sales' } });
    expect((await another(world)).attributes).toMatchObject({ title: 'Sales' });
  },
  badEntry: (world) => expect(documentOf(world).badEntry).toBeUndefined(),
  pending: (world) => expect(documentOf(world).pending).toEqual([]),
  pendingList: (world) => expect(documentOf(world).pendingList.getSnapshot()).toEqual([]),
  downloads: async (world) => {
    const document = await another(world);
    await document.view(CORNER);
    expect(document.downloads.bytes).toBeGreaterThanOrEqual(document.downloads.chunks);
  },
  refresh: async (world) => {
    const { value, entry } = world.edit();
    await world.others.client.addEntry(world.log, entry);
    expect(await documentOf(world).refresh()).toBe(true);
    expect((await world.document.view(CORNER))[0]?.[1]).toBe(value);
  },
  append: async (world) => {
    const { value, entry } = world.edit();
    await world.document.refresh();
    const { newest, number = 0 } = world.document;
    const added = await documentOf(world).append(entry, newest && { after: newest });
    expect(added).toMatchObject({ firstNumber: number + 1 });
    expect((await world.document.view(CORNER))[0]?.[1]).toBe(value);
  },
  mutate: async (world) => {
    const { value, entry } = world.edit();
    expect(await documentOf(world).mutate(entry)).toMatchObject({ segment: SEGMENTS });
    expect((await world.document.view(CORNER))[0]?.[1]).toBe(value);
  },
  subscribe: async (world) => {
    let changes = 0;
    const unsubscribe = documentOf(world).subscribe(() => changes++);
    await world.document.append(world.edit().entry);
    unsubscribe();
    await world.document.append(world.edit().entry);
    expect(changes).toBe(1);
  },
  watch: async (world) => {
    const { value, entry } = world.edit();
    const document = await another(world);
    const changed = Promise.withResolvers<void>();
    const unsubscribe = document.subscribe(changed.resolve);
    const stop = document.watch({ onError: changed.reject });
    await world.others.client.addEntry(world.log, entry);
    await changed.promise;
    stop();
    unsubscribe();
    expect((await document.view(CORNER))[0]?.[1]).toBe(value);
  },
  view: async (world) => {
    const rows = await documentOf(world).view(CORNER);
    expect(rows.map(([first]) => first)).toEqual(['value 13', 'value 14', 'value 15']);
  },
  at: async (world) => {
    for (const moment of [PAST, { number: 4 }]) {
      expect((await (await documentOf(world).at(moment)).view(CORNER))[0]?.[0]).toBe('value 1');
    }
    expect((await (await documentOf(world).at(new Date())).view(CORNER))[0]?.[0]).toBe('value 13');
  },
  diff: async (world) => {
    const changes = await Array.fromAsync(documentOf(world).diff(PAST, { number: 5 }));
    expect(changes).toMatchObject([CHANGE]);
  },
  history: async (world) => {
    const values = await Array.fromAsync(documentOf(world).history({ row: 0, column: 0 }), ({ value }) => value);
    expect(values).toEqual([1, 4, 7, 13].map((number) => `value ${number}`));
  },
  map: async (world) => {
    const [name = ''] = world.document.state.mapNames;
    expect(await Array.fromAsync(documentOf(world).map(name).range())).not.toEqual([]);
  },
  close: async (world) => {
    const document = await another(world);
    document.close();
    await expect(document.append(world.edit().entry)).rejects.toThrow(DocumentClosedError);
    expect((await document.view(CORNER))[0]?.[0]).toBe('value 13');
  },
};

type StateCalls = MemberCalls<DocumentState> & { readonly move: Call; readonly isSame: Call };

/** Calls of a state of the log as it was before its entry number 4. */
function stateCalls(
  name: 'DocumentState' | 'PastState',
  stateOf: (world: World) => Promise<DocumentState>,
): StateCalls {
  const recorded = async (world: World) => world.record(name, await stateOf(world));
  return {
    content: async (world) => expect((await recorded(world)).content.maps.size).toBeGreaterThan(0),
    meta: async (world) => expect([...(await recorded(world)).meta.keys()]).toEqual([]),
    mapNames: async (world) => expect((await recorded(world)).mapNames).toEqual(['cells']),
    map: async (world) => expect(await Array.fromAsync((await recorded(world)).map('cells').range())).toHaveLength(3),
    draft: async (world) => {
      const sheet = world.spreadsheet.sheetOf((await recorded(world)).draft);
      expect(await Array.fromAsync(world.spreadsheet.sheetRows(sheet))).toEqual([
        ['value 1'],
        ['value 2'],
        ['value 3'],
      ]);
    },
    diff: async (world) => {
      const changes = await Array.fromAsync((await recorded(world)).diff(await world.document.at({ number: 5 })));
      expect(changes).toMatchObject([CHANGE]);
    },
    view: async (world) => expect((await (await recorded(world)).view(CORNER))[2]?.[0]).toBe('value 3'),
    move: async (world) => {
      const [state, again] = [await stateOf(world), await stateOf(world)];
      world.logfold[name].move(state, nodesOf(world), again.content);
      expect(state.content).toBe(again.content);
      expect((await state.view(CORNER))[0]?.[0]).toBe('value 1');
    },
    isSame: async (world) => {
      const state = await stateOf(world);
      const { content } = await world.document.at({ number: 5 });
      expect(await world.logfold[name].isSame(state, nodesOf(world), content)).toBe(false);
      expect(await world.logfold[name].isSame(state, nodesOf(world), state.content)).toBe(true);
    },
  };
}

function nodesOf(world: World) {
  return nodeStore(world.stores().deps, world.log);
}

const past = (world: World): Promise<PastState> => world.document.at(PAST);

export const DOCUMENT_STATE: StateCalls = stateCalls('DocumentState', past);

export const PAST_STATE: MemberCalls<PastState> & StateCalls = {
  ...stateCalls('PastState', past),
  position: async (world) => expect(world.record('PastState', await past(world)).position).toEqual(PAST),
  number: async (world) => expect(world.record('PastState', await past(world)).number).toBe(3),
  snapshot: async (world) =>
    expect(world.record('PastState', await past(world)).snapshot).toEqual({ segment: 0, entry: 0 }),
  badEntry: async (world) => expect(world.record('PastState', await past(world)).badEntry).toBeUndefined(),
};

async function frozen(world: World): Promise<FrozenState> {
  const { content } = await past(world);
  return world.record('FrozenState', new world.logfold.FrozenState(nodesOf(world), content));
}

export const FROZEN_STATE: MemberCalls<FrozenState> = {
  state: async (world) => expect((await frozen(world)).state.maps.size).toBeGreaterThan(0),
  nodes: async (world) => expect((await frozen(world)).nodes).toBeTypeOf('object'),
  meta: async (world) => expect((await frozen(world)).meta.size).toBe(0),
  mapNames: async (world) => expect((await frozen(world)).mapNames).toEqual(['cells']),
  map: async (world) =>
    expect(await Array.fromAsync((await frozen(world)).map('cells', 'number').range())).toHaveLength(3),
  draft: async (world) => {
    const sheet = world.spreadsheet.sheetOf((await frozen(world)).draft);
    expect(await Array.fromAsync(world.spreadsheet.sheetRows(sheet))).toHaveLength(3);
  },
};

/** The cells of the log, as entries up to number 3 left them. */
async function cells(world: World): Promise<FrozenMap> {
  return world.record('FrozenMap', (await past(world)).map('cells'));
}

export const FROZEN_MAP: MemberCalls<FrozenMap> = {
  name: async (world) => expect((await cells(world)).name).toBe('cells'),
  kind: async (world) => expect((await cells(world)).kind).toBe('number'),
  counts: async (world) => {
    const { items, edits } = (await cells(world)).counts;
    expect(items + edits).toBeGreaterThanOrEqual(3);
  },
  get: async (world) => {
    const map = await cells(world);
    const [first] = await Array.fromAsync(map.range({ limit: 1 }));
    expect(await map.get(first?.key ?? 0)).toBe('value 1');
  },
  has: async (world) => expect(await (await cells(world)).has(2 ** 40)).toBe(false),
  range: async (world) => {
    const values = await Array.fromAsync((await cells(world)).range(), ({ value }) => value);
    expect(values).toEqual(['value 1', 'value 2', 'value 3']);
  },
};
