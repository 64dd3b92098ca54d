import * as z from 'zod';
import type { BlobStore } from '../../store/blob-store.ts';
import { JsonObject } from '../../store/json-object.ts';
import { ADOPT_KEY } from '../../store/keys.ts';
import { isAtEnd, type ScanPlaces, scanPlaces } from '../../store/scan-places.ts';

const schema = z.object({
  format: z.literal(1),
  /** Names the table and its mapping. */
  source: z.string(),
  rest: scanPlaces,
});

type StoredNote = z.infer<typeof schema>;

const OBJECT = new JsonObject({
  key: ADOPT_KEY,
  schema,
  advice: 'Remove it: the next run then looks for logs in the whole table',
});

/**
 * The point at which a scan for logs stopped.
 * @param source names the table and its mapping; the note of another one does not count
 * @returns undefined if there is no such note: the last scan was complete
 * @throws ObjectInvalidError if the note cannot be read
 */
export async function readAdoptNote(blobs: BlobStore, source: string): Promise<ScanPlaces | undefined> {
  const note = await OBJECT.read(blobs);
  return note?.source === source && !isAtEnd(note.rest) ? note.rest : undefined;
}

/**
 * Notes the point at which a scan for logs stopped; undefined if it is complete.
 * @throws ObjectInvalidError if the current note cannot be read; nothing is written then
 */
export async function writeAdoptNote(blobs: BlobStore, source: string, rest: ScanPlaces | undefined): Promise<void> {
  await OBJECT.update(blobs, (present): StoredNote | undefined => {
    if (rest === undefined && present === undefined) return undefined;
    return { format: 1, source, rest: rest ?? [] };
  });
}
