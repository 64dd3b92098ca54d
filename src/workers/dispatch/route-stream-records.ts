import { ItemInvalidError } from '../../errors.ts';
import { decodeSegmentId, type LogId } from '../../ids/log-id.ts';
import { MAX_NUMBER, type Position } from '../../ids/position.ts';
import type { StoredItem } from '../../log/attribute.ts';
import { asksAt, type DivisionPolicy, divides, NO_DIVISION } from '../../log/division-policy.ts';
import type { ReservedTypes } from '../../log/entry.ts';
import { ItemReader } from '../../log/item-reader.ts';
import { itemBytes } from '../../log/item-size.ts';
import { asksAtIndex } from '../../mapping/item-division.ts';
import { indexOfKey, logOfKey } from '../../mapping/key-pattern.ts';
import type { SchemaMapping } from '../../mapping/schema-mapping.ts';
import {
  type DivideJob,
  type JobSender,
  jobMessage,
  logLabel,
  type SnapshotJob,
  streamDeduplicationId,
} from '../jobs/job.ts';

const utf8 = new TextEncoder();

export interface RouteDeps {
  readonly queue: JobSender;
  readonly types: ReservedTypes;
  /** {@link NO_DIVISION} by default. */
  readonly division?: DivisionPolicy | undefined;
  /** How the table's items become entries; undefined if it is logfold's own Entry table. */
  readonly mapping?: SchemaMapping | undefined;
  /** Whether the stream's filter lets all insertions pass, for the feed. False by default. */
  readonly isFed?: boolean;
  /**
   * Called for every record that failed: the answer to Lambda has no room for reasons. A skipped
   * record is not delivered again.
   */
  readonly report: (record: StreamRecord, error: unknown, isSkipped?: true) => void;
  /** Called for every job that was sent. */
  readonly onSent?: (record: StreamRecord, job: RoutedJob) => void;
}

/** A job that a stream record asks for. */
export type RoutedJob = SnapshotJob | DivideJob;

/** A job with its deduplication id. */
interface Routed {
  readonly job: RoutedJob;
  readonly deduplicationId: string;
}

/**
 * Turns stream records into jobs. The insertion of a Snapshot entry becomes a snapshot job in the
 * group of its log. The insertion of an End Segment entry is checked and needs no job, because the
 * next segment's Snapshot entry was written in the same transaction. With a division policy, other
 * entries ask for divide jobs, at most one per log and call. With a mapping, items ask for them.
 * All other records are ignored, also those of other programs' items.
 *
 * - A malformed record fails alone. The records after it are still routed: when its retries are
 *   used up, Lambda discards everything from it to the end of its batch. An item whose key does not
 *   fit the mapping is only reported, because another delivery would not help.
 * - If sending fails, that record fails and routing ends, because the queue is out of reach for the
 *   rest too.
 *
 * The router keeps no state. Records may arrive again. The queue deduplicates the jobs of one
 * position for five minutes, and a duplicate that runs changes nothing.
 *
 * @returns the records that failed, in order; Lambda delivers everything from the first one on
 * again
 */
export async function route(deps: RouteDeps, records: readonly StreamRecord[]): Promise<StreamBatchResponse> {
  const batchItemFailures: { itemIdentifier: string }[] = [];
  const fail = (record: StreamRecord, error: unknown): void => {
    deps.report(record, error);
    batchItemFailures.push({ itemIdentifier: record.sequenceNumber });
  };
  const divided = new Set<LogId>();
  for (const record of records) {
    let routed: Routed | undefined;
    try {
      routed = toJob(deps, record);
    } catch (error) {
      if (deps.mapping === undefined) fail(record, error);
      else deps.report(record, error, true);
      continue;
    }
    if (routed === undefined) continue;
    const { job, deduplicationId } = routed;
    // A divide job looks at all entries that exist when it runs.
    if (job.kind === 'divide' && divided.has(job.log)) continue;
    try {
      await deps.queue.send(jobMessage(job, deduplicationId));
    } catch (error) {
      fail(record, error);
      break;
    }
    if (job.kind === 'divide') divided.add(job.log);
    deps.onSent?.(record, job);
  }
  return { batchItemFailures };
}

/**
 * The job for a record, if it asks for one.
 * @throws ItemInvalidError if the inserted item has a reserved type and malformed keys. Without a
 * division policy and a feed, the stream's filter lets only reserved types pass, so it also throws
 * if the item has no type
 */
function toJob(deps: RouteDeps, record: StreamRecord): Routed | undefined {
  const { types, division = NO_DIVISION, mapping, isFed = false } = deps;
  if (record.eventName !== 'INSERT') return undefined;
  if (mapping !== undefined) return askForItem({ mapping, division }, record);
  // Only type and keys are checked. A malformed entry must not hold up the shard; the jobs of its
  // log report it.
  const isDivided = divides(division);
  const type = isDivided || isFed ? record.newImage?.T?.S : new ItemReader(record.newImage ?? {}).string('T');
  if (type === undefined || !types.includes(type)) return isDivided ? askToDivide(division, record) : undefined;
  const { log, segment, entry } = readKeys(record);
  if (type !== types.snapshot) return undefined;
  const job: SnapshotJob = { kind: 'snapshot', log, position: { segment, entry } };
  return { job, deduplicationId: streamDeduplicationId(job) };
}

/**
 * The divide job that an entry asks for. Items of other programs, which have other keys, ask for
 * none.
 */
function askToDivide(division: DivisionPolicy, record: StreamRecord): Routed | undefined {
  let place: ReturnType<typeof readKeys>;
  try {
    place = readKeys(record);
  } catch (error) {
    if (!(error instanceof ItemInvalidError)) throw error;
    return undefined;
  }
  const { log, segment, entry } = place;
  const share = shareOf(`${log}/${segment}/${entry}`);
  if (!asksAt(division, { entry, bytes: bytesOf(record), share })) return undefined;
  return { job: { kind: 'divide', log }, deduplicationId: `stream:divide:${logLabel(log)}:${segment}:${entry}` };
}

/**
 * The divide job that an item of a mapped log asks for.
 * @throws ItemInvalidError if its key does not fit the mapping
 */
function askForItem(
  { mapping, division }: { readonly mapping: SchemaMapping; readonly division: DivisionPolicy },
  record: StreamRecord,
): Routed | undefined {
  const log = logOfKey(mapping, record.keys);
  if (log === undefined) return undefined;
  const index = indexOfKey(mapping, record.keys);
  const share = shareOf(`${log}/${index}`);
  if (!asksAtIndex(division, { entry: index, bytes: bytesOf(record), share })) return undefined;
  return { job: { kind: 'divide', log }, deduplicationId: `stream:divide:${logLabel(log)}:${index}` };
}

function bytesOf({ bytes, newImage = {} }: StreamRecord): number {
  return bytes ?? itemBytes(newImage);
}

/**
 * The entry whose keys a record of logfold's own Entry table has.
 * @throws ItemInvalidError if the keys are malformed
 */
export function readKeys(record: StreamRecord): Position & { readonly log: LogId } {
  const keys = new ItemReader(record.keys);
  const id = keys.binary('S');
  const { log, segment } = keys.parsed('S', () => decodeSegmentId(id));
  keys.where = { log, segment };
  return { log, segment, entry: keys.integer('N', MAX_NUMBER) };
}

/**
 * A number from 0 up to but not including 1 that looks random. It is equal for all copies of a
 * record: FNV-1a over the name of its item, mixed as MurmurHash3 does at its end.
 */
function shareOf(name: string): number {
  const bytes = utf8.encode(name);
  let hash = 0x811c9dc5;
  for (let i = 0; i < bytes.length; i++) hash = Math.imul(hash ^ (bytes[i] ?? 0), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32;
}

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
  /** Bytes of the record: of keys and item; undefined if unknown. */
  readonly bytes?: number | undefined;
  readonly keys: StoredItem;
  /** The item after the change; absent on REMOVE. */
  readonly newImage?: StoredItem | undefined;
  /** The item before the change, if the stream carries it; absent on INSERT. */
  readonly oldImage?: StoredItem | undefined;
  /** Whether DynamoDB deleted the item because of its time to live. */
  readonly isExpiry?: boolean | undefined;
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
