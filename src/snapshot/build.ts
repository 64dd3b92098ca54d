import type { ChunkStore } from '../codec/chunk.ts';
import { EntryGapError, HistoryGoneError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { comparePositions, type Position, START } from '../ids/position.ts';
import { checkTypes, type Entry, type ReservedTypes } from '../log/entry.ts';
import { RANGE_ENTRIES, readEntries } from '../log/read-entries.ts';
import { Draft } from '../state/draft.ts';
import type { Reducer } from '../state/reducer.ts';
import { saveState, stateHash } from '../state/state.ts';
import { NodeStore, type NodeStoreCounts } from '../tree/node-store.ts';
import { type FoldWatch, foldEntries, saveWhenOver } from './fold.ts';
import { isDamage, listProgress, loadProgress, type Progress } from './progress.ts';
import type { Root } from './root.ts';
import { chunkStore, findSnapshot, loadRoot, type SnapshotStores } from './snapshots.ts';

export const BATCH_BYTES = 40_000_000;

export interface BuildDeps extends SnapshotStores {
  readonly reducer: Reducer;
  readonly types?: ReservedTypes | undefined;
  /** Where chunks are read and written; the log's own by default. */
  readonly chunks?: ChunkStore | undefined;
  /** Waiting edits are written out as chunks once they take this much memory, in bytes; 40 MB by default. */
  readonly batchBytes?: number | undefined;
  /** Entries of one page: after each, a build may stop. 500 by default. */
  readonly rangeEntries?: number | undefined;
  readonly onProgress?: ((entries: number) => void) | undefined;
  /** Limits the time that the reducer may take for an entry; no limit by default. */
  readonly watch?: FoldWatch | undefined;
}

export interface BuildOptions {
  readonly at: Position;
  /** Passes every snapshot over, but for this one: nothing, to fold the log from its beginning, or a root. */
  readonly only?: 'beginning' | Root | undefined;
  /** Asked after each page of entries: true ends the build there. It is asked after the first one at the earliest. */
  readonly shouldStop?: (() => boolean) | undefined;
  /** Asked for each entry before it is folded: true ends the build at the entry's position. */
  readonly stopsBefore?: ((entry: Entry) => boolean | Promise<boolean>) | undefined;
  /**
   * Whether to go on from what stopped builds left behind, where that is nearer than the newest snapshot; looking for
   * it costs a request. `where far`: only where this build could stop itself, since a single page is always folded.
   * Never by default.
   */
  readonly progress?: 'where far' | 'always' | undefined;
}

export interface Built {
  /** The root at the position that was asked for, or before it, where the build stopped. */
  readonly root: Root;
  /** The snapshot, or the progress, it started from; undefined where it started from the log's beginning. */
  readonly base: Position | undefined;
  /** Why the newest snapshot could not be started from, where that is so. */
  readonly rebuiltBecause?: string | undefined;
  /** What stopped builds of this log left behind, as far as that was looked for. */
  readonly progress: readonly Progress[];
  /** What of it was nearer and yet of no use. */
  readonly ignored: readonly IgnoredProgress[];
  /** Entries read. */
  readonly entries: number;
  readonly chunks: NodeStoreCounts;
}

export interface IgnoredProgress {
  readonly progress: Progress;
  readonly reason: string;
  /** False where it may still be of use, to another reducer. */
  readonly damaged: boolean;
}

/**
 * Builds the state at a position from the newest snapshot before it and the entries since, and writes its chunks. The
 * root is not written: that is the worker's, or nobody's where a replay only compares.
 * @throws HistoryGoneError where it would have to start from entries that have left the table without an archive
 * @throws whatever stops a log, and whatever may pass
 */
export async function buildState(deps: BuildDeps, log: LogId, options: BuildOptions): Promise<Built> {
  const found = await findBase(deps, log, options);
  const from = found.root?.position ?? START;
  const looks = options.progress === 'always' || (options.progress === 'where far' && isFar(deps, from, options.at));
  const progress = looks ? await listProgress(deps.blobs, log) : [];
  const ignored: IgnoredProgress[] = [];
  const rest = { rebuiltBecause: found.unusable, progress, ignored };
  const build = (base: Root | undefined): ReturnType<typeof buildFrom> =>
    buildFrom(deps, log, base, options).catch(async (error: unknown) => {
      if (error instanceof EntryGapError) await requireHistory(deps, log, error, found.unusable);
      throw error;
    });
  for (const nearer of progress) {
    if (comparePositions(nearer.reached, from) <= 0 || comparePositions(nearer.reached, options.at) > 0) continue;
    if (await isOfAnotherHistory(deps, nearer)) {
      ignored.push({ progress: nearer, reason: 'the snapshot that it was for is not in the log', damaged: true });
      continue;
    }
    try {
      const root = await loadProgress(deps, nearer);
      const reason = otherReducer(root, deps.reducer);
      if (reason === undefined) return { ...rest, ...(await build(root)) };
      ignored.push({ progress: nearer, reason, damaged: false });
    } catch (error) {
      // It is only a shortcut: what is wrong with it, or with the chunks below it, must not stop the log.
      if (!isDamage(error)) throw error;
      ignored.push({ progress: nearer, reason: error.message, damaged: true });
    }
  }
  return { ...rest, ...(await build(found.root)) };
}

/**
 * Tells a gap that was made on purpose from one that must not be.
 * @throws HistoryGoneError where the missing entries have left the table without an archive
 */
async function requireHistory(
  { store }: BuildDeps,
  log: LogId,
  gap: EntryGapError,
  unusable: string | undefined,
): Promise<void> {
  const number = gap.segment ?? 0;
  const segment = await store.getSegment(log, number, { consistent: true });
  if (segment?.expires === undefined || segment.archive !== undefined) return;
  const why = unusable ?? 'no nearer snapshot can be gone on from';
  throw new HistoryGoneError(`${why}, and the entries of segment ${number} have left the table without an archive`, {
    log,
    segment: number,
    entry: gap.entry,
    advice:
      'Deploy the reducer that made the newest snapshot, or restore the table from a backup; archive segments before they expire',
    cause: gap,
  });
}

/** Whether entries that were folded may have been others than those that are in the log now. */
async function isOfAnotherHistory({ store }: BuildDeps, { log, target, asked }: Progress): Promise<boolean> {
  const entry = await store.getEntry(log, target, { consistent: true });
  return entry?.created !== asked;
}

/** Whether there is more to fold than one page, which is folded in any case. */
function isFar(deps: BuildDeps, from: Position, at: Position): boolean {
  return from.segment !== at.segment || at.entry - from.entry > (deps.rangeEntries ?? RANGE_ENTRIES);
}

async function buildFrom(
  deps: BuildDeps,
  log: LogId,
  base: Root | undefined,
  { at, shouldStop, stopsBefore }: BuildOptions,
): Promise<Pick<Built, 'root' | 'base' | 'entries' | 'chunks'>> {
  const nodes = new NodeStore(deps.chunks ?? chunkStore(deps.blobs, log), deps.platform, {
    ...deps.nodes,
    where: { log },
  });
  const draft = new Draft(nodes, base?.state);
  const types = checkTypes(deps.types);
  const from = base?.position ?? START;
  const source = { store: deps.store, types, rangeEntries: deps.rangeEntries };
  let reached = at;
  async function* pages(): AsyncGenerator<readonly Entry[]> {
    for await (const page of readEntries(source, log, { from, to: at })) {
      const stop = stopsBefore && (await findEntry(page, stopsBefore));
      if (stop !== undefined) {
        reached = stop.position;
        const rest = page.slice(0, page.indexOf(stop));
        if (rest.length > 0) yield rest;
        return;
      }
      // Goes on once the page is folded.
      yield page;
      const last = page.at(-1);
      if (last === undefined || shouldStop?.() !== true) continue;
      reached = after(last, types);
      return;
    }
  }
  const entries = await foldEntries(draft, pages(), {
    reducer: deps.reducer,
    blobs: deps.blobs,
    types,
    onProgress: deps.onProgress,
    keepBounded: saveWhenOver(nodes, deps.batchBytes ?? BATCH_BYTES),
    watch: deps.watch,
  });
  const state = await draft.state({ savesEarly: true });
  await saveState(nodes, state);
  // Nothing that the reducer left behind may be missing in what is published.
  draft.use.check();
  draft.use.finish();
  const { name, version } = deps.reducer;
  const root: Root = {
    log,
    position: reached,
    reducer: { name, version },
    stateHash: stateHash(deps.platform, state),
    state,
  };
  return { root, base: base?.position, entries, chunks: nodes.counts };
}

/** The newest snapshot strictly before a position whose state this reducer may go on from, or the only one allowed. */
async function findBase(
  deps: BuildDeps,
  log: LogId,
  { at, only }: Pick<BuildOptions, 'at' | 'only'>,
): Promise<{ readonly root?: Root; readonly unusable?: string }> {
  if (only !== undefined) return only === 'beginning' ? {} : { root: only };
  const found = await findSnapshot(deps.store, log, before(at));
  if (found === undefined) return {};
  const root = await loadRoot(deps, { log, position: found.position }, found.ref);
  const unusable = otherReducer(root, deps.reducer);
  return unusable === undefined ? { root } : { unusable };
}

/** Why a snapshot is of no use to a reducer; undefined where it is. */
export function otherReducer(root: Root, reducer: Reducer): string | undefined {
  if (root.reducer.name === reducer.name && root.reducer.version === reducer.version) return undefined;
  return `the snapshot was made by reducer ${root.reducer.name} ${root.reducer.version}, and this is ${reducer.name} ${reducer.version}`;
}

async function findEntry(
  page: readonly Entry[],
  matches: (entry: Entry) => boolean | Promise<boolean>,
): Promise<Entry | undefined> {
  for (const entry of page) {
    const answer = matches(entry);
    // Most answers need no request, and a log has many entries.
    if (answer === true || (answer !== false && (await answer))) return entry;
  }
  return undefined;
}

/** The position that follows an entry's. */
function after({ position, type }: Entry, types: ReservedTypes): Position {
  const { segment, entry } = position;
  return type === types.endSegment ? { segment: segment + 1, entry: 0 } : { segment, entry: entry + 1 };
}

/** The last position before another; a segment is taken to have no end. */
function before({ segment, entry }: Position): Position {
  return entry > 0 ? { segment, entry: entry - 1 } : { segment: segment - 1, entry: Number.MAX_SAFE_INTEGER };
}
