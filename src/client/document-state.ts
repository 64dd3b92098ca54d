import type { Value } from '../codec/value.ts';
import { EntryGapError, UsageError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import {
  checkPositionOrNumber,
  comparePositions,
  type Position,
  type PositionOrNumber,
  START,
} from '../ids/position.ts';
import { positionAtTime, resolvePosition } from '../log/find-position.ts';
import { assertPosition, type LogEnd, queryNewestSegments } from '../log/newest.ts';
import type { BadEntry } from '../snapshot/bad-entry.ts';
import { type LoadDeps, type LoadOptions, loadState } from '../snapshot/load.ts';
import { nodeStore } from '../snapshot/snapshots.ts';
import { type FrozenMap, type FrozenMeta, FrozenState } from '../state/frozen-state.ts';
import type { Reducer, ReducerDraft } from '../state/reducer.ts';
import type { Rectangle } from '../state/spreadsheet/sheet.ts';
import type { AxisChange, CellChange } from '../state/spreadsheet/sheet-diff.ts';
import { mayBeSheet, SHEET_MAPS } from '../state/spreadsheet/sheet-maps.ts';
import type { State } from '../state/state.ts';
import { diffStates, isSameContent, type MapChange, type MetaChange } from '../state/state-diff.ts';
import type { NodeStore } from '../tree/node-store.ts';

/**
 * One difference between two states: a name of the metadata record or a key of a map; for sheets
 * rows, columns or a cell.
 */
export type StateChange = MetaChange | MapChange | AxisChange | CellChange;

/**
 * The content of a document at one time. It never changes: the document moves on to another state,
 * and this one stays readable.
 */
export class DocumentState {
  #frozen: FrozenState;
  readonly #reducer: Reducer;

  constructor(nodes: NodeStore, state: State, reducer: Reducer) {
    this.#frozen = new FrozenState(nodes, state);
    this.#reducer = reducer;
  }

  /** Reads the content from other chunks from now on. `same` must have the same content. */
  static move(state: DocumentState, nodes: NodeStore, same: State): void {
    if (state.#frozen.state !== same) state.#frozen = new FrozenState(nodes, same);
  }

  /** Whether a state with other chunks has the same content; false if the store does not answer. */
  static isSame(state: DocumentState, nodes: NodeStore, other: State): Promise<boolean> {
    return isSameContent(state.#frozen, new FrozenState(nodes, other)).catch(() => false);
  }

  /** The stored form of the content. */
  get content(): State {
    return this.#frozen.state;
  }

  /** The metadata record of the state. */
  get meta(): FrozenMeta {
    return this.#frozen.meta;
  }

  /** The names of the maps with items, in ascending order of UTF-16 code units. */
  get mapNames(): readonly string[] {
    return this.#frozen.mapNames;
  }

  /** The map with a name, for reads by key and by range. A map without items is empty. */
  map(name: string): FrozenMap {
    return this.#frozen.map(name);
  }

  /** The state as a reducer sees it, for code that a reducer and its readers share. Read-only. */
  get draft(): ReducerDraft {
    return this.#frozen.draft;
  }

  /**
   * The differences between this state and another one, which is usually a later state of the same
   * log. Compares sheets by cell, and everything else by item. Skips what the states share without
   * downloading it, so requests and time grow with the difference. A flush between the states
   * counts as one: it writes chunks again, although it changes no content. Downloads the inner
   * nodes first, and the rest while the caller iterates.
   *
   * For the changes of sheets see {@link diffSheets}, for others {@link diffStates}.
   */
  async *diff(after: DocumentState): AsyncGenerator<StateChange, undefined> {
    const areSheets = [this, after].every((state) => mayBeSheet(state.content));
    if (!areSheets) return yield* diffStates(this.#frozen, after.#frozen);
    const { diffSheets } = await import('../state/spreadsheet/sheet-reads.ts');
    yield* diffSheets(this.#frozen, after.#frozen);
    return yield* diffStates(this.#frozen, after.#frozen, SHEET_MAPS);
  }

  /**
   * The cells of a rectangle, row by row; null for an empty cell. Downloads the chunks that it
   * needs in parallel. The reducer may be any that edits a sheet with `sheetOf`. A state without
   * maps is an empty sheet.
   * @throws UsageError if the state is not a sheet, or the rectangle is outside of the sheet or
   * larger than 1,000,000 cells
   */
  async view(rectangle: Rectangle): Promise<Value[][]> {
    if (!mayBeSheet(this.content)) {
      throw new UsageError(`the states of reducer '${this.#reducer.name}' are not sheets`, {
        advice: 'Read its maps with map(name)',
      });
    }
    const { readRectangle, sheetOf } = await import('../state/spreadsheet/sheet-reads.ts');
    return readRectangle(sheetOf(this.draft), rectangle);
  }
}

/**
 * A place in the past of a log. A position, and a number of an entry of the application, mean the
 * state before that entry. A time means the state after all entries up to that second: see
 * {@link positionAtTime}.
 */
export type Moment = PositionOrNumber | Date;

/** The content of a document at a moment. */
export class PastState extends DocumentState {
  /** The state folds all entries before this position. */
  readonly position: Position;
  /**
   * The count of the application's entries in the state. Undefined if the log's entries have no
   * numbers.
   */
  readonly number: number | undefined;
  /** The snapshot from which the state was loaded; undefined for the beginning of the log. */
  readonly snapshot: Position | undefined;
  /** The entry at {@link position}, if the load stopped there before the moment. */
  readonly badEntry: BadEntry | undefined;

  constructor(
    nodes: NodeStore,
    content: { readonly state: State; readonly reducer: Reducer },
    place: Pick<PastState, 'position' | 'number' | 'snapshot' | 'badEntry'>,
  ) {
    super(nodes, content.state, content.reducer);
    this.position = place.position;
    this.number = place.number;
    this.snapshot = place.snapshot;
    this.badEntry = place.badEntry;
  }
}

/**
 * The position of a moment. Takes no request if the moment is a position, which need not exist.
 * @param known an entry near the end of the log; it saves requests
 * @throws PositionInvalidError if it is an object that is neither a position nor a number
 * @throws UsageError if it is none of these and no valid date
 * @throws the errors of {@link resolvePosition} and {@link positionAtTime}
 */
export async function positionOfMoment(
  source: Pick<LoadDeps, 'store' | 'types'>,
  log: LogId,
  moment: Moment,
  known?: LogEnd,
): Promise<Position> {
  if (moment instanceof Date) {
    const seconds = Math.floor(moment.getTime() / 1000);
    if (!Number.isNaN(seconds)) return positionAtTime(source, log, seconds);
  }
  if (typeof moment !== 'object' || moment instanceof Date) {
    throw new UsageError('`moment` is neither a position nor a valid date', {
      log,
      advice: "Give { segment, entry }, { number }, or a date such as new Date('2024-01-31T08:00:00Z')",
    });
  }
  checkPositionOrNumber(moment, { log, name: 'moment' });
  return resolvePosition(source, log, moment, known);
}

interface PastStateOptions extends Pick<LoadOptions, 'nodes' | 'onBadEntry'> {
  /** As in {@link positionOfMoment}. */
  readonly known?: LogEnd | undefined;
}

/**
 * Loads the state of a log at a moment. Downloads chunks only when something reads them.
 * @throws LogNotFoundError if the log does not exist
 * @throws EntryNotFoundError if the log has no such position, or its entries have expired
 * @throws the errors of {@link positionOfMoment}, and any error that stops a log
 */
export async function loadPastState(
  deps: LoadDeps,
  log: LogId,
  moment: Moment,
  { nodes = nodeStore(deps, log), known, ...options }: PastStateOptions = {},
): Promise<PastState> {
  const position = await positionOfMoment(deps, log, moment, known);
  // The state before the first entry takes no read that shows whether the log exists.
  if (comparePositions(position, START) === 0) await queryNewestSegments(deps.store, log);
  try {
    const { draft, base, number, badEntry } = await loadState(deps, log, { ...options, at: position, nodes });
    const content = { state: await draft.state(), reducer: deps.reducer };
    return new PastState(nodes, content, {
      position: badEntry?.position ?? position,
      number,
      snapshot: base?.position,
      badEntry,
    });
  } catch (error) {
    // Beyond the end of the log, all entries are missing.
    if (error instanceof EntryGapError) await assertPosition(deps, log, position);
    throw error;
  }
}
