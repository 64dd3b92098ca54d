import { crc32 } from 'node:zlib';
import { type DynamoDBClient, QueryCommand, type QueryCommandOutput, ScanCommand } from '@aws-sdk/client-dynamodb';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { pageReader } from '../../src/adapters/dynamodb/page-reader.ts';
import type { StoredItem } from '../../src/log/attribute.ts';
import { type ItemDecoder, storedItems } from '../../src/log/item-json.ts';
import { AnswerServer } from '../support/answer-server.ts';
import { testClient } from '../support/engine.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { Random } from '../support/random.ts';
import { anyCharacter } from '../support/values.ts';

type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };

let server: AnswerServer;
let client: DynamoDBClient;

beforeAll(async () => {
  server = await AnswerServer.start();
  client = testClient(server.endpoint);
});
afterAll(async () => {
  client.destroy();
  await server.stop();
});

const base64 = fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes).toString('base64'));
// Lone surrogates are in JSON as escapes only, and the SDK reads them.
const text = fc.oneof(
  fc.string({ unit: 'grapheme' }),
  fc.string({ unit: anyCharacter }),
  fc.string({
    unit: fc.constantFrom('\\', '"', '/', '\n', '\u0000', '\u2028', '\ud83d', '\ude00', '€', 'é', '{', ']'),
  }),
);
// The SDK loses the value of an attribute with the name `__proto__`, but not inside a Map.
// After an object with the name `\\`, JSON.parse of Node 24 reads as `\\` any name that is one
// escape.
const name = fc
  .oneof(text, fc.constantFrom('constructor', 'toString', 'S', 'N', 'B', 'Items', ''))
  .filter((given) => given !== '\\' && given !== '__proto__');
const anyName = fc.oneof(name, fc.constant('__proto__'));
const number = fc.oneof(
  fc.integer().map(String),
  fc.bigInt({ min: -(10n ** 38n), max: 10n ** 38n }).map(String),
  fc.constantFrom('0', '-0.5', '1.5e-130', '9.9999999999999999999999999999999999999E+125', '00012'),
);

/** Attributes of every type, as DynamoDB writes them in JSON. */
function attributes(names: fc.Arbitrary<string>): fc.Arbitrary<Json> {
  return fc.letrec<{ attribute: Json }>((tie) => ({
    attribute: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      fc.record({ S: text }),
      fc.record({ N: number }),
      fc.record({ B: base64 }),
      fc.record({ BOOL: fc.boolean() }),
      fc.record({ NULL: fc.constant(true) }),
      fc.record({ SS: fc.array(text) }),
      fc.record({ NS: fc.array(number) }),
      fc.record({ BS: fc.array(base64) }),
      fc.record({ L: fc.array(tie('attribute')) }),
      fc.record({ M: named(names, tie('attribute')) }),
    ),
  })).attribute;
}

function named(names: fc.Arbitrary<string>, values: fc.Arbitrary<Json>): fc.Arbitrary<Json> {
  return fc.array(fc.tuple(names, values)).map((entries) => Object.fromEntries(entries));
}

const items = fc.array(named(name, attributes(name)), { maxLength: 6 });
const anyJson: fc.Arbitrary<Json> = fc.jsonValue().map((json): Json => JSON.parse(JSON.stringify(json)));
/** Items that DynamoDB does not send, and texts with a `__proto__`. */
const anyItems = fc.array(fc.oneof(named(name, attributes(anyName)), named(name, anyJson), anyJson));

/** The fields of an answer beside its items. */
const fields = fc.record(
  {
    Count: fc.nat(),
    ScannedCount: fc.nat(),
    LastEvaluatedKey: named(name, attributes(anyName)),
    ConsumedCapacity: fc.record({ TableName: text, CapacityUnits: fc.double({ min: 0.5, max: 1e6, noNaN: true }) }),
    Other: fc.record({ Items: items, text }),
  },
  { requiredKeys: [] },
);

/**
 * Writes JSON as another program could: with any space, any escapes and the fields in any order.
 * Plain JSON has no space, and no escapes in texts of letters and digits.
 */
function write(json: Json, random: Random, plain = false): string {
  const space = () => (!plain && random.chance(0.1) ? (random.pick([' ', '\n', '\t', '\r\n ', '  ']) ?? '') : '');
  const list = (open: string, parts: readonly string[], close: string) =>
    `${open}${space()}${parts.map((part) => `${part}${space()}`).join(`,${space()}`)}${close}`;
  if (typeof json === 'string') return writeText(json, random, plain);
  if (typeof json !== 'object' || json === null) return String(json);
  if (isList(json))
    return list(
      '[',
      json.map((each) => write(each, random, plain)),
      ']',
    );
  const entries = Object.entries(json).map(([key, value]) => {
    return `${writeText(key, random, plain)}${space()}:${space()}${write(value, random, plain)}`;
  });
  return list('{', shuffled(entries, random), '}');
}

function isList(json: Json): json is readonly Json[] {
  return Array.isArray(json);
}

const SHORT: Readonly<Record<string, string>> = {
  '"': '\\"',
  '\\': '\\\\',
  '/': '\\/',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
};

function writeText(value: string, random: Random, plain: boolean): string {
  // Base64 and the names of the protocol need no escapes.
  if (plain && /^[\w+/=]*$/.test(value)) return `"${value}"`;
  const parts = Array.from(value, (point) => {
    const mustEscape = point < ' ' || /["\\\p{Surrogate}]/u.test(point);
    if (!mustEscape && !random.chance(0.1)) return point;
    const short = SHORT[point];
    if (short !== undefined && random.chance(0.7)) return short;
    return Array.from({ length: point.length }, (_, unit) => {
      const hex = point.charCodeAt(unit).toString(16).padStart(4, '0');
      return `\\u${random.chance(0.5) ? hex : hex.toUpperCase()}`;
    }).join('');
  });
  return `"${parts.join('')}"`;
}

function shuffled<T>(values: readonly T[], random: Random): T[] {
  return values
    .map((value) => ({ value, at: random.next() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ value }) => value);
}

/** A value in which every own property counts, also `__proto__`, and binaries are texts. */
function comparable(value: unknown): unknown {
  if (value instanceof Uint8Array) return { bytes: Buffer.from(value).toString('hex') };
  if (Array.isArray(value)) return value.map(comparable);
  if (typeof value !== 'object' || value === null) return value;
  const entries = Object.entries(value).map(([key, each]) => [key, comparable(each)] as const);
  return { entries: entries.toSorted(([a], [b]) => (a < b ? -1 : 1)) };
}

const seeds = fc.nat();

/** Items of the page reader must come from the bytes, not from the SDK. */
const fromBytesOnly: ItemDecoder<StoredItem> = {
  fromJson: storedItems.fromJson,
  fromItem: () => {
    throw new Error('the page reader left this page to the SDK');
  },
};

const COMMANDS = [
  () => new QueryCommand({ TableName: 'orders', ConsistentRead: true }),
  () => new ScanCommand({ TableName: 'orders' }),
] as const;

/** Reads the same answer with the SDK alone and with the page reader. */
async function readTwice(body: string, decoder: ItemDecoder<StoredItem>, make: (typeof COMMANDS)[number]) {
  server.answer({ body, headers: { 'x-amz-crc32': String(crc32(body)) } });
  const send = (command: QueryCommand | ScanCommand): Promise<QueryCommandOutput> =>
    command instanceof QueryCommand ? client.send(command) : client.send(command);
  const expected = await send(make()).catch((error: Error) => error);
  const command = make();
  const toPage = pageReader(command, decoder);
  const output = await send(command).catch((error: Error) => error);
  return { expected, output, page: output instanceof Error ? undefined : toPage(output) };
}

function rest(output: QueryCommandOutput): unknown {
  const { Items, $metadata, ...others } = output;
  return comparable(others);
}

describe('the page reader', () => {
  test('returns what the SDK returns, from the bytes of the answer', { tags: ['I9'] }, async () => {
    const make = fc.constantFrom(...COMMANDS);
    const property = fc.asyncProperty(items, fields, make, seeds, async (Items, others, command, seed) => {
      const body = write({ ...others, Items }, new Random(seed), true);
      const { expected, output, page } = await readTwice(body, fromBytesOnly, command);
      if (expected instanceof Error || output instanceof Error) throw new Error(`not read: ${body}`);
      expect(comparable(page?.items)).toEqual(comparable(expected.Items));
      expect(rest(output)).toEqual(rest(expected));
    });
    await fc.assert(property, { numRuns: propertyRuns(500) });
  });

  test('returns what the SDK returns for answers that it does not know', async () => {
    const someItems = fc.oneof(items, anyItems, fc.constant(null));
    const share = fc.oneof(fc.constant(1), fc.double({ min: 0, max: 1, noNaN: true }));
    const property = fc.asyncProperty(
      someItems,
      fields,
      share,
      fc.boolean(),
      seeds,
      async (Items, others, part, isPlain, seed) => {
        const whole = write({ ...others, Items }, new Random(seed), isPlain);
        const body = whole.slice(0, whole.length * part);
        const { expected, output, page } = await readTwice(body, storedItems, COMMANDS[0]);
        if (expected instanceof Error || output instanceof Error) {
          const [ours, theirs] = [output, expected].map((each) => each instanceof Error && each.name);
          expect(ours).toBe(theirs);
          // A TypeError if text is not Base64.
          expect(['SyntaxError', 'TypeError']).toContain(theirs);
          return;
        }
        expect(comparable(page?.items)).toEqual(comparable(expected.Items ?? []));
        expect(rest(output)).toEqual(rest(expected));
      },
    );
    await fc.assert(property, { numRuns: propertyRuns(500) });
  });
});
