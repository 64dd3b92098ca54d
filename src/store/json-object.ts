import type * as z from 'zod';
import { parseJson } from '../codec/json.ts';
import { ObjectInvalidError, textOf } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import type { BlobStore } from './blob-store.ts';

// The decoder removes a byte order mark, which editors may add.
const utf8 = new TextDecoder('utf-8', { fatal: true });

/**
 * A small JSON object that people may read, with its schema and the advice for a damaged object.
 * The schema ignores fields that it does not know, because a newer release may have written them.
 * Only a schema of settings refuses them.
 */
export interface JsonObject<T> {
  readonly key: string;
  /** The log of the object, if it belongs to one. */
  readonly log?: LogId;
  readonly schema: z.ZodType<T>;
  readonly advice: string;
  /** Spaces of indentation, for objects that people look at. */
  readonly indent?: number;
}

/**
 * Reads and checks a JSON object, in one request.
 * @returns undefined if there is no object
 * @throws ObjectInvalidError if the object does not match its schema
 */
export async function readJson<T>(blobs: Pick<BlobStore, 'get'>, object: JsonObject<T>): Promise<T | undefined> {
  return parseObject(object, await blobs.get(object.key));
}

/**
 * Changes a JSON object atomically: see `update` of the blob store for the calls of `change`.
 * @param change gets undefined if there is no object; returns undefined to leave the object as it
 * is
 * @throws ObjectInvalidError if the object does not match its schema; then nothing is written
 */
export async function updateJson<T>(
  blobs: BlobStore,
  object: JsonObject<T>,
  change: (document: T | undefined) => unknown,
): Promise<void> {
  await blobs.update(object.key, (bytes) => {
    const changed = change(parseObject(object, bytes));
    return changed === undefined ? undefined : formatJson(changed, object.indent);
  });
}

function parseObject<T>(object: JsonObject<T>, bytes: Uint8Array | undefined): T | undefined {
  const { key, log, schema, advice } = object;
  if (bytes === undefined) return undefined;
  const invalid = (reason: string, cause: unknown) =>
    new ObjectInvalidError(`the object '${key}' cannot be read: ${reason}`, { log, advice, cause });
  let json: unknown;
  try {
    json = parseJson(utf8.decode(bytes));
  } catch (cause) {
    throw invalid(`it is not JSON: ${textOf(cause)}`, cause);
  }
  const parsed = schema.safeParse(json);
  if (parsed.success) return parsed.data;
  throw invalid(parsed.error.issues.map(describeIssue).join('; '), parsed.error);
}

/** A violation of the schema as text. */
function describeIssue({ path, message }: z.core.$ZodIssue): string {
  const place = path.length === 0 ? 'it' : `'${path.map(String).join('.')}'`;
  return `${place} is wrong (${message})`;
}

/**
 * Writes a JSON object.
 * @param indent spaces of indentation, for objects that people look at
 */
export async function writeJson(blobs: BlobStore, key: string, document: unknown, indent = 0): Promise<void> {
  await blobs.put(key, formatJson(document, indent));
}

function formatJson(document: unknown, indent = 0): Uint8Array {
  return new TextEncoder().encode(`${JSON.stringify(document, undefined, indent)}\n`);
}
