import * as z from 'zod';
import type { BlobStore } from '../../store/blob-store.ts';
import { JsonObject } from '../../store/json-object.ts';
import { COMPARE_KEY } from '../../store/keys.ts';
import { isAtEnd, type ScanPlaces, scanPlaces } from '../../store/scan-places.ts';

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

/** Differences that were seen first at a time. */
const notedLooks = z.object({
  /** Epoch seconds. */
  at: z.int().min(0),
  /** Whether the current comparison has seen them again. */
  again: z.boolean(),
  /** A short hash of each. */
  differences: z.array(z.string()).readonly(),
});

export type NotedLooks = Readonly<z.infer<typeof notedLooks>>;

const schema = z.object({
  format: z.literal(1),
  /** Names the source table, its key and its logs. */
  source: z.string(),
  items: scanPlaces,
  logs: scanPlaces,
  began: z.int().min(0).optional(),
  looks: z.array(notedLooks).readonly().optional(),
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
      ...{ format: 1, source, items, logs, ...(began !== undefined && { began }) },
      ...(looks.length > 0 && { looks }),
    };
  });
}

/** Whether every part is at its end. */
export function isComplete({ items, logs }: CompareRest): boolean {
  return isAtEnd(items) && isAtEnd(logs);
}

/** The most differences in a note: their hashes take 15 MB. Later comparisons find the others. */
const MOST = 1_000_000;

/**
 * Remembers when comparisons first saw the differences that they still see. A difference that a
 * whole comparison did not see again is forgotten.
 */
export class FirstLooks {
  /** Differences that the current comparison has not seen yet, and those that it has seen. */
  readonly #before = new Map<string, number>();
  readonly #again = new Map<string, number>();

  constructor(noted: readonly NotedLooks[]) {
    for (const { at, again, differences } of noted) {
      for (const id of differences) (again ? this.#again : this.#before).set(id, at);
    }
  }

  /**
   * Sees a difference.
   * @param now epoch seconds
   * @returns the time at which it was seen first. A time in the future does not count: it is from a
   * wrong clock
   */
  see(id: string, now: number): number {
    const known = this.#again.get(id) ?? this.#before.get(id);
    const at = known === undefined || known > now ? now : known;
    this.forget(id);
    if (this.#before.size + this.#again.size < MOST) this.#again.set(id, at);
    return at;
  }

  /** Differences that the current comparison has seen. */
  get count(): number {
    return this.#again.size;
  }

  forget(id: string): void {
    this.#before.delete(id);
    this.#again.delete(id);
  }

  /** @param isOver whether the current comparison is complete, so that another one begins */
  note(isOver: boolean): NotedLooks[] {
    const seen = grouped(this.#again, !isOver);
    return isOver ? seen : [...grouped(this.#before, false), ...seen];
  }
}

function grouped(differences: ReadonlyMap<string, number>, again: boolean): NotedLooks[] {
  const groups = Map.groupBy(differences, ([, at]) => at);
  return Array.from(groups, ([at, all]) => ({ at, again, differences: all.map(([id]) => id) }));
}
