import type { Value } from '../codec/value.ts';
import { BodyInvalidError, EntryTypeUnknownError, EntryVersionUnknownError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import type { Position } from '../ids/position.ts';
import type { EntryMetadata } from '../log/entry.ts';
import type { Draft } from './draft.ts';
import type { EditableMap } from './draft-map.ts';

/** The file of an entry, as a reducer reads it. */
export interface FoldFile {
  /** In bytes. */
  readonly size: number;
  /** Lower-case hexadecimal. */
  readonly sha256: string;
  /**
   * Reads the file from its beginning, in slices of at most 256 KiB. The fold checks the hash of a
   * file that was read, even in part. While the reducer awaits a slice, the fold may write what the
   * draft holds, so that a reducer can put any number of items in bounded memory. Each slice counts
   * as progress: the time limit for an entry begins again.
   */
  bytes(): AsyncIterable<Uint8Array>;
}

/**
 * An entry as a reducer sees it, with its decoded body. All parts except `log` and `position` may
 * enter a state: see docs/decisions/0046-what-reducers-know.md.
 */
export interface FoldEntry {
  /**
   * The id of the log. Keep it out of states: equal logs with other ids would have other states. It
   * is for errors, and for references that a `validate` checks.
   */
  readonly log: LogId;
  /**
   * The place of the entry. It depends on where Snapshot entries and segments are, so a state with
   * positions differs from that of a copy of the log; `number` does not. A new entry that a client
   * folds has the place that it gets if no other client appends first.
   */
  readonly position: Position;
  /**
   * The count of the application's entries up to and including this one, also of a new entry.
   * Absent if this entry or an earlier one was written by another program or an older version.
   */
  readonly number?: number | undefined;
  /** Epoch seconds. */
  readonly created: number;
  /**
   * Epoch milliseconds. Whole seconds, as {@link created}, if no milliseconds were stored, as by
   * another program or an older version. Clocks disagree: entries with later numbers may have
   * earlier times.
   */
  readonly createdMs: number;
  readonly type: string;
  readonly version: number;
  readonly body: Value;
  /** The file whose parameters the body has. Absent if the entry has none. */
  readonly file?: FoldFile | undefined;
  /**
   * The writer's correlation, causation and free values. In canonical form: names in ascending
   * order, and whole numbers beyond 2^53 as bigints. Absent if there are none.
   */
  readonly metadata?: EntryMetadata | undefined;
}

/** An entry without a place in the log, as a rebase sees it. */
export type UnplacedEntry = Pick<FoldEntry, 'type' | 'version' | 'body'>;

/** Whether the entry to rewrite comes later in the log than the other one, or earlier. */
export type RebaseSide = 'later' | 'earlier';

/** The bodies that take the place of an entry. */
export interface Rebased {
  /**
   * The bodies of the entries that take its place, in order; each sees those before it. None drops
   * the entry.
   */
  readonly bodies: readonly Value[];
  /**
   * The parts of the body that no body has any more, by index, such as the cells of a Set whose
   * rows are gone. Only if there is at most one body, with all other parts in the same order.
   */
  readonly dropped?: readonly number[];
  /** Why the entry is dropped, for its author: a sentence without a full stop. */
  readonly reason?: string;
}

/** The part of a draft that a reducer may use. The rest depends on how entries are batched. */
export type ReducerDraft = Pick<Draft, 'map' | 'meta'>;

/**
 * Folds entries into state.
 *
 * A fold does not depend on the positions of snapshots, on batch sizes, or on the decoder. A
 * snapshot may follow any entry, and another process may fold the next entry into a draft that it
 * loaded. The draft guarantees:
 *
 * - `put` copies the value. If it gets a function instead, it calls the function when the value is
 *   needed: see {@link EditableMap.put} for the rule of such late values.
 * - A read returns a new object, always in canonical form: a bigint that a number can hold is a
 *   number, bytes are a `Uint8Array`, and objects have their keys in ascending order.
 * - An empty map equals no map, so it accepts keys of either kind. If the map has items with keys
 *   of the other kind, the entry fails.
 * - `buffers` holds for one use of a map. In this use the map has no counts and weights.
 * - An edit that no snapshot can hold fails the entry.
 * - An error of the store fails the entry, even if the reducer catches it.
 *
 * The reducer guarantees:
 *
 * - It is deterministic: no clock, no randomness, and no input except the draft and the entry. The
 *   time zone and the language of the machine are such an input: functions on AWS run in UTC, and
 *   pages in the zone of their reader.
 * - It keeps no data between entries outside the draft, except data that it can derive from the
 *   draft again.
 * - Its `fold` returns, or its promise resolves, after all work is done. Work that is left running
 *   stops the log.
 *
 * An error that it throws stops the log at that entry. `version` must change if the same entries
 * fold to another state. A new version never reads snapshots of an old version: it starts again
 * from the log.
 */
export interface Reducer {
  readonly name: string;
  readonly version: number;
  fold(draft: ReducerDraft, entry: FoldEntry): void | Promise<void>;
  /**
   * Refuses a new entry by throwing. A client runs it directly before each attempt to append, on
   * the state that the entry would change, and again if others appended first. The state is
   * read-only. No fold runs it: entries that are in the log take effect, also if a program appended
   * them without a document. So it may use a clock, and it may change without a new version.
   */
  validate?(entry: FoldEntry, state: ReducerDraft): void | Promise<void>;
  /**
   * Rewrites an entry that was written for a state which another entry has changed since, so that
   * it means the same: positions move past inserted items, and an edit of a deleted item is
   * dropped. Both entries were written for the same state. The result is for the state after
   * `other`.
   *
   * A client rewrites its unsent entries over the entries that others appended first (`later`). It
   * also rewrites the entries of others over its unsent ones (`earlier`), in order to rewrite the
   * next unsent entry. So both orders must lead to the same places. If nothing else decides, such
   * as between two insertions at one place, `side` does.
   *
   * No fold runs it, so it may change without a new version. It changes none of its arguments, and
   * the fold changes no body. A reducer without it has its entries appended as they were written.
   * @returns undefined if the entry stays as it is
   */
  rebase?(
    entry: UnplacedEntry,
    other: UnplacedEntry,
    side: RebaseSide,
  ): Rebased | undefined | Promise<Rebased | undefined>;
}

/** The end of the names that `withHistory` gives. Readers look for a kept history only then. */
export const HISTORY_SUFFIX = '+history';

/** The parts of a reducer, as messages name them. */
export const REDUCER_PARTS =
  'a name, a version of 1 or more, a function fold, and perhaps functions validate and rebase';

/** Whether a value has the parts of a reducer. */
export function isReducer(value: unknown): value is Reducer {
  if (typeof value !== 'object' || value === null || !('name' in value && 'version' in value && 'fold' in value)) {
    return false;
  }
  const { name, version, fold } = value;
  return (
    typeof name === 'string' &&
    name !== '' &&
    typeof version === 'number' &&
    Number.isSafeInteger(version) &&
    version >= 1 &&
    typeof fold === 'function' &&
    (!('validate' in value) || value.validate === undefined || typeof value.validate === 'function') &&
    (!('rebase' in value) || value.rebase === undefined || typeof value.rebase === 'function')
  );
}

/**
 * Checks that a reducer knows an entry's type and version.
 * @param versions the highest known version of each type
 * @throws EntryTypeUnknownError, EntryVersionUnknownError
 */
export function checkType<E extends Pick<FoldEntry, 'type' | 'version'>, T extends string>(
  entry: E,
  versions: Readonly<Record<T, number>>,
): asserts entry is E & { readonly type: T } {
  const known: Readonly<Record<string, number>> = versions;
  const highest = Object.hasOwn(known, entry.type) ? known[entry.type] : undefined;
  if (highest === undefined) {
    throw new EntryTypeUnknownError(`the reducer does not know entries of type '${entry.type}'`, {
      advice: `Use a reducer that folds them: deploy it, or name it with --reducer; this one knows ${Object.keys(known).join(', ')}`,
    });
  }
  if (!Number.isInteger(entry.version) || entry.version < 1 || entry.version > highest) {
    throw new EntryVersionUnknownError(`version ${entry.version} of '${entry.type}' bodies is unknown`, {
      advice: `Use a reducer that knows it; this one knows versions 1 to ${highest}`,
    });
  }
}

/** The error for a body that a reducer cannot read. */
export function bodyInvalid(type: string, reason: string): BodyInvalidError {
  return new BodyInvalidError(`a '${type}' entry cannot be read: ${reason}`, {
    advice:
      'Correct the program that writes these entries; if the log has this one already, deploy a reducer that can fold it',
  });
}
