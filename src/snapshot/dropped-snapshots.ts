import { parseJson } from '../codec/json.ts';
import { CredentialsError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { formatPosition } from '../ids/position.ts';
import type { CompletedSnapshot } from '../log/entry.ts';
import type { BlobStore } from '../store/blob-store.ts';
import { collectedKey } from '../store/keys.ts';

/**
 * The snapshots of a log that garbage collection dropped: some of their chunks may be gone. A
 * collection names a snapshot at least a grace period before it removes a chunk.
 */
export class DroppedSnapshots {
  readonly #names: ReadonlySet<string>;

  private constructor(names: ReadonlySet<string>) {
    this.#names = names;
  }

  /**
   * Reads the note on the collections of a log, in one request.
   * @returns undefined if the note is damaged or this reader must not see it. Then only the
   * snapshots that are always kept are safe to read
   */
  static async read(blobs: BlobStore, log: LogId): Promise<DroppedSnapshots | undefined> {
    try {
      const bytes = await blobs.get(collectedKey(log));
      return new DroppedSnapshots(new Set(bytes && namesIn(parseJson(new TextDecoder().decode(bytes)))));
    } catch (error) {
      if (error instanceof CredentialsError || error instanceof SyntaxError) return undefined;
      throw error;
    }
  }

  /** Whether garbage collection dropped a snapshot. */
  has({ position, root }: CompletedSnapshot): boolean {
    return this.#names.has(formatPosition(position)) || ('key' in root && this.#names.has(root.key));
  }
}

// Pages do not load the library that checks the note for collections.
function namesIn(note: unknown): string[] {
  if (typeof note !== 'object' || note === null || !('dropped' in note) || !Array.isArray(note.dropped)) {
    throw new SyntaxError('the note names no dropped snapshots');
  }
  return note.dropped.map((each: unknown) => String(Array.isArray(each) ? each[0] : each));
}
