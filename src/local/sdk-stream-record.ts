import type { _Record } from '@aws-sdk/client-dynamodb-streams';
import { MessageInvalidError } from '../errors.ts';
import type { StreamRecord } from '../workers/stream-record.ts';

const EVENT_NAMES = ['INSERT', 'MODIFY', 'REMOVE'] as const;

/**
 * A record as the Streams API gives it, in the one shape that workers take.
 * @throws MessageInvalidError where a part is missing that every record has
 */
export function fromSdkRecord(record: _Record): StreamRecord {
  const change = record.dynamodb;
  const eventName = EVENT_NAMES.find((name) => name === record.eventName);
  if (
    record.eventID === undefined ||
    eventName === undefined ||
    change?.SequenceNumber === undefined ||
    !/^\d+$/.test(change.SequenceNumber) ||
    change.Keys === undefined
  ) {
    throw new MessageInvalidError(`stream record ${record.eventID} lacks its id, event name, sequence number or keys`);
  }
  return {
    eventId: record.eventID,
    eventName,
    sequenceNumber: change.SequenceNumber,
    createdMs: change.ApproximateCreationDateTime?.getTime(),
    keys: change.Keys,
    newImage: change.NewImage,
  };
}
