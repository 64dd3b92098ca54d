import * as z from 'zod';
import type { BlobStore } from '../../store/blob-store.ts';
import { type JsonObject, readJson, updateJson } from '../../store/json-object.ts';
import { COMPARE_KEY } from '../../store/keys.ts';
import { isAtEnd, type ScanPlaces, scanPlaces } from '../../store/scan-places.ts';

/** The rest of a comparison: the parts of the source table, and those of the logs. */
export interface CompareRest {
  readonly items: ScanPlaces;
  readonly logs: ScanPlaces;
}

const schema = z.object({
  format: z.literal(1),
  /** Names the source table, its key and its logs. */
  source: z.string(),
  items: scanPlaces,
  logs: scanPlaces,
});

type Document = z.infer<typeof schema>;

const OBJECT: JsonObject<Document> = {
  key: COMPARE_KEY,
  schema,
  advice: 'Remove it: the next comparison then begins with the first item',
};

/**
 * The point at which a comparison stopped.
 * @param source names the source table; the note of another one does not count
 * @returns undefined if there is no such note: the last comparison was complete
 * @throws ObjectInvalidError if the note cannot be read
 */
export async function readCompareNote(blobs: BlobStore, source: string): Promise<CompareRest | undefined> {
  const note = await readJson(blobs, OBJECT);
  return note?.source === source && !isComplete(note) ? note : undefined;
}

/**
 * Notes the point at which a comparison stopped; undefined if it is complete.
 * @throws ObjectInvalidError if the present note cannot be read; nothing is written then
 */
export async function writeCompareNote(blobs: BlobStore, source: string, rest: CompareRest | undefined): Promise<void> {
  await updateJson(blobs, OBJECT, (present): Document | undefined => {
    if (rest === undefined && present === undefined) return undefined;
    const { items, logs } = rest ?? { items: [], logs: [] };
    return { format: 1, source, items: [...items], logs: [...logs] };
  });
}

/** Whether every part is at its end. */
export function isComplete({ items, logs }: CompareRest): boolean {
  return isAtEnd(items) && isAtEnd(logs);
}
