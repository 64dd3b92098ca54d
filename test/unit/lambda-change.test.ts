import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { fromLambdaChange } from '../../src/functions/lambda-change.ts';
import type { AttributeValue, Item } from '../../src/log/attribute.ts';
import { streamLabel, streamTable } from '../../src/revisions/image-change.ts';
import { toLambdaChange } from '../support/deployed/lambda-records.ts';
import { propertyRuns } from '../support/property-runs.ts';

const LABEL = '2026-02-03T04:05:06.789';
const STREAM = `arn:aws:dynamodb:us-east-1:123456789012:table/plain.table/stream/${LABEL}`;
const KEYS = { pk: { S: 'a' } };
/** The expiry of an item, as Lambda passes it. */
const EXPIRY = {
  eventID: '1',
  eventName: 'REMOVE',
  eventSource: 'aws:dynamodb',
  eventSourceARN: STREAM,
  userIdentity: { type: 'Service', principalId: 'dynamodb.amazonaws.com' },
  dynamodb: {
    ApproximateCreationDateTime: 1_700_000_000,
    SequenceNumber: '100',
    Keys: KEYS,
    OldImage: { ...KEYS, n: { N: '1.50' } },
    StreamViewType: 'NEW_AND_OLD_IMAGES',
  },
};

const bytes = fc.uint8Array({ maxLength: 40 });
const { attribute } = fc.letrec<{ attribute: AttributeValue }>((tie) => ({
  attribute: fc.oneof(
    { maxDepth: 3 },
    fc.record({ S: fc.string({ unit: 'grapheme' }) }),
    fc.record({ N: fc.maxSafeInteger().map(String) }),
    fc.record({ B: bytes }),
    fc.record({ BOOL: fc.boolean() }),
    fc.constant({ NULL: true as const }),
    fc.record({ SS: fc.array(fc.string(), { minLength: 1, maxLength: 3 }) }),
    fc.record({ NS: fc.array(fc.integer().map(String), { minLength: 1, maxLength: 3 }) }),
    fc.record({ BS: fc.array(bytes, { minLength: 1, maxLength: 3 }) }),
    fc.record({ L: fc.array(tie('attribute'), { maxLength: 3 }) }),
    fc.record({ M: fc.dictionary(fc.string(), tie('attribute'), { maxKeys: 3, noNullPrototype: true }) }),
  ),
}));
const item: fc.Arbitrary<Item> = fc.dictionary(fc.string(), attribute, { maxKeys: 4, noNullPrototype: true });

describe('a record of a Lambda event with both images', () => {
  test('it keeps every attribute of every type', () => {
    fc.assert(
      fc.property(item, item, item, fc.constantFrom('INSERT', 'MODIFY', 'REMOVE'), (keys, before, after, eventName) => {
        const oldImage = eventName === 'INSERT' ? undefined : before;
        const newImage = eventName === 'REMOVE' ? undefined : after;
        const record = { eventId: 'e', eventName, sequenceNumber: '7', createdMs: 1_999, keys, oldImage, newImage };
        const passed: unknown = JSON.parse(JSON.stringify(toLambdaChange(record, STREAM)));
        expect(fromLambdaChange(passed)).toEqual({
          change: eventName === 'REMOVE' ? 'Delete' : 'Put',
          ...(oldImage && { oldImage }),
          ...(newImage && { newImage }),
          ...{ keys, stream: LABEL, sequence: '7', created: 1 },
        });
      }),
      { numRuns: propertyRuns(200) },
    );
  });

  test('an expiry is a removal by DynamoDB itself', () => {
    expect(fromLambdaChange(EXPIRY)).toEqual({
      change: 'Expire',
      keys: KEYS,
      oldImage: { pk: { S: 'a' }, n: { N: '1.50' } },
      stream: LABEL,
      sequence: '100',
      created: 1_700_000_000,
    });
    const others = [
      undefined,
      null,
      'x',
      { type: 'Service', principalId: 'x' },
      { principalId: 'dynamodb.amazonaws.com' },
    ];
    for (const userIdentity of others) expect(fromLambdaChange({ ...EXPIRY, userIdentity }).change).toBe('Delete');
  });

  test.each([
    [undefined, 'record without a number lacks its sequence number'],
    [{ ...EXPIRY, eventSourceARN: 'arn:aws:sqs:us-east-1:123456789012:q' }, 'record 100 lacks the ARN of its stream'],
    [{ ...EXPIRY, eventName: 'TRUNCATE' }, 'record 100 lacks an event name'],
    [withChange({ SequenceNumber: 'ten' }), 'lacks its sequence number'],
    [withChange({ ApproximateCreationDateTime: undefined }), 'record 100 lacks its time'],
    [withChange({ Keys: undefined }), 'record 100 lacks its keys'],
    [withChange({ OldImage: undefined }), 'record 100 lacks its old image. Turn the stream of the table on'],
    [{ ...EXPIRY, eventName: 'MODIFY' }, 'record 100 lacks its new image'],
    [withChange({ OldImage: 7 }), 'record 100 lacks an item in place of an image'],
    ...[
      {},
      { S: 1 },
      { N: 1 },
      { B: '*' },
      { BOOL: 'true' },
      { NULL: false },
      { S: 'a', N: '1' },
      { X: 'a' },
      null,
    ].map((attribute) => [
      withChange({ OldImage: { a: attribute } }),
      "attribute 'a' of stream record 100 has no type",
    ]),
    ...[{ SS: 'a' }, { SS: [1] }, { NS: [1] }, { BS: ['*'] }, { L: {} }, { L: [{}] }, { M: [] }, { M: { b: 1 } }].map(
      (attribute) => [withChange({ OldImage: { a: attribute } }), 'stream record 100 has no type'],
    ),
  ])('a malformed one is refused, case %#', (record, reason) => {
    expect(() => fromLambdaChange(record)).toThrow(reason);
  });
});

test("a stream's ARN has its table and its label", () => {
  expect([streamTable(STREAM), streamLabel(STREAM)]).toEqual(['plain.table', LABEL]);
  expect([streamTable('table'), streamLabel('table')]).toEqual([undefined, undefined]);
});

function withChange(change: object): unknown {
  return { ...EXPIRY, dynamodb: { ...EXPIRY.dynamodb, ...change } };
}
