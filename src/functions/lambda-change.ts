import type { DynamoDBRecord, AttributeValue as LambdaAttribute } from 'aws-lambda';
import { fromBase64, toBase64 } from '../codec/bytes.ts';
import { MessageInvalidError, printable } from '../errors.ts';
import { type AttributeValue, type Item, plainItem } from '../log/attribute.ts';
import type { ImageChange } from '../revisions/image-change.ts';
import { streamLabel } from '../revisions/image-change.ts';
import type { StreamRecord } from '../workers/dispatch/route-stream-records.ts';
import { fieldsOf, isObject } from './stream-function.ts';

/** DynamoDB deletes expired items in this name. */
const TIME_TO_LIVE = { type: 'Service', principalId: 'dynamodb.amazonaws.com' };

/**
 * Converts a record of a Lambda event, with both images, without loss. Binaries arrive as base64
 * and become bytes.
 * @throws MessageInvalidError if the record lacks a part, or if an attribute has no type of
 * DynamoDB. A stream whose view type is not NEW_AND_OLD_IMAGES lacks an image
 */
export function fromLambdaChange(record: unknown): ImageChange {
  const { eventName, eventSourceARN, userIdentity, dynamodb } = fieldsOf(record);
  const { ApproximateCreationDateTime: seconds, SequenceNumber, Keys, NewImage, OldImage } = fieldsOf(dynamodb);
  if (typeof SequenceNumber !== 'string' || !/^\d+$/.test(SequenceNumber)) throw lacks('its sequence number');
  const stream = typeof eventSourceARN === 'string' ? streamLabel(eventSourceARN) : undefined;
  if (stream === undefined) throw lacks('the ARN of its stream', SequenceNumber);
  if (typeof seconds !== 'number') throw lacks('its time', SequenceNumber);
  const imageOf = (name: string, image: unknown): Item => {
    if (image === undefined) throw lacks(name, SequenceNumber);
    return itemFrom(image, SequenceNumber);
  };
  const common = {
    keys: imageOf('its keys', Keys),
    stream,
    sequence: SequenceNumber,
    created: Math.floor(seconds),
  };
  switch (eventName) {
    case 'INSERT':
      return { ...common, change: 'Put', newImage: imageOf('its new image', NewImage) };
    case 'MODIFY':
      return {
        ...{ ...common, change: 'Put' },
        oldImage: imageOf('its old image', OldImage),
        newImage: imageOf('its new image', NewImage),
      };
    case 'REMOVE':
      return {
        ...{ ...common, change: isTimeToLive(userIdentity) ? 'Expire' : 'Delete' },
        oldImage: imageOf('its old image', OldImage),
      };
    default:
      throw lacks('an event name that streams have', SequenceNumber);
  }
}

/** The inverse of {@link fromLambdaChange}: the record as a Lambda event carries it. */
export function toLambdaChange(record: StreamRecord, streamArn: string): DynamoDBRecord {
  const { eventId, eventName, sequenceNumber, createdMs = 0, keys, oldImage, newImage, isExpiry } = record;
  return {
    eventID: eventId,
    eventName,
    eventSource: 'aws:dynamodb',
    eventSourceARN: streamArn,
    ...(isExpiry && { userIdentity: TIME_TO_LIVE }),
    dynamodb: {
      ApproximateCreationDateTime: createdMs / 1000,
      SequenceNumber: sequenceNumber,
      Keys: toLambdaItem(plainItem(keys)),
      ...(oldImage && { OldImage: toLambdaItem(plainItem(oldImage)) }),
      ...(newImage && { NewImage: toLambdaItem(plainItem(newImage)) }),
    },
  };
}

function isTimeToLive(identity: unknown): boolean {
  const { type, principalId } = fieldsOf(identity);
  return type === TIME_TO_LIVE.type && principalId === TIME_TO_LIVE.principalId;
}

function itemFrom(image: unknown, sequence: string): Item {
  if (!isMap(image)) throw lacks('an item in place of an image', sequence);
  return Object.fromEntries(Object.entries(image).map(([name, each]) => [name, attributeFrom(each, name, sequence)]));
}

function attributeFrom(attribute: unknown, name: string, sequence: string): AttributeValue {
  const [[type, content] = [], other] = Object.entries(fieldsOf(attribute));
  const decoded = other === undefined && type !== undefined ? decode(type, content, name, sequence) : undefined;
  if (decoded !== undefined) return decoded;
  throw new MessageInvalidError(`attribute '${printable(name)}' of stream record ${sequence} has no type of DynamoDB`);
}

function decode(type: string, content: unknown, name: string, sequence: string): AttributeValue | undefined {
  switch (type) {
    case 'S':
      return typeof content === 'string' ? { S: content } : undefined;
    case 'N':
      return typeof content === 'string' ? { N: content } : undefined;
    case 'B': {
      const bytes = bytesFrom(content);
      return bytes && { B: bytes };
    }
    case 'BOOL':
      return typeof content === 'boolean' ? { BOOL: content } : undefined;
    case 'NULL':
      return content === true ? { NULL: true } : undefined;
    case 'L':
      return Array.isArray(content) ? { L: content.map((each) => attributeFrom(each, name, sequence)) } : undefined;
    case 'M':
      return isMap(content) ? { M: itemFrom(content, sequence) } : undefined;
    case 'SS': {
      const texts = allOf(content, textFrom);
      return texts && { SS: texts };
    }
    case 'NS': {
      const numbers = allOf(content, textFrom);
      return numbers && { NS: numbers };
    }
    case 'BS': {
      const binaries = allOf(content, bytesFrom);
      return binaries && { BS: binaries };
    }
    default:
      return undefined;
  }
}

function isMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return isObject(value) && !Array.isArray(value);
}

function textFrom(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function bytesFrom(value: unknown): Uint8Array | undefined {
  return typeof value === 'string' ? fromBase64(value) : undefined;
}

/** The members of a set; undefined if one of them does not decode. */
function allOf<T>(values: unknown, decode: (value: unknown) => T | undefined): T[] | undefined {
  if (!Array.isArray(values)) return undefined;
  const decoded = values.map((value) => decode(value)).filter((value) => value !== undefined);
  return decoded.length === values.length ? decoded : undefined;
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

function lacks(part: string, sequence = 'without a number'): MessageInvalidError {
  return new MessageInvalidError(`stream record ${sequence} lacks ${part}`, {
    advice: 'Turn the stream of the table on with the view type NEW_AND_OLD_IMAGES',
  });
}
