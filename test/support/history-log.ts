import { Document } from '../../src/client/document.ts';
import type { HistoryPlace, Revision } from '../../src/client/history.ts';
import { toHex } from '../../src/codec/bytes.ts';
import { encodeValue } from '../../src/codec/canonical.ts';
import type { Value } from '../../src/codec/value.ts';
import type { Position } from '../../src/ids/position.ts';
import { LogClient, type NewEntry } from '../../src/log/client.ts';
import type { EntryMetadata } from '../../src/log/entry.ts';
import { withHistory } from '../../src/state/history/with-history.ts';
import type { Reducer } from '../../src/state/reducer.ts';
import { SMALL_SHAPE } from './chunks.ts';
import { Random } from './models/random.ts';
import { SheetLog } from './sheet-log.ts';

/** A step of the pipeline. */
export type LogStep = 'snapshot' | 'segment' | 'flush' | 'archive';

/** An entry that a log has, for a model of its history. */
export interface MadeEntry {
  readonly position: Position;
  readonly created: number;
  readonly type: string;
  readonly body: Value;
  readonly metadata?: EntryMetadata;
}

/** A log that one reducer folds, with small nodes. */
export class HistoryLog {
  readonly sheet: SheetLog;
  readonly reducer: Reducer;
  readonly entries: MadeEntry[] = [];
  #snapshot: Position | undefined;
  #segment = 0;
  #archived = 0;

  private constructor(sheet: SheetLog, reducer: Reducer) {
    this.sheet = sheet;
    this.reducer = reducer;
  }

  static async create(reducer: Reducer): Promise<HistoryLog> {
    return new HistoryLog(await SheetLog.create({ shape: SMALL_SHAPE }), reducer);
  }

  /** Appends an entry. Times and metadata follow from the number of entries. */
  async append(entry: Pick<NewEntry, 'type' | 'once'> & { readonly body: Value }): Promise<Position> {
    this.sheet.nowMs += 7_000;
    const count = this.entries.length;
    const metadata = count % 3 === 0 ? undefined : { by: `user ${count % 5}` };
    const position = await this.sheet.append({ ...entry, version: 1, ...(metadata && { metadata }) });
    const created = Math.floor(this.sheet.nowMs / 1000);
    this.entries.push({ position, created, type: entry.type, body: entry.body, ...(metadata && { metadata }) });
    return position;
  }

  async take(step: LogStep): Promise<void> {
    const { sheet, reducer } = this;
    if (step === 'flush') {
      if (this.#snapshot !== undefined) await sheet.flush(this.#snapshot, { reducer });
    } else if (step === 'archive') {
      if (this.#archived < this.#segment) await this.#archive(this.#archived++);
    } else {
      // A segment starts after a complete snapshot.
      if (step === 'segment') await sheet.completed({ reducer });
      this.#snapshot = step === 'snapshot' ? await sheet.snapshot() : await sheet.segment();
      this.#segment = this.#snapshot.segment;
      await sheet.complete(this.#snapshot, { reducer });
    }
  }

  /** Archives a segment. Its entries leave the table. */
  async #archive(segment: number): Promise<void> {
    const { sheet } = this;
    await sheet.archive(segment, { reducer: this.reducer });
    const items = await sheet.items(segment);
    for (let from = 0; from < items.length; from += 25) {
      const entries = items.slice(from, from + 25).map((_, i) => from + i);
      await sheet.tables.deleteEntries(sheet.log, segment, entries);
    }
  }

  open(reducer: Reducer = this.reducer): Promise<Document> {
    const { sheet } = this;
    const random = new Random(7);
    const ports = { ...sheet.deps, random: () => random.next(), sleep: async () => undefined };
    const client = new LogClient({ ...ports, newLogId: () => sheet.log });
    return Document.open({ ...ports, client }, sheet.log, { reducer });
  }
}

/** A log whose reducer keeps its history, and an equal log whose reducer does not. */
export async function bothWays(reducer: Reducer): Promise<readonly [HistoryLog, HistoryLog]> {
  return [await HistoryLog.create(withHistory(reducer)), await HistoryLog.create(reducer)];
}

/** A change of a key, for a plain model. */
export interface ModelChange {
  readonly entry: MadeEntry;
  readonly value: Value | undefined;
}

/** The revisions that changes of a key must give. The last change of an entry counts. */
export function revisionsOf(changes: readonly ModelChange[]): Revision[] {
  const revisions: Revision[] = [];
  let before = textOf(undefined);
  for (const [i, { entry, value }] of changes.entries()) {
    if (changes[i + 1]?.entry === entry || textOf(value) === before) continue;
    before = textOf(value);
    revisions.push(revision(entry, revisions.length + 1, value));
  }
  return revisions;
}

export function revision(entry: MadeEntry, number: number, value: Value | undefined): Revision {
  const { position, created, metadata } = entry;
  return { number, position, created, ...(metadata && { metadata }), value };
}

function textOf(value: Value | undefined): string {
  return value === undefined ? '' : toHex(encodeValue(value));
}

export function historyOf(
  document: Document,
  place: HistoryPlace,
  options?: Parameters<Document['history']>[1],
): Promise<Revision[]> {
  return Array.fromAsync(document.history(place, options));
}
