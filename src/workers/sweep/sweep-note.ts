import { isDeepStrictEqual } from 'node:util';
import * as z from 'zod';
import { MAX_NUMBER } from '../../ids/position.ts';
import type { BlobStore } from '../../store/blob-store.ts';
import { JsonObject } from '../../store/json-object.ts';
import { SWEEP_KEY } from '../../store/keys.ts';
import { logIdSchema } from '../../store/log-id-schema.ts';
import { QUEUE_NAMES } from '../jobs/job.ts';

/** The rest of a sweep, as an operator or a note gives it back. */
export const sweepRestSchema = z
  .array(
    z.union([
      z.literal(['beginning', 'end']),
      z.object({ log: logIdSchema(), segment: z.int().min(0).max(MAX_NUMBER) }),
    ]),
  )
  .readonly();

/**
 * The point at which to continue each part of the Segment table: at its beginning, after a segment,
 * or not at all. If all parts are at their end, only gc candidates remain.
 */
export type SweepRest = z.infer<typeof sweepRestSchema>;

const requestedJobs = z.object({
  queue: z.enum(QUEUE_NAMES),
  /** When a sweep sent the messages, in epoch seconds. */
  at: z.int().min(0),
  /** A short hash of each job. */
  jobs: z.array(z.string()).readonly(),
});

const unknownQueue = z.string().refine((name) => !QUEUE_NAMES.some((known) => known === name));

const schema = z.object({
  format: z.literal(1),
  /** The point at which the next sweep continues; absent if the last one looked at all logs. */
  rest: sweepRestSchema.optional(),
  /**
   * Jobs whose messages may still wait in a queue, without those of queues that only a newer
   * release has.
   */
  requested: z
    .array(z.union([requestedJobs, z.object({ queue: unknownQueue }).transform(() => undefined)]))
    .transform((requested) => requested.filter((each) => each !== undefined))
    .readonly()
    .optional(),
});

type StoredNote = z.infer<typeof schema>;

/** Jobs that a sweep sent to one queue. */
export type RequestedJobsNote = Readonly<z.infer<typeof requestedJobs>>;

/** A note from one sweep to the next. */
export type SweepNote = Readonly<Omit<StoredNote, 'format'>>;

const OBJECT = new JsonObject({
  key: SWEEP_KEY,
  schema,
  advice: 'Remove it: the next sweep then looks at all logs, and requests every due job again',
});

/**
 * @returns undefined if there is no note, or if the note is empty
 * @throws ObjectInvalidError if the note cannot be read
 */
export async function readSweepNote(blobs: BlobStore): Promise<SweepNote | undefined> {
  return toNote(await OBJECT.read(blobs));
}

/**
 * Writes a note for the next sweep. If another sweep has written a note since this sweep began, the
 * new note has the requested jobs of both. It has a rest only if both sweeps left one.
 * @param before the note that this sweep began with
 * @throws ObjectInvalidError if the current note cannot be read; nothing is written then
 */
export async function writeSweepNote(
  blobs: BlobStore,
  before: SweepNote | undefined,
  { rest, requested = [] }: SweepNote,
): Promise<void> {
  await OBJECT.update(blobs, (document) => {
    const present = toNote(document);
    const isMine = isDeepStrictEqual(present, before);
    const kept = isMine ? requested : [...(present?.requested ?? []), ...requested];
    const next: StoredNote = {
      format: 1,
      ...(rest !== undefined && (isMine || present?.rest !== undefined) && { rest }),
      ...(kept.length > 0 && { requested: kept }),
    };
    return isDeepStrictEqual(toNote(next), present) ? undefined : next;
  });
}

function toNote({ rest, requested }: Partial<StoredNote> = {}): SweepNote | undefined {
  return rest === undefined && requested === undefined ? undefined : { rest, requested };
}
