import type { Value } from '../codec/value.ts';
import { FoldFailedError, isLogfoldError, LogfoldError, plainError, textOf, type Where } from '../errors.ts';
import { BodiesAhead } from '../log/bodies-ahead.ts';
import type { Entry, ReservedTypes } from '../log/entry.ts';
import type { Draft } from '../state/draft.ts';
import type { DraftUse } from '../state/draft-use.ts';
import { applyMutation } from '../state/mutations.ts';
import type { Reducer } from '../state/reducer.ts';
import { saveState } from '../state/state.ts';
import type { BlobStore } from '../store/blob-store.ts';
import type { NodeStore } from '../tree/node-store.ts';

/** Ends folds that take too long. A port, since this folder has no clock. */
export interface FoldWatch {
  /**
   * Runs work in which a reducer folds entries.
   * @throws FoldFailedError if the reducer takes too long for one entry, even if the work never
   * ends
   */
  watch<T>(use: DraftUse, work: () => Promise<T>): Promise<T>;
}

export interface FoldOptions {
  readonly reducer: Reducer;
  readonly blobs: BlobStore;
  readonly types: ReservedTypes;
  /** Called after each page with the number of entries folded so far. */
  readonly onProgress?: ((entries: number) => void) | undefined;
  /** Called after each page and after each external body, so that a build can bound its memory. */
  readonly keepBounded?: (draft: Draft) => Promise<void>;
  /** Limits the reducer's time per entry; no limit by default. */
  readonly watch?: FoldWatch | undefined;
}

/**
 * Folds pages of entries into a draft, in order. Snapshot and End Segment entries change no state,
 * and neither does an entry whose mutation, or a later one of its client, has been applied: the
 * reducer does not see it. The draft is closed afterwards: see {@link DraftUse}.
 * @returns number of entries read
 * @throws any error that stops a log: an entry that cannot be decoded or folded, with its place in
 * the error
 */
export async function foldEntries(
  draft: Draft,
  pages: AsyncIterable<readonly Entry[]>,
  options: FoldOptions,
): Promise<number> {
  const { use } = draft;
  const foldAll = async (): Promise<number> => {
    let count = 0;
    for await (const page of pages) {
      const changes = page.filter(({ type }) => type !== options.types.snapshot && type !== options.types.endSegment);
      const bodies = new BodiesAhead(options.blobs, changes);
      for (const entry of changes) {
        await foldOne(draft, options.reducer, entry, bodies);
        if (entry.external !== undefined) await options.keepBounded?.(draft);
      }
      count += page.length;
      await options.keepBounded?.(draft);
      use.check();
      options.onProgress?.(count);
    }
    return count;
  };
  use.shut();
  try {
    return await (options.watch === undefined ? foldAll() : options.watch.watch(use, foldAll));
  } finally {
    use.shut();
  }
}

async function foldOne(draft: Draft, reducer: Reducer, entry: Entry, bodies: BodiesAhead): Promise<void> {
  const { log, position, created, type, version } = entry;
  // A copy: the entry may be folded again, and must not depend on a reducer that changes it.
  const metadata = entry.metadata && structuredClone(entry.metadata);
  const where = { log, ...position, type };
  let body: Value;
  try {
    if (entry.once !== undefined && !(await applyMutation(draft, entry.once))) return bodies.skip(entry);
    body = await bodies.load(entry);
  } catch (error) {
    throw error instanceof LogfoldError ? error.at(where) : error;
  }
  const { use } = draft;
  use.open(where);
  try {
    await reducer.fold(draft, { position, created, type, version, body, metadata });
    await draft.checkEntry();
  } catch (error) {
    use.shut();
    throw use.failure?.at(where) ?? foldFailure(reducer, where, error);
  }
  use.close();
}

/** Turns a value that a reducer threw into an error that stops its log at the entry. */
function foldFailure(reducer: Reducer, where: Where, thrown: unknown): LogfoldError {
  try {
    if (isLogfoldError(thrown) && thrown.stopsLog === true && isText(thrown.code) && isText(thrown.reason)) {
      Object.assign(thrown, { log: undefined, segment: undefined, entry: undefined, type: undefined });
      return thrown.at(where);
    }
  } catch {
    // The value only resembles a LogfoldError.
  }
  return new FoldFailedError(`reducer '${reducer.name}' failed: ${textOf(thrown)}`, {
    ...where,
    advice: 'Correct the reducer, raise its version, and deploy it',
    cause: plainError(thrown),
    thrown,
  });
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

/** Writes a draft's chunks when its edits take more than this many bytes of memory. */
export function saveWhenOver(store: NodeStore, bytes: number): (draft: Draft) => Promise<void> {
  return async (draft) => {
    if (draft.heldBytes > bytes) await saveState(store, await draft.state({ savesEarly: true }));
  };
}
