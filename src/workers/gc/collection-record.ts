import * as z from 'zod';
import { ObjectInvalidError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import { type BlobStore, findBlob } from '../../store/blob-store.ts';
import { type JsonObject, readJson, updateJson, writeJson } from '../../store/json-object.ts';
import { collectedKey, condemnedKey } from '../../store/keys.ts';

/** Roots that were no longer kept, by name, and since when that is known. */
const dropped = z.array(z.tuple([z.string(), z.number()]));

const recordSchema = z.strictObject({
  format: z.literal(1),
  /** Objects that nothing reached, and when the collection began that condemned them, in epoch milliseconds by the bucket's clock. */
  condemned: z.array(z.tuple([z.string(), z.number()])),
  /** Less than a grace period ago. */
  dropped,
  /** Where a collection goes on whose time was up. */
  next: z
    .strictObject({
      /** Turns that it had. */
      turn: z.int().min(1),
      /** When its first turn began, in epoch milliseconds by the bucket's clock. */
      since: z.number(),
      /** The last key that it judged: all keys up to this one were judged since then. */
      after: z.string(),
      /** Whether an earlier turn found a reason to collect the log once more. */
      again: z.boolean(),
    })
    .optional(),
});

/**
 * What a collection leaves for the next one to remove, unless it is needed again by then. It may be empty: that there is one
 * asks for a next collection.
 */
export type CollectionRecord = Readonly<Omit<z.infer<typeof recordSchema>, 'format'>>;

/** The place that a collection has reached whose time was up. */
export type CollectionPlace = Readonly<NonNullable<CollectionRecord['next']>>;

/** The keys that one turn of a collection judged: those behind `after` up to `to`. Without a limit, all on that side. */
export interface JudgedKeys {
  readonly after: string | undefined;
  readonly to: string | undefined;
}

const collectedSchema = z.strictObject({
  format: z.literal(1),
  /** External bodies written before this moment have been looked at, in epoch milliseconds by the bucket's clock. */
  bodies: z.number(),
  /** Longer ago: nothing is to be done about them, but to know that they were dropped. */
  dropped,
});

/** What collections know of a log, and what asks for no further one. */
export type CollectedNote = Readonly<Omit<z.infer<typeof collectedSchema>, 'format'>>;

export const NOTHING_CONDEMNED: CollectionRecord = { condemned: [], dropped: [] };

/** @throws ObjectInvalidError where the object cannot be read */
export async function readCondemned(blobs: BlobStore, log: LogId): Promise<CollectionRecord> {
  const record = await readJson(blobs, recordOf(log));
  return record ?? NOTHING_CONDEMNED;
}

/**
 * Writes what one turn of a collection found. Of keys that this turn did not judge, the record keeps what it says now.
 * @param again whether the log is to be collected once more a grace period later, though the record may be empty
 */
export async function writeCondemned(
  blobs: BlobStore,
  log: LogId,
  record: CollectionRecord,
  { judged, again }: { readonly judged: JudgedKeys; readonly again: boolean },
): Promise<void> {
  let isAsked = again;
  const isNeeded = (all: CollectionRecord): boolean =>
    isAsked || all.next !== undefined || all.condemned.length + all.dropped.length > 0;
  let merged = record;
  if (judged.after === undefined && judged.to === undefined) {
    if (isNeeded(record)) await writeJson(blobs, condemnedKey(log), { format: 1, ...record });
  } else {
    await updateJson(blobs, recordOf(log), (current) => {
      const others = (current?.condemned ?? []).filter(([key]) => !isJudged(key, judged));
      // Somebody may have asked for another collection while this turn worked.
      isAsked ||= current?.next?.again === true;
      const next = record.next && { ...record.next, again: record.next.again || isAsked };
      merged = { ...record, next, condemned: [...others, ...record.condemned] };
      return isNeeded(merged) ? { format: 1, ...merged } : undefined;
    });
  }
  if (!isNeeded(merged)) await blobs.delete([condemnedKey(log)]);
}

/** Whether a turn judged a key. Keys are ASCII, so texts compare as the bucket lists them. */
export function isJudged(key: string, { after, to }: JudgedKeys): boolean {
  return (after === undefined || key > after) && (to === undefined || key <= to);
}

/**
 * Sees to it that a sweep asks for a collection of a log, a grace period from now at the latest. A collection that is
 * between two turns has passed by some keys already, so it asks for another collection at its end.
 */
export async function requestCollection(blobs: BlobStore, log: LogId): Promise<void> {
  await updateJson(blobs, recordOf(log), (record) => {
    if (record === undefined) return { format: 1, ...NOTHING_CONDEMNED };
    const { next } = record;
    return next === undefined || next.again ? undefined : { ...record, next: { ...next, again: true } };
  });
}

/** All that collections of a log have left. */
export interface CollectionRecords {
  readonly condemned: CollectionRecord;
  readonly collected: CollectedNote;
  /** The names of all roots that are no longer kept, and since when, in epoch milliseconds by the bucket's clock. */
  readonly dropped: ReadonlyMap<string, number>;
}

/** @throws ObjectInvalidError where an object cannot be read */
export async function readRecords(blobs: BlobStore, log: LogId): Promise<CollectionRecords> {
  // In this order: a twin moves from there to here what was dropped a grace period ago.
  const condemned = await readCondemned(blobs, log);
  const collected = await readCollected(blobs, log);
  return { condemned, collected, dropped: new Map([...collected.dropped, ...condemned.dropped]) };
}

/** @throws ObjectInvalidError where the object cannot be read */
export async function readCollected(blobs: BlobStore, log: LogId): Promise<CollectedNote> {
  const note = await readJson(blobs, noteOf(log, collectedKey(log), collectedSchema));
  return note ?? { bodies: 0, dropped: [] };
}

/**
 * @returns the moment of this, by the bucket's own clock, in epoch milliseconds: what is written before a collection
 * lists anything, tells it what time it is there
 */
export async function writeCollected(blobs: BlobStore, log: LogId, note: CollectedNote): Promise<number> {
  const key = collectedKey(log);
  await writeJson(blobs, key, { format: 1, bodies: note.bodies, dropped: note.dropped });
  const written = await findBlob(blobs, key);
  if (written !== undefined) return written.modified;
  throw new ObjectInvalidError(`the object '${key}' was written and is not listed`, {
    log,
    advice: 'Try again; if that does not help, the bucket is not consistent and nothing can be collected in it',
  });
}

function recordOf(log: LogId): JsonObject<z.infer<typeof recordSchema>> {
  return noteOf(log, condemnedKey(log), recordSchema);
}

function noteOf<T>(log: LogId, key: string, schema: z.ZodType<T>): JsonObject<T> {
  // Both, since bodies that were condemned have been looked at, and would not be again.
  const advice = `Remove '${condemnedKey(log)}' and '${collectedKey(log)}': then collecting starts anew, and takes longer`;
  return { key, log, schema, advice };
}
