import { FoldFailedError, LogfoldError } from '../errors.ts';
import { loadBody } from '../log/body.ts';
import type { Entry, ReservedTypes } from '../log/entry.ts';
import type { Value } from '../log/value.ts';
import type { Draft } from '../state/draft.ts';
import type { Reducer } from '../state/reducer.ts';
import { saveState } from '../state/state.ts';
import type { BlobStore } from '../store/blob-store.ts';
import type { NodeStore } from '../tree/node-store.ts';

export interface FoldOptions {
  readonly reducer: Reducer;
  readonly blobs: BlobStore;
  readonly types: ReservedTypes;
  /** Called after each page with the number of entries folded so far. */
  readonly onProgress?: ((entries: number) => void) | undefined;
  /** After each page, with nothing but the draft held: where a build keeps its memory bounded. */
  readonly afterPage?: ((draft: Draft) => Promise<void>) | undefined;
}

/**
 * Folds pages of entries into a draft, in order. Snapshot and End Segment entries change no state.
 * @returns how many entries were read
 * @throws whatever stops the log: an entry that cannot be decoded or folded, with its place in the error
 */
export async function foldEntries(
  draft: Draft,
  pages: AsyncIterable<readonly Entry[]>,
  options: FoldOptions,
): Promise<number> {
  let count = 0;
  for await (const page of pages) {
    const changes = page.filter(({ type }) => type !== options.types.snapshot && type !== options.types.endSegment);
    // All external bodies of a page are on their way at once; a page is at most 1 MB of the table.
    const bodies = changes.map((entry) => (entry.external === undefined ? undefined : loadBody(options.blobs, entry)));
    await Promise.allSettled(bodies);
    for (const [i, entry] of changes.entries()) {
      await foldOne(draft, options.reducer, entry, () => bodies[i] ?? loadBody(options.blobs, entry));
    }
    count += page.length;
    await options.afterPage?.(draft);
    options.onProgress?.(count);
  }
  return count;
}

async function foldOne(draft: Draft, reducer: Reducer, entry: Entry, loadBodyOf: () => Promise<Value>): Promise<void> {
  const { log, position, created, type, version } = entry;
  const where = { log, ...position, type };
  let body: Value;
  try {
    body = await loadBodyOf();
  } catch (error) {
    throw error instanceof LogfoldError ? error.at(where) : error;
  }
  try {
    await reducer.fold(draft, { position, created, type, version, body });
  } catch (error) {
    if (error instanceof LogfoldError) throw error.at(where);
    throw new FoldFailedError(`reducer '${reducer.name}' failed: ${String(error)}`, {
      ...where,
      advice: 'Correct the reducer, raise its version, and deploy it',
      cause: error,
    });
  }
}

/** Writes a draft's chunks out whenever its waiting edits take more than so many bytes. */
export function saveWhenOver(store: NodeStore, bytes: number): (draft: Draft) => Promise<void> {
  return async (draft) => {
    if (draft.heldBytes > bytes) await saveState(store, await draft.state({ savesEarly: true }));
  };
}
