import { deepStrictEqual } from 'node:assert';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DynamoDbLogStore } from '../../src/adapters/dynamodb/log-store.ts';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { answerLogRequest } from '../../src/adapters/web/answer-log-request.ts';
import { RemoteLogStore } from '../../src/adapters/web/remote-log-store.ts';
import { Logs } from '../../src/client/logs.ts';
import { encodeValue } from '../../src/codec/canonical.ts';
import { decodeValue } from '../../src/codec/message-pack.ts';
import { isArray, type Value } from '../../src/codec/value.ts';
import { LogfoldError, UsageError } from '../../src/errors.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import type { Position } from '../../src/ids/position.ts';
import { EXTERNAL_BODY_BYTES, encodeBody } from '../../src/log/body.ts';
import type { LogClient, NewEntry } from '../../src/log/client.ts';
import type { Entry } from '../../src/log/entry.ts';
import { MAX_METADATA_BYTES } from '../../src/log/metadata.ts';
import { collectionsOf } from '../../src/state/collections/collections.ts';
import { collections } from '../../src/state/collections/reducer.ts';
import { newLogId } from '../support/logs.ts';
import { values } from '../support/models/values.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { startTestEngine, type TestEngine } from '../support/stores/engine.ts';
import { testDeployment } from '../support/test-deployment.ts';

/** Names that code in JavaScript, JSON, UTF-8 or DynamoDB loses or confuses easily. */
const names = fc.oneof(
  fc.constantFrom('__proto__', 'constructor', 'toString', 'toJSON', 'hasOwnProperty', 'then', 'length'),
  fc.constantFrom('', ' ', '\u0000', 'a\u0000b', '\n', '\\', '"', '\\n', '~', '#', ':', '.', '$', '\u007f', '\uffff'),
  fc.constantFrom('0', '10', '-1', '1e3', '007', 'NaN', 'null', 'true', '4294967295'),
  fc.constantFrom('é', 'e\u0301', '\u212b', 'Å', 'ﬁ', '\ufeffa', '\u200d', '😀', '\u{10ffff}', 'İ', 'ß'),
  fc.constantFrom('\ud800', 'a\udc00', '\udc00\ud800'),
  fc.constantFrom('S', 'N', 'P', 'Z', 'Snapshot', 'logfold:history'),
  fc.constantFrom(255, 256, 257, 1023, 1024, 1025, 4096, 65_535).map((length) => 'x'.repeat(length)),
  fc.constantFrom(127, 128, 511, 512, 513).map((length) => 'é😀'.repeat(length)),
);

const named = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<Record<string, T>> =>
  fc
    .uniqueArray(fc.tuple(names, arbitrary), { maxLength: 4, selector: ([name]) => name })
    .map((entries) => Object.fromEntries(entries));

let engine: TestEngine;
beforeAll(async () => {
  engine = await startTestEngine();
});
afterAll(() => engine.stop());

interface Place {
  readonly logs: Logs;
  readonly client: LogClient;
  readonly log: LogId;
  /** Another process, which shares nothing with the writer. */
  readonly reader: Logs;
}

const PORTS = { random: Math.random, newLogId, now: Date.now };
const sleep = () => new Promise<void>((resolve) => setImmediate(resolve));

async function placeOf(kind: string): Promise<Place> {
  const tables = new DynamoDbLogStore({ client: engine.client, ...(await engine.createTables()) });
  const deps = testDeployment({ tables, blobs: new MemoryBlobStore() });
  const own = new Logs({ ...deps, ...PORTS, sleep });
  const json = (value: unknown): unknown => JSON.parse(JSON.stringify(value));
  const pages = () => {
    const remote = new RemoteLogStore(async (request) =>
      json(await answerLogRequest(deps, json(request), { allows: () => true })),
    );
    return new Logs({ ...deps, ...PORTS, sleep, store: remote, tables: remote });
  };
  const log = await own.create();
  const logs = kind === 'a page' ? pages() : own;
  const reader = kind === 'a page' ? pages() : new Logs({ ...deps, ...PORTS, sleep });
  return { logs, client: logs.client, log, reader };
}

async function readAt({ reader }: Place, log: LogId, position: Position, attributes = false): Promise<Entry> {
  const { entries } = await reader.client.query(log, { from: position, limit: 1, attributes });
  const [entry] = (await Array.fromAsync(entries)).flat();
  if (entry === undefined) throw new Error('the entry is missing');
  return entry;
}

/** Refuses with an error of logfold and changes nothing, or reads back what was written. */
async function refusedOr<T>(writes: () => Promise<T>): Promise<T | undefined> {
  try {
    return await writes();
  } catch (error) {
    expect(error).toBeInstanceOf(LogfoldError);
    return undefined;
  }
}

/** The bytes of a value, in which 0 stands for -0 as it does after a body was read. */
function encoded(value: Value): Uint8Array {
  return encodeValue(withoutNegativeZero(value));
}

function withoutNegativeZero(value: Value): Value {
  if (typeof value === 'number') return value === 0 ? 0 : value;
  if (typeof value !== 'object' || value === null || value instanceof Uint8Array || value instanceof Date) return value;
  if (isArray(value)) return value.map(withoutNegativeZero);
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, withoutNegativeZero(each)]));
}

/** A value as every decoder gives it. */
function canonical(value: Value): Value {
  return decodeValue(encodeValue(value));
}

describe.each(['a client', 'a page'])('%s reads what it writes, or its write is refused:', (kind) => {
  let place: Place;
  beforeAll(async () => {
    place = await placeOf(kind);
  });

  const roundTrip = async (given: NewEntry): Promise<'read' | 'refused'> => {
    const { client, log } = place;
    const number = async () => {
      const { entries } = await client.query(log, { from: 'start', reverse: true, limit: 1 });
      return (await Array.fromAsync(entries)).flat()[0]?.number;
    };
    const before = await number();
    const added = await refusedOr(() => client.addEntry(log, given));
    if (added === undefined) {
      expect(await number()).toBe(before);
      return 'refused';
    }
    const entry = await readAt(place, log, added.position);
    expect(entry.number).toBe(added.number);
    const { type, version, created = entry.created, milliseconds, once, body = null, metadata = {} } = given;
    deepStrictEqual(
      { type: entry.type, version: entry.version, created: entry.created, once: entry.once },
      { type, version, created, once },
    );
    if (given.created !== undefined) expect(entry.milliseconds ?? 0).toBe(milliseconds ?? 0);
    deepStrictEqual(encoded(await place.reader.client.loadBody(entry)), encoded(body));
    const present = (of: NewEntry['metadata'] = {}): Value =>
      canonical(Object.fromEntries(Object.entries(of).map(([name, value]) => [name, value ?? null])));
    deepStrictEqual(present(entry.metadata), present(metadata));
    return 'read';
  };

  test('entries of all types, times, mutations and metadata', async () => {
    await fc.assert(
      fc.asyncProperty(
        names,
        fc.record({ created: fc.nat(1e11), milliseconds: fc.nat(999) }),
        fc.option(names, { nil: undefined }),
        named(fc.oneof(names, fc.double(), fc.maxSafeInteger(), fc.boolean(), fc.constant(null), named(names))),
        async (type, time, client, metadata) => {
          const once = client === undefined ? undefined : { client, mutation: 2 };
          await roundTrip({ type, version: 3, ...time, once, metadata });
        },
      ),
      { numRuns: propertyRuns(300) },
    );
  });

  test('bodies of all values and hostile names', async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(values, named(fc.oneof(values, named(names)))), async (body) => {
        await roundTrip({ type: 'Note', version: 1, body: body as Value });
      }),
      { numRuns: propertyRuns(200) },
    );
  });

  test('bodies and metadata around their limits', async () => {
    const overhead = encodeBody('x'.repeat(EXTERNAL_BODY_BYTES)).length - EXTERNAL_BODY_BYTES;
    for (const length of [-1, 0, 1].map((more) => EXTERNAL_BODY_BYTES - overhead + more)) {
      const isLarge = length + overhead > EXTERNAL_BODY_BYTES;
      const done = await roundTrip({ type: 'Note', version: 1, body: 'x'.repeat(length) });
      // Larger bodies of pages are appended on the server.
      expect(done).toBe(isLarge && kind === 'a page' ? 'refused' : 'read');
    }
    const done: string[] = [];
    for (let bytes = MAX_METADATA_BYTES - 20; bytes <= MAX_METADATA_BYTES + 1; bytes++) {
      done.push(await roundTrip({ type: 'Note', version: 1, metadata: { é: 'x'.repeat(bytes) } }));
    }
    expect(done.indexOf('refused')).toBeGreaterThan(0);
    expect(done.lastIndexOf('read')).toBe(done.indexOf('refused') - 1);
  });

  test('items of collections, and their names', async () => {
    const { logs, reader } = place;
    await fc.assert(
      fc.asyncProperty(names, names, fc.oneof(values, named(names)), async (collection, id, given) => {
        const value = given as Value;
        const document = await logs.open(place.log, { reducer: onlyPuts });
        const body = { collection, id, value };
        const added = await refusedOr(() => document.append({ type: 'Put', version: 1, body }));
        const read = collectionsOf((await reader.open(place.log, { reducer: onlyPuts })).state);
        const item = added === undefined ? undefined : await read.collection(collection).get(id);
        if (added !== undefined) deepStrictEqual(encoded(item?.value ?? null), encoded(value));
      }),
      { numRuns: propertyRuns(100) },
    );
  });
});

/** The log has entries of other types too. */
const onlyPuts = {
  name: 'puts',
  version: 1,
  fold: (...[draft, entry]: Parameters<typeof collections.fold>) =>
    entry.type === 'Put' && typeof entry.body === 'object' ? collections.fold(draft, entry) : undefined,
};

describe('a client', () => {
  test('reads the attributes that it sets, under all names that it accepts', async () => {
    const place = await placeOf('a client');
    const { client, log } = place;
    const { position, number = 0 } = await client.addEntry(log, { type: 'Note', version: 1 });
    await fc.assert(
      fc.asyncProperty(named(fc.oneof(names, fc.double(), fc.boolean(), named(names))), async (given) => {
        const set = Object.fromEntries(Object.entries(given).map(([name, value]) => [name, value as Value]));
        const before = await readAt(place, log, position, true);
        const changed = await refusedOr(() => client.updateAttributes(log, { number }, { set }));
        const after = await readAt(place, log, position, true);
        const expected = changed === undefined ? {} : set;
        deepStrictEqual(
          canonical({ ...after.attributes }),
          canonical(Object.fromEntries([...Object.entries(before.attributes ?? {}), ...Object.entries(expected)])),
        );
        if (changed !== undefined) await client.updateAttributes(log, position, { remove: Object.keys(set) });
      }),
      { numRuns: propertyRuns(150) },
    );
  });

  const MB = 1024 * 1024;
  test.each([0, 1, 256 * 1024 - 1, 256 * 1024 + 1, 4 * MB - 1, 4 * MB, 4 * MB + 1, 8 * MB, 8 * MB + 1])(
    'reads a file of %d bytes that it saved, and refuses one that changed',
    async (size) => {
      const { client, log, reader, ...place } = await placeOf('a client');
      const bytes = Uint8Array.from({ length: size }, (_, i) => (i * 31 + (i >> 12)) % 251);
      const file = await client.saveFile(log, async function* () {
        for (let at = 0; at < size; at += 100_000) yield bytes.subarray(at, at + 100_000);
      });
      const { position } = await client.addEntry(log, { type: 'Import', version: 1, body: { a: 1 }, file });
      const entry = await readAt({ client, log, reader, ...place }, log, position);
      const opened = await reader.client.loadFile(entry);
      expect(opened?.size).toBe(size);
      const read = Buffer.concat(await Array.fromAsync(opened?.bytes() ?? []));
      expect(read.equals(bytes)).toBe(true);
      expect(await reader.client.loadBody(entry)).toEqual({ a: 1 });
    },
  );

  test('finds that a file is gone or damaged, and says in which entry', async () => {
    const place = await placeOf('a client');
    const { client, log } = place;
    const blobs = new MemoryBlobStore();
    const tables = new DynamoDbLogStore({ client: engine.client, ...(await engine.createTables()) });
    const logs = new Logs({ ...testDeployment({ tables, blobs }), ...PORTS, sleep });
    const own = await logs.create();
    const file = await logs.client.saveFile(own, async function* () {
      yield Uint8Array.of(1, 2, 3);
    });
    const { position } = await logs.client.addEntry(own, { type: 'Import', version: 1, body: {}, file });
    const { entries } = await logs.client.query(own, { from: position });
    const [entry] = (await Array.fromAsync(entries)).flat();
    if (entry === undefined) throw new Error('the entry is missing');
    await blobs.put(file, Uint8Array.of(1, 2, 4));
    const damaged = await logs.client.loadFile(entry);
    await expect(Array.fromAsync(damaged?.bytes() ?? [])).rejects.toMatchObject({ code: 'EXTERNAL_CORRUPT' });
    await blobs.delete([file]);
    await expect(logs.client.loadFile(entry)).rejects.toMatchObject({
      code: 'EXTERNAL_MISSING',
      log: own,
      ...position,
    });
    const plain = await client.addEntry(log, { type: 'Note', version: 1 });
    expect(await client.loadFile(await readAt(place, log, plain.position))).toBeUndefined();
    const first = await readAt(place, log, { segment: 0, entry: 0 });
    expect(await client.loadFile(first)).toBeUndefined();
    await expect(client.addEntry(log, { type: '\ud800', version: 1 })).rejects.toThrow(UsageError);
  });
});
