import type { LogId } from '../ids/log-id.ts';
import { nextPosition, type Position, START } from '../ids/position.ts';
import type { CompletedSnapshot, Entry, ReservedTypes } from '../log/entry.ts';
import type { OnForeign } from '../log/guard.ts';
import { searchSnapshot } from '../log/last-snapshot.ts';
import { readTail } from '../log/query.ts';
import { type OpenRange, readEntries, readUpTo } from '../log/read-entries.ts';
import type { Segment } from '../log/segment.ts';
import { Draft } from '../state/draft.ts';
import type { Reducer } from '../state/reducer.ts';
import type { NodeStore } from '../tree/node-store.ts';
import { type BadEntry, checkOnBadEntry, type OnBadEntry, untilBadEntry } from './bad-entry.ts';
import { foldEntries } from './fold.ts';
import { requireLastItem } from './last-item.ts';
import { LookBack } from './look-back.ts';
import { isDamage } from './progress.ts';
import { otherReducer, type Root } from './root.ts';
import { loadRoot, nodeStore, type SnapshotStores } from './snapshots.ts';

export interface LoadDeps extends SnapshotStores {
  readonly reducer: Reducer;
  readonly types: ReservedTypes;
  /**
   * Called for what another program wrote where logfold writes, and what the load passed over. Each
   * load calls it again.
   */
  readonly onForeign?: OnForeign | undefined;
}

export interface LoadOptions {
  /** Load the state at this position; the end of the log by default. */
  readonly at?: Position | undefined;
  /** The log's nodes. By default the load makes a store. */
  readonly nodes?: NodeStore;
  /** Called before the first page, and each time that the load begins again elsewhere. */
  readonly onBegin?: () => void;
  /** Called for each page of entries, starting with the entry of the snapshot. */
  readonly onPage?: (page: readonly Entry[]) => void;
  /** Called with the newest segments, newest first, if the load reads the end of the log. */
  readonly onSegments?: ((segments: readonly Segment[]) => void) | undefined;
  /**
   * With `stop`, a load that meets an entry that cannot be decoded or folded gives the state
   * before it, and names it in {@link Loaded.badEntry}. Such a load takes twice the requests.
   * `throw` by default. Everything else that is wrong throws: chunks, gaps, stores that do not
   * answer.
   */
  readonly onBadEntry?: OnBadEntry | undefined;
}

export interface Loaded {
  readonly draft: Draft;
  /** The loaded snapshot; undefined if loading started from the log's beginning. */
  readonly base: CompletedSnapshot | undefined;
  /** The position after the last entry in the state. */
  readonly end: Position;
  /** The count of the application's entries in the state; undefined if they have no numbers. */
  readonly number: number | undefined;
  /** Number of entries folded on top of the snapshot. */
  readonly tailEntries: number;
  /** The entry at which the load stopped; only with `onBadEntry: 'stop'`. */
  readonly badEntry: BadEntry | undefined;
}

/** The snapshot from which a load starts, and the entries from there. */
interface Beginning {
  readonly base: CompletedSnapshot | undefined;
  readonly root: Root | undefined;
  readonly from: Position;
  readonly pages: AsyncIterable<Entry[]>;
  /** False if garbage collection may have dropped the snapshot. */
  readonly isKept: boolean;
}

type LoadedUpTo = Omit<Loaded, 'badEntry'>;

/**
 * Loads a state: the newest complete snapshot and the later entries, up to a position or the end of
 * the log. Writes nothing. Fetches only the parts of the snapshot that the entries and later reads
 * touch.
 *
 * With `at` it starts from the nearest snapshot before the position that is still stored, and reads
 * about twice the entries after it at most. If the fold finds that chunks of the snapshot are
 * gone, the load starts again from Last Snapshot of a segment.
 *
 * Without `at` it takes two queries, if the root is inline and the later entries fit into a page:
 * one for the segments, and one for the entries, the first of which carries the root. In a
 * scheduled log it takes one more, or two at the beginning of a segment: it reads the last item in
 * the snapshot again, while it folds the later ones.
 *
 * If another reducer or another version made the snapshot, it folds the log from its beginning.
 * @throws LogNotFoundError if the log does not exist
 * @throws SegmentWithoutSnapshotError if neither of the two newest segments has a snapshot
 * @throws SourceChangedError if the last item in the snapshot of a scheduled log has changed
 * @throws EntryGapError, and any error that stops a log
 * @throws UsageError if `onBadEntry` is another text
 */
export async function loadState(deps: LoadDeps, log: LogId, options: LoadOptions = {}): Promise<Loaded> {
  const { at = 'end', onBadEntry } = options;
  checkOnBadEntry(onBadEntry);
  const { loaded, badEntry } = await untilBadEntry(onBadEntry, at, (to) =>
    loadUpTo(deps, log, { ...options, at: to === 'end' ? undefined : to }),
  );
  return { ...loaded, badEntry };
}

async function loadUpTo(deps: LoadDeps, log: LogId, options: LoadOptions): Promise<LoadedUpTo> {
  const { at } = options;
  if (at === undefined) return loadFrom(deps, log, await newestBeginning(deps, log, options), options);
  const found = await beginningBefore(deps, log, at, 'nearest');
  try {
    return await loadFrom(deps, log, found, options);
  } catch (error) {
    // Last Snapshot is never dropped. The chunks of another one may be gone.
    if (found.isKept || !isDamage(error)) throw error;
    return loadFrom(deps, log, await beginningBefore(deps, log, at, 'last'), options);
  }
}

async function loadFrom(deps: LoadDeps, log: LogId, found: Beginning, options: LoadOptions): Promise<LoadedUpTo> {
  const { at, onBegin, onPage, nodes = nodeStore(deps, log) } = options;
  onBegin?.();
  const usable = found.root === undefined || otherReducer(found.root, deps.reducer) === undefined;
  const { base, root, from, pages } = usable ? found : logBeginning(deps, log, { to: at ?? 'end' });
  const draft = new Draft(nodes, root?.state);
  let end = from;
  let number = base === undefined ? 0 : base.number;
  async function* followed(): AsyncGenerator<Entry[]> {
    for await (const page of pages) {
      const last = page.at(-1);
      if (last !== undefined) {
        end = nextPosition(last.position);
        number = last.number;
      }
      onPage?.(page);
      yield page;
    }
  }
  const { reducer, blobs, types } = deps;
  const [unchanged, folded] = await Promise.allSettled([
    root === undefined ? undefined : requireLastItem(deps, root),
    foldEntries(draft, followed(), { reducer, blobs, types }),
  ]);
  // Items that changed may be the cause of a fold's error too.
  if (unchanged.status === 'rejected') throw unchanged.reason;
  if (folded.status === 'rejected') throw folded.reason;
  const tailEntries = folded.value;
  draft.use.release();
  return { draft, base, end, number, tailEntries };
}

function logBeginning(deps: LoadDeps, log: LogId, range: Omit<OpenRange, 'from'>): Beginning {
  const whole = { from: START, ...range };
  const pages = range.to === 'end' ? readUpTo(deps, log, whole) : readEntries(deps, log, whole);
  return { base: undefined, root: undefined, from: START, pages, isKept: true };
}

async function beginningBefore(
  deps: LoadDeps,
  log: LogId,
  at: Position,
  which: 'nearest' | 'last',
): Promise<Beginning> {
  const back = new LookBack(deps, log, at);
  const lookBack = which === 'last' ? undefined : (segment: Segment) => back.search(segment);
  const { snapshot: base, passedOver } = await searchSnapshot(deps.store, log, at, lookBack);
  for (const part of passedOver) deps.onForeign?.(part);
  const from = base?.position ?? START;
  const root = back.root ?? (base && (await loadRoot(deps, { log, position: base.position }, base.root)));
  return { base, root, from, pages: back.pages(from), isKept: back.root === undefined };
}

async function newestBeginning(deps: LoadDeps, log: LogId, { onSegments }: LoadOptions): Promise<Beginning> {
  const { snapshot: base, start: from, pages, passedOver, segments } = await readTail(deps, log);
  onSegments?.(segments);
  for (const part of passedOver) deps.onForeign?.(part);
  const root = base && (await loadRoot(deps, { log, position: base.position }, base.root));
  return { base, root, from, pages, isKept: true };
}
