import { z } from 'zod';
import { ObjectInvalidError } from '../errors.ts';
import type { LogId } from '../log/log-id.ts';
import type { BlobStore } from '../store/blob-store.ts';
import { collectedKey, condemnedKey } from '../store/keys.ts';

const recordSchema = z.strictObject({
  format: z.literal(1),
  /** Objects that nothing reached, and when the collection began that condemned them, in epoch milliseconds by the bucket's clock. */
  condemned: z.array(z.tuple([z.string(), z.number()])),
  /** Roots that were no longer kept, and since when that is known. */
  dropped: z.array(z.tuple([z.string(), z.number()])),
});

/** What a collection leaves for the next one to remove, unless it is needed again by then. */
export type CollectionRecord = Readonly<Omit<z.infer<typeof recordSchema>, 'format'>>;

const collectedSchema = z.strictObject({
  format: z.literal(1),
  /** External bodies written before this moment have been looked at, in epoch milliseconds by the bucket's clock. */
  bodies: z.number(),
});

export const NOTHING_CONDEMNED: CollectionRecord = { condemned: [], dropped: [] };

/** @throws ObjectInvalidError where the object cannot be read */
export async function readCondemned(blobs: BlobStore, log: LogId): Promise<CollectionRecord> {
  const record = await readJson(blobs, { log, key: condemnedKey(log) }, recordSchema);
  return record ?? NOTHING_CONDEMNED;
}

export async function writeCondemned(blobs: BlobStore, log: LogId, record: CollectionRecord): Promise<void> {
  if (record.condemned.length + record.dropped.length === 0) await blobs.delete([condemnedKey(log)]);
  else await blobs.put(condemnedKey(log), encode({ format: 1, ...record }));
}

/** Up to when a log's external bodies have been looked at; 0 before the first collection. */
export async function readBodiesSeen(blobs: BlobStore, log: LogId): Promise<number> {
  return (await readJson(blobs, { log, key: collectedKey(log) }, collectedSchema))?.bodies ?? 0;
}

/**
 * Notes up to when a log's external bodies have been looked at.
 * @returns the moment of this, by the bucket's own clock, in epoch milliseconds: what is written before a collection
 * lists anything, tells it what time it is there
 */
export async function writeBodiesSeen(blobs: BlobStore, log: LogId, bodies: number): Promise<number> {
  await blobs.put(collectedKey(log), encode({ format: 1, bodies }));
  for await (const { key, modified } of blobs.list(collectedKey(log))) if (key === collectedKey(log)) return modified;
  throw new ObjectInvalidError(`the object '${collectedKey(log)}' was written and is not listed`, {
    log,
    advice: 'Try again; if that does not help, the bucket is not consistent and nothing can be collected in it',
  });
}

async function readJson<T>(
  blobs: BlobStore,
  { log, key }: { readonly log: LogId; readonly key: string },
  schema: z.ZodType<T>,
): Promise<T | undefined> {
  const bytes = await blobs.get(key);
  if (bytes === undefined) return undefined;
  try {
    return schema.parse(JSON.parse(new TextDecoder().decode(bytes)));
  } catch (cause) {
    throw new ObjectInvalidError(`the object '${key}' cannot be read`, {
      log,
      // Both, since bodies that were condemned have been looked at, and would not be again.
      advice: `Remove '${condemnedKey(log)}' and '${collectedKey(log)}': then collecting starts anew, and takes longer`,
      cause,
    });
  }
}

function encode(document: unknown): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(document));
}
