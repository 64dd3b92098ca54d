import type { Value } from '../codec/value.ts';
import { EntryGapError, HistoryGoneError, UsageError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { comparePositions, type Position, START } from '../ids/position.ts';
import { type EntryMetadata, rootOf } from '../log/entry.ts';
import type { LogReader } from '../log/log-store.ts';
import type { LogEnd } from '../log/newest.ts';
import { checkOptionNames } from '../log/option-names.ts';
import { readEntries } from '../log/read-entries.ts';
import { mayLackEntries } from '../log/segment.ts';
import { foldEntries } from '../snapshot/fold.ts';
import type { LoadDeps } from '../snapshot/load.ts';
import { otherReducer } from '../snapshot/root.ts';
import { loadRoot, nodeStore } from '../snapshot/snapshots.ts';
import { COLLECTION_ITEMS_MAP, collectionItemKey } from '../state/collections/collections.ts';
import { foldsCollections } from '../state/collections/reducer.ts';
import { Draft } from '../state/draft.ts';
import { FrozenState } from '../state/frozen-state.ts';
import {
  type HistoryKeys,
  type KeyChange,
  KeyRecorder,
  keptChanges,
  realChanges,
} from '../state/history/key-changes.ts';
import { keepsHistory, recordingFold } from '../state/history/with-history.ts';
import type { Reducer } from '../state/reducer.ts';
import { mayBeSheet } from '../state/spreadsheet/sheet-maps.ts';
import type { SheetKeys } from '../state/spreadsheet/sheet-reads.ts';
import type { State } from '../state/state.ts';
import type { Key } from '../tree/key.ts';
import type { NodeStore } from '../tree/node-store.ts';
import { inAdvance, READ_AHEAD } from '../tree/read.ts';
import { loadPastState, type Moment } from './document-state.ts';

/** One value that a place had. */
export interface Revision {
  /** The first value of the place has number 1, and the newest one the number of its revisions. */
  readonly number: number;
  /** The place of the entry that made the change. */
  readonly position: Position;
  /** Epoch seconds. */
  readonly created: number;
  /** The metadata of the entry. Absent if it has none, or if it expired and is in no archive. */
  readonly metadata?: EntryMetadata;
  /**
   * The value; undefined if the entry removed it. For a row, the cells that the entry changed, as
   * `[column, value]` in order of column: null stands for a cell that became empty.
   */
  readonly value: Value | undefined;
}

export interface HistoryOptions {
  /** The history as it was at a moment. By default up to the newest entry that was read. */
  readonly at?: Moment | undefined;
  /** Only the newest so many revisions, with the same numbers. All by default. */
  readonly limit?: number | undefined;
  /**
   * Called with the number of entries folded so far, again and again. Never called if the reducer
   * keeps its history: then nothing is folded.
   */
  readonly onProgress?: ((entries: number) => void) | undefined;
}

interface HistoryRequest extends HistoryOptions {
  readonly place: HistoryPlace;
}

/** The newest state of a log whose history is read. */
export interface HistorySource {
  readonly log: LogId;
  readonly nodes: NodeStore;
  readonly state: State;
  /** The state folds all entries before this position. */
  readonly end: Position;
  /** An entry near the end of the log; it saves requests. */
  readonly known?: LogEnd | undefined;
}

function checkOptions({ place, ...options }: HistoryRequest): void {
  checkOptionNames('history', options, ['at', 'limit', 'onProgress'] satisfies (keyof HistoryOptions)[]);
  const { limit } = options;
  if (limit !== undefined && !(Number.isSafeInteger(limit) && limit >= 1)) {
    throw new UsageError(`the limit ${limit} is not a whole number of at least 1`);
  }
  if (typeof place !== 'object' || place === null)
    throw new UsageError(`${String(place)} is not a place with a history`);
}

/**
 * The revisions of a place, oldest first. If the reducer keeps its history, reads the records of
 * the place, and each revision's entry for its metadata. Otherwise folds the log up to the state.
 */
export async function* readHistory(
  deps: FoldedHistoryDeps,
  newestState: HistorySource,
  request: HistoryRequest,
): AsyncGenerator<Revision> {
  checkOptions(request);
  const { place, at, limit = Number.POSITIVE_INFINITY, onProgress } = request;
  const { log, nodes, state, end } = at === undefined ? newestState : await pastSource(deps, newestState, at);
  const frozen = new FrozenState(nodes, state);
  const { keys, columnOf } = await keysOfPlace(place, frozen, deps.reducer);
  const isKept = keepsHistory(deps.reducer);
  const recorded = isKept ? keptChanges(nodes, state, keys) : foldedChanges({ ...deps, onProgress }, log, keys, end);
  const changes = realChanges(recorded);
  const found = newest(columnOf === undefined ? changes : ofRow(await Array.fromAsync(changes), columnOf), limit);
  yield* inAdvance(found, READ_AHEAD, (each) => complete(isKept ? deps.store : undefined, log, each));
}

async function pastSource(deps: LoadDeps, { log, known }: HistorySource, at: Moment): Promise<HistorySource> {
  const nodes = nodeStore(deps, log);
  const { content, position } = await loadPastState(deps, log, at, { nodes, known });
  return { log, nodes, state: content, end: position };
}

/** A revision whose value and metadata are not read yet. */
type Found = Pick<KeyChange, 'position' | 'created' | 'metadata' | 'value'>;
type Numbered = Found & Pick<Revision, 'number'>;

/** The changes of a row's cells, those of an entry as one. */
async function* ofRow(changes: readonly KeyChange[], columnOf: NonNullable<ColumnOf>): AsyncGenerator<Found> {
  const cells = changes.map((change) => ({ change, column: columnOf(change.key) }));
  cells.sort((a, b) => comparePositions(a.change.position, b.change.position) || a.column - b.column);
  const entries: (typeof cells)[] = [];
  for (const cell of cells) {
    const last = entries.at(-1);
    const isSame = last?.[0] !== undefined && comparePositions(last[0].change.position, cell.change.position) === 0;
    if (isSame) last?.push(cell);
    else entries.push([cell]);
  }
  for (const entry of entries) {
    const [first] = entry;
    if (first === undefined) continue;
    const { position, created, metadata } = first.change;
    const value = (): Promise<Value> =>
      Promise.all(entry.map(async ({ change, column }): Promise<Value> => [column, (await change.value()) ?? null]));
    yield { position, created, metadata, value };
  }
}

type ColumnOf = SheetKeys['columnOf'];

/** Numbers revisions, and leaves out all except the newest ones. */
async function* newest(revisions: AsyncIterable<Found>, limit: number): AsyncGenerator<Numbered> {
  const held: Numbered[] = [];
  let number = 0;
  for await (const revision of revisions) {
    const numbered = { ...revision, number: ++number };
    if (limit === Number.POSITIVE_INFINITY) yield numbered;
    else if (held.push(numbered) > limit) held.shift();
  }
  yield* held;
}

/** @param store reads the entry for its metadata; absent if the metadata is known */
async function complete(store: LogReader | undefined, log: LogId, found: Numbered): Promise<Revision> {
  const { number, position, created } = found;
  const [value, metadata] = await Promise.all([
    found.value(),
    store === undefined ? found.metadata : metadataAt(store, log, position),
  ]);
  return { number, position, created, ...(metadata !== undefined && { metadata }), value };
}

async function metadataAt(store: LogReader, log: LogId, position: Position): Promise<EntryMetadata | undefined> {
  const entry =
    (await store.getEntry(log, position, { consistent: false })) ??
    (await store.getEntry(log, position, { consistent: true }));
  return entry?.metadata;
}

/**
 * A place with a history: a key of a map; a cell or a row of a sheet, by position from 0; or an
 * item of a collection.
 */
export type HistoryPlace =
  | { readonly map: string; readonly key: Key }
  | { readonly row: number; readonly column: number }
  | { readonly row: number }
  | { readonly collection: string; readonly id: string };

/**
 * The keys of a place, as a state has them.
 * @throws UsageError if it is not a place, or if the state has neither sheets nor collections
 */
async function keysOfPlace(place: HistoryPlace, { state, draft }: FrozenState, reducer: Reducer): Promise<SheetKeys> {
  if ('map' in place && typeof place.map === 'string' && isKey(place.key)) return { keys: place };
  if ('collection' in place && typeof place.collection === 'string' && typeof place.id === 'string') {
    requireReducer('collections', foldsCollections(reducer), reducer);
    return { keys: { map: COLLECTION_ITEMS_MAP, key: collectionItemKey(place.collection, place.id) } };
  }
  const { isSheetPlace, keysInSheet, sheetOf } = await import('../state/spreadsheet/sheet-reads.ts');
  const [row, column] = 'row' in place ? [place.row, 'column' in place ? place.column : undefined] : [];
  if (row === undefined || !isSheetPlace(row, column))
    throw new UsageError('this place has no history', {
      advice: 'Give { map, key }, { row, column }, { row } or { collection, id }; rows and columns count from 0',
    });
  requireReducer('sheets', mayBeSheet(state), reducer);
  return keysInSheet(sheetOf(draft), row, column);
}

function requireReducer(kind: string, folds: boolean, { name }: Reducer): void {
  if (folds) return;
  throw new UsageError(`the states of reducer '${name}' are not ${kind}`, {
    advice: 'Give the place as a map and a key',
  });
}

function isKey(key: unknown): key is Key {
  return typeof key === 'string' || (typeof key === 'number' && Number.isSafeInteger(key) && key >= 0);
}

/** Unsaved nodes that a fold may hold before it goes on from a stored snapshot, in bytes. */
const HELD_BYTES = 64 * 1024 * 1024;

export interface FoldedHistoryDeps extends LoadDeps {
  /** 64 MiB by default. */
  readonly heldBytes?: number | undefined;
  readonly onProgress?: HistoryOptions['onProgress'];
}

/**
 * The changes of keys in a log whose reducer keeps no history, in order of key and position. Folds
 * all entries before a position. So that memory does not grow with the log, it goes on from Last
 * Snapshot of a segment if its own nodes take too much.
 * @throws HistoryGoneError if entries expired and are in no archive
 * @throws any error that stops a log
 */
export async function* foldedChanges(
  deps: FoldedHistoryDeps,
  log: LogId,
  keys: HistoryKeys,
  to: Position,
): AsyncGenerator<KeyChange> {
  const recorder = new KeyRecorder(keys);
  const { name, version } = deps.reducer;
  const reducer = { name, version, fold: recordingFold(deps.reducer, () => recorder) };
  const { blobs, types, heldBytes = HELD_BYTES } = deps;
  let folded = 0;
  const onProgress = (entries: number) => deps.onProgress?.(folded + entries);
  let draft = new Draft(nodeStore(deps, log));
  let from = START;
  try {
    for (const next of [...(await lastSnapshots(deps, log, to)), to]) {
      folded += await foldEntries(draft, readEntries(deps, log, { from, to: next }), {
        reducer,
        blobs,
        types,
        onProgress,
      });
      from = next;
      if (next !== to && draft.heldBytes > heldBytes) draft = (await storedDraft(deps, log, next)) ?? draft;
    }
  } catch (error) {
    throw error instanceof EntryGapError ? await gone(deps, log, error) : error;
  }
  yield* recorder.changes();
}

/** The Last Snapshot of each segment before a position, in order. */
async function lastSnapshots({ store }: LoadDeps, log: LogId, to: Position): Promise<Position[]> {
  const positions: Position[] = [];
  for await (const { lastSnapshot } of store.segments(log)) {
    const position = lastSnapshot?.position;
    const isAhead = position !== undefined && comparePositions(START, position) < 0;
    if (isAhead && comparePositions(position, to) < 0) positions.push(position);
  }
  return positions;
}

/** A draft of the snapshot at a position; undefined if the reducer cannot go on from there. */
async function storedDraft(deps: LoadDeps, log: LogId, position: Position): Promise<Draft | undefined> {
  const entry = await deps.store.getEntry(log, position, { consistent: true });
  const ref = entry && rootOf(entry);
  if (ref === undefined) return undefined;
  const root = await loadRoot(deps, { log, position }, ref);
  return otherReducer(root, deps.reducer) === undefined ? new Draft(nodeStore(deps, log), root.state) : undefined;
}

async function gone({ store }: LoadDeps, log: LogId, gap: EntryGapError): Promise<Error> {
  const number = gap.segment ?? 0;
  const segment = await store.getSegment(log, number, { consistent: true });
  if (segment === undefined || !mayLackEntries(segment)) return gap;
  return new HistoryGoneError(
    `the reducer keeps no history, and the entries of segment ${number} expired without an archive`,
    {
      log,
      segment: number,
      entry: gap.entry,
      advice: 'Fold logs with withHistory(reducer) before their entries expire, or archive segments first',
      cause: gap,
    },
  );
}
