import * as z from 'zod';
import { parseJson } from '../../codec/json.ts';
import { MessageInvalidError, MessageNewerError, printable } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import { formatPosition, MAX_NUMBER, type Position } from '../../ids/position.ts';
import type { JobQueue, NewMessage } from '../../store/job-queue.ts';
import { hashedLogName, logName } from '../../store/keys.ts';
import { logIdSchema } from '../../store/log-id-schema.ts';
import type { Report } from './report.ts';

/** The most parts in a message. They take some 70 KB of SQS's limit of 256 KB. */
export const MAX_ARCHIVE_PARTS = 500;

const log = logIdSchema();
const number = z.int().min(0).max(MAX_NUMBER);
const position = z.object({ segment: number, entry: number });
/** The number of earlier runs, whose time was up; absent in the first run. */
const continuation = z.int().min(1).optional();

const snapshotJob = z.object({
  kind: z.literal('snapshot'),
  log,
  /** Position of the Snapshot entry. */
  position,
  continuation,
  /** True to try although the log is stopped, because the cause may be fixed. */
  force: z.literal(true).optional(),
});

const flushJob = z.object({
  kind: z.literal('flush'),
  log,
  /** Position of the Snapshot entry. */
  position,
  continuation,
});

const archivePart = z.object({
  /** The random hexadecimal digits in its key. */
  upload: z.string().regex(/^[0-9a-f]{32}$/),
  /** SHA-256 of its index, in hexadecimal digits. */
  hash: z.string().regex(/^[0-9a-f]{64}$/),
  /** The number after its last valid entry. Later entries were not compared with the table. */
  to: z
    .int()
    .min(1)
    .max(MAX_NUMBER + 1),
});

const archiveJob = z.object({
  kind: z.literal('archive'),
  log,
  segment: number,
  continuation,
  /**
   * Parts that earlier runs wrote and compared with the table, in order; absent in the first run.
   */
  parts: z.array(archivePart).min(1).max(MAX_ARCHIVE_PARTS).readonly().optional(),
});

const expireJob = z.object({
  kind: z.literal('expire'),
  log,
  segment: number,
  /** The first entry to expire; earlier runs expired those before it. Absent in the first run. */
  from: number.min(1).optional(),
  /** The expiry time on the segment during the earlier runs, in epoch seconds. */
  announced: z.int().min(0).optional(),
});

const collectJob = z.object({ kind: z.literal('collect'), log, continuation });

const rebuildJob = z.object({
  kind: z.literal('rebuild'),
  log,
  /** The last snapshot that was rebuilt; absent if there is none yet. */
  after: position.optional(),
  continuation,
});

const divideJob = z.object({ kind: z.literal('divide'), log });

const message = z.discriminatedUnion('kind', [
  snapshotJob,
  divideJob,
  flushJob,
  archiveJob,
  expireJob,
  collectJob,
  rebuildJob,
]);

/** A unit of background work in a queue. */
export type Job = Readonly<z.infer<typeof message>>;
/** Completes the snapshot of a Snapshot entry. */
export type SnapshotJob = Readonly<z.infer<typeof snapshotJob>>;
/** Appends the Snapshot entry or starts the segment that a division policy makes due. */
export type DivideJob = Readonly<z.infer<typeof divideJob>>;
/** Flushes the buffered edits of a complete snapshot. */
export type FlushJob = Readonly<z.infer<typeof flushJob>>;
/** Writes a closed segment's archive. */
export type ArchiveJob = Readonly<z.infer<typeof archiveJob>>;
/**
 * An object with some of a segment's entries, in the form of an archive. It starts at the end of
 * the part before it.
 */
export type ArchivePart = Readonly<z.infer<typeof archivePart>>;
/** Expires the entries of a closed segment. */
export type ExpireJob = Readonly<z.infer<typeof expireJob>>;
/** Collects the garbage of a log. */
export type CollectJob = Readonly<z.infer<typeof collectJob>>;
/** Rebuilds every snapshot of a log from its entries. */
export type RebuildJob = Readonly<z.infer<typeof rebuildJob>>;

/**
 * Version of the message form. Format 1 has other names: see {@link fromFormat1}. During an update,
 * old workers get messages of new senders. A worker ignores fields that it does not know. It leaves
 * messages of newer versions, and jobs of unknown kinds, to a newer worker. A field that is added
 * is optional, so that messages of older senders are valid. If the meaning of a field changes, or
 * if a new field must not be ignored, raise this number.
 */
const FORMAT = 2;

const envelope = z.looseObject({ format: z.int().min(1), kind: z.unknown().optional() });
type Enveloped = z.infer<typeof envelope>;

/** The two queues: `snapshot` for jobs that clients wait for, `maintenance` for all others. */
export type QueueName = (typeof QUEUE_NAMES)[number];

export const QUEUE_NAMES = ['snapshot', 'maintenance'] as const;

export type JobSender = Pick<JobQueue, 'send'>;

/**
 * Sends each job to its queue, which depends only on its kind. Each queue keeps the order of one
 * log's jobs. Jobs of the same log in different queues may run concurrently, as duplicates may.
 * @returns a sender that throws MessageInvalidError for a message that is not a job
 */
export function jobQueues(queues: Readonly<Record<QueueName, JobSender>>): JobSender {
  return {
    send: async (message) => {
      const { kind } = decodeJob(message.body);
      await queues[QUEUE_OF[kind]].send(message);
    },
  };
}

export const QUEUE_OF: Readonly<Record<Job['kind'], QueueName>> = {
  snapshot: 'snapshot',
  divide: 'snapshot',
  rebuild: 'snapshot',
  flush: 'maintenance',
  archive: 'maintenance',
  expire: 'maintenance',
  collect: 'maintenance',
};

/** The longest label. A deduplication id of SQS has at most 128 characters. */
const MAX_LABEL = 50;

/**
 * The label of a log in the group and the deduplication ids of its jobs: its name in keys, or a
 * hash if the name is too long. A UUID is its own label.
 */
export function logLabel(log: LogId): string {
  const name = logName(log);
  return name.length <= MAX_LABEL ? name : hashedLogName(log).slice(0, MAX_LABEL);
}

/** A job in words. */
export function describeJob(job: Job): string {
  const what = `${job.kind} ${printable(job.log)}`;
  if ('position' in job) return `${what} ${formatPosition(job.position)}`;
  return 'segment' in job ? `${what} segment ${job.segment}` : what;
}

/** A job and what it did, or would do in a dry run, in words. */
export function describeOutcome(
  job: Job,
  { text, level }: Report,
  { dryRun = false }: { readonly dryRun?: boolean } = {},
): string {
  return `${dryRun && level === 'info' ? 'would do: ' : ''}${describeJob(job)}: ${text}`;
}

/** The message of a job. Its group is that of its log. */
export function jobMessage(job: Job, deduplicationId: string): NewMessage {
  return { group: logLabel(job.log), deduplicationId, body: encodeJob(job) };
}

/** The deduplication id of a due job. It is equal each time that the job is found due. */
export function dueDeduplicationId(job: Job): string {
  return `due:${nameOf(job)}`;
}

/** The deduplication id of a job from a sweep. It is equal only within one run of the sweep. */
export function sweepDeduplicationId(run: string, job: Job): string {
  return `sweep:${run}:${nameOf(job)}`;
}

/**
 * The deduplication id of a snapshot job from the stream. It is equal for all copies of one
 * insertion. Jobs of a sweep or of `logfold resume` use another form, so that the queue never drops
 * them as copies.
 */
export function streamDeduplicationId(job: SnapshotJob): string {
  return `stream:${nameOf(job)}`;
}

/**
 * The deduplication id of a continuation. It is equal if the previous run was a duplicate. The
 * position alone is not enough: a run that finds its progress damaged may end at the same position
 * as an earlier one within the minutes that the queue remembers. The queue would then drop its
 * continuation.
 */
export function continuationDeduplicationId(job: Job, reached: Position): string {
  const count = 'continuation' in job ? job.continuation : 'announced' in job ? job.announced : undefined;
  return `continuation:${nameOf(job)}:${count ?? 0}:${formatPosition(reached)}`;
}

/** The kind, the log and the place of a job. */
function nameOf(job: Job): string {
  const place = 'position' in job ? [formatPosition(job.position)] : 'segment' in job ? [job.segment] : [];
  return [job.kind, logLabel(job.log), ...place].join(':');
}

/** The body of a job's message: JSON, which an operator can read in a dead-letter queue. */
export function encodeJob(job: Job): string {
  const json = JSON.stringify({ format: FORMAT, ...job });
  // SQS replaces these two characters. JSON itself escapes the control characters.
  return json.replaceAll('\ufffe', '\\ufffe').replaceAll('\uffff', '\\uffff');
}

/**
 * The inverse of `encodeJob`.
 * @throws MessageInvalidError if the text is not JSON, not a job, or a malformed job
 * @throws MessageNewerError if this version does not know its format or its kind of job
 */
export function decodeJob(text: string): Job {
  const json = parseMessage(text);
  const enveloped = envelope.safeParse(json);
  if (!enveloped.success) {
    throw new MessageInvalidError('the message does not come from logfold: it has no format version', {
      advice: 'Find out which other program sends to this queue',
    });
  }
  const named = enveloped.data.format === 1 ? fromFormat1(enveloped.data) : enveloped.data;
  const { format, kind } = named;
  if (format > FORMAT) throw newer(`the message has format ${format}, and this version reads up to ${FORMAT}`);
  if (typeof kind === 'string' && !Object.hasOwn(QUEUE_OF, kind)) {
    throw newer(`the message asks for a job of the kind '${printable(kind)}', which this version does not know`);
  }
  const parsed = message.safeParse(named);
  if (parsed.success) return parsed.data;
  throw new MessageInvalidError(`the message is a malformed job: ${z.prettifyError(parsed.error)}`);
}

/** A message of format 1 with the names of today. */
function fromFormat1({ kind, segment, entry, turn, again, ...rest }: Enveloped): Enveloped {
  const place = entry === undefined ? { segment } : { position: { segment, entry } };
  return { ...rest, ...place, kind: kind === 'compact' ? 'flush' : kind, continuation: turn, force: again };
}

function newer(reason: string): MessageNewerError {
  return new MessageNewerError(reason, {
    advice: 'Finish the deployment of the newer version, then redrive the dead-letter queue',
  });
}

function parseMessage(text: string): unknown {
  try {
    return parseJson(text);
  } catch (cause) {
    throw new MessageInvalidError('the message is not JSON', { cause });
  }
}
