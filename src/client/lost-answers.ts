import { toHex } from '../codec/bytes.ts';
import {
  AppendUncertainError,
  AttemptsExhaustedError,
  DocumentStoppedError,
  isLogfoldError,
  StoreUnavailableError,
} from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import type { AddedEntries } from '../log/client.ts';
import type { Entry } from '../log/entry.ts';
import type { LogEnd } from '../log/newest.ts';
import type { BadEntry } from '../snapshot/bad-entry.ts';
import type { DraftedEntry } from './drafted-entry.ts';

/** Appended entries whose answer was lost, so that their writer recognizes them in the log. */
export class LostAnswers {
  /** By id, in hexadecimal; undefined until the log is known to have the entry. */
  readonly #places = new Map<string, LogEnd | undefined>();

  get isEmpty(): boolean {
    return this.#places.size === 0;
  }

  add(entries: readonly DraftedEntry[]): void {
    for (const { id } of entries) this.#places.set(toHex(id), undefined);
  }

  /** Takes notice of entries that were read from the log. */
  note(read: readonly Entry[]): void {
    if (this.isEmpty) return;
    for (const { id, position, number } of read) {
      const name = id && toHex(id);
      if (name !== undefined && this.#places.has(name)) this.#places.set(name, { position, number });
    }
  }

  /** The places of entries that were appended together, if the log has them. Then forgets them. */
  take(entries: readonly DraftedEntry[]): AddedEntries | undefined {
    const [first, last] = [entries[0], entries.at(-1)].map((own) => own && this.#places.get(toHex(own.id)));
    if (first === undefined || last === undefined) return undefined;
    this.forget(entries);
    const { position, number } = first;
    return { first: position, last: last.position, ...(number !== undefined && { firstNumber: number }) };
  }

  forget(entries: readonly DraftedEntry[]): void {
    for (const { id } of entries) this.#places.delete(toHex(id));
  }
}

/** Whether a failed append may have been carried out. */
export function isUncertain(error: unknown): boolean {
  return !isLogfoldError(error) || error instanceof StoreUnavailableError;
}

/** The error of an append whose answer was lost, if the log cannot be read either. */
export function appendUncertain(log: LogId, cause: unknown): AppendUncertainError {
  return new AppendUncertainError('no answer came, and the log cannot be read', {
    log,
    advice:
      'Refresh the document and look for the entry before you append it again, or append it with a client and a mutation, which apply once',
    cause,
  });
}

/** The error of an append to a document that has stopped at a bad entry. */
export function appendStopped(log: LogId, { position, error }: BadEntry): DocumentStoppedError {
  const advice =
    "Correct the reducer and raise its version, or repair the entry; then run 'logfold resume LOG' and open the log again";
  const details = { log, ...position, type: error.type, advice, cause: error };
  return new DocumentStoppedError(
    `nothing was appended: the document has stopped at an entry that cannot be folded (${error.code}: ${error.reason})`,
    details,
  );
}

/**
 * Whether sending an entry again cannot help: logfold, the code or the service refuses it. Other
 * errors, such as a lost connection, may pass.
 */
export function isFinal(error: unknown): boolean {
  const passing = [StoreUnavailableError, AppendUncertainError, AttemptsExhaustedError];
  if (isLogfoldError(error)) return !passing.some((type) => error instanceof type);
  if (error instanceof TypeError || error instanceof RangeError) return true;
  return error instanceof Error && error.name === 'ValidationException';
}
