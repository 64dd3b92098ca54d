import * as z from 'zod';
import { ObjectInvalidError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import { type BlobStore, findBlob } from '../../store/blob-store.ts';
import { JsonObject } from '../../store/json-object.ts';
import { collectedKey, condemnedKey } from '../../store/keys.ts';

/** Names of dropped roots, with the times when they were dropped. */
const dropped = z.array(z.tuple([z.string(), z.number()]));

const recordSchema = z.object({
  format: z.literal(1),
  /**
   * Keys of unreachable objects, with the start of the collection that condemned them, in epoch
   * milliseconds by the bucket's clock.
   */
  condemned: z.array(z.tuple([z.string(), z.number()])),
  /** Roots that were dropped less than a grace period ago. */
  dropped,
  /** The state of a collection whose time was up. */
  next: z
    .object({
      /** Its runs so far. */
      turn: z.int().min(1),
      /** Start of its first run, in epoch milliseconds by the bucket's clock. */
      since: z.number(),
      /** The last key that it judged: all keys up to this one were judged since then. */
      after: z.string(),
      /** Whether an earlier run found a reason for another collection. */
      again: z.boolean(),
    })
    .optional(),
});

/**
 * The record from one collection to the next: objects to remove, unless they are needed again by
 * then. An empty record only requests another collection.
 */
export type CollectionRecord = Readonly<Omit<z.infer<typeof recordSchema>, 'format'>>;

/** The state of a collection whose time was up. */
export type CollectionPlace = Readonly<NonNullable<CollectionRecord['next']>>;

/**
 * The keys that one run of a collection judged: those after `after` up to `to`. Undefined means no
 * limit.
 */
export interface JudgedKeys {
  readonly after: string | undefined;
  readonly to: string | undefined;
}

const collectedSchema = z.object({
  format: z.literal(1),
  /**
   * External bodies that were written before this time have been checked. Epoch milliseconds by the
   * bucket's clock.
   */
  bodies: z.number(),
  /** Roots that were dropped earlier. They stay dropped. */
  dropped,
});

/** Knowledge of a log that requests no further collection. */
export type CollectedNote = Readonly<Omit<z.infer<typeof collectedSchema>, 'format'>>;

export const NOTHING_CONDEMNED: CollectionRecord = { condemned: [], dropped: [] };

/** @throws ObjectInvalidError if the object cannot be read */
export async function readCondemned(blobs: BlobStore, log: LogId): Promise<CollectionRecord> {
  const record = await recordOf(log).read(blobs);
  return record ?? NOTHING_CONDEMNED;
}

/**
 * Writes the findings of one run of a collection. The record keeps its content for keys that this
 * run did not judge.
 * @param again whether the log needs another collection a grace period later, even if the record is
 * empty
 */
export async function writeCondemned(
  blobs: BlobStore,
  log: LogId,
  record: CollectionRecord,
  { judged, again }: { readonly judged: JudgedKeys; readonly again: boolean },
): Promise<void> {
  let isRequested = again;
  const isNeeded = (all: CollectionRecord): boolean =>
    isRequested || all.next !== undefined || all.condemned.length + all.dropped.length > 0;
  let merged = record;
  if (judged.after === undefined && judged.to === undefined) {
    if (isNeeded(record)) await recordOf(log).write(blobs, { format: 1, ...record });
  } else {
    await recordOf(log).update(blobs, (current) => {
      const others = (current?.condemned ?? []).filter(([key]) => !isJudged(key, judged));
      // Another job may have requested a collection during this run.
      isRequested ||= current?.next?.again === true;
      const next = record.next && { ...record.next, again: record.next.again || isRequested };
      merged = { ...record, next, condemned: [...others, ...record.condemned] };
      return isNeeded(merged) ? { format: 1, ...merged } : undefined;
    });
  }
  if (!isNeeded(merged)) await blobs.delete([condemnedKey(log)]);
}

/** Whether a run judged a key. Keys are ASCII, so strings compare in the order of listings. */
export function isJudged(key: string, { after, to }: JudgedKeys): boolean {
  return (after === undefined || key > after) && (to === undefined || key <= to);
}

/**
 * Makes the log a gc candidate, so that a sweep collects it after a grace period. If a collection
 * is between two runs, it has judged some keys already; it then requests another collection at its
 * end.
 */
export async function requestCollection(blobs: BlobStore, log: LogId): Promise<void> {
  await recordOf(log).update(blobs, (record) => {
    if (record === undefined) return { format: 1, ...NOTHING_CONDEMNED };
    const { next } = record;
    return next === undefined || next.again ? undefined : { ...record, next: { ...next, again: true } };
  });
}

/** All records of a log's collections. */
export interface CollectionRecords {
  readonly condemned: CollectionRecord;
  readonly collected: CollectedNote;
  /**
   * Names of all dropped roots, with the times when they were dropped, in epoch milliseconds by the
   * bucket's clock.
   */
  readonly dropped: ReadonlyMap<string, number>;
}

/** @throws ObjectInvalidError if an object cannot be read */
export async function readRecords(blobs: BlobStore, log: LogId): Promise<CollectionRecords> {
  // The order matters: a duplicate moves roots that were dropped a grace period ago from the first
  // to the second.
  const condemned = await readCondemned(blobs, log);
  const collected = await readCollected(blobs, log);
  return { condemned, collected, dropped: new Map([...collected.dropped, ...condemned.dropped]) };
}

/** @throws ObjectInvalidError if the object cannot be read */
export async function readCollected(blobs: BlobStore, log: LogId): Promise<CollectedNote> {
  const note = await collectedOf(log).read(blobs);
  return note ?? { bodies: 0, dropped: [] };
}

/**
 * Writes the note. A collection does this before it lists objects, to learn the time of the
 * bucket's clock.
 * @returns the time of the write, in epoch milliseconds by the bucket's clock
 */
export async function writeCollected(blobs: BlobStore, log: LogId, note: CollectedNote): Promise<number> {
  const object = collectedOf(log);
  await object.write(blobs, { format: 1, bodies: note.bodies, dropped: note.dropped });
  const written = await findBlob(blobs, object.key);
  if (written !== undefined) return written.modified;
  throw new ObjectInvalidError(`the object '${object.key}' was written but is not listed`, {
    log,
    advice: 'Try again. If this repeats, the bucket is not consistent and cannot be collected',
  });
}

function recordOf(log: LogId) {
  return noteOf(log, condemnedKey(log), recordSchema);
}

function collectedOf(log: LogId) {
  return noteOf(log, collectedKey(log), collectedSchema);
}

function noteOf<T>(log: LogId, key: string, schema: z.ZodType<T>): JsonObject<T> {
  // Both, because condemned bodies count as checked and would not be checked again.
  const advice = `Remove '${condemnedKey(log)}' and '${collectedKey(log)}'. The next collection then starts over and takes longer`;
  return new JsonObject({ key, log, schema, advice });
}
