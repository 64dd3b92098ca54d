import type { Value } from '../codec/value.ts';
import { UsageError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { comparePositions, type Position } from '../ids/position.ts';
import type { EntryMetadata } from '../log/entry.ts';
import type { LogReader } from '../log/log-store.ts';
import type { LoadDeps } from '../snapshot/load.ts';
import { nodeStore } from '../snapshot/snapshots.ts';
import { FrozenState } from '../state/frozen-state.ts';
import { type KeyChange, keptChanges, realChanges } from '../state/history/key-changes.ts';
import { keepsHistory } from '../state/history/with-history.ts';
import type { State } from '../state/state.ts';
import type { NodeStore } from '../tree/node-store.ts';
import { inAdvance, READ_AHEAD } from '../tree/read.ts';
import { type FoldedHistoryDeps, foldedChanges } from './folded-history.ts';
import { type HistoryPlace, keysOfPlace } from './history-place.ts';
import { checkOptionNames } from './options.ts';
import { loadPastState, type Moment } from './past-state.ts';

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
}

function checkOptions({ place, ...options }: HistoryRequest): void {
  checkOptionNames('history', options, ['at', 'limit'] satisfies (keyof HistoryOptions)[]);
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
  const { place, at, limit = Number.POSITIVE_INFINITY } = request;
  const { log, nodes, state, end } = at === undefined ? newestState : await pastSource(deps, newestState, at);
  const frozen = new FrozenState(nodes, state);
  const { keys, columnOf } = await keysOfPlace(place, frozen.draft, deps.reducer);
  const isKept = keepsHistory(deps.reducer);
  const recorded = isKept ? keptChanges(nodes, state, keys) : foldedChanges(deps, log, keys, end);
  const changes = realChanges(recorded);
  const found = newest(columnOf === undefined ? changes : ofRow(await Array.fromAsync(changes), columnOf), limit);
  yield* inAdvance(found, READ_AHEAD, (each) => complete(isKept ? deps.store : undefined, log, each));
}

async function pastSource(deps: LoadDeps, { log }: HistorySource, at: Moment): Promise<HistorySource> {
  const nodes = nodeStore(deps, log);
  const { content, position } = await loadPastState(deps, log, at, { nodes });
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

type ColumnOf = Awaited<ReturnType<typeof keysOfPlace>>['columnOf'];

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
