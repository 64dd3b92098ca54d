import type { Item } from '../log/attribute.ts';
import type { StreamPlace } from '../state/items/edit.ts';

/** One record of the stream of a table, with new and old images. */
export interface ImageChange extends StreamPlace {
  /**
   * An `Expire` is a removal by DynamoDB's Time to Live: a record `REMOVE` whose userIdentity has
   * the type `Service` and the principal `dynamodb.amazonaws.com`.
   */
  readonly change: 'Put' | 'Delete' | 'Expire';
  readonly keys: Item;
  /** Absent if the item did not exist. */
  readonly oldImage?: Item | undefined;
  /** Absent if the item does not exist any more. */
  readonly newImage?: Item | undefined;
  /** Epoch seconds. */
  readonly created: number;
}

/**
 * Whether a record of a table's streams comes after another one of the same item. A stream that was
 * enabled later has a later label; within a stream, sequence numbers grow.
 */
export function isNewerRecord(record: StreamPlace, than: StreamPlace): boolean {
  if (record.stream !== than.stream) return record.stream > than.stream;
  return BigInt(record.sequence) > BigInt(than.sequence);
}

/** Captures the table and the label. */
const STREAM_ARN = /^arn:[^:]+:dynamodb:[^:]*:[^:]*:table\/([^/]+)\/stream\/(.+)$/;

/** The table in the ARN of a stream; undefined if the text is not an ARN of a stream. */
export function streamTable(arn: string): string | undefined {
  return STREAM_ARN.exec(arn)?.[1];
}

/**
 * The label in the ARN of a stream: the time at which the stream was turned on. Undefined if the
 * text is not an ARN of a stream.
 */
export function streamLabel(arn: string): string | undefined {
  return STREAM_ARN.exec(arn)?.[2];
}
