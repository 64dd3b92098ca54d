import { decodeItemJson } from '../archive/item-line.ts';
import { MessageInvalidError, printable } from '../errors.ts';
import type { Item } from '../log/attribute.ts';
import { type ImageChange, streamLabel } from '../revisions/image-change.ts';
import { fieldsOf } from './stream-function.ts';

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
  const image = (of: unknown): Item | undefined => (of === undefined ? undefined : itemFrom(of, SequenceNumber));
  return imageChange({
    eventName,
    stream: typeof eventSourceARN === 'string' ? streamLabel(eventSourceARN) : undefined,
    sequence: SequenceNumber,
    seconds: typeof seconds === 'number' ? seconds : undefined,
    isExpiry: isTimeToLive(userIdentity),
    keys: image(Keys),
    oldImage: image(OldImage),
    newImage: image(NewImage),
  });
}

/** A record of a stream with both images, whose parts may be missing. */
interface ImageRecord {
  readonly eventName: unknown;
  readonly stream: string | undefined;
  readonly sequence: string;
  /** Epoch seconds. */
  readonly seconds: number | undefined;
  /** Whether DynamoDB deleted the item because of its time to live. */
  readonly isExpiry?: boolean | undefined;
  readonly keys?: Item | undefined;
  readonly oldImage?: Item | undefined;
  readonly newImage?: Item | undefined;
}

/**
 * The change in a record.
 * @throws MessageInvalidError if the record lacks a part
 */
export function imageChange(record: ImageRecord): ImageChange {
  const { eventName, stream, sequence, seconds, keys, oldImage, newImage } = record;
  const require = <T>(part: T | undefined, name: string): T => {
    if (part === undefined) throw lacks(name, sequence);
    return part;
  };
  const common = {
    stream: require(stream, 'the ARN of its stream'),
    created: Math.floor(require(seconds, 'its time')),
    keys: require(keys, 'its keys'),
    sequence,
  };
  const before = () => ({ oldImage: require(oldImage, 'its old image') });
  const after = () => ({ newImage: require(newImage, 'its new image') });
  switch (eventName) {
    case 'INSERT':
      return { ...common, change: 'Put', ...after() };
    case 'MODIFY':
      return { ...common, change: 'Put', ...before(), ...after() };
    case 'REMOVE':
      return { ...common, change: record.isExpiry === true ? 'Expire' : 'Delete', ...before() };
    default:
      throw lacks('an event name that streams have', sequence);
  }
}

function isTimeToLive(identity: unknown): boolean {
  const { type, principalId } = fieldsOf(identity);
  return type === TIME_TO_LIVE.type && principalId === TIME_TO_LIVE.principalId;
}

function itemFrom(image: unknown, sequence: string): Item {
  return decodeItemJson(image, (name) =>
    name === undefined
      ? lacks('an item in place of an image', sequence)
      : new MessageInvalidError(`attribute '${printable(name)}' of stream record ${sequence} has no type of DynamoDB`),
  );
}

function lacks(part: string, sequence = 'without a number'): MessageInvalidError {
  return new MessageInvalidError(`stream record ${sequence} lacks ${part}`, {
    advice: 'Turn the stream of the table on with the view type NEW_AND_OLD_IMAGES',
  });
}
