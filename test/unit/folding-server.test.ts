import { describe, expect, test } from 'vitest';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import type { LogRequest } from '../../src/adapters/web/answer-log-request.ts';
import { openLogs } from '../../src/adapters/web/open-logs.ts';
import { encodeItemLine } from '../../src/archive/item-line.ts';
import type { Document } from '../../src/client/document.ts';
import { EntryExistsError, EntryRejectedError } from '../../src/errors.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { encodeBody } from '../../src/log/body.ts';
import type { Entry } from '../../src/log/entry.ts';
import { encodeEntry } from '../../src/log/item-codec.ts';
import type { Reducer } from '../../src/state/reducer.ts';
import { spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { MemoryLogs } from '../../src/testing/memory-logs.ts';
import { cells, deleteRows, entryOf, insertRows } from '../support/cities.ts';
import { rowsOf } from '../support/live-logs.ts';

const json = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
const allows = (): boolean => true;

/** A server that folds, and its pages. */
class World {
  readonly server: MemoryLogs;
  readonly log: LogId;
  /** The operations that pages sent. */
  sent: string[] = [];
  /** Changes the answer to a request, or loses it. */
  intercept: (request: LogRequest, answer: () => Promise<unknown>) => Promise<unknown> = (_, answer) => answer();

  private constructor(server: MemoryLogs, log: LogId) {
    this.server = server;
    this.log = log;
  }

  static async open(reducer: Reducer = spreadsheet): Promise<World> {
    const server = new MemoryLogs({ reducer });
    return new World(server, await server.create());
  }

  async page(reducer: Reducer = spreadsheet, folding: Reducer = spreadsheet): Promise<Document> {
    const logs = await openLogs({
      platform: nativePlatform,
      urlOf: String,
      send: async (request) => {
        this.sent.push(request.op);
        return this.intercept(request, async () =>
          json(await this.server.answer(json(request), { allows, reducer: folding })),
        );
      },
    });
    return logs.open(this.log, { reducer });
  }

  async entries(): Promise<number> {
    const document = await this.server.open(this.log, { reducer: spreadsheet });
    document.close();
    return document.number ?? 0;
  }
}

/** A spreadsheet that knows entries of another type, which say nothing to the server's reducer. */
const lenient: Reducer = { name: spreadsheet.name, version: spreadsheet.version, fold: async () => undefined };

/** A line of a page with another attribute in DynamoDB JSON. */
function lineWith(log: LogId, name: string, attribute: string): string {
  const position = { segment: 0, entry: 1 };
  const entry: Entry = { log, position, created: 1_700_000_000, type: 'Set', version: 1, id: Uint8Array.of(7) };
  return encodeItemLine(encodeEntry(entry)).replace(/\}\}$/, `,"${name}":${attribute}}}`);
}

/** The line of an entry that sets a cell. */
function lineAt(log: LogId, entry: number, others: Partial<Entry> = {}): string {
  const body = { format: 'bytes', bytes: encodeBody([[0, 1, 'cell']]) } as const;
  const head = { log, position: { segment: 0, entry }, created: 1_700_000_000, type: 'Set', version: 1 };
  return encodeItemLine(encodeEntry({ ...head, body, id: Uint8Array.of(entry), ...others }));
}

describe('a server that folds', () => {
  test.each([100, 10_000, 200_000])('answers requests that are nested %i times', async (depth) => {
    const world = await World.open();
    const bytes = Buffer.alloc(Math.min(depth, 16_000), 0x91).toString('base64');
    const attributes = [
      ['M', `${'{"M":{"a":'.repeat(depth)}{"S":"x"}${'}}'.repeat(depth)}`],
      ['M', `{"M":{"a":${'{"L":['.repeat(depth)}{"S":"x"}${']}'.repeat(depth)}}}`],
      ['B', `${'{"L":['.repeat(depth)}{"S":"x"}${']}'.repeat(depth)}`],
      ['B', `{"B":"${bytes}"}`],
      ['B', `{"S":"${'['.repeat(Math.min(depth, 8_000))}${']'.repeat(Math.min(depth, 8_000))}"}`],
    ] as const;
    for (const [name, attribute] of attributes) {
      const lines = [lineWith(world.log, name, attribute)];
      const request = { format: 1, op: 'putEntries', log: world.log, lines };
      const answer = await world.server.answer(request, { allows, reducer: spreadsheet });
      expect(answer).toMatchObject({ error: { code: expect.stringMatching(/^[A-Z_]+$/) } });
    }
    const nested: unknown = JSON.parse(`{"format":1,"op":${'['.repeat(depth)}${']'.repeat(depth)}}`);
    expect(await world.server.answer(nested, { allows, reducer: spreadsheet })).toHaveProperty('error');
    expect(await world.entries()).toBe(0);
  });

  test('refuses an entry that its reducer rejects, and the log goes on', async () => {
    const world = await World.open();
    const hostile = await world.page(lenient);
    const page = await world.page();
    for (const entry of [entryOf('Set', 'nonsense'), entryOf('Unknown', null), entryOf('Set', [[0, 0, 1], ['x']])]) {
      await expect(hostile.append([cells([0, 0, 'a']), entry])).rejects.toMatchObject({
        code: 'ENTRY_REJECTED',
        index: 1,
      });
      await expect(hostile.append([entry])).rejects.toBeInstanceOf(EntryRejectedError);
    }
    expect(await world.entries()).toBe(0);
    await page.append(cells([0, 0, 'good']));
    expect(await rowsOf(page)).toEqual([['good']]);
  });

  test('takes one request of the tables for an append, and none to read', async () => {
    const world = await World.open();
    const page = await world.page();
    await page.append(cells([0, 0, 'first']));
    world.sent = [];
    for (let row = 1; row <= 5; row++) await page.append(cells([row, 0, 'next']));
    expect(world.sent).toEqual(Array(5).fill('putEntries'));
    expect(await world.entries()).toBe(6);
  });

  test('rebases a late edit, so that it reaches the row that its author saw', async () => {
    const world = await World.open();
    const [ann, ben] = [await world.page(), await world.page()];
    await ann.append(cells([0, 0, 'city'], [1, 0, 'Denver']));
    await ben.refresh();
    await ben.append(insertRows(1));
    world.sent = [];
    await ann.append(cells([1, 1, 'Colorado']));
    expect(await rowsOf(ann)).toEqual([['city'], [], ['Denver', 'Colorado']]);
    expect(world.sent.filter((op) => op === 'putEntries')).toHaveLength(1);
    await ben.refresh();
    expect(await rowsOf(ben)).toEqual(await rowsOf(ann));
  });

  test('leaves an edit that loses a part to its author, who hears of it', async () => {
    const world = await World.open();
    const [ann, ben] = [await world.page(), await world.page()];
    await ann.append(cells([0, 0, 'city'], [1, 0, 'Denver'], [2, 0, 'Provo']));
    await ben.refresh();
    await ben.append(deleteRows(1));
    const added = await ann.append(cells([1, 1, 'Colorado'], [2, 1, 'Utah']));
    expect(added).toMatchObject({ dropped: [{ index: 0, parts: [0] }] });
    expect(await rowsOf(ann)).toEqual([['city'], ['Provo', 'Utah']]);
  });

  test('never moves an append that has a condition', async () => {
    const world = await World.open();
    const [ann, ben] = [await world.page(), await world.page()];
    await ann.append(cells([0, 0, 'city']));
    await ben.refresh();
    await ben.append(insertRows(0));
    await expect(ann.append(cells([0, 1, 'x']), { after: ann.newest })).rejects.toBeInstanceOf(EntryExistsError);
    expect(await world.entries()).toBe(2);
  });

  test.each([
    ['a request that arrives twice', true],
    ['an answer that is lost', false],
  ])('appends once after %s, also if the entries were moved', { tags: ['I8'] }, async (_, isTwice) => {
    const world = await World.open();
    const [ann, ben] = [await world.page(), await world.page()];
    await ann.append(cells([0, 0, 'city'], [1, 0, 'Denver']));
    await ben.refresh();
    await ben.append(insertRows(1));
    let puts = 0;
    world.intercept = async ({ op }, answer) => {
      const first = await answer();
      if (op !== 'putEntries' || puts++ > 0) return first;
      if (isTwice) return answer();
      throw new Error('socket hang up');
    };
    await ann.append(cells([1, 1, 'Colorado']));
    expect(await rowsOf(ann)).toEqual([['city'], [], ['Denver', 'Colorado']]);
    expect(await world.entries()).toBe(3);
  });

  test('several servers on one log are as right as one', async () => {
    const world = await World.open();
    const page = await world.page();
    await page.append(cells([0, 0, 'a']));
    // Another server appends, of which this one hears nothing.
    const other = await world.server.open(world.log, { reducer: spreadsheet });
    for (let row = 1; row < 4; row++) await other.append(insertRows(0));
    await page.append(cells([0, 1, 'b']));
    expect(await rowsOf(page)).toEqual([[], [], [], ['a', 'b']]);
    expect(await world.entries()).toBe(5);
  });

  test.each([30, -1])('appends nothing to a segment that expired while its clock moved by %i days', async (days) => {
    const server = new MemoryLogs({
      reducer: spreadsheet,
      retention: { keepSegments: 1, keepDays: 1, expire: 'delete' },
    });
    const log = await server.create();
    const send = (entry: number) => {
      const request = { format: 1, op: 'putEntries', log, lines: [lineAt(log, entry)] };
      return server.answer(request, { allows, reducer: spreadsheet });
    };
    for (const entry of [1, 2]) expect(await send(entry)).toMatchObject({ lines: [] });
    // The entry that ends the segment gets the next place, and then leaves the table.
    await server.client.addSnapshot(log);
    await server.pipeline.run();
    await server.client.startSegment(log);
    const nowMs = server.clock.now();
    for (let week = 0; week < 3; week++) {
      await server.clock.advance(7 * 24 * 3600 * 1000);
      await server.pipeline.run();
    }
    server.clock.set(nowMs + days * 24 * 3600 * 1000);
    for (const entry of [3, 4, 5]) {
      expect(await send(entry)).toMatchObject({ error: { code: 'ENTRY_EXISTS', newest: { segment: 1, entry: 0 } } });
    }
    expect(await Array.fromAsync(server.client.read(log, { from: 'start' }))).toHaveLength(2);
  });

  test('answers a flood of requests for one log, and appends each entry once', async () => {
    const world = await World.open();
    const page = await world.page();
    await page.append(cells([0, 0, 'a']));
    const requests = Array.from({ length: 300 }, (_, i) => ({
      format: 1,
      op: 'putEntries',
      log: world.log,
      lines: [lineAt(world.log, 2, { id: Uint8Array.of(i % 256, i >> 8) })],
      mayMove: true,
    }));
    const answers = await Promise.all(
      requests.map((request) => world.server.answer(request, { allows, reducer: spreadsheet })),
    );
    const refused = answers.flatMap((answer) => ('error' in answer ? [answer.error] : []));
    const busy = refused.filter(({ retryable }) => retryable === true);
    expect(busy.length).toBeGreaterThan(100);
    // So late that only their authors can rebase them.
    const late = refused.filter(({ code }) => code === 'ENTRY_EXISTS');
    expect(busy.length + late.length).toBe(refused.length);
    expect(await world.entries()).toBe(1 + answers.length - refused.length);
  });

  test('keeps only the logs in memory that were used last', async () => {
    const server = new MemoryLogs({ warmBytes: 100_000 });
    const logs = await Promise.all(Array.from({ length: 12 }, () => server.create()));
    const append = (log: LogId, entry: number): Promise<unknown> => {
      const request = { format: 1, op: 'putEntries', log, lines: [lineAt(log, entry)] };
      return server.answer(request, { allows, reducer: spreadsheet });
    };
    for (const entry of [1, 2]) {
      for (const log of logs) {
        expect(await append(log, entry)).toEqual({ lines: [], moved: false, mutations: [] });
        expect(server.warm.bytes).toBeLessThanOrEqual(100_000);
      }
    }
    expect(server.warm.logs).toBeGreaterThan(1);
    expect(server.warm.logs).toBeLessThan(6);
    for (const log of logs) expect(await Array.fromAsync(server.client.read(log, { from: 'start' }))).toHaveLength(2);
  });

  test('answers with the newest mutation of the client that the log has applied', async () => {
    const world = await World.open();
    const send = (entry: number, mutation: number): Promise<unknown> => {
      const lines = [lineAt(world.log, entry, { once: { client: '__proto__', mutation } })];
      const request = { format: 1, op: 'putEntries', log: world.log, lines };
      return world.server.answer(request, { allows, reducer: spreadsheet });
    };
    const mutations = (mutation: number) => ({ mutations: [{ client: '__proto__', mutation }] });
    expect(await send(1, 5)).toMatchObject(mutations(5));
    expect(await send(2, 3)).toMatchObject(mutations(5));
    expect(await send(3, 9)).toMatchObject(mutations(9));
  });

  test('refuses appends to a log that is stopped already, and says so', async () => {
    const world = await World.open();
    await world.server.client.addEntry(world.log, entryOf('Set', 'nonsense'));
    const request = { format: 1, op: 'putEntries', log: world.log, lines: [lineAt(world.log, 2)] };
    const answer = await world.server.answer(request, { allows, reducer: spreadsheet });
    expect(answer).toMatchObject({ error: { code: 'DOCUMENT_STOPPED' } });
  });

  test('refuses a late value that would stop the log', async () => {
    const late: Reducer = {
      name: 'late',
      version: 1,
      fold: async (draft) => {
        draft.map('a', 'string').put('key', () => {
          throw new Error('too late');
        });
      },
    };
    const server = new MemoryLogs();
    const log = await server.create();
    const request = { format: 1, op: 'putEntries', log, lines: [lineAt(log, 1)] };
    expect(await server.answer(request, { allows, reducer: late })).toMatchObject({
      error: { code: 'ENTRY_REJECTED' },
    });
  });
});
