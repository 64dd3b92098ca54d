import type { AttributeValue, DynamoDBRecord } from 'aws-lambda';
import type { StoredAttribute, StoredItem } from '../src/log/attribute.ts';
import type { StreamRecord } from '../src/workers/stream-record.ts';

/**
 * A record of a Lambda event in the shape that workers take: binaries, which travel as base64, become bytes. Throws
 * nothing, whatever the record is: the router reports a malformed one by itself and goes on with the others.
 */
export function fromLambdaRecord({ eventID, eventName, dynamodb }: DynamoDBRecord): StreamRecord {
  const seconds = dynamodb?.ApproximateCreationDateTime;
  return {
    eventId: eventID ?? '',
    eventName: eventName ?? 'INSERT',
    sequenceNumber: dynamodb?.SequenceNumber ?? '',
    createdMs: seconds === undefined ? undefined : seconds * 1000,
    keys: fromLambdaItem(dynamodb?.Keys ?? {}),
    newImage: dynamodb?.NewImage === undefined ? undefined : fromLambdaItem(dynamodb.NewImage),
  };
}

/** Bodies are left out: no job needs one, and it would have to be converted through and through. */
function fromLambdaItem(item: Readonly<Record<string, AttributeValue>>): StoredItem {
  const entries = Object.entries(item).filter(([name]) => name !== 'B');
  return Object.fromEntries(entries.map(([name, value]) => [name, fromLambdaAttribute(value)]));
}

function fromLambdaAttribute({ S, N, B }: AttributeValue): StoredAttribute {
  return { S, N, B: B === undefined ? undefined : new Uint8Array(Buffer.from(B, 'base64')) };
}
