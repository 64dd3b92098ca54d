import { decodeSegmentId } from '../../ids/log-id.ts';
import { MAX_NUMBER } from '../../ids/position.ts';
import type { StoredItem } from '../../log/attribute.ts';
import type { ReservedTypes } from '../../log/entry.ts';
import { ItemReader } from '../../log/item-reader.ts';
import { encodeJob, type SnapshotJob } from '../jobs/job.ts';
import type { JobSender } from '../jobs/job-queues.ts';

export interface RouteDeps {
  readonly queue: JobSender;
  readonly types: ReservedTypes;
  /** Called for every record that failed: the answer to Lambda has no room for reasons. */
  readonly report: (record: StreamRecord, error: unknown) => void;
  /** Called for every job that was sent. */
  readonly onSent?: (record: StreamRecord, job: SnapshotJob) => void;
}

/**
 * Turns stream records into jobs. The insertion of a Snapshot entry becomes a snapshot job in the
 * group of its log. The insertion of an End Segment entry is checked and needs no job, because the
 * next segment's Snapshot entry was written in the same transaction. All other records are ignored.
 *
 * - A malformed record fails alone. The records after it are still routed: when its retries are
 *   used up, Lambda discards everything from it to the end of its batch.
 * - If sending fails, that record fails and routing ends, because the queue is out of reach for the
 *   rest too.
 *
 * Records may arrive again. The queue deduplicates the jobs of one position for five minutes, and a
 * duplicate that runs changes nothing.
 *
 * @returns the records that failed, in order; Lambda delivers everything from the first one on
 * again
 */
export async function route(deps: RouteDeps, records: readonly StreamRecord[]): Promise<StreamBatchResponse> {
  const { types } = deps;
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
 * The deduplication id of a stream job. It is equal for all copies of one insertion. Jobs of a
 * sweep or of `logfold resume` use another form, so that the queue never drops them as copies.
 */
export function streamDeduplicationId(job: SnapshotJob): string {
  return `stream:${job.kind}:${job.log}:${job.position.segment}:${job.position.entry}`;
}

/**
 * The job for a record, if it needs one.
 * @throws ItemInvalidError if the inserted item has no type, or has a reserved type and malformed
 * keys
 */
function toJob(record: StreamRecord, types: ReservedTypes): SnapshotJob | undefined {
  if (record.eventName !== 'INSERT') return undefined;
  // Only type and keys are checked. A malformed entry must not hold up the shard; the jobs of its
  // log report it.
  const type = new ItemReader(record.newImage ?? {}).string('T');
  if (type !== types.snapshot && type !== types.endSegment) return undefined;
  const keys = new ItemReader(record.keys);
  const id = keys.binary('S');
  const { log, segment } = keys.parsed('S', () => decodeSegmentId(id));
  keys.where = { log, segment };
  const entry = keys.integer('N', MAX_NUMBER);
  return type === types.snapshot ? { kind: 'snapshot', log, position: { segment, entry } } : undefined;
}

/** An item or its keys, as in DynamoDB's API; binaries are Uint8Array. */
export type StreamImage = StoredItem;

/** One change of the Entry table, from a Lambda event or from the Streams API. */
export interface StreamRecord {
  readonly eventId: string;
  readonly eventName: 'INSERT' | 'MODIFY' | 'REMOVE';
  /** Decimal digits. It grows within a shard; numbers of different shards cannot be compared. */
  readonly sequenceNumber: string;
  /**
   * The approximate time of the change, in epoch milliseconds. Engines round it, some down to the
   * minute.
   */
  readonly createdMs?: number | undefined;
  readonly keys: StreamImage;
  /** The item after the change; absent on REMOVE. */
  readonly newImage?: StreamImage | undefined;
}

/**
 * The answer of a handler of stream records, in Lambda's form: the sequence numbers of the records
 * that failed; empty after success. Everything from the lowest one on is delivered again.
 */
export interface StreamBatchResponse {
  readonly batchItemFailures: readonly { readonly itemIdentifier: string }[];
}

/** Handles records of one shard, in order. If it throws, all of them failed. */
export type StreamHandler = (records: readonly StreamRecord[]) => Promise<StreamBatchResponse>;
