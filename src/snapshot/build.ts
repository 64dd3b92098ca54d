import type { ChunkStore } from '../codec/chunk.ts';
import { EntryGapError, EntryNotFoundError, HistoryGoneError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { comparePositions, type Position, START } from '../ids/position.ts';
import type { Entry, ReservedTypes } from '../log/entry.ts';
import { guardArchive } from '../log/guard.ts';
import { type SnapshotSearch, searchSnapshot } from '../log/last-snapshot.ts';
import { readEntries } from '../log/read-entries.ts';
import { mayLackEntries } from '../log/segment.ts';
import { Draft } from '../state/draft.ts';
import type { Reducer } from '../state/reducer.ts';
import { saveState, stateHash } from '../state/state.ts';
import type { NodeStoreCounts } from '../tree/node-store.ts';
import { type FoldWatch, foldEntries, saveWhenOver } from './fold.ts';
import {
  hasApplicationItems,
  hasSameLastItem,
  isSameForFold,
  type LastItem,
  lastItemHash,
  readLastItem,
  requireLastItem,
} from './last-item.ts';
import { isDamage, listProgress, loadProgress, type Progress } from './progress.ts';
import { otherReducer, type Root } from './root.ts';
import { loadRoot, nodeStore, type SnapshotStores } from './snapshots.ts';

export const BATCH_BYTES = 40_000_000;
/** Entries after which a build may stop. A page of small entries has thousands. */
const STEP_ENTRIES = 500;

export interface BuildDeps extends SnapshotStores {
  readonly reducer: Reducer;
  readonly types: ReservedTypes;
  /** The store of the chunks; the log's own store by default. */
  readonly chunks?: ChunkStore;
  /** The build writes chunks when its edits take this much memory, in bytes; 40 MB by default. */
  readonly batchBytes?: number | undefined;
  /** The most entries of a step, after which a build may stop; 500 by default. */
  readonly rangeEntries?: number | undefined;
  readonly onProgress?: (entries: number) => void;
  /** Limits the reducer's time per entry; no limit by default. */
  readonly watch?: FoldWatch | undefined;
}

export interface BuildOptions {
  readonly at: Position;
  /**
   * Start from this root, or fold the log from its beginning. By default the newest snapshot is the
   * base.
   */
  readonly only?: 'beginning' | Root;
  /** The result of {@link searchBase}, if the caller has it already. */
  readonly search?: SnapshotSearch | undefined;
  /** Called after each step, at least once. True ends the build there. */
  readonly shouldStop?: (() => boolean) | undefined;
  /** Called for each entry before it is folded. True ends the build at the entry's position. */
  readonly stopsBefore?: (entry: Entry) => boolean | Promise<boolean>;
  /**
   * Whether to continue from the progress of earlier builds if it is nearer than the newest
   * snapshot. The lookup costs a request. `if far` looks only if there is more than one step to
   * fold, since a build never stops before the end of its first step. Never by default.
   */
  readonly progress?: 'if far' | 'always';
}

export interface Built {
  /** The root at the requested position, or at an earlier one if the build stopped there. */
  readonly root: Root;
  /** The snapshot or progress that the build started from; undefined for the log's beginning. */
  readonly base: Position | undefined;
  /** Why the build could not start from the newest snapshot. */
  readonly rebuiltBecause?: string | undefined;
  /** The progress of earlier builds of this log; empty if the build did not look for it. */
  readonly progress: readonly Progress[];
  /** The progress that was nearer but could not be used. */
  readonly ignored: readonly IgnoredProgress[];
  /** Number of entries read. */
  readonly entries: number;
  readonly chunks: NodeStoreCounts;
}

export interface IgnoredProgress {
  readonly progress: Progress;
  readonly reason: string;
  /** False if another reducer may still use it. */
  readonly damaged: boolean;
}

/**
 * Builds the state at a position from the newest snapshot before it and the later entries, and
 * writes its chunks. Does not write the root: workers do, and a replay only compares it.
 * @throws HistoryGoneError if the fold needs entries that expired without an archive
 * @throws any error that stops a log, and any transient error
 */
export async function buildState(deps: BuildDeps, log: LogId, options: BuildOptions): Promise<Built> {
  // Read before the base is compared: then no change while the build reads goes unnoticed.
  const [before] = await Promise.allSettled([
    hasApplicationItems(deps, log) ? readLastItem(deps, log, options.at) : undefined,
  ]);
  const found = await findBase(deps, log, options);
  const from = found.root?.position ?? START;
  const looks = options.progress === 'always' || (options.progress === 'if far' && isFar(deps, from, options.at));
  const progress = looks ? await listProgress(deps.blobs, log) : [];
  const ignored: IgnoredProgress[] = [];
  const rest = { rebuiltBecause: found.unusable, progress, ignored };
  const explain = async (error: unknown): Promise<never> => {
    if (error instanceof EntryGapError) await requireHistory(deps, log, error, found.unusable);
    throw error;
  };
  const build = (base: Root | undefined): ReturnType<typeof buildFrom> =>
    buildFrom(deps, log, base, { ...options, before }).catch(explain);
  for (const nearer of progress) {
    if (comparePositions(nearer.reached, from) <= 0 || comparePositions(nearer.reached, options.at) > 0) continue;
    if (await isOfAnotherHistory(deps, nearer)) {
      ignored.push({ progress: nearer, reason: 'the snapshot that it was for is not in the log', damaged: true });
      continue;
    }
    try {
      const root = await loadProgress(deps, nearer);
      const reason = otherReducer(root, deps.reducer);
      if (reason !== undefined) {
        ignored.push({ progress: nearer, reason, damaged: false });
      } else if (await hasSameLastItem(deps, root)) {
        return { ...rest, ...(await build(root)) };
      } else {
        ignored.push({ progress: nearer, reason: 'the last entry before it has changed', damaged: true });
      }
    } catch (error) {
      // Progress is only a shortcut. Damage to it or to its chunks must not stop the log.
      if (!isDamage(error)) throw error;
      ignored.push({ progress: nearer, reason: error.message, damaged: true });
    }
  }
  if (found.root !== undefined) await requireLastItem(deps, found.root);
  return { ...rest, ...(await build(found.root)) };
}

/**
 * Checks whether a gap in a log is the result of expiry without an archive.
 * @throws HistoryGoneError if it is
 */
async function requireHistory(
  { store }: BuildDeps,
  log: LogId,
  gap: EntryGapError,
  unusable: string | undefined,
): Promise<void> {
  const number = gap.segment ?? 0;
  const segment = await store.getSegment(log, number, { consistent: true });
  if (segment === undefined || !mayLackEntries(segment)) return;
  const why = unusable ?? 'no nearer snapshot can be used';
  if (guardArchive(segment) !== undefined) {
    throw new HistoryGoneError(`${why}, and only another program's archive has all entries of segment ${number}`, {
      log,
      segment: number,
      entry: gap.entry,
      advice: "Put the missing entries back into the table with the other program, then run 'logfold resume LOG'",
      cause: gap,
    });
  }
  throw new HistoryGoneError(`${why}, and the entries of segment ${number} expired without an archive`, {
    log,
    segment: number,
    entry: gap.entry,
    advice:
      'Deploy the reducer that made the newest snapshot, or restore the table from a backup; archive segments before they expire',
    cause: gap,
  });
}

/**
 * Whether the progress belongs to an abandoned history: its entries may differ from the log's
 * present entries.
 */
async function isOfAnotherHistory({ store }: BuildDeps, { log, target, targetCreated }: Progress): Promise<boolean> {
  const entry = await store.getEntry(log, target, { consistent: true });
  return entry?.created !== targetCreated;
}

/** Whether there is more than one step to fold. */
function isFar(deps: BuildDeps, from: Position, at: Position): boolean {
  return from.segment !== at.segment || at.entry - from.entry > (deps.rangeEntries ?? STEP_ENTRIES);
}

async function buildFrom(
  deps: BuildDeps,
  log: LogId,
  base: Root | undefined,
  { at, shouldStop, stopsBefore, before }: BuildOptions & { readonly before: ReadBefore },
): Promise<Pick<Built, 'root' | 'base' | 'entries' | 'chunks'>> {
  const nodes = nodeStore(deps, log, deps.chunks);
  const draft = new Draft(nodes, base?.state);
  const { types } = deps;
  const from = base?.position ?? START;
  const source = { store: deps.store, types, rangeEntries: deps.rangeEntries };
  let reached = at;
  let lastFolded: Entry | undefined;
  async function* steps(): AsyncGenerator<readonly Entry[]> {
    for await (const step of inSteps(readEntries(source, log, { from, to: at }), deps.rangeEntries ?? STEP_ENTRIES)) {
      const stop = stopsBefore && (await findEntry(step, stopsBefore));
      const folded = stop === undefined ? step : step.slice(0, step.indexOf(stop));
      lastFolded = folded.findLast(({ type }) => !types.includes(type)) ?? lastFolded;
      if (stop !== undefined) {
        reached = stop.position;
        if (folded.length > 0) yield folded;
        return;
      }
      // The step is folded when the generator resumes.
      yield step;
      const last = step.at(-1);
      if (last === undefined || shouldStop?.() !== true) continue;
      reached = after(last, types);
      return;
    }
  }
  const entries = await foldEntries(draft, steps(), {
    reducer: deps.reducer,
    blobs: deps.blobs,
    types,
    onProgress: deps.onProgress,
    keepBounded: saveWhenOver(nodes, deps.batchBytes ?? BATCH_BYTES),
    watch: deps.watch,
  });
  const state = await draft.state({ savesEarly: true });
  await saveState(nodes, state);
  // The reducer must not have left behind work that the published state would miss.
  draft.use.check();
  draft.use.finish();
  const { name, version } = deps.reducer;
  const root: Root = {
    log,
    position: reached,
    reducer: { name, version },
    lastItem: await lastItemOf(deps, log, { at, reached, before, lastFolded }),
    mapping: deps.store.meaningOf?.(log)?.fingerprint(deps.platform),
    stateHash: stateHash(deps.platform, state),
    state,
  };
  return { root, base: base?.position, entries, chunks: nodes.counts };
}

/**
 * The last item before the position of a build, read before all others. An error matters only if
 * the fold succeeds: the fold names the first item that cannot be read.
 */
type ReadBefore = PromiseSettledResult<LastItem | undefined>;

interface FoldedEntries {
  readonly at: Position;
  readonly reached: Position;
  readonly before: ReadBefore;
  /** The last item that was folded; undefined if there is none since the base. */
  readonly lastFolded: Entry | undefined;
}

/**
 * The hash that a root states. In a scheduled log, it checks that the last item is as it was before
 * the build read. Otherwise the state may be a mixture of two lives of the log.
 * @throws EntryNotFoundError if it is another one; a retry compares the base again
 */
async function lastItemOf(
  deps: BuildDeps,
  log: LogId,
  { at, reached, before, lastFolded }: FoldedEntries,
): Promise<Uint8Array | undefined> {
  const isPart = comparePositions(reached, at) < 0;
  // In logfold's own schema a snapshot leaves with the entries of its log, and progress does not.
  if (!hasApplicationItems(deps, log)) return isPart ? lastItemHash(deps, log, reached) : undefined;
  if (before.status === 'rejected') throw before.reason;
  const known = before.value;
  const now = isPart || lastFolded === undefined ? await readLastItem(deps, log, at) : known;
  const last = isPart ? await readLastItem(deps, log, reached) : now;
  const isSame = (a: Entry | undefined, b: Entry | undefined): boolean =>
    a === undefined || b === undefined ? a === b : isSameForFold(a, b);
  if (isSame(known?.entry, now?.entry) && (lastFolded === undefined || isSame(last?.entry, lastFolded))) {
    return last?.hash;
  }
  throw new EntryNotFoundError('the application changed items while a build read them', { log, ...at });
}

async function* inSteps(pages: AsyncIterable<Entry[]>, most: number): AsyncGenerator<readonly Entry[]> {
  for await (const page of pages) {
    for (let from = 0; from < page.length; from += most) yield page.slice(from, from + most);
  }
}

/**
 * The newest snapshot strictly before a position if this reducer can continue from it, or the root
 * in `only`.
 */
async function findBase(
  deps: BuildDeps,
  log: LogId,
  { at, only, search }: Pick<BuildOptions, 'at' | 'only' | 'search'>,
): Promise<{ readonly root?: Root; readonly unusable?: string }> {
  if (only !== undefined) return only === 'beginning' ? {} : { root: only };
  const { snapshot: found } = search ?? (await searchBase(deps, log, at));
  if (found === undefined) return {};
  const root = await loadRoot(deps, { log, position: found.position }, found.root);
  const unusable = otherReducer(root, deps.reducer);
  return unusable === undefined ? { root } : { unusable };
}

/** Searches the newest snapshot strictly before a position. */
export function searchBase({ store }: Pick<BuildDeps, 'store'>, log: LogId, at: Position): Promise<SnapshotSearch> {
  return searchSnapshot(store, log, before(at));
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

/** The position after an entry. */
function after({ position, type }: Entry, types: ReservedTypes): Position {
  const { segment, entry } = position;
  return type === types.endSegment ? { segment: segment + 1, entry: 0 } : { segment, entry: entry + 1 };
}

/**
 * The last position before another. The last entry of a segment gets the largest possible number.
 */
function before({ segment, entry }: Position): Position {
  return entry > 0 ? { segment, entry: entry - 1 } : { segment: segment - 1, entry: Number.MAX_SAFE_INTEGER };
}
