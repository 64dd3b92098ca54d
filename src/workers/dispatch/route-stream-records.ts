import { decodeSegmentId } from '../../ids/log-id.ts';
import { MAX_NUMBER } from '../../ids/position.ts';
import type { StoredItem } from '../../log/attribute.ts';
import { checkTypes, type ReservedTypes } from '../../log/entry.ts';
import { ItemReader } from '../../log/item-reader.ts';
import { encodeJob, type SnapshotJob } from '../jobs/job.ts';
import type { JobSender } from '../jobs/job-queues.ts';

export interface RouteDeps {
  readonly queue: JobSender;
  readonly types?: ReservedTypes | undefined;
  /** Told of every record that failed, and why: the answer to Lambda has no room for reasons. */
  readonly report: (record: StreamRecord, error: unknown) => void;
  /** Told of every job that was sent. */
  readonly onSent?: ((record: StreamRecord, job: SnapshotJob) => void) | undefined;
}

/**
 * Turns stream records into jobs: the insertion of a Snapshot entry into a snapshot job, in the group of its log. The
 * insertion of an End Segment entry is checked and needs no job, since the next segment's Snapshot entry was written
 * in the same transaction. All other records mean nothing here.
 *
 * - A malformed record fails by itself. The records behind it are routed all the same: when its retries are used up,
 *   everything from it to the end of its batch is discarded.
 * - Where sending fails, that record fails and routing ends there, since the queue is out of reach for the rest too.
 *
 * Records may be given again: the job of one position is deduplicated by the queue for its five minutes, and does
 * nothing where it runs twice.
 *
 * @returns the records that failed, in order; Lambda gives everything from the first one on again
 */
export async function route(deps: RouteDeps, records: readonly StreamRecord[]): Promise<StreamBatchResponse> {
  const types = checkTypes(deps.types);
  const batchItemFailures: { itemIdentifier: string }[] = [];
  const fail = (record: StreamRecord, error: unknown): void => {
    deps.report(record, error);
    batchItemFailures.push({ itemIdentifier: record.sequenceNumber });
  };
  for (const record of records) {
    let job: SnapshotJob | undefined;
    try {
      job = toJob(record, types);
    } catch (error) {
      fail(record, error);
      continue;
    }
    if (job === undefined) continue;
    try {
      await deps.queue.send({ group: job.log, deduplicationId: streamDeduplicationId(job), body: encodeJob(job) });
    } catch (error) {
      fail(record, error);
      break;
    }
    deps.onSent?.(record, job);
  }
  return { batchItemFailures };
}

/**
 * The same for every copy of one insertion, and never that of a job that somebody sends on purpose: whoever resumes
 * or sweeps uses ids of another form, so that the queue does not take theirs for a copy.
 */
export function streamDeduplicationId(job: SnapshotJob): string {
  return `stream:${job.kind}:${job.log}:${job.position.segment}:${job.position.entry}`;
}

/**
 * The job that a record asks for, if any.
 * @throws ItemInvalidError where the inserted item has no type, or is of a reserved type and its keys are no position
 */
function toJob(record: StreamRecord, types: ReservedTypes): SnapshotJob | undefined {
  if (record.eventName !== 'INSERT') return undefined;
  // Only type and keys: whatever else is wrong with an entry is its own log's affair, and must not hold up the shard.
  const type = new ItemReader(record.newImage ?? {}).string('T');
  if (type !== types.snapshot && type !== types.endSegment) return undefined;
  const keys = new ItemReader(record.keys);
  const id = keys.binary('S');
  const { log, segment } = keys.parsed('S', () => decodeSegmentId(id));
  keys.where = { log, segment };
  const entry = keys.integer('N', MAX_NUMBER);
  return type === types.snapshot ? { kind: 'snapshot', log, position: { segment, entry } } : undefined;
}

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
