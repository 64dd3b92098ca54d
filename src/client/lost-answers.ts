import { toHex } from '../codec/bytes.ts';
import type { Position } from '../ids/position.ts';
import type { AddedEntries } from '../log/client.ts';
import type { Entry } from '../log/entry.ts';
import type { DraftedEntry } from './drafted-entry.ts';

/** Appended entries whose answer was lost, so that their writer recognizes them in the log. */
export class LostAnswers {
  /** By id, in hexadecimal; undefined until the log is known to have the entry. */
  readonly #positions = new Map<string, Position | undefined>();

  get isEmpty(): boolean {
    return this.#positions.size === 0;
  }

  add(entries: readonly DraftedEntry[]): void {
    for (const { id } of entries) this.#positions.set(toHex(id), undefined);
  }

  /** Takes notice of entries that were read from the log. */
  note(read: readonly Entry[]): void {
    if (this.isEmpty) return;
    for (const { id, position } of read) {
      const name = id && toHex(id);
      if (name !== undefined && this.#positions.has(name)) this.#positions.set(name, position);
    }
  }

  /** The places of entries that were appended together, if the log has them. Then forgets them. */
  take(entries: readonly DraftedEntry[]): AddedEntries | undefined {
    const [first, last] = [entries[0], entries.at(-1)].map((own) => own && this.#positions.get(toHex(own.id)));
    if (first === undefined || last === undefined) return undefined;
    this.forget(entries);
    return { first, last };
  }

  forget(entries: readonly DraftedEntry[]): void {
    for (const { id } of entries) this.#positions.delete(toHex(id));
  }
}
