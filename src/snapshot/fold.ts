import type { Value } from '../codec/value.ts';
import { LogfoldError, type Where } from '../errors.ts';
import { BodiesAhead, decodeEntryBody } from '../log/body.ts';
import type { Entry, ReservedTypes } from '../log/entry.ts';
import { openFile, type StoredFile } from '../log/file.ts';
import { copyMetadata } from '../log/metadata.ts';
import { applyMutation, type Draft } from '../state/draft.ts';
import type { DraftUse } from '../state/draft-use.ts';
import { foldFailure } from '../state/fold-failure.ts';
import type { FoldEntry, FoldFile, Reducer } from '../state/reducer.ts';
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
  /**
   * Lets timers and connections of the process do their work. Pages that were read ahead and
   * reducers that await nothing would keep the process from it.
   */
  pause(): Promise<void>;
}

/** Entries between two checks of the memory within a page, which may have 15,000 entries. */
const BOUNDED_ENTRIES = 500;

/**
 * The share of the memory that a draft may hold while a reducer reads a file: the reader of the
 * file needs the rest. A sorted build of 10 million cells wrote 2 % more chunks, and its process
 * took 347 MB instead of 434 MB.
 */
const FILE_SHARE = 1 / 4;

export interface FoldOptions {
  readonly reducer: Reducer;
  readonly blobs: BlobStore;
  readonly types: ReservedTypes;
  /** Called after each page with the number of entries folded so far. */
  readonly onProgress?: ((entries: number) => void) | undefined;
  /**
   * Called after each page, after each 500 entries of a page, after each external body and before
   * each slice of a file, so that a build can bound its memory.
   * @param share of the memory that a build may hold: less than 1 while a reducer reads a file
   */
  readonly keepBounded?: (draft: Draft, share: number) => Promise<void>;
  /** Limits the reducer's time per entry; no limit by default. */
  readonly watch?: FoldWatch | undefined;
}

/**
 * Folds pages of entries into a draft, in order. Snapshot and End Segment entries change no state,
 * and neither does an entry whose mutation, or a later one of its client, has been applied: the
 * reducer does not see it. The draft is closed afterwards: see {@link DraftUse}. It holds no late
 * values then.
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
      await foldPage(draft, page, options);
      count += page.length;
      use.check();
      options.onProgress?.(count);
      await options.watch?.pause();
    }
    // Here, so that a late value that fails counts as a failure of its entry.
    draft.evaluate();
    return count;
  };
  use.shut();
  try {
    return await (options.watch === undefined ? foldAll() : options.watch.watch(use, foldAll));
  } finally {
    use.shut();
  }
}

async function foldPage(draft: Draft, page: readonly Entry[], options: FoldOptions): Promise<void> {
  const { blobs, types, keepBounded } = options;
  const external = page.filter((entry) => entry.external !== undefined && !types.includes(entry.type));
  const bodies = new BodiesAhead(blobs, external);
  let unbounded = 0;
  for (const entry of page) {
    if (types.includes(entry.type)) continue;
    // Awaits even if there is no promise: an edit that a reducer left behind must not run within a
    // later entry, where it would take effect.
    await foldOne(draft, entry, bodies, options);
    draft.use.check();
    unbounded++;
    if (entry.external === undefined && entry.file === undefined && unbounded < BOUNDED_ENTRIES) continue;
    await keepBounded?.(draft, 1);
    unbounded = 0;
  }
  await keepBounded?.(draft, 1);
}

/**
 * Folds an entry. Returns a promise only for an entry with an external body, a file or a mutation,
 * or with a reducer that returns one: most entries have nothing to wait for, and a page has many.
 */
function foldOne(draft: Draft, entry: Entry, bodies: BodiesAhead, options: FoldOptions): Promise<void> | undefined {
  if ((entry.once ?? entry.external ?? entry.file) !== undefined) return foldLoaded(draft, entry, bodies, options);
  const where = placeOf(entry);
  let body: Value;
  try {
    body = decodeEntryBody(entry);
  } catch (error) {
    throw error instanceof LogfoldError ? error.at(where) : error;
  }
  return foldBody(draft, options.reducer, { entry, body, file: undefined, where });
}

async function foldLoaded(draft: Draft, entry: Entry, bodies: BodiesAhead, options: FoldOptions): Promise<void> {
  const where = placeOf(entry);
  let body: Value;
  let file: EntryFile | undefined;
  try {
    if (entry.once !== undefined && !(await applyMutation(draft, entry.once))) return bodies.skip(entry);
    body = await bodies.load(entry);
    if (entry.file !== undefined) file = new EntryFile(draft, await openFile(options.blobs, entry.file), options);
  } catch (error) {
    throw error instanceof LogfoldError ? error.at(where) : error;
  }
  await foldBody(draft, options.reducer, { entry, body, file, where });
}

interface LoadedEntry {
  readonly entry: Entry;
  readonly body: Value;
  readonly file: EntryFile | undefined;
  readonly where: Where;
}

function foldBody(draft: Draft, reducer: Reducer, loaded: LoadedEntry): Promise<void> | undefined {
  const { entry, body, file, where } = loaded;
  const seen = toFoldEntry(entry, body, file);
  draft.use.open(where);
  let folding: unknown;
  try {
    folding = reducer.fold(draft, seen);
  } catch (error) {
    throw failed(draft, reducer, where, error);
  }
  if (folding !== undefined || draft.hasUnchecked) return finish(draft, reducer, loaded, folding);
  draft.use.close();
  return undefined;
}

/** An entry with its decoded body and its file, as a reducer sees it. */
export function toFoldEntry(entry: Entry, body: Value, file: FoldFile | undefined): FoldEntry {
  const { log, position, number, created, milliseconds = 0, type, version, metadata } = entry;
  const createdMs = created * 1000 + milliseconds;
  // A copy: the entry may be folded again, and must not depend on a reducer that changes it.
  const copy = metadata && copyMetadata(metadata);
  return { log, position, number, created, createdMs, type, version, body, file, metadata: copy };
}

async function finish(draft: Draft, reducer: Reducer, { where, file }: LoadedEntry, folding: unknown): Promise<void> {
  try {
    await folding;
    await draft.checkEntry();
  } catch (error) {
    const failure = failed(draft, reducer, where, error);
    await file?.verify(where);
    throw failure;
  }
  draft.use.close();
  await file?.verify(where);
}

function placeOf({ log, position: { segment, entry }, type }: Entry): Where {
  return { log, segment, entry, type };
}

/** Ends the fold of an entry that failed, and returns the error to throw. */
function failed({ use }: Draft, reducer: Reducer, where: Where, thrown: unknown): LogfoldError {
  use.shut();
  return use.failure?.at(where) ?? foldFailure(`reducer '${reducer.name}'`, where, thrown);
}

/** The file of an entry that is being folded. */
class EntryFile implements FoldFile {
  readonly #draft: Draft;
  readonly #file: StoredFile;
  readonly #options: FoldOptions;

  constructor(draft: Draft, file: StoredFile, options: FoldOptions) {
    this.#draft = draft;
    this.#file = file;
    this.#options = options;
  }

  get size(): number {
    return this.#file.size;
  }

  get sha256(): string {
    return this.#file.sha256;
  }

  async *bytes(): AsyncGenerator<Uint8Array> {
    const { keepBounded, watch } = this.#options;
    const { use } = this.#draft;
    const slices = this.#file.bytes();
    try {
      for (;;) {
        const step = await use.run(async () => {
          await keepBounded?.(this.#draft, FILE_SHARE);
          await watch?.pause();
          return slices.next();
        });
        if (step.done === true) return;
        use.step();
        yield step.value;
      }
    } finally {
      await slices.return(undefined);
    }
  }

  /**
   * Checks the hash of a file that the reducer read in part. The state, or the error of the
   * reducer, may depend on any byte that it read.
   * @throws ExternalMissingError, ExternalCorruptError, with the place
   */
  async verify(where: Where): Promise<void> {
    try {
      await this.#file.verify();
    } catch (error) {
      throw error instanceof LogfoldError ? error.at(where) : error;
    }
  }
}

/** Writes a draft's chunks when its edits take more than a share of this many bytes of memory. */
export function saveWhenOver(store: NodeStore, bytes: number): (draft: Draft, share: number) => Promise<void> {
  return async (draft, share) => {
    if (draft.heldBytes > share * bytes) await saveState(store, await draft.state({ savesEarly: true }));
  };
}
