import type { Value } from '../codec/value.ts';
import { UsageError } from '../errors.ts';
import { type FrozenMap, type FrozenMeta, FrozenState } from '../state/frozen-state.ts';
import type { Reducer, ReducerDraft } from '../state/reducer.ts';
import { foldsSheets, sheetOf } from '../state/spreadsheet/reducer.ts';
import { type AxisChange, type CellChange, diffSheets } from '../state/spreadsheet/sheet-diff.ts';
import { type Rectangle, readRectangle } from '../state/spreadsheet/sheet-rows.ts';
import type { State } from '../state/state.ts';
import { diffStates, type ItemChange, isSameContent, type MetaChange } from '../state/state-diff.ts';
import type { NodeStore } from '../tree/node-store.ts';

/**
 * One difference between two states: a name of the metadata record or a key of a map; for sheets
 * rows, columns or a cell.
 */
export type StateChange = MetaChange | ItemChange | AxisChange | CellChange;

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
   * log. Compares sheets by cell and other states by item. Skips what the states share without
   * downloading it, so requests and time grow with the difference. A flush between the states
   * counts as one: it writes chunks again, although it changes no content. Downloads the inner
   * nodes first, and the rest while the caller iterates.
   *
   * For the changes of sheets see {@link diffSheets}, for others {@link diffStates}.
   */
  diff(after: DocumentState): AsyncGenerator<StateChange, undefined> {
    const areSheets = [this, after].every((state) => foldsSheets(state.#reducer));
    return areSheets ? diffSheets(this.#frozen, after.#frozen) : diffStates(this.#frozen, after.#frozen);
  }

  /**
   * The cells of a rectangle, row by row; null for an empty cell. Downloads the chunks that it
   * needs in parallel.
   * @throws UsageError if the state is not a sheet, or the rectangle is outside of the sheet or
   * larger than 1,000,000 cells
   */
  async view(rectangle: Rectangle): Promise<Value[][]> {
    if (!foldsSheets(this.#reducer)) {
      throw new UsageError(`the states of reducer '${this.#reducer.name}' are not sheets`, {
        advice: 'Read its maps with map(name)',
      });
    }
    return readRectangle(sheetOf(this.draft), rectangle);
  }
}
