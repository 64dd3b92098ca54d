import { z } from 'zod';
import { MessageInvalidError } from '../errors.ts';
import { type LogId, parseLogId } from '../log/log-id.ts';
import { MAX_NUMBER, type Position } from '../log/position.ts';

/** Completes the snapshot of a Snapshot entry. */
export interface SnapshotJob {
  readonly kind: 'snapshot';
  readonly log: LogId;
  /** Position of the Snapshot entry. */
  readonly position: Position;
  /** How often it was worked on before without being done, its time being up each time; left out for the first turn. */
  readonly turn?: number | undefined;
}

/** Settles a completed snapshot in which edits wait. */
export interface CompactJob {
  readonly kind: 'compact';
  readonly log: LogId;
  /** Position of the Snapshot entry. */
  readonly position: Position;
}

/** One unit of background work, as it travels in the queue. */
export type Job = SnapshotJob | CompactJob;

/** Version of a message's form. A worker refuses what is newer than itself. */
const FORMAT = 1;

const Envelope = z.looseObject({ format: z.int().min(1) });
const PositionNumber = z.int().min(0).max(MAX_NUMBER);
const place = {
  format: z.literal(FORMAT),
  log: z.uuid().transform(parseLogId),
  segment: PositionNumber,
  entry: PositionNumber,
};
const JobMessage = z.discriminatedUnion('kind', [
  z.strictObject({ ...place, kind: z.literal('snapshot'), turn: z.int().min(1).optional() }),
  z.strictObject({ ...place, kind: z.literal('compact') }),
]);

/** The body of the message that carries a job: JSON, readable by a person who finds it in a dead-letter queue. */
export function encodeJob(job: Job): string {
  const { kind, log, position } = job;
  const turn = job.kind === 'snapshot' ? job.turn : undefined;
  return JSON.stringify({ format: FORMAT, kind, log, segment: position.segment, entry: position.entry, turn });
}

/**
 * The inverse of `encodeJob`.
 * @throws MessageInvalidError where the text is not JSON, not a job, a malformed job, or of a newer version
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
    throw new MessageInvalidError(`the message has format ${format}, and this version reads up to ${FORMAT}`, {
      advice: 'Update the workers before whatever sends to them, then send the message again',
    });
  }
  const message = JobMessage.safeParse(json);
  if (!message.success) {
    throw new MessageInvalidError(`the message is a malformed job: ${z.prettifyError(message.error)}`);
  }
  const { format: _, segment, entry, ...job } = message.data;
  return { ...job, position: { segment, entry } };
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new MessageInvalidError('the message is not JSON', { cause });
  }
}
