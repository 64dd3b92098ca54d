import { EntryTypeUnknownError, EntryVersionUnknownError } from '../errors.ts';
import type { Position } from '../log/position.ts';
import type { Value } from '../log/value.ts';
import type { Draft } from './draft.ts';

/** An entry as a reducer sees it: its body is decoded, wherever it lay. */
export interface FoldEntry {
  readonly position: Position;
  /** Epoch seconds. */
  readonly created: number;
  readonly type: string;
  readonly version: number;
  readonly body: Value;
}

/**
 * Folds entries into state. It must be deterministic: no clock, no randomness, nothing read but the draft and the
 * entry. An error that it throws stops the log at that entry, and so does work that it leaves running: `fold` returns, or
 * its promise settles, when all is done. `version` changes whenever the same entries would fold to
 * another state: a new version never reads snapshots of an old one, it starts again from the log.
 */
export interface Reducer {
  readonly name: string;
  readonly version: number;
  fold(draft: Draft, entry: FoldEntry): void | Promise<void>;
}

/**
 * Checks that a reducer knows an entry's type, and that type in the entry's version.
 * @param versions the highest known version of each type
 * @throws EntryTypeUnknownError, EntryVersionUnknownError
 */
export function checkType<T extends string>(
  entry: FoldEntry,
  versions: Readonly<Record<T, number>>,
): asserts entry is FoldEntry & { readonly type: T } {
  const known: Readonly<Record<string, number>> = versions;
  const highest = Object.hasOwn(known, entry.type) ? known[entry.type] : undefined;
  if (highest === undefined) {
    throw new EntryTypeUnknownError(`no reducer knows entries of type '${entry.type}'`, {
      advice: `Deploy a reducer that folds them; this one knows ${Object.keys(known).join(', ')}`,
    });
  }
  if (!Number.isInteger(entry.version) || entry.version < 1 || entry.version > highest) {
    throw new EntryVersionUnknownError(`version ${entry.version} of '${entry.type}' bodies is unknown`, {
      advice: `Deploy a reducer that knows it; this one knows versions 1 to ${highest}`,
    });
  }
}
