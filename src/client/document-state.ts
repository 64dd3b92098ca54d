import type { Value } from '../codec/value.ts';
import { UsageError } from '../errors.ts';
import { type FrozenMap, type FrozenMeta, FrozenState } from '../state/frozen-state.ts';
import type { Reducer, ReducerDraft } from '../state/reducer.ts';
import { sheetOf, spreadsheet } from '../state/spreadsheet/reducer.ts';
import { type Rectangle, readRectangle } from '../state/spreadsheet/sheet-rows.ts';
import type { State } from '../state/state.ts';
import type { NodeStore } from '../tree/node-store.ts';

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
   * The cells of a rectangle, row by row; null for an empty cell. Downloads the chunks that it
   * needs in parallel.
   * @throws UsageError if the state is no sheet, or the rectangle is outside of the sheet or larger
   * than 1,000,000 cells
   */
  async view(rectangle: Rectangle): Promise<Value[][]> {
    if (this.#reducer.name !== spreadsheet.name) {
      throw new UsageError(`the states of reducer '${this.#reducer.name}' are not sheets`, {
        advice: 'Read its maps with map(name)',
      });
    }
    return readRectangle(sheetOf(this.draft), rectangle);
  }
}
