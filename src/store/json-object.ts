import type * as z from 'zod';
import { ObjectInvalidError } from '../errors.ts';
import type { LogId } from '../log/log-id.ts';
import type { BlobStore } from './blob-store.ts';

/** A small object that people may read too, and what to do where it is damaged. */
export interface JsonObject<T> {
  readonly key: string;
  /** Whose it is, where it is of one log. */
  readonly log?: LogId | undefined;
  readonly schema: z.ZodType<T>;
  readonly advice: string;
}

/**
 * Reads and checks a JSON object, in one request.
 * @returns undefined where there is none
 * @throws ObjectInvalidError where it is not what its schema asks for
 */
export async function readJson<T>(blobs: BlobStore, object: JsonObject<T>): Promise<T | undefined> {
  const { key, log, schema, advice } = object;
  const bytes = await blobs.get(key);
  if (bytes === undefined) return undefined;
  try {
    return schema.parse(JSON.parse(new TextDecoder().decode(bytes)));
  } catch (cause) {
    throw new ObjectInvalidError(`the object '${key}' cannot be read: ${String(cause)}`, { log, advice, cause });
  }
}

/** @param indent spaces, for objects that people are asked to look at */
export async function writeJson(blobs: BlobStore, key: string, document: unknown, indent = 0): Promise<void> {
  await blobs.put(key, new TextEncoder().encode(`${JSON.stringify(document, undefined, indent)}\n`));
}
