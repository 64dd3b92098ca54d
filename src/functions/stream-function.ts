import type { DynamoDBBatchResponse, DynamoDBStreamEvent } from 'aws-lambda';
import type { StoredAttribute, StoredItem } from '../log/attribute.ts';
import type { DivisionPolicy } from '../log/division-policy.ts';
import type { ReservedTypes } from '../log/entry.ts';
import type { SchemaMapping } from '../mapping/schema-mapping.ts';
import { endsOfRecords, type ItemEnds } from '../workers/dispatch/record-ends.ts';
import { route, type StreamRecord } from '../workers/dispatch/route-stream-records.ts';
import type { FeedWriter } from '../workers/feed/feed-writer.ts';
import type { JobSender } from '../workers/jobs/job.ts';
import type { StreamEvent } from './function-event.ts';

export interface StreamFunctionDeps {
  readonly queue: JobSender;
  readonly types: ReservedTypes;
  /** {@link NO_DIVISION} by default. */
  readonly division?: DivisionPolicy | undefined;
  /** As in {@link route}. */
  readonly mapping?: SchemaMapping | undefined;
  /**
   * Receives the new ends of all logs. Absent if there is no feed. With a feed, the stream's filter
   * must let all insertions pass.
   */
  readonly feed?: Pick<FeedWriter, 'add'> | undefined;
  /**
   * Finds positions for the feed, as `LogRegistrar.endAt`; needed only with a mapping and a feed.
   */
  readonly endAt?: ItemEnds['endAt'] | undefined;
  /** Tells consumers where the feed ends; by default nobody is told. */
  readonly publish?: ((checkpoint: number) => Promise<void>) | undefined;
  readonly report: (event: StreamEvent) => void;
}

/** Makes the function that handles the Entry table's stream: {@link routeAndFeed}. */
export function streamFunction(
  deps: StreamFunctionDeps,
): (event: DynamoDBStreamEvent) => Promise<DynamoDBBatchResponse> {
  return async ({ Records }) => routeAndFeed(deps, Records.map(fromLambdaRecord));
}

/**
 * Routes records of the Entry table's stream to jobs, and then feeds the ends of their logs.
 * Publishes the end of the feed after each batch with an entry, even if the feed had all ends,
 * because an earlier delivery may have failed before it published. If feeding or publishing fails,
 * all records fail: their jobs are sent already, and the queue deduplicates them.
 */
export async function routeAndFeed(
  deps: StreamFunctionDeps,
  records: readonly StreamRecord[],
): Promise<DynamoDBBatchResponse> {
  const { feed, report, ...rest } = deps;
  const { batchItemFailures } = await route(
    {
      ...rest,
      isFed: feed !== undefined,
      report: (record, error, isSkipped) => report({ kind: 'record', record, error, ...(isSkipped && { isSkipped }) }),
      onSent: (record, job) => report({ kind: 'routed', record, job }),
    },
    records,
  );
  if (feed === undefined || (await addToFeed({ ...deps, feed }, records))) {
    return { batchItemFailures: [...batchItemFailures] };
  }
  return { batchItemFailures: records.map(({ sequenceNumber }) => ({ itemIdentifier: sequenceNumber })) };
}

type FedStreamDeps = StreamFunctionDeps & { readonly feed: Pick<FeedWriter, 'add'> };

/** @returns false if it failed and was reported */
async function addToFeed(
  { feed, publish, mapping, endAt = async () => undefined, report }: FedStreamDeps,
  records: readonly StreamRecord[],
): Promise<boolean> {
  const run = records[0]?.eventId ?? '';
  try {
    const ends = await endsOfRecords(records, mapping && { mapping, endAt });
    const { spans, checkpoint } = await feed.add(ends);
    if (checkpoint === undefined) return true;
    await publish?.(checkpoint);
    report({ kind: 'fed', run, spans, checkpoint });
    return true;
  } catch (error) {
    report({ kind: 'unfed', run, error });
    return false;
  }
}

/**
 * Converts a record of a Lambda event for the workers. Binaries arrive as base64 and become bytes.
 * Converts only what the router reads: of an item whose size is known, this is the type. It never
 * throws: the router reports a malformed record and goes on with the others.
 */
export function fromLambdaRecord(record: unknown): StreamRecord {
  const { eventID, eventName, dynamodb } = fieldsOf(record);
  const { ApproximateCreationDateTime: seconds, SequenceNumber, SizeBytes, Keys, NewImage } = fieldsOf(dynamodb);
  const bytes = typeof SizeBytes === 'number' ? SizeBytes : undefined;
  const isRead = bytes === undefined ? isNoBody : isType;
  return {
    eventId: stringOf(eventID) ?? '',
    eventName: eventName === 'MODIFY' || eventName === 'REMOVE' ? eventName : 'INSERT',
    sequenceNumber: stringOf(SequenceNumber) ?? '',
    createdMs: typeof seconds === 'number' ? seconds * 1000 : undefined,
    bytes,
    keys: fromLambdaItem(Keys, () => true),
    newImage: NewImage === undefined ? undefined : fromLambdaItem(NewImage, isRead),
  };
}

/** Bodies are left out: no job needs one, and their conversion takes time. */
function isNoBody(name: string): boolean {
  return name !== 'B';
}

function isType(name: string): boolean {
  return name === 'T';
}

function fromLambdaItem(item: unknown, isWanted: (name: string) => boolean): StoredItem {
  const fields = fieldsOf(item);
  const names = Object.keys(fields).filter(isWanted);
  return Object.fromEntries(names.map((name) => [name, fromLambdaAttribute(fields[name])]));
}

function fromLambdaAttribute(attribute: unknown): StoredAttribute {
  const { S, N, B } = fieldsOf(attribute);
  const base64 = stringOf(B);
  return {
    S: stringOf(S),
    N: stringOf(N),
    B: base64 === undefined ? undefined : new Uint8Array(Buffer.from(base64, 'base64')),
  };
}

/** The fields of a value from outside; none if it is not an object. */
export function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}

function stringOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}
