import * as z from 'zod';
import { parseJson } from '../../codec/json.ts';
import { MessageInvalidError, MessageNewerError, printable } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import { MAX_NUMBER, type Position } from '../../ids/position.ts';
import type { NewMessage } from '../../store/job-queue.ts';
import { logIdSchema } from '../../store/log-id-schema.ts';
import { hashedLogName, logName } from '../../store/log-name.ts';

/** Completes the snapshot of a Snapshot entry. */
export interface SnapshotJob {
  readonly kind: 'snapshot';
  readonly log: LogId;
  /** Position of the Snapshot entry. */
  readonly position: Position;
  /** The number of earlier runs, whose time was up; absent in the first run. */
  readonly continuation?: number | undefined;
  /** True to try although the log is stopped, because the cause may be fixed. */
  readonly force?: true | undefined;
}

/** Flushes the buffered edits of a complete snapshot. */
export interface FlushJob {
  readonly kind: 'flush';
  readonly log: LogId;
  /** Position of the Snapshot entry. */
  readonly position: Position;
  /** The number of earlier runs, each of which flushed a part; absent in the first run. */
  readonly continuation?: number | undefined;
}

/** Writes a closed segment's archive. */
export interface ArchiveJob {
  readonly kind: 'archive';
  readonly log: LogId;
  readonly segment: number;
  /** The number of earlier runs, each of which wrote a part; absent in the first run. */
  readonly continuation?: number | undefined;
  /**
   * Parts that earlier runs wrote and compared with the table, in order; absent in the first run.
   */
  readonly parts?: readonly ArchivePart[] | undefined;
}

/**
 * An object with some of a segment's entries, in the form of an archive. It starts at the end of
 * the part before it.
 */
export interface ArchivePart {
  /** The random hexadecimal digits in its key. */
  readonly upload: string;
  /** SHA-256 of its index, in hexadecimal digits. */
  readonly hash: string;
  /** The number after its last valid entry. Later entries were not compared with the table. */
  readonly to: number;
}

/** The most parts in a message. They take some 70 KB of SQS's limit of 256 KB. */
export const MAX_ARCHIVE_PARTS = 500;

/** Expires the entries of a closed segment. */
export interface ExpireJob {
  readonly kind: 'expire';
  readonly log: LogId;
  readonly segment: number;
  /** The first entry to expire; earlier runs expired those before it. Absent in the first run. */
  readonly from?: number | undefined;
  /** The expiry time on the segment during the earlier runs, in epoch seconds. */
  readonly announced?: number | undefined;
}

/** Collects the garbage of a log. */
export interface CollectJob {
  readonly kind: 'collect';
  readonly log: LogId;
  /** The number of earlier runs, whose time was up; absent in the first run. */
  readonly continuation?: number | undefined;
}

/** Rebuilds every snapshot of a log from its entries. */
export interface RebuildJob {
  readonly kind: 'rebuild';
  readonly log: LogId;
  /** The last snapshot that was rebuilt; absent if there is none yet. */
  readonly after?: Position | undefined;
  /** The number of earlier runs, whose time was up; absent in the first run. */
  readonly continuation?: number | undefined;
}

/** Appends the Snapshot entry or starts the segment that a division policy makes due. */
export interface DivideJob {
  readonly kind: 'divide';
  readonly log: LogId;
}

/** A unit of background work in a queue. */
export type Job = SnapshotJob | DivideJob | FlushJob | ArchiveJob | ExpireJob | CollectJob | RebuildJob;

/**
 * Version of the message form; there is only one so far. During an update, old workers get messages
 * of new senders. A worker ignores fields that it does not know. It leaves messages of newer
 * versions, and jobs of unknown kinds, to a newer worker. Fields that were added since the first
 * release (`turn`, `again`, `from`, `announced`, `after`, `parts`) are optional, so that messages
 * of older senders are valid. If the meaning of a field changes, or if a new field must not be
 * ignored, raise this number and keep a schema for each earlier version.
 *
 * Messages keep the names of the first release: `compact` for the kind `flush`, `turn` for
 * `continuation` and `again` for `force`.
 */
const FORMAT = 1;

const Envelope = z.looseObject({ format: z.int().min(1), kind: z.unknown().optional() });
const PositionNumber = z.int().min(0).max(MAX_NUMBER);
const log = logIdSchema();
const format = z.literal(FORMAT);
const place = { format, log, segment: PositionNumber, entry: PositionNumber };
const archivePart = z.object({
  upload: z.string().regex(/^[0-9a-f]{32}$/),
  hash: z.string().regex(/^[0-9a-f]{64}$/),
  to: z
    .int()
    .min(1)
    .max(MAX_NUMBER + 1),
});
const JobMessage = z.discriminatedUnion('kind', [
  z.object({
    ...place,
    kind: z.literal('snapshot'),
    turn: z.int().min(1).optional(),
    again: z.literal(true).optional(),
  }),
  z.object({ ...place, kind: z.literal('compact'), turn: z.int().min(1).optional() }),
  z.object({
    format,
    log,
    segment: PositionNumber,
    kind: z.literal('archive'),
    turn: z.int().min(1).optional(),
    parts: z.array(archivePart).min(1).max(MAX_ARCHIVE_PARTS).optional(),
  }),
  z.object({
    format,
    log,
    segment: PositionNumber,
    kind: z.literal('expire'),
    from: PositionNumber.min(1).optional(),
    announced: z.int().min(0).optional(),
  }),
  z.object({ format, log, kind: z.literal('divide') }),
  z.object({ format, log, kind: z.literal('collect'), turn: z.int().min(1).optional() }),
  z.object({
    format,
    log,
    kind: z.literal('rebuild'),
    after: z.object({ segment: PositionNumber, entry: PositionNumber }).optional(),
    turn: z.int().min(1).optional(),
  }),
]);

/** The kinds of jobs as messages name them. */
const KINDS: ReadonlySet<string> = new Set(JobMessage.options.map(({ shape }) => shape.kind.value));

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

/** The message of a job. Its group is that of its log. */
export function jobMessage(job: Job, deduplicationId: string): NewMessage {
  return { group: logLabel(job.log), deduplicationId, body: encodeJob(job) };
}

/** The kind of a job in its message and in deduplication ids. */
export function messageKind(kind: Job['kind']): string {
  return kind === 'flush' ? 'compact' : kind;
}

/** The body of a job's message: JSON, which an operator can read in a dead-letter queue. */
export function encodeJob(job: Job): string {
  const json = JSON.stringify({ format: FORMAT, ...toMessage(job) });
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
  const envelope = Envelope.safeParse(json);
  if (!envelope.success) {
    throw new MessageInvalidError('the message does not come from logfold: it has no format version', {
      advice: 'Find out which other program sends to this queue',
    });
  }
  const { format, kind } = envelope.data;
  if (format > FORMAT) throw newer(`the message has format ${format}, and this version reads up to ${FORMAT}`);
  if (typeof kind === 'string' && !KINDS.has(kind)) {
    throw newer(`the message asks for a job of the kind '${printable(kind)}', which this version does not know`);
  }
  const message = JobMessage.safeParse(json);
  if (!message.success) {
    throw new MessageInvalidError(`the message is a malformed job: ${z.prettifyError(message.error)}`);
  }
  return fromMessage(message.data);
}

function newer(reason: string): MessageNewerError {
  return new MessageNewerError(reason, {
    advice: 'Finish the deployment of the newer version, then redrive the dead-letter queue',
  });
}

function toMessage(job: Job): object {
  switch (job.kind) {
    case 'snapshot': {
      const { position, continuation, force, ...rest } = job;
      return { ...rest, ...position, turn: continuation, again: force };
    }
    case 'flush': {
      const { position, continuation, ...rest } = job;
      return { ...rest, kind: messageKind('flush'), ...position, turn: continuation };
    }
    case 'archive':
    case 'collect':
    case 'rebuild': {
      const { continuation, ...rest } = job;
      return { ...rest, turn: continuation };
    }
    case 'expire':
    case 'divide':
      return job;
  }
}

function fromMessage({ format: _, ...message }: z.infer<typeof JobMessage>): Job {
  switch (message.kind) {
    case 'snapshot': {
      const { segment, entry, turn, again, ...rest } = message;
      return { ...rest, position: { segment, entry }, continuation: turn, force: again };
    }
    case 'compact': {
      const { segment, entry, turn, ...rest } = message;
      return { ...rest, kind: 'flush', position: { segment, entry }, continuation: turn };
    }
    case 'archive':
    case 'collect':
    case 'rebuild': {
      const { turn, ...rest } = message;
      return { ...rest, continuation: turn };
    }
    case 'expire':
    case 'divide':
      return message;
  }
}

function parseMessage(text: string): unknown {
  try {
    return parseJson(text);
  } catch (cause) {
    throw new MessageInvalidError('the message is not JSON', { cause });
  }
}
