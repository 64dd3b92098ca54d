import type { DynamoDBRecord, AttributeValue as LambdaAttribute, SQSEvent } from 'aws-lambda';
import { toBase64 } from '../../../src/codec/bytes.ts';
import { type AttributeValue, type Item, plainItem, type StoredItem } from '../../../src/log/attribute.ts';
import type { ReceivedMessage } from '../../../src/store/job-queue.ts';
import type { StreamRecord } from '../../../src/workers/dispatch/route-stream-records.ts';

/**
 * The inverse of `fromLambdaRecord`, without bodies: the record as a Lambda event carries it.
 */
export function toLambdaRecord(record: StreamRecord): DynamoDBRecord {
  const { eventId, eventName, sequenceNumber, createdMs, bytes, keys, newImage } = record;
  return {
    eventID: eventId,
    eventName,
    eventSource: 'aws:dynamodb',
    dynamodb: {
      SequenceNumber: sequenceNumber,
      ...(createdMs === undefined ? {} : { ApproximateCreationDateTime: createdMs / 1000 }),
      ...(bytes === undefined ? {} : { SizeBytes: bytes }),
      Keys: partOfItem(keys, () => true),
      ...(newImage === undefined ? {} : { NewImage: partOfItem(newImage) }),
    },
  };
}

function partOfItem(item: StoredItem, isWanted = isNoBody): Record<string, LambdaAttribute> {
  const entries = Object.entries(item).flatMap(([name, attribute]): [string, LambdaAttribute][] => {
    const { S, N, B } = attribute ?? {};
    if (!isWanted(name)) return [];
    if (S !== undefined) return [[name, { S }]];
    if (N !== undefined) return [[name, { N }]];
    return B === undefined ? [] : [[name, { B: Buffer.from(B).toString('base64') }]];
  });
  return Object.fromEntries(entries);
}

/** Bodies are left out: no job needs one. */
function isNoBody(name: string): boolean {
  return name !== 'B';
}

/** The inverse of `fromLambdaChange`: the record as a Lambda event carries it. */
export function toLambdaChange(record: StreamRecord, streamArn: string): DynamoDBRecord {
  const { eventId, eventName, sequenceNumber, createdMs = 0, keys, oldImage, newImage, isExpiry } = record;
  return {
    eventID: eventId,
    eventName,
    eventSource: 'aws:dynamodb',
    eventSourceARN: streamArn,
    ...(isExpiry && { userIdentity: { type: 'Service', principalId: 'dynamodb.amazonaws.com' } }),
    dynamodb: {
      ApproximateCreationDateTime: createdMs / 1000,
      SequenceNumber: sequenceNumber,
      Keys: toLambdaItem(plainItem(keys)),
      ...(oldImage && { OldImage: toLambdaItem(plainItem(oldImage)) }),
      ...(newImage && { NewImage: toLambdaItem(plainItem(newImage)) }),
    },
  };
}

function toLambdaItem(item: Item): Record<string, LambdaAttribute> {
  return Object.fromEntries(Object.entries(item).map(([name, attribute]) => [name, toLambdaAttribute(attribute)]));
}

function toLambdaAttribute(attribute: AttributeValue): LambdaAttribute {
  if ('B' in attribute) return { B: toBase64(attribute.B) };
  if ('BS' in attribute) return { BS: attribute.BS.map(toBase64) };
  if ('L' in attribute) return { L: attribute.L.map(toLambdaAttribute) };
  if ('M' in attribute) return { M: toLambdaItem(attribute.M) };
  return attribute;
}

/** The event that Lambda makes of messages from a FIFO queue. */
export function toSqsEvent(messages: readonly ReceivedMessage[]): SQSEvent {
  return {
    Records: messages.map(({ id, body, group, receipt, receiveCount, sentMs }) => ({
      messageId: id,
      body,
      receiptHandle: receipt,
      attributes: {
        ApproximateReceiveCount: String(receiveCount),
        SentTimestamp: String(sentMs ?? 0),
        SenderId: 'logfold',
        ApproximateFirstReceiveTimestamp: String(sentMs ?? 0),
        MessageGroupId: group,
      },
      messageAttributes: {},
      md5OfBody: '',
      eventSource: 'aws:sqs',
      eventSourceARN: 'arn:aws:sqs:local:000000000000:jobs.fifo',
      awsRegion: 'local',
    })),
  };
}
