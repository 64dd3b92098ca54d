import { crc32 } from 'node:zlib';
import { type DynamoDBClient, QueryCommand, type QueryCommandOutput, ScanCommand } from '@aws-sdk/client-dynamodb';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { exactAnswer } from '../../src/adapters/dynamodb/exact-answer.ts';
import { pageReader } from '../../src/adapters/dynamodb/page-reader.ts';
import type { StoredItem } from '../../src/log/attribute.ts';
import { type ItemDecoder, storedItems } from '../../src/log/item-json.ts';
import { type Json, writeJson } from '../support/json-text.ts';
import { Random } from '../support/models/random.ts';
import { anyCharacter } from '../support/models/values.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { AnswerServer } from '../support/stores/answer-server.ts';
import { testClient } from '../support/stores/engine.ts';

let server: AnswerServer;
let client: DynamoDBClient;

beforeAll(async () => {
  server = await AnswerServer.start();
  client = testClient(server.endpoint, { maxAttempts: 1 });
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
const name = fc.oneof(
  text,
  fc.constantFrom('constructor', 'toString', '__proto__', 'S', 'N', 'B', 'Items', '', '10', '~', '~005c'),
);
const number = fc.oneof(
  fc.integer().map(String),
  fc.bigInt({ min: -(10n ** 38n), max: 10n ** 38n }).map(String),
  fc.constantFrom('0', '-0.5', '1.5e-130', '9.9999999999999999999999999999999999999E+125', '00012'),
);

/** Attributes of every type, as DynamoDB writes them in JSON. */
const attributes: fc.Arbitrary<Json> = fc.letrec<{ attribute: Json }>((tie) => ({
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
    fc.record({ M: named(tie('attribute')) }),
  ),
})).attribute;

function named(values: fc.Arbitrary<Json>): fc.Arbitrary<Json> {
  return fc.array(fc.tuple(name, values)).map((entries) => Object.fromEntries(entries));
}

const items = fc.array(named(attributes), { maxLength: 6 });
const anyJson: fc.Arbitrary<Json> = fc.jsonValue().map((json): Json => JSON.parse(JSON.stringify(json)));
/** Items that DynamoDB does not send. */
const anyItems = fc.array(fc.oneof(named(attributes), named(anyJson), anyJson));

/** The fields of an answer beside its items. */
const fields = fc.record(
  {
    Count: fc.nat(),
    ScannedCount: fc.nat(),
    LastEvaluatedKey: named(attributes),
    ConsumedCapacity: fc.record({ TableName: text, CapacityUnits: fc.double({ min: 0.5, max: 1e6, noNaN: true }) }),
    Other: fc.record({ Items: items, text }),
  },
  { requiredKeys: [] },
);

/** DynamoDB JSON as the SDK decodes it: Binaries become bytes. */
function decoded(json: Json, name = ''): unknown {
  if (typeof json === 'string') return name === 'B' ? new Uint8Array(Buffer.from(json, 'base64')) : json;
  if (typeof json !== 'object' || json === null) return json;
  if (Array.isArray(json)) return json.map((each: Json) => decoded(each, name === 'BS' ? 'B' : ''));
  return Object.fromEntries(Object.entries(json).map(([key, value]) => [key, decoded(value, key)]));
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

/** Reads the same answer with the SDK's deserializer and with the page reader. */
async function readTwice(body: string, decoder: ItemDecoder<StoredItem>, make: (typeof COMMANDS)[number]) {
  server.answer({ body, headers: { 'x-amz-crc32': String(crc32(body)) } });
  const send = (command: QueryCommand | ScanCommand): Promise<QueryCommandOutput> =>
    command instanceof QueryCommand ? client.send(command) : client.send(command);
  const [general, command] = [make(), make()];
  exactAnswer(general, "table 'orders'");
  const expected = await send(general).catch((error: Error) => error);
  const toPage = pageReader(command, decoder);
  const output = await send(command).catch((error: Error) => error);
  return { expected, output, page: output instanceof Error ? undefined : toPage(output) };
}

function rest(output: QueryCommandOutput): unknown {
  const { Items, $metadata, ...others } = output;
  return comparable(others);
}

describe('the page reader', () => {
  test('returns what DynamoDB wrote, from the bytes of the answer', { tags: ['I9'] }, async () => {
    const make = fc.constantFrom(...COMMANDS);
    const property = fc.asyncProperty(items, fields, make, seeds, async (Items, others, command, seed) => {
      const body = writeJson({ ...others, Items }, new Random(seed), true);
      const { expected, output, page } = await readTwice(body, fromBytesOnly, command);
      if (expected instanceof Error || output instanceof Error) throw new Error(`not read: ${body}`);
      expect(comparable(page?.items)).toEqual(comparable(decoded(Items)));
      const { Other: _, ...known } = others;
      expect(rest(output)).toEqual(comparable(decoded(known)));
      expect(comparable(expected.Items)).toEqual(comparable(decoded(Items)));
      expect(rest(expected)).toEqual(rest(output));
    });
    await fc.assert(property, { numRuns: propertyRuns(500) });
  });

  test("returns what the SDK's deserializer returns for answers that it does not know", async () => {
    const someItems = fc.oneof(items, anyItems, fc.constant(null));
    const share = fc.oneof(fc.constant(1), fc.double({ min: 0, max: 1, noNaN: true }));
    const property = fc.asyncProperty(
      someItems,
      fields,
      share,
      fc.boolean(),
      seeds,
      async (Items, others, part, isPlain, seed) => {
        const whole = writeJson({ ...others, Items }, new Random(seed), isPlain);
        const body = whole.slice(0, whole.length * part);
        const { expected, output, page } = await readTwice(body, storedItems, COMMANDS[0]);
        if (expected instanceof Error || output instanceof Error) {
          const [ours, theirs] = [output, expected].map((each) => each instanceof Error && each.name);
          expect(ours).toBe(theirs);
          // A TypeError if text is not Base64.
          expect(['DamagedAnswerError', 'TypeError']).toContain(theirs);
          return;
        }
        expect(comparable(page?.items)).toEqual(comparable(expected.Items ?? []));
        expect(rest(output)).toEqual(rest(expected));
      },
    );
    await fc.assert(property, { numRuns: propertyRuns(500) });
  });
});
