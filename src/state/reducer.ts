import type { Value } from '../codec/value.ts';
import { EntryTypeUnknownError, EntryVersionUnknownError } from '../errors.ts';
import type { Position } from '../ids/position.ts';
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

/** The part of a draft that a reducer may use: the rest depends on how entries are batched. */
export type ReducerDraft = Pick<Draft, 'map' | 'meta'>;

/**
 * Folds entries into state.
 *
 * A fold does not depend on where snapshots fall, on batch sizes, or on which decoder runs. A snapshot may come behind
 * every entry, and the next entry is then folded elsewhere, into a draft that was loaded. The draft sees to its part:
 *
 * - Values are copied when they are put. A read gives a new object, always in canonical form: a bigint that a number can
 *   hold is a number, bytes are a `Uint8Array`, and objects have their keys in ascending order.
 * - An empty map is the same as none, so it takes keys of either kind. If items with keys of the other kind are there,
 *   the entry fails.
 * - `buffers` holds for one use of a map, and a map that is used so has no counts and weights.
 * - What no snapshot can hold is refused: it fails the entry.
 * - An error of the store fails the entry, even if the reducer catches it.
 *
 * The reducer sees to the rest:
 *
 * - It is deterministic: no clock, no randomness, and nothing read but the draft and the entry.
 * - It keeps nothing from one entry to the next outside the draft, except what it can find out from the draft again.
 * - Its `fold` returns, or its promise settles, when all is done: work that it leaves running stops the log.
 *
 * An error that it throws stops the log at that entry. `version` changes if the same entries would fold to another
 * state: a new version never reads snapshots of an old one, it starts again from the log.
 */
export interface Reducer {
  readonly name: string;
  readonly version: number;
  fold(draft: ReducerDraft, entry: FoldEntry): void | Promise<void>;
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
