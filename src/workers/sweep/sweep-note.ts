import { isDeepStrictEqual } from 'node:util';
import * as z from 'zod';
import { parseLogId } from '../../ids/log-id.ts';
import { MAX_NUMBER } from '../../ids/position.ts';
import type { BlobStore } from '../../store/blob-store.ts';
import { type JsonObject, readJson, updateJson } from '../../store/json-object.ts';
import { SWEEP_KEY } from '../../store/keys.ts';
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

type Document = z.infer<typeof schema>;

/** Jobs that a sweep sent to one queue. */
export type RequestedJobsNote = Readonly<z.infer<typeof asked>>;

/** What a sweep leaves for the next one. */
export interface SweepNote {
  /** Where the next sweep goes on; undefined if the last one looked at all logs. */
  readonly rest?: SweepRest | undefined;
  /** Jobs whose messages may still wait in a queue. */
  readonly asked?: readonly RequestedJobsNote[] | undefined;
}

const OBJECT: JsonObject<Document> = {
  key: SWEEP_KEY,
  schema,
  advice: 'Remove it: then the next sweep begins at the beginning, and asks again for all that is due',
};

/**
 * @returns undefined if there is no note, or nothing in it
 * @throws ObjectInvalidError if the note cannot be read
 */
export async function readSweepNote(blobs: BlobStore): Promise<SweepNote | undefined> {
  return toNote(await readJson(blobs, OBJECT));
}

/**
 * Writes a note for the next sweep. If another sweep has written one since this sweep began, the note keeps what both
 * sent, and there is nothing to go on with if either of them looked at all logs.
 * @param before the note that this sweep began with
 * @throws ObjectInvalidError if the note that is there cannot be read; then nothing is written
 */
export async function writeSweepNote(
  blobs: BlobStore,
  before: SweepNote | undefined,
  { rest, asked = [] }: SweepNote,
): Promise<void> {
  await updateJson(blobs, OBJECT, (document) => {
    const present = toNote(document);
    const isMine = isDeepStrictEqual(present, before);
    const kept = isMine ? asked : [...(present?.asked ?? []), ...asked];
    const next: Document = {
      format: 1,
      ...(rest !== undefined && (isMine || present?.rest !== undefined) && { rest: [...rest] }),
      ...(kept.length > 0 && { asked: [...kept] }),
    };
    return isDeepStrictEqual(toNote(next), present) ? undefined : next;
  });
}

function toNote(document: Document | undefined): SweepNote | undefined {
  if (document?.rest === undefined && document?.asked === undefined) return undefined;
  return { rest: document.rest, asked: document.asked };
}
