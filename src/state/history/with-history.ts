import type { Value } from '../../codec/value.ts';
import type { Key, KeyKind } from '../../tree/key.ts';
import type { RangeDelete } from '../../tree/range-delete.ts';
import { Draft } from '../draft.ts';
import { type FoldEntry, HISTORY_SUFFIX, type Reducer, type ReducerDraft } from '../reducer.ts';
import { entrySuffix, keyPrefix, recordsOf } from './history-key.ts';
import { type ChangeRecorder, recordingFold } from './recording-draft.ts';
import { storedValue } from './stored-value.ts';

/**
 * A reducer that folds the same entries to the same state, and also keeps the history of its maps:
 * a record of each key that an entry changed. So the history of a key is one range of a map, and
 * reading it takes no more requests than the answer needs. The state grows with the entries.
 *
 * A range delete also deletes the records of its keys. Snapshots of the plain reducer are not
 * snapshots of this one: the first build folds the log from its beginning.
 * @returns a reducer named `NAME+history` with the same version; the given one if it keeps its
 * history already
 */
export function withHistory(reducer: Reducer): Reducer {
  if (keepsHistory(reducer)) return reducer;
  const { name, version, validate } = reducer;
  return {
    name: name + HISTORY_SUFFIX,
    version,
    ...(validate !== undefined && { validate: validate.bind(reducer) }),
    fold: recordingFold(reducer, (draft) => new KeptHistory(draft)),
  };
}

/** Whether a reducer keeps the history of its maps, which its name says. */
export function keepsHistory({ name }: Pick<Reducer, 'name'>): boolean {
  return name.endsWith(HISTORY_SUFFIX);
}

/** The name of the reducer that a name is of, without its history. */
export function plainName({ name }: Pick<Reducer, 'name'>): string {
  return keepsHistory({ name }) ? name.slice(0, -HISTORY_SUFFIX.length) : name;
}

/** Records changes in the draft that they are made in. */
class KeptHistory implements ChangeRecorder {
  readonly #draft: Draft;
  #suffix = '';

  constructor(draft: ReducerDraft) {
    if (!(draft instanceof Draft)) throw new Error('a history is recorded in a draft only');
    this.#draft = draft;
  }

  begin(entry: FoldEntry): void {
    this.#suffix = entrySuffix(entry);
  }

  record(map: string, key: Key, value: Value | undefined): void {
    this.#draft.history.put(keyPrefix(map, key) + this.#suffix, storedValue(value));
  }

  forget(map: string, kind: KeyKind, range: RangeDelete): void {
    this.#draft.history.deleteRange(recordsOf(map, kind, range));
  }
}
