import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { encodeItemLine } from '../../src/archive/item-line.ts';
import type { Document } from '../../src/client/document.ts';
import { toValue, type Value } from '../../src/codec/value.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { nextPosition, type Position } from '../../src/ids/position.ts';
import type { Item } from '../../src/log/attribute.ts';
import { encodeBody } from '../../src/log/body.ts';
import type { Entry, EntryMetadata } from '../../src/log/entry.ts';
import { encodeEntry } from '../../src/log/item-codec.ts';
import { spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { MemoryLogs } from '../../src/testing/memory-logs.ts';
import { rowsOf } from '../support/live-logs.ts';
import { propertyRuns } from '../support/property-runs.ts';

const REQUESTS = 100;
const WARM_BYTES = 1_000_000;
/** A page may append to its log, under this client name. */
const CLIENT = 'ann';

/** A part of a request that a page makes up. */
const madeUp = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  fc.constantFrom<unknown>(-1, 1e300, 2 ** 53, '', '__proto__', 'x'.repeat(100_000), null, [], {}, [[[[]]]]),
  fc.constantFrom(10, 40, 300).map(nested),
);

function nested(depth: number): unknown {
  let value: unknown = 0;
  for (let i = 0; i < depth; i++) value = [value];
  return value;
}

/** How an entry of a page differs from a right one. */
const FLAWS = {
  type: fc.oneof(fc.constantFrom('Set', 'Insert Rows', 'Import', 'Snapshot', 'End Segment', 'Set Axis'), fc.string()),
  version: fc.oneof(fc.constantFrom(1, 2, 0), fc.integer()),
  body: madeUp,
  bytes: fc.uint8Array({ maxLength: 40 }),
  once: fc.record({ client: fc.constantFrom(CLIENT, 'ben', '__proto__'), mutation: fc.nat(20) }),
  metadata: fc.dictionary(fc.string(), madeUp, { maxKeys: 3 }),
  rawMetadata: fc.jsonValue(),
  ahead: fc.integer({ min: -3, max: 3 }),
  large: fc.constantFrom(16_000, 17_000, 500_000),
  id: fc.uint8Array({ maxLength: 70 }),
  external: fc.constant('logs/other/bodies/x'),
};

/** An entry with at most two flaws, because the server stops at the first one. */
const flaws = fc
  .tuple(fc.record(FLAWS), fc.uniqueArray(fc.nat(Object.keys(FLAWS).length - 1), { maxLength: 2 }))
  .map(
    ([all, chosen]): Partial<typeof all> =>
      Object.fromEntries(Object.entries(all).filter((_, i) => chosen.includes(i))),
  );

type Flaws = typeof flaws extends fc.Arbitrary<infer T> ? T : never;

type Step =
  | { readonly kind: 'append'; readonly entries: readonly Flaws[]; readonly mayMove: boolean; readonly times: number }
  | { readonly kind: 'together'; readonly entries: readonly Flaws[] }
  | { readonly kind: 'other'; readonly op: string }
  | { readonly kind: 'broken'; readonly flaws: Flaws; readonly path: readonly number[]; readonly value: unknown }
  | { readonly kind: 'anything'; readonly value: unknown };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('append' as const),
      entries: fc.array(flaws, { minLength: 1, maxLength: 3 }),
      mayMove: fc.boolean(),
      times: fc.constantFrom(1, 1, 1, 5),
    }),
  },
  fc.record({ kind: fc.constant('together' as const), entries: fc.array(flaws, { minLength: 1, maxLength: 2 }) }),
  fc.record({
    kind: fc.constant('other' as const),
    op: fc.constantFrom('newestSegments', 'getSegment', 'newestEntry', 'getEntry', 'items', 'putEntries'),
  }),
  fc.record({
    kind: fc.constant('broken' as const),
    flaws,
    path: fc.array(fc.nat(5), { maxLength: 4 }),
    value: madeUp,
  }),
  fc.record({ kind: fc.constant('anything' as const), value: madeUp }),
);

test('nothing that a hostile page sends stops a log, reads another one or fills the memory', async () => {
  const answers = new Set<unknown>();
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: REQUESTS, maxLength: REQUESTS, size: 'max' }), async (steps) => {
      const server = new MemoryLogs({ reducer: spreadsheet, warmBytes: WARM_BYTES });
      const mine = await server.create('mine');
      const other = await server.create('other');
      await server.client.addEntry(other, { type: 'Set', version: 1, body: [[0, 0, 'secret']] });
      const document = await server.open(mine, { reducer: spreadsheet });
      const page = new HostilePage(server, document, { other, answers });
      for (const each of steps) await page.run(each);
      // A page that keeps to the rules goes on.
      await document.append({ type: 'Set', version: 1, body: [[0, 0, 'good']] });
      expect((await rowsOf(document))[0]?.[0]).toBe('good');
      expect(await Array.fromAsync(server.client.read(other, { from: 'start' }))).toHaveLength(1);
      expect(server.warm.bytes).toBeLessThanOrEqual(WARM_BYTES);
    }),
    { numRuns: propertyRuns(100) },
  );
  expect([...answers]).toEqual(expect.arrayContaining(['stored', 'ENTRY_REJECTED', 'USAGE', 'NOT_ALLOWED']));
});

class HostilePage {
  readonly #server: MemoryLogs;
  readonly #document: Document;
  readonly #mine: LogId;
  readonly #other: LogId;

  /** Codes of the errors that it got, and `stored`. */
  readonly #answers: Set<unknown>;

  constructor(
    server: MemoryLogs,
    document: Document,
    { other, answers }: { readonly other: LogId; readonly answers: Set<unknown> },
  ) {
    this.#server = server;
    this.#document = document;
    this.#mine = document.log;
    this.#other = other;
    this.#answers = answers;
  }

  async run(each: Step): Promise<void> {
    switch (each.kind) {
      case 'append': {
        const lines = await this.#lines(this.#mine, each.entries);
        const request = { format: 1, op: 'putEntries', log: this.#mine, lines, mayMove: each.mayMove };
        await Promise.all(Array.from({ length: each.times }, () => this.#send(request)));
        return;
      }
      case 'together': {
        const appends = await Promise.all(
          [this.#mine, this.#other].map(async (log) => ({ log, lines: await this.#lines(log, each.entries) })),
        );
        expect(await this.#send({ format: 1, op: 'putTogether', appends })).toHaveProperty('error');
        return;
      }
      case 'other': {
        const place = { segment: 0, entry: 1, from: 0, to: 9, limit: 2, consistent: true };
        const answer = await this.#send({ format: 1, op: each.op, log: this.#other, ...placeOf(each.op, place) });
        expect(answer).toHaveProperty('error');
        expect(JSON.stringify(answer)).not.toContain('secret');
        return;
      }
      case 'broken': {
        const lines = await this.#lines(this.#mine, [each.flaws]);
        await this.#send(broken({ format: 1, op: 'putEntries', log: this.#mine, lines }, each.path, each.value));
        return;
      }
      default:
        await this.#send(each.value);
    }
  }

  /** Sends a request as a browser does. The server must not fail, whatever it gets. */
  async #send(request: unknown): Promise<unknown> {
    const allows = (log: LogId, _: unknown, entries: readonly Entry[]): boolean =>
      log === this.#mine && entries.every(({ once }) => once === undefined || once.client === CLIENT);
    const sent: unknown = JSON.parse(JSON.stringify(request));
    const answer = await this.#server.answer(sent, { allows, reducer: spreadsheet });
    this.#answers.add('error' in answer ? answer.error.code : 'stored');
    return JSON.parse(JSON.stringify(answer));
  }

  async #lines(log: LogId, entries: readonly Flaws[]): Promise<string[]> {
    // A log that is stopped fails here.
    await this.#document.refresh();
    let place: Position = this.#document.position;
    return entries.map((flawed) => {
      const line = lineOf(log, place, flawed);
      place = nextPosition(place);
      return line;
    });
  }
}

/** The line of an entry, right except for its flaws. */
function lineOf(log: LogId, { segment, entry: number }: Position, flawed: Flaws): string {
  const { type = 'Set', version = 1, body = [[0, 1, 'cell']], ahead = 0, once, id, external, large } = flawed;
  const { metadata, rawMetadata } = flawed;
  const position = { segment, entry: Math.max(0, number + ahead) };
  const bytes = flawed.bytes ?? (large === undefined ? bodyOf(body) : new Uint8Array(large));
  const head = { log, position, created: 1_700_000_000, type, version, id: id ?? Uint8Array.of(number, 7) };
  const entry: Entry = {
    ...head,
    ...(external === undefined ? { body: { format: 'bytes', bytes } } : { external }),
    ...(once !== undefined && { once }),
    ...(metadata !== undefined && { metadata: valuesOf(metadata) }),
  };
  const line: unknown = JSON.parse(encodeItemLine(itemOf(entry)));
  const item = isRecord(line) && isRecord(line.Item) ? line.Item : {};
  return JSON.stringify({ Item: { ...item, ...(rawMetadata !== undefined && { M: rawMetadata }) } });
}

/** The item of an entry; without metadata that DynamoDB cannot hold. */
function itemOf({ metadata, ...entry }: Entry): Item {
  try {
    return encodeEntry({ ...entry, ...(metadata !== undefined && { metadata }) });
  } catch {
    return encodeEntry(entry);
  }
}

function valuesOf(values: Readonly<Record<string, unknown>>): EntryMetadata {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, storableOf(value)]));
}

function bodyOf(value: unknown): Uint8Array {
  try {
    return encodeBody(toValue(value));
  } catch {
    return Uint8Array.of(0xc1);
  }
}

/** Some values that JSON can say, entries cannot. */
function storableOf(value: unknown): Value {
  try {
    return toValue(value);
  } catch {
    return 'no value';
  }
}

/** A request with another value at a path; each number chooses one of the names there. */
function broken(value: unknown, [first, ...rest]: readonly number[], other: unknown): unknown {
  if (first === undefined || typeof value !== 'object' || value === null) return other;
  const entries = Object.entries(value);
  const chosen = first % Math.max(1, entries.length);
  const changed = entries.map(([name, each], i) => [name, i === chosen ? broken(each, rest, other) : each] as const);
  return Array.isArray(value) ? changed.map(([, each]) => each) : Object.fromEntries(changed);
}

function placeOf(op: string, place: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const names: Readonly<Record<string, readonly string[]>> = {
    newestSegments: ['limit', 'consistent'],
    getSegment: ['segment', 'consistent'],
    newestEntry: ['segment', 'consistent'],
    getEntry: ['segment', 'entry', 'consistent'],
    items: ['segment', 'from', 'to', 'consistent'],
    putEntries: [],
  };
  return Object.fromEntries((names[op] ?? []).map((name) => [name, place[name]]));
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
