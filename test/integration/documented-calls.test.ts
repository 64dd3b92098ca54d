import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import type { Document } from '../../src/client/document.ts';
import type { Logs } from '../../src/client/logs.ts';
import { openLogs } from '../../src/exports/local.ts';
import { openLogs as openPageLogs } from '../../src/exports/logfold.ts';
import { openLogs as openMemoryLogs } from '../../src/exports/testing.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import type { Position } from '../../src/ids/position.ts';
import { importBody } from '../../src/state/spreadsheet/import.ts';
import { spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { CliPlace } from '../support/cli-place.ts';

const FEED = ['--feed-table', 'Feed'];
const NOW = ['--keep-segments', '1', '--keep-days', '0', '--grace', '0s', '--expire', 'delete'];
const CORNER = { rows: { from: 0, to: 2 }, columns: { from: 0, to: 2 } };
const SEGMENTS = 3;
const EDITS = 5;

let place: CliPlace;
let logs: Awaited<ReturnType<typeof openLogs>>;
/** Opens the logs as another process would. */
let others: Logs;
/** A fed log with snapshots, whose first segments are archived and left the table. */
let log: LogId;
let document: Document;
/** A position in an archived segment. */
const PAST: Position = { segment: 0, entry: 4 };
let appended = 0;

beforeAll(async () => {
  place = await CliPlace.open();
  log = await place.log();
  await place.json('work', '--until-idle', ...FEED);
  for (let i = 0; i < SEGMENTS * EDITS; i++) {
    await place.edit(log, { type: 'Set', cells: [[i % 3, 0, `value ${i}`]] });
    if (i % EDITS !== EDITS - 1) continue;
    await place.json('segment', log);
    await place.json('work', '--until-idle', ...FEED);
  }
  for (let pass = 0; pass < 3; pass++) await place.json('sweep', ...NOW, ...FEED);
  logs = await openLogs({ directory: place.directory, feedTable: 'Feed' });
  others = await openLogs({ directory: place.directory });
  document = await logs.open(log, { reducer: spreadsheet });
});
afterAll(async () => {
  await logs.close();
  await others.close();
  await place.close();
});

const set = (value: string) => ({ type: 'Set', version: 1, body: [[0, 1, value]] });

/** The key of an object that the page has read. */
let objectKey = '';

/** The corner that a page sees on the server's answers. */
async function viewOfPage(): Promise<unknown> {
  const allows = (asked: LogId): boolean => asked === log;
  const json = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
  const page = await openPageLogs({
    platform: nativePlatform,
    urlOf: encodeURIComponent,
    fetch: async (url, { headers }) => {
      objectKey = decodeURIComponent(url);
      const { status, body, ...answer } = await logs.object(objectKey, { allows, range: headers.Range });
      return new Response(body, { status, headers: { ...answer.headers } });
    },
    send: async (request) => json(await logs.answer(json(request), { allows })),
  });
  return (await page.open(log, { reducer: spreadsheet })).view(CORNER);
}

/** Each call that the guides name, on a log with everything that a log may have. */
const CALLS: Readonly<Record<string, () => Promise<unknown>>> = {
  'document.view': async () => expect(await document.view(CORNER)).toHaveLength(2),
  'document.map': async () => {
    const [name = ''] = document.state.mapNames;
    return expect(await Array.fromAsync(document.map(name).range())).not.toEqual([]);
  },
  'document.at': async () => {
    expect((await (await document.at(PAST)).view(CORNER))[0]?.[0]).toBe('value 0');
    return expect((await (await document.at(new Date())).view(CORNER))[0]?.[0]).toBe('value 12');
  },
  'document.diff': async () => expect(await Array.fromAsync(document.diff(PAST, document.position))).not.toEqual([]),
  'state.diff': async () => {
    const past = await document.at(PAST);
    return expect(await Array.fromAsync(past.diff(document.state))).not.toEqual([]);
  },
  'document.history': async () => {
    const values = await Array.fromAsync(document.history({ row: 0, column: 0 }), ({ value }) => value);
    return expect(values).toEqual([0, 3, 6, 9, 12].map((i) => `value ${i}`));
  },
  'document.append': async () => {
    const { newest } = document;
    await document.append(set(`appended ${++appended}`), newest && { after: newest });
    return expect((await document.view(CORNER))[0]?.[1]).toBe(`appended ${appended}`);
  },
  'document.mutate': async () => {
    await document.mutate(set(`mutated ${++appended}`));
    return expect((await document.view(CORNER))[0]?.[1]).toBe(`mutated ${appended}`);
  },
  'document.pendingList': async () => expect(document.pendingList.getSnapshot()).toEqual([]),
  'document.newest': async () => expect(document.newest?.segment).toBe(SEGMENTS),
  'document.number': async () => expect(document.number).toBeGreaterThanOrEqual(SEGMENTS * EDITS),
  'document.position': async () => expect(document.position.segment).toBe(SEGMENTS),
  'document.state': async () => expect(document.state).toBe(document.state),
  'document.badEntry': async () => expect(document.badEntry).toBeUndefined(),
  'document.refresh': async () => {
    await others.client.addEntry(log, set(`refreshed ${++appended}`));
    expect(await document.refresh()).toBe(true);
    return expect((await document.view(CORNER))[0]?.[1]).toBe(`refreshed ${appended}`);
  },
  'document.subscribe': async () => {
    let changes = 0;
    const unsubscribe = document.subscribe(() => changes++);
    await document.append(set(`subscribed ${++appended}`));
    unsubscribe();
    return expect(changes).toBe(1);
  },
  'document.watch': async () => {
    const changed = Promise.withResolvers<void>();
    const unsubscribe = document.subscribe(changed.resolve);
    const stop = document.watch({ onError: changed.reject });
    await others.client.addEntry(log, set(`watched ${++appended}`));
    await changed.promise;
    stop();
    return unsubscribe();
  },
  'logs.client': async () => {
    const { entries } = await logs.client.query(log, { from: 'start' });
    return expect((await Array.fromAsync(entries)).flat().length).toBeGreaterThan(SEGMENTS * EDITS);
  },
  'logs.client.addEntry': async () => logs.client.addEntry(log, set(`added ${++appended}`)),
  'logs.client.addSnapshot': async () => logs.client.addSnapshot(log),
  'logs.client.loadBody': async () => {
    const body = 'x'.repeat(20_000);
    const { position } = await logs.client.addEntry(log, set(body));
    const { entries } = await logs.client.query(log, { from: position });
    const [entry] = (await Array.fromAsync(entries)).flat();
    return expect(entry && (await logs.client.loadBody(entry))).toEqual([[0, 1, body]]);
  },
  'logs.client.query': async () => {
    const { entries } = await logs.client.query(log, { from: { number: 1 }, to: { number: 3 } });
    return expect((await Array.fromAsync(entries)).flat().at(-1)?.number).toBe(2);
  },
  'logs.client.read': async () => {
    const read = await Array.fromAsync(logs.client.read(log, { from: 'start' }), ({ number }) => number);
    return expect(read).toEqual(Array.from(read, (_, i) => i + 1));
  },
  'logs.client.saveFile': async () => {
    const file = await logs.client.saveFile(log, async function* () {
      yield new TextEncoder().encode('city\n');
    });
    return expect(file).toBeDefined();
  },
  'logs.client.loadFile': async () => {
    const file = await logs.client.saveFile(log, async function* () {
      yield new TextEncoder().encode('state\n');
    });
    const body = importBody({ format: 'csv', row: 9, column: 9 });
    const { position } = await logs.client.addEntry(log, { type: 'Import', version: 1, body, file });
    const [entry] = (await Array.fromAsync((await logs.client.query(log, { from: position })).entries)).flat();
    const stored = entry && (await logs.client.loadFile(entry));
    return expect(stored && new TextDecoder().decode(Buffer.concat(await Array.fromAsync(stored.bytes())))).toBe(
      'state\n',
    );
  },
  'logs.answer': async () => {
    await document.refresh();
    return expect(await viewOfPage()).toEqual(await document.view(CORNER));
  },
  'logs.object': async () => {
    const allowed = await logs.object(objectKey, { allows: () => true });
    expect(allowed).toMatchObject({ status: 200 });
    return expect(await logs.object(objectKey, { allows: () => false })).toMatchObject({ status: 403 });
  },
  'logs.client.updateLogAttributes': async () =>
    expect(await logs.client.updateLogAttributes(log, { set: { org: 7 } })).toEqual({ updated: true }),
  'document.attributes': async () => {
    await logs.client.updateLogAttributes(log, { set: { title: 'Sales' } });
    const opened = await logs.open(log, { reducer: spreadsheet });
    expect(opened.attributes).toMatchObject({ title: 'Sales' });
    opened.close();
  },
  'logs.client.logAttributes': async () =>
    expect(await logs.client.logAttributes(await logs.create(undefined, { attributes: { org: 8 } }))).toEqual({
      org: 8,
    }),
  'logs.list': async () => {
    const id = await logs.create('documented/1');
    const byPrefix = await Array.fromAsync(logs.list({ prefix: 'documented/' }), (listed) => listed.log);
    const all = await Array.fromAsync(logs.list(), (listed) => listed.log);
    expect(all).toEqual(expect.arrayContaining([log, id]));
    return expect(byPrefix).toEqual([id]);
  },
  'logs.create': async () => expect(await logs.create()).not.toBe(log),
  'logs.open': async () =>
    expect((await logs.open(log, { reducer: spreadsheet, onBadEntry: 'stop' })).badEntry).toBeUndefined(),
  'logs.feed.consume': async () => {
    const bodies: unknown[] = [];
    for await (const item of logs.feed.consume('documented')) bodies.push(await item.body());
    // Every Set entry, and no body for the others.
    return expect(bodies.filter((body) => Array.isArray(body))).toHaveLength(SEGMENTS * EDITS);
  },
  'feed.read': async () => {
    const all = await Array.fromAsync(logs.feed.read({ from: 0 }));
    const [first] = all;
    return expect(await Array.fromAsync(logs.feed.read({ from: first?.checkpoint ?? 0 }))).toHaveLength(all.length - 1);
  },
  'feed.consumeBatches': async () => {
    const sizes: number[] = [];
    const bodies: unknown[] = [];
    for await (const batch of logs.feed.consumeBatches('in batches', { size: 3 })) {
      sizes.push(batch.length);
      for (const item of batch) bodies.push(await item.body());
    }
    expect(Math.max(...sizes)).toBe(3);
    return expect(bodies.filter((body) => Array.isArray(body))).toHaveLength(SEGMENTS * EDITS);
  },
  'logs.feed.release': async () => logs.feed.release('documented'),
  'logs.client.transact': async () => {
    const other = await logs.client.createLog();
    const entries = [{ type: 'Set', version: 1, body: [[0, 0, 'both']] }];
    const added = await logs.client.transact([log, other].map((each) => ({ log: each, entries })));
    return expect(added).toMatchObject([{ firstNumber: expect.any(Number) }, { firstNumber: 1 }]);
  },
  'logs.pipeline': async () => {
    const memory = openMemoryLogs({ reducer: spreadsheet });
    const sheet = await memory.open(await memory.create(), { reducer: spreadsheet });
    await sheet.append(set('in memory'));
    const { position } = await memory.client.addSnapshot(sheet.log);
    await memory.pipeline.run();
    return expect((await memory.open(sheet.log, { reducer: spreadsheet })).snapshot).toEqual(position);
  },
  'logs.clock': async () => {
    const { clock } = openMemoryLogs();
    const before = clock.now();
    await clock.advance(5);
    return expect(clock.now()).toBe(before + 5);
  },
  'logs.client.startSegment': async () =>
    expect(await logs.client.startSegment(log)).toMatchObject({ segment: SEGMENTS + 1 }),
  'logs.close': async () => {
    const other = await openLogs({ directory: place.directory });
    return expect(await other.close()).toBeUndefined();
  },
};

test('the log has archived segments that left the table, and complete snapshots', async () => {
  const { logs: found } = await place.json('status', log);
  expect(found).toMatchObject([{ archived: SEGMENTS, expired: SEGMENTS, stopped: null }]);
});

test.each(Object.entries(CALLS))('%s works on a fed log with archived segments', async (_, call) => {
  await call();
});

test('each call that the guides name is called here', async () => {
  const named = new Set<string>();
  for (const guide of ['README.md', 'docs/library.md']) {
    const text = await readFile(new URL(`../../${guide}`, import.meta.url), 'utf8');
    for (const [call] of text.matchAll(/\b(?:logs\.client|logs\.feed|logs|document|state|feed)\.[a-z]\w+/g)) {
      // `document.body` is the body of a page.
      if (!/\.(?:ts|md|png|svg|json|body)$/.test(call)) named.add(call);
    }
  }
  expect([...named].filter((call) => !Object.hasOwn(CALLS, call))).toEqual([]);
});
