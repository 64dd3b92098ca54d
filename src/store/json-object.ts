import type * as z from 'zod';
import { ObjectInvalidError, textOf } from '../errors.ts';
import type { LogId } from '../log/log-id.ts';
import type { BlobStore } from './blob-store.ts';

// An editor may put a byte order mark before what a person writes; that is taken away.
const utf8 = new TextDecoder('utf-8', { fatal: true });

/** A small object that people may read too, and what to do where it is damaged. */
export interface JsonObject<T> {
  readonly key: string;
  /** Whose it is, where it is of one log. */
  readonly log?: LogId | undefined;
  readonly schema: z.ZodType<T>;
  readonly advice: string;
  /** Spaces, for objects that people are asked to look at. */
  readonly indent?: number | undefined;
}

/**
 * Reads and checks a JSON object, in one request.
 * @returns undefined where there is none
 * @throws ObjectInvalidError where it is not what its schema asks for
 */
export async function readJson<T>(blobs: BlobStore, object: JsonObject<T>): Promise<T | undefined> {
  return parseJson(object, await blobs.get(object.key));
}

/**
 * Changes a JSON object atomically: see `update` of the blob store for what `change` may meet.
 * @param change given undefined if there is no object; leaves the object as it is by returning undefined
 * @throws ObjectInvalidError if the object is not what its schema asks for; then nothing is written
 */
export async function updateJson<T>(
  blobs: BlobStore,
  object: JsonObject<T>,
  change: (document: T | undefined) => unknown,
): Promise<void> {
  await blobs.update(object.key, (bytes) => {
    const changed = change(parseJson(object, bytes));
    return changed === undefined ? undefined : formatJson(changed, object.indent);
  });
}

/** Writes a JSON object unless there is one of this key already. */
export async function createJson(blobs: BlobStore, key: string, document: unknown): Promise<void> {
  await blobs.update(key, (bytes) => (bytes === undefined ? formatJson(document) : undefined));
}

function parseJson<T>(object: JsonObject<T>, bytes: Uint8Array | undefined): T | undefined {
  const { key, log, schema, advice } = object;
  if (bytes === undefined) return undefined;
  try {
    return schema.parse(JSON.parse(utf8.decode(bytes)));
  } catch (cause) {
    throw new ObjectInvalidError(`the object '${key}' cannot be read: ${textOf(cause)}`, { log, advice, cause });
  }
}

/** @param indent spaces, for objects that people are asked to look at */
export async function writeJson(blobs: BlobStore, key: string, document: unknown, indent = 0): Promise<void> {
  await blobs.put(key, formatJson(document, indent));
}

function formatJson(document: unknown, indent = 0): Uint8Array {
  return new TextEncoder().encode(`${JSON.stringify(document, undefined, indent)}\n`);
}
