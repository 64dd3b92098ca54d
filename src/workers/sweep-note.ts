import * as z from 'zod';
import { parseLogId } from '../log/log-id.ts';
import { MAX_NUMBER } from '../log/position.ts';
import type { BlobStore } from '../store/blob-store.ts';
import { readJson, writeJson } from '../store/json-object.ts';
import { SWEEP_KEY } from '../store/keys.ts';
import type { SweepRest } from './sweep.ts';

/** What a sweep left to be looked at, as a person or a note gives it back. */
export const sweepRestSchema = z.array(
  z.union([
    z.literal(['beginning', 'end']),
    z.strictObject({ log: z.uuid().transform(parseLogId), segment: z.int().min(0).max(MAX_NUMBER) }),
  ]),
);

const asked = z.strictObject({
  queue: z.enum(['snapshot', 'maintenance']),
  /** When a sweep sent the messages, in epoch seconds. */
  at: z.int().min(0),
  /** A short hash of each job. */
  jobs: z.array(z.string()),
});

const schema = z.strictObject({
  format: z.literal(1),
  rest: sweepRestSchema.optional(),
  asked: z.array(asked).optional(),
});

/** Jobs that a sweep sent to one queue. */
export type AskedNote = Readonly<z.infer<typeof asked>>;

/** What a sweep leaves for the next one. */
export interface SweepNote {
  /** Where the next sweep goes on; undefined if the last one looked at all logs. */
  readonly rest?: SweepRest | undefined;
  /** Jobs whose messages may still wait in a queue. */
  readonly asked?: readonly AskedNote[] | undefined;
}

/**
 * @returns undefined if there is no note
 * @throws ObjectInvalidError if the note cannot be read
 */
export async function readSweepNote(blobs: BlobStore): Promise<SweepNote | undefined> {
  const advice = 'Remove it: then the next sweep begins at the beginning, and asks again for all that is due';
  const note = await readJson(blobs, { key: SWEEP_KEY, schema, advice });
  return note && { rest: note.rest, asked: note.asked };
}

/** Writes a note for the next sweep, or removes the note if there is nothing to say. */
export async function writeSweepNote(blobs: BlobStore, { rest, asked = [] }: SweepNote): Promise<void> {
  if (rest === undefined && asked.length === 0) await blobs.delete([SWEEP_KEY]);
  else await writeJson(blobs, SWEEP_KEY, { format: 1, rest, asked: asked.length === 0 ? undefined : asked });
}
