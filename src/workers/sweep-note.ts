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

const schema = z.strictObject({ format: z.literal(1), rest: sweepRestSchema });

/**
 * Where the next sweep goes on; undefined where the last one came to its end.
 * @throws ObjectInvalidError where the note cannot be read
 */
export async function readSweepNote(blobs: BlobStore): Promise<SweepRest | undefined> {
  const advice = 'Remove it: then the next sweep begins at the beginning';
  return (await readJson(blobs, { key: SWEEP_KEY, schema, advice }))?.rest;
}

/** Notes where the next sweep goes on, or takes the note away. */
export async function writeSweepNote(blobs: BlobStore, rest: SweepRest | undefined): Promise<void> {
  if (rest === undefined) await blobs.delete([SWEEP_KEY]);
  else await writeJson(blobs, SWEEP_KEY, { format: 1, rest });
}
