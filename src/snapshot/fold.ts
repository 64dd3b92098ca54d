import { FoldFailedError, LogfoldError } from '../errors.ts';
import { loadBody } from '../log/body.ts';
import type { Entry, ReservedTypes } from '../log/entry.ts';
import type { Value } from '../log/value.ts';
import type { Draft } from '../state/draft.ts';
import type { Reducer } from '../state/reducer.ts';
import { saveState } from '../state/state.ts';
import type { BlobStore } from '../store/blob-store.ts';
import type { NodeStore } from '../tree/node-store.ts';

/** External bodies that are held at once, on their way or there: each may be large. */
const BODIES_AHEAD = 16;

export interface FoldOptions {
  readonly reducer: Reducer;
  readonly blobs: BlobStore;
  readonly types: ReservedTypes;
  /** Called after each page with the number of entries folded so far. */
  readonly onProgress?: ((entries: number) => void) | undefined;
  /** After each page, and after each external body, which may leave edits as large: where a build keeps its memory bounded. */
  readonly keepBounded?: ((draft: Draft) => Promise<void>) | undefined;
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
    const bodyOf = loadsAhead(options.blobs, changes);
    for (const entry of changes) {
      await foldOne(draft, options.reducer, entry, bodyOf);
      if (entry.external !== undefined) await options.keepBounded?.(draft);
    }
    count += page.length;
    await options.keepBounded?.(draft);
    options.onProgress?.(count);
  }
  return count;
}

type LoadBody = (entry: Entry) => Promise<Value>;

/** Loads the bodies of entries that are asked for in order; the next few external ones are on their way by then. */
function loadsAhead(blobs: BlobStore, entries: readonly Entry[]): LoadBody {
  const external = entries.filter((entry) => entry.external !== undefined);
  const ahead = new Map<Entry, Promise<Value>>();
  let next = 0;
  return (entry) => {
    if (entry.external === undefined) return loadBody(blobs, entry);
    for (const each of external.slice(next, next + BODIES_AHEAD - ahead.size)) {
      const body = loadBody(blobs, each);
      // Awaited in its entry's turn: a failure before that must not count as unhandled.
      body.catch(() => undefined);
      ahead.set(each, body);
      next++;
    }
    const body = ahead.get(entry) ?? loadBody(blobs, entry);
    ahead.delete(entry);
    return body;
  };
}

async function foldOne(draft: Draft, reducer: Reducer, entry: Entry, bodyOf: LoadBody): Promise<void> {
  const { log, position, created, type, version } = entry;
  const where = { log, ...position, type };
  let body: Value;
  try {
    body = await bodyOf(entry);
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
