import type * as z from 'zod';
import { parseJson } from '../codec/json.ts';
import { ObjectInvalidError, textOf } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import type { BlobStore } from './blob-store.ts';

// The decoder removes a byte order mark, which editors may add.
const utf8 = new TextDecoder('utf-8', { fatal: true });

interface JsonObjectOptions<T> {
  readonly key: string;
  /** The log of the object, if it belongs to one. */
  readonly log?: LogId;
  readonly schema: z.ZodType<T>;
  readonly advice: string;
  /** Spaces of indentation, for objects that people look at. */
  readonly indent?: number;
}

/**
 * A small JSON object that people may read, with its schema and the advice for a damaged object.
 * The schema ignores fields that it does not know, because a newer release may have written them.
 * Only a schema of settings refuses them.
 */
export class JsonObject<T> {
  readonly key: string;
  readonly #options: JsonObjectOptions<T>;

  constructor(options: JsonObjectOptions<T>) {
    this.key = options.key;
    this.#options = options;
  }

  /**
   * Reads and checks the object, in one request.
   * @returns undefined if there is no object
   * @throws ObjectInvalidError if the object does not match its schema
   */
  async read(blobs: Pick<BlobStore, 'get'>): Promise<T | undefined> {
    return this.#parse(await blobs.get(this.key));
  }

  /** Writes the object, whatever it was. */
  async write(blobs: BlobStore, document: T): Promise<void> {
    await blobs.put(this.key, this.#format(document));
  }

  /**
   * Changes the object atomically: see `update` of the blob store for the calls of `change`.
   * @param change gets undefined if there is no object; returns undefined to leave the object as it
   * is
   * @throws ObjectInvalidError if the object does not match its schema; then nothing is written
   */
  async update(blobs: BlobStore, change: (document: T | undefined) => unknown): Promise<void> {
    await blobs.update(this.key, (bytes) => {
      const changed = change(this.#parse(bytes));
      return changed === undefined ? undefined : this.#format(changed);
    });
  }

  #parse(bytes: Uint8Array | undefined): T | undefined {
    if (bytes === undefined) return undefined;
    const { key, log, schema, advice } = this.#options;
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

  #format(document: unknown): Uint8Array {
    return new TextEncoder().encode(`${JSON.stringify(document, undefined, this.#options.indent ?? 0)}\n`);
  }
}

/** A violation of the schema as text. */
function describeIssue({ path, message }: z.core.$ZodIssue): string {
  const place = path.length === 0 ? 'it' : `'${path.map(String).join('.')}'`;
  return `${place} is wrong (${message})`;
}
