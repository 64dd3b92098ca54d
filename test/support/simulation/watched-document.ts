import type { Document } from '../../../src/client/document.ts';
import type { DocumentState } from '../../../src/client/document-state.ts';
import { ChunkMissingError, StoreUnavailableError } from '../../../src/errors.ts';
import { comparePositions, formatPosition, type Position } from '../../../src/ids/position.ts';
import { type Entry, RESERVED_TYPES } from '../../../src/log/entry.ts';
import type { Reducer } from '../../../src/state/reducer.ts';
import { type SheetEdit, sheetOf } from '../../../src/state/spreadsheet/reducer.ts';
import { readRectangle, sheetRows } from '../../../src/state/spreadsheet/sheet.ts';
import { SheetModel, trim } from '../models/sheet-model.ts';
import { versionedSheet } from '../models/versioned-sheet.ts';
import type { RecordedEntry } from '../stores/recorded-log-store.ts';
import { entriesBefore } from './log-truth.ts';
import type { World } from './world.ts';

/** Chunks that nobody needs any more stay for this time at least, in milliseconds. */
const KEPT_MS = 30 * 60_000;

/** A value that a cell takes only while it is empty. */
const CLAIM = 'claim';

/** The edit that claims a cell. */
export function claim(row: number, column: number, by: string): SheetEdit {
  return { type: 'Set', cells: [[row, column, `${CLAIM} ${by}`]] };
}

/** A sheet that rejects the claim of a cell that is not empty. The workers' reducer does not. */
export const CLAIMING: Reducer = {
  ...versionedSheet(1),
  fold: async (draft, entry) => {
    const [[row, column, value] = []] = Array.isArray(entry.body) ? (entry.body as readonly unknown[][]) : [];
    if (typeof row === 'number' && typeof column === 'number' && isClaim(value)) {
      const rectangle = { rows: { from: row, to: row + 1 }, columns: { from: column, to: column + 1 } };
      const [[present] = []] = await readRectangle(sheetOf(draft), rectangle);
      if (present !== null && present !== '') throw new TypeError('the cell is not empty');
    }
    await versionedSheet(1).fold(draft, entry);
  },
};

function isClaim(value: unknown): boolean {
  return typeof value === 'string' && value.startsWith(CLAIM);
}

/** An entry of the log or a pending one, as the plain fold needs it. */
type Folded = Pick<Entry, 'created' | 'once'>;

/** The entries that change a state. A Snapshot entry has the time of the entry after it. */
export function applicationEntries(entries: readonly RecordedEntry[]): Entry[] {
  return entries.map(({ entry }) => entry).filter(({ type }) => !RESERVED_TYPES.includes(type));
}

/** Folds entries with the plain model, each numbered mutation once. */
export function foldEdits(world: World, entries: readonly Folded[]): string[][] {
  const model = new SheetModel();
  const applied = new Map<string, number>();
  for (const { created, once } of entries) {
    const edit = world.edits.get(created);
    if (edit === undefined || (once !== undefined && once.mutation <= (applied.get(once.client) ?? 0))) continue;
    if (once !== undefined) applied.set(once.client, once.mutation);
    const [[row = 0, column = 0, value] = []] = edit.type === 'Set' ? edit.cells : [];
    if (isClaim(value) && (model.rows[row]?.[column] ?? '') !== '')
      throw new Error(`entry ${created} had to be rejected`);
    model.apply(edit);
  }
  return model.trimmed();
}

/** An older state, and the rows that it must keep. */
interface HeldState {
  readonly state: DocumentState;
  readonly rows: string;
  readonly untilMs: number;
}

/** Compares every change of a document with the plain fold of the log. */
export class WatchedDocument {
  readonly document: Document;
  readonly #world: World;
  readonly #quietly: <T>(read: () => Promise<T>) => Promise<T>;
  readonly #fail: (error: unknown) => void;
  readonly #held: HeldState[] = [];
  #shown: DocumentState;
  #entries: string;
  /** Number of Snapshot and End Segment entries when a pending entry was first shown. */
  #reservedBefore: ReadonlyMap<number, number> = new Map();
  #position: Position;
  /** When the document last knew the end of the log. */
  #readMs: number;
  #isClosed = false;

  /**
   * @param quietly runs reads without faults
   * @param fail ends the history
   */
  constructor(
    world: World,
    document: Document,
    {
      quietly,
      fail,
    }: { readonly quietly: <T>(read: () => Promise<T>) => Promise<T>; readonly fail: (error: unknown) => void },
  ) {
    this.#world = world;
    this.document = document;
    this.#quietly = quietly;
    this.#fail = fail;
    this.#shown = document.state;
    this.#entries = this.#folded();
    this.#position = document.position;
    this.#readMs = world.now();
    document.subscribe(() => this.#changed());
  }

  /** Notes that the document has just read the end of the log. */
  wasRead(): void {
    this.#readMs = this.#world.now();
  }

  close(): void {
    this.#isClosed = true;
    this.document.close();
  }

  /** Checks that nothing changed without a call of the listener. */
  afterStep(): void {
    if (this.#isClosed) return;
    const { state, position } = this.document;
    if (state !== this.#shown) throw new Error('the state changed without a call of a listener');
    if (comparePositions(position, this.#position) < 0) throw new Error('the position went back');
    this.#position = position;
  }

  /** Compares the current state with the plain fold of the entries before its position. */
  async check(): Promise<void> {
    // A closed document keeps its state, and forgets its pending entries.
    if (this.#isClosed) return;
    const { state } = this.document;
    const expected = JSON.stringify(foldEdits(this.#world, this.#included()));
    const what = `the state at ${formatPosition(this.document.position)} with ${this.document.pending.length} pending`;
    await this.#compare(state, expected, what);
  }

  /** Holds the current state, whose rows must stay the same. */
  hold(): void {
    const rows = JSON.stringify(foldEdits(this.#world, this.#included()));
    this.#held.push({ state: this.document.state, rows, untilMs: this.#readMs + KEPT_MS });
  }

  /** Reads a state that was held earlier. */
  async checkHeld(): Promise<void> {
    const held = this.#held.shift();
    if (held === undefined || held.untilMs < this.#world.now()) return;
    await this.#compare(held.state, held.rows, 'a state that was held');
  }

  #changed(): void {
    try {
      const { state } = this.document;
      if (this.#isClosed) throw new Error('a listener was called after the document was closed');
      if (state === this.#shown) throw new Error('a listener was called without a change of the state');
      this.#shown = state;
      const entries = this.#folded();
      // After a new Snapshot entry, pending entries are folded again at other places.
      const reserved = this.#reserved();
      const isMoved = this.#reservedBefore.values().some((count) => count !== reserved);
      if (entries === this.#entries && !isMoved) throw new Error('a listener was called without a new entry');
      this.#entries = entries;
      const pending = this.document.pending.map(({ entry: { created = 0 } }) => created);
      const counts = this.#reservedBefore;
      this.#reservedBefore = new Map(pending.map((created) => [created, counts.get(created) ?? reserved]));
    } catch (error) {
      return this.#fail(error);
    }
    this.check().catch(this.#fail);
  }

  async #compare(state: DocumentState, expected: string, what: string): Promise<void> {
    const asleep = this.#world.now() - this.#readMs > KEPT_MS;
    try {
      const rows = await this.#quietly(() => this.#rows(state));
      if (JSON.stringify(rows) !== expected) {
        throw new Error(`${what} is ${JSON.stringify(rows)}, not ${expected}`);
      }
    } catch (error) {
      // The chunks of a document that does not refresh may be collected.
      if (!(asleep && error instanceof ChunkMissingError)) throw error;
    }
  }

  /** Reads again if the document had requested the same chunk, and that request failed. */
  async #rows(state: DocumentState): Promise<string[][]> {
    for (;;) {
      try {
        return await rowsOf(state);
      } catch (error) {
        if (!(error instanceof StoreUnavailableError)) throw error;
      }
    }
  }

  /** The entries that the state includes. */
  #included(): Folded[] {
    const { log, position, pending } = this.document;
    const stored = applicationEntries(entriesBefore(this.#world, log, position));
    const added = pending.map(({ entry: { created = 0, once } }) => ({ created, once }));
    for (const { created } of added) {
      if (stored.some((entry) => entry.created === created)) throw new Error(`entry ${created} is shown twice`);
    }
    return [...stored, ...added];
  }

  /** Number of Snapshot and End Segment entries before the position. */
  #reserved(): number {
    const stored = entriesBefore(this.#world, this.document.log, this.document.position);
    return stored.length - applicationEntries(stored).length;
  }

  /** The entries that the state includes, and where it folds them. */
  #folded(): string {
    const { position, pending } = this.document;
    const places = applicationEntries(entriesBefore(this.#world, this.document.log, position)).map(
      (entry) => `${formatPosition(entry.position)}:${entry.created}`,
    );
    const next = pending.map(({ entry }, i) => {
      return `${formatPosition({ segment: position.segment, entry: position.entry + i })}:${entry.created}`;
    });
    return [...places, ...next].join(' ');
  }
}

/** The rows of a state as texts. */
export async function rowsOf(state: DocumentState): Promise<string[][]> {
  return trim(await Array.fromAsync(sheetRows(sheetOf(state.draft))));
}
