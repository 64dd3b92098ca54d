import * as z from 'zod';
import type { BlobStore } from '../../store/blob-store.ts';
import { JsonObject } from '../../store/json-object.ts';
import { COMPARE_KEY } from '../../store/keys.ts';
import { isAtEnd, type ScanPlaces, scanPlaces } from '../../store/scan-places.ts';
import type { NotedLooks } from './first-looks.ts';

/** The rest of a comparison: the parts of the source table, and those of the logs. */
export interface CompareRest {
  readonly items: ScanPlaces;
  readonly logs: ScanPlaces;
}

/** A note from one run of comparisons to the next. */
export interface CompareNote {
  /** The point at which the last run stopped; undefined if the last comparison was complete. */
  readonly rest: (CompareRest & { /** When it began, in epoch seconds. */ readonly began: number }) | undefined;
  readonly looks: readonly NotedLooks[];
}

const schema = z.object({
  format: z.literal(1),
  /** Names the source table, its key and its logs. */
  source: z.string(),
  items: scanPlaces,
  logs: scanPlaces,
  began: z.int().min(0).optional(),
  looks: z.array(z.object({ at: z.int().min(0), again: z.boolean(), differences: z.array(z.string()) })).optional(),
});

type StoredNote = z.infer<typeof schema>;

const OBJECT = new JsonObject({
  key: COMPARE_KEY,
  schema,
  advice: 'Remove it: the next comparison then begins with the first item, and gaps are found a day later',
});

/**
 * The note of the last run.
 * @param source names the source table; the note of another one does not count
 * @throws ObjectInvalidError if the note cannot be read
 */
export async function readCompareNote(blobs: BlobStore, source: string): Promise<CompareNote> {
  const note = await OBJECT.read(blobs);
  if (note?.source !== source) return { rest: undefined, looks: [] };
  const { items, logs, began = 0, looks = [] } = note;
  return { rest: isComplete(note) ? undefined : { items, logs, began }, looks };
}

/**
 * Writes the note for the next run.
 * @throws ObjectInvalidError if the current note cannot be read; nothing is written then
 */
export async function writeCompareNote(blobs: BlobStore, source: string, { rest, looks }: CompareNote): Promise<void> {
  await OBJECT.update(blobs, (present): StoredNote | undefined => {
    if (rest === undefined && looks.length === 0 && present === undefined) return undefined;
    const { items, logs, began } = rest ?? { items: [], logs: [], began: undefined };
    return {
      ...{ format: 1, source, items: [...items], logs: [...logs], ...(began !== undefined && { began }) },
      ...(looks.length > 0 && { looks: looks.map((each) => ({ ...each, differences: [...each.differences] })) }),
    };
  });
}

/** Whether every part is at its end. */
export function isComplete({ items, logs }: CompareRest): boolean {
  return isAtEnd(items) && isAtEnd(logs);
}
