import type { StoredItem } from '../log/attribute.ts';

/** An item or its keys, as DynamoDB's API carries them; binaries are Uint8Array. */
export type StreamImage = StoredItem;

/** One change of the Entry table, the same whether a Lambda event or the Streams API brought it. */
export interface StreamRecord {
  readonly eventId: string;
  readonly eventName: 'INSERT' | 'MODIFY' | 'REMOVE';
  /** Decimal digits; grows within a shard, and says nothing across shards. */
  readonly sequenceNumber: string;
  /** About when the change was made, in epoch milliseconds. Engines round it, some down to the minute. */
  readonly createdMs?: number | undefined;
  readonly keys: StreamImage;
  /** The item after the change; absent on REMOVE. */
  readonly newImage?: StreamImage | undefined;
}

/**
 * What a handler of stream records gives back, in Lambda's form: the sequence numbers of the records that failed.
 * Empty where all went well. Everything from the lowest one on is given again.
 */
export interface StreamBatchResponse {
  readonly batchItemFailures: readonly { readonly itemIdentifier: string }[];
}

/** Handles records of one shard, in their order. Throwing means that all of them failed. */
export type StreamHandler = (records: readonly StreamRecord[]) => Promise<StreamBatchResponse>;
