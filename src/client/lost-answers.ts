import { toHex } from '../codec/bytes.ts';
import type { AddedEntries } from '../log/client.ts';
import type { Entry } from '../log/entry.ts';
import type { DraftedEntry } from '../log/new-entry.ts';
import type { LogEnd } from '../log/newest.ts';

/** Entries that were appended together, and the place of the first one after a read found it. */
interface LostAnswer {
  readonly count: number;
  readonly found: LogEnd | undefined;
}

/** Appends whose answer was lost, so that their writer recognizes their entries in the log. */
export class LostAnswers {
  /** By the id of the first entry, in hexadecimal. */
  readonly #answers = new Map<string, LostAnswer>();

  get isEmpty(): boolean {
    return this.#answers.size === 0;
  }

  add(entries: readonly DraftedEntry[]): void {
    const [first] = entries;
    if (first !== undefined) this.#answers.set(toHex(first.id), { count: entries.length, found: undefined });
  }

  /** Takes notice of entries that were read from the log. */
  note(read: readonly Entry[]): void {
    if (this.isEmpty) return;
    for (const { id, position, number } of read) {
      const name = id && toHex(id);
      const lost = name === undefined ? undefined : this.#answers.get(name);
      if (name !== undefined && lost !== undefined) this.#answers.set(name, { ...lost, found: { position, number } });
    }
  }

  /**
   * The places of entries that were appended together, if the log has them. Then forgets them.
   * @param first the first of them
   */
  take(first: DraftedEntry): AddedEntries | undefined {
    const lost = this.#answers.get(toHex(first.id));
    if (lost?.found === undefined) return undefined;
    this.forget(first);
    const { position, number } = lost.found;
    const last = { segment: position.segment, entry: position.entry + lost.count - 1 };
    return { first: position, last, ...(number !== undefined && { firstNumber: number }) };
  }

  /** @param first the first of the entries that were appended together */
  forget(first: DraftedEntry): void {
    this.#answers.delete(toHex(first.id));
  }
}
