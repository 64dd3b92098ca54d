import * as z from 'zod';
import { MessageInvalidError, MessageNewerError } from '../../errors.ts';
import { type LogId, parseLogId } from '../../ids/log-id.ts';
import { MAX_NUMBER, type Position } from '../../ids/position.ts';

/** Completes the snapshot of a Snapshot entry. */
export interface SnapshotJob {
  readonly kind: 'snapshot';
  readonly log: LogId;
  /** Position of the Snapshot entry. */
  readonly position: Position;
  /** How often it was worked on before without being done, its time being up each time; left out for the first turn. */
  readonly turn?: number | undefined;
  /** True where it is to be tried although the log is stopped before it: what stopped it may be mended. */
  readonly again?: true | undefined;
}

/** Settles a completed snapshot in which edits wait. */
export interface FlushJob {
  readonly kind: 'compact';
  readonly log: LogId;
  /** Position of the Snapshot entry. */
  readonly position: Position;
  /** How many turns settled a part of it before; left out for the first turn. */
  readonly turn?: number | undefined;
}

/** Writes a closed segment's archive. */
export interface ArchiveJob {
  readonly kind: 'archive';
  readonly log: LogId;
  readonly segment: number;
  /** How many turns wrote a part of it before; left out for the first turn. */
  readonly turn?: number | undefined;
  /** What earlier turns wrote and compared with the table, in order; left out for the first turn. */
  readonly parts?: readonly ArchivePart[] | undefined;
}

/** An object with some of a segment's entries. It has the form of an archive and begins where the part before it ends. */
export interface ArchivePart {
  /** The random hexadecimal digits in its key. */
  readonly upload: string;
  /** SHA-256 of its index, in hexadecimal digits. */
  readonly hash: string;
  /** The number after the last entry of it that counts: what follows was not compared with the table. */
  readonly to: number;
}

/** The most parts in a message, some 70 KB: a message of SQS has 256 KB at most. */
export const MAX_ARCHIVE_PARTS = 500;

/** Lets the entries of a closed segment leave the table. */
export interface ExpireJob {
  readonly kind: 'expire';
  readonly log: LogId;
  readonly segment: number;
  /** The entry with which to begin, those before it being done; left out for the first turn. */
  readonly from?: number | undefined;
  /** The time at which the segment said that its entries go, in epoch seconds, while those were done. */
  readonly announced?: number | undefined;
}

/** Removes what nothing of a log reaches any more. */
export interface CollectJob {
  readonly kind: 'collect';
  readonly log: LogId;
  /** How many turns it had before, its time being up each time; left out for the first turn. */
  readonly turn?: number | undefined;
}

/** Makes every snapshot of a log anew, from the log. */
export interface RebuildJob {
  readonly kind: 'rebuild';
  readonly log: LogId;
  /** The snapshot that was rebuilt last; left out where none is yet. */
  readonly after?: Position | undefined;
  /** How often it was worked on before without being done; left out for the first turn. */
  readonly turn?: number | undefined;
}

/** One unit of background work, as it travels in the queue. */
export type Job = SnapshotJob | FlushJob | ArchiveJob | ExpireJob | CollectJob | RebuildJob;

/**
 * Version of a message's form, and so far the only one. A worker refuses what is newer than itself, and a message of
 * its own version in which there is a field that it does not know: whoever sent it means something by it. Fields that
 * were added since the first release (`turn`, `again`, `from`, `announced`, `after`, `parts`) may be left out, so messages of older
 * senders are understood. Whoever changes the meaning of a field, or adds one that must not be passed over, raises this
 * number and keeps a schema for each version before.
 */
const FORMAT = 1;

const Envelope = z.looseObject({ format: z.int().min(1) });
const PositionNumber = z.int().min(0).max(MAX_NUMBER);
const log = z.uuid().transform(parseLogId);
const format = z.literal(FORMAT);
const place = { format, log, segment: PositionNumber, entry: PositionNumber };
const archivePart = z.strictObject({
  upload: z.string().regex(/^[0-9a-f]{32}$/),
  hash: z.string().regex(/^[0-9a-f]{64}$/),
  to: z
    .int()
    .min(1)
    .max(MAX_NUMBER + 1),
});
const JobMessage = z.discriminatedUnion('kind', [
  z.strictObject({
    ...place,
    kind: z.literal('snapshot'),
    turn: z.int().min(1).optional(),
    again: z.literal(true).optional(),
  }),
  z.strictObject({ ...place, kind: z.literal('compact'), turn: z.int().min(1).optional() }),
  z.strictObject({
    format,
    log,
    segment: PositionNumber,
    kind: z.literal('archive'),
    turn: z.int().min(1).optional(),
    parts: z.array(archivePart).min(1).max(MAX_ARCHIVE_PARTS).optional(),
  }),
  z.strictObject({
    format,
    log,
    segment: PositionNumber,
    kind: z.literal('expire'),
    from: PositionNumber.min(1).optional(),
    announced: z.int().min(0).optional(),
  }),
  z.strictObject({ format, log, kind: z.literal('collect'), turn: z.int().min(1).optional() }),
  z.strictObject({
    format,
    log,
    kind: z.literal('rebuild'),
    after: z.strictObject({ segment: PositionNumber, entry: PositionNumber }).optional(),
    turn: z.int().min(1).optional(),
  }),
]);

/** The body of the message that carries a job: JSON, readable by a person who finds it in a dead-letter queue. */
export function encodeJob(job: Job): string {
  if (job.kind !== 'snapshot' && job.kind !== 'compact') return JSON.stringify({ format: FORMAT, ...job });
  const { position, ...rest } = job;
  return JSON.stringify({ format: FORMAT, ...rest, ...position });
}

/**
 * The inverse of `encodeJob`.
 * @throws MessageInvalidError where the text is not JSON, not a job, or a malformed job
 * @throws MessageNewerError where it has a format that came after this version
 */
export function decodeJob(text: string): Job {
  const json = parseJson(text);
  const envelope = Envelope.safeParse(json);
  if (!envelope.success) {
    throw new MessageInvalidError("the message is not logfold's: it has no format version", {
      advice: 'Look for who else sends to this queue',
    });
  }
  if (envelope.data.format > FORMAT) {
    const { format } = envelope.data;
    throw new MessageNewerError(`the message has format ${format}, and this version reads up to ${FORMAT}`, {
      advice:
        'While a newer version is being deployed, nothing has to be done; afterwards redrive what is in the dead-letter queue',
    });
  }
  const message = JobMessage.safeParse(json);
  if (!message.success) {
    throw new MessageInvalidError(`the message is a malformed job: ${z.prettifyError(message.error)}`);
  }
  const { format: _, ...job } = message.data;
  if (job.kind !== 'snapshot' && job.kind !== 'compact') return job;
  const { segment, entry, ...rest } = job;
  return { ...rest, position: { segment, entry } };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new MessageInvalidError('the message is not JSON', { cause });
  }
}
