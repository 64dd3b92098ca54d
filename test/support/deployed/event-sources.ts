import type { DynamoDBStreamsClient } from '@aws-sdk/client-dynamodb-streams';
import { PutObjectCommand, type S3Client } from '@aws-sdk/client-s3';
import { DeleteMessageCommand, type Message, ReceiveMessageCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { z } from 'zod';
import type { DiscardedBatch } from '../../../src/local/batch-delivery.ts';
import { StreamPoller } from '../../../src/local/stream-poller.ts';
import type { StreamRecord } from '../../../src/workers/dispatch/route-stream-records.ts';
import { shortWaits } from '../stores/scripted-stream.ts';
import type { QueueSource, StreamSource } from './deployed-functions.ts';
import { passesFilter } from './event-filter.ts';

/** Invokes a function with an event. */
export type Invoke = (event: unknown) => Promise<unknown>;

const batchResponse = z.strictObject({ batchItemFailures: z.array(z.strictObject({ itemIdentifier: z.string() })) });

export interface StreamMappingOptions {
  readonly streams: DynamoDBStreamsClient;
  readonly s3: S3Client;
  /** The machine's clock. The engine dates records by it. */
  readonly realNow: () => number;
}

/**
 * The event source mapping of a stream. It applies the filter, and writes discarded batches to its
 * bucket.
 */
export class StreamMapping {
  /** Discarded batches, in order. */
  readonly discarded: DiscardedBatch[] = [];
  readonly #poller: StreamPoller;
  readonly #stop = new AbortController();
  readonly #ended: Promise<void>;

  constructor(source: StreamSource, invoke: Invoke, { streams, s3, realNow }: StreamMappingOptions) {
    if (source.startingPosition !== 'TRIM_HORIZON') throw new Error('the starting position must be TRIM_HORIZON');
    this.#poller = new StreamPoller({
      client: streams,
      streamArn: source.streamArn,
      filter: (record) => source.filters === undefined || passesFilter(source.filters, toEventRecord(record, source)),
      handler: async (records) =>
        batchResponse.parse(await invoke({ Records: records.map((record) => toEventRecord(record, source)) })),
      checkpoints: { load: async () => ({}), save: async () => {} },
      onDiscard: async (batch) => {
        this.discarded.push(batch);
        const Key = `aws/lambda/${source.id}/${batch.shardId}/${batch.firstSequenceNumber}`;
        const Bucket = source.onFailure.slice(source.onFailure.lastIndexOf(':') + 1);
        await s3.send(new PutObjectCommand({ Bucket, Key, Body: JSON.stringify({ ...batch, cause: undefined }) }));
      },
      onTrimmed: async ({ shardId }) => {
        throw new Error(`shard ${shardId} was trimmed before it was read`);
      },
      batchSize: source.batchSize,
      retries: source.maximumRetryAttempts,
      time: { ...shortWaits, now: realNow },
    });
    this.#ended = this.#poller.run(this.#stop.signal);
    // `caughtUp` and `stop` both report the error.
    this.#ended.catch(() => undefined);
  }

  /** Resolves when all records that are in the stream now are handled or discarded. */
  caughtUp(): Promise<void> {
    return this.#poller.caughtUp();
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#ended;
  }
}

/** A record as Lambda passes it: JSON, with binaries in base64. */
function toEventRecord(record: StreamRecord, { streamArn }: StreamSource) {
  const { eventId, eventName, sequenceNumber, createdMs = 0, keys, newImage, oldImage } = record;
  return {
    eventID: eventId,
    eventName,
    eventVersion: '1.1',
    eventSource: 'aws:dynamodb',
    awsRegion: 'us-east-1',
    eventSourceARN: streamArn,
    dynamodb: {
      ApproximateCreationDateTime: Math.floor(createdMs / 1000),
      SequenceNumber: sequenceNumber,
      StreamViewType: oldImage === undefined ? 'NEW_IMAGE' : 'NEW_AND_OLD_IMAGES',
      Keys: toJson(keys),
      NewImage: toJson(newImage),
      OldImage: toJson(oldImage),
    },
  };
}

function toJson(value: unknown): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64');
  if (Array.isArray(value)) return value.map(toJson);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, toJson(each)]));
}

export interface QueueMappingOptions {
  readonly sqs: SQSClient;
  readonly queueUrl: string;
  readonly source: QueueSource;
  readonly invoke: Invoke;
}

/**
 * Runs an event source mapping of a queue once. It receives a batch, invokes the function with it,
 * and deletes the messages that the function does not report as failed. The batch is invisible for
 * the queue's visibility timeout.
 * @returns the number of messages
 */
export async function deliverBatch({ sqs, queueUrl: QueueUrl, source, invoke }: QueueMappingOptions): Promise<number> {
  const { Messages = [] } = await sqs.send(
    new ReceiveMessageCommand({
      QueueUrl,
      MaxNumberOfMessages: source.batchSize,
      MessageSystemAttributeNames: ['All'],
    }),
  );
  if (Messages.length === 0) return 0;
  const Records = Messages.map((message) => toSqsRecord(message, source.queueArn));
  const { batchItemFailures } = batchResponse.parse(await invoke({ Records }));
  const failed = new Set(batchItemFailures.map(({ itemIdentifier }) => itemIdentifier));
  for (const { messageId, receiptHandle } of Records) {
    if (!failed.delete(messageId)) await sqs.send(new DeleteMessageCommand({ QueueUrl, ReceiptHandle: receiptHandle }));
  }
  if (failed.size > 0) throw new Error(`the function reports unknown messages as failed: ${[...failed]}`);
  return Messages.length;
}

function toSqsRecord({ MessageId, ReceiptHandle, Body, Attributes, MD5OfBody }: Message, eventSourceARN: string) {
  if (MessageId === undefined || ReceiptHandle === undefined) throw new Error('a message has no id or receipt');
  return {
    messageId: MessageId,
    receiptHandle: ReceiptHandle,
    body: Body ?? '',
    attributes: { ...Attributes },
    messageAttributes: {},
    md5OfBody: MD5OfBody ?? '',
    eventSource: 'aws:sqs',
    eventSourceARN,
    awsRegion: 'us-east-1',
  };
}
