import type { Value } from '../../codec/value.ts';
import type { Key, KeyKind } from '../../tree/key.ts';
import type { KeySet } from '../../tree/key-set.ts';
import type { RangeDelete } from '../../tree/range-delete.ts';
import type { MapItem, RangeRead, WeighedItem } from '../../tree/read.ts';
import { Draft, type DraftOptions } from '../draft.ts';
import type { DraftMap, LateValue } from '../draft-map.ts';
import type { DraftMeta } from '../meta.ts';
import { type FoldEntry, HISTORY_SUFFIX, type Reducer, type ReducerDraft } from '../reducer.ts';
import { isHiddenMap } from '../state.ts';
import { entrySuffix, keyPrefix, recordsOf, storedValue } from './history-record.ts';

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
  const { name, version, validate, rebase } = reducer;
  return {
    name: name + HISTORY_SUFFIX,
    version,
    ...(validate !== undefined && { validate: validate.bind(reducer) }),
    ...(rebase !== undefined && { rebase: rebase.bind(reducer) }),
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

/** Learns of the changes of a draft's maps while a reducer makes them. */
export interface ChangeRecorder {
  /** Begins the records of an entry. */
  begin(entry: FoldEntry): void;
  /** @param value undefined if the key was deleted */
  record(map: string, key: Key, value: Value | undefined): void;
  /** A range of keys was deleted. The records of these keys are forgotten. */
  forget(map: string, kind: KeyKind, range: RangeDelete): void;
}

/**
 * The fold of a reducer that reports each effective change to a recorder.
 * @param recorderOf called once per draft
 */
export function recordingFold(reducer: Reducer, recorderOf: (draft: ReducerDraft) => ChangeRecorder): Reducer['fold'] {
  const recordings = new WeakMap<ReducerDraft, { readonly recorder: ChangeRecorder; readonly draft: ReducerDraft }>();
  return (draft, entry) => {
    let recording = recordings.get(draft);
    if (recording === undefined) {
      const recorder = recorderOf(draft);
      recording = { recorder, draft: new RecordingDraft(draft, recorder) };
      recordings.set(draft, recording);
    }
    recording.recorder.begin(entry);
    return reducer.fold(recording.draft, entry);
  };
}

/**
 * A draft that reports each effective change to a recorder. Leaves out maps for bookkeeping, and
 * maps whose options have `history: false`.
 */
class RecordingDraft implements ReducerDraft {
  readonly #draft: ReducerDraft;
  readonly #recorder: ChangeRecorder;
  readonly #maps = new Map<DraftMap, DraftMap>();

  constructor(draft: ReducerDraft, recorder: ChangeRecorder) {
    this.#draft = draft;
    this.#recorder = recorder;
  }

  get meta(): DraftMeta {
    return this.#draft.meta;
  }

  map(name: string, kind: KeyKind, options: DraftOptions = {}): DraftMap {
    const map = this.#draft.map(name, kind, options);
    if (options.history === false || isHiddenMap(name)) return map;
    const known = this.#maps.get(map) ?? new RecordingMap(name, map, this.#recorder);
    this.#maps.set(map, known);
    return known;
  }
}

/** A map that reports each effective change to a recorder. */
class RecordingMap implements DraftMap {
  readonly #name: string;
  readonly #map: DraftMap;
  readonly #recorder: ChangeRecorder;

  constructor(name: string, map: DraftMap, recorder: ChangeRecorder) {
    this.#name = name;
    this.#map = map;
    this.#recorder = recorder;
  }

  get kind(): KeyKind {
    return this.#map.kind;
  }

  get buffers(): boolean {
    return this.#map.buffers;
  }

  put(key: Key, value: Value | LateValue, weight?: number): void {
    // The history has the value after each entry, so it cannot be late.
    const now = typeof value === 'function' ? value() : value;
    this.#map.put(key, now, weight);
    this.#recorder.record(this.#name, key, now);
  }

  delete(key: Key): void {
    this.#map.delete(key);
    this.#recorder.record(this.#name, key, undefined);
  }

  deleteRange(range: RangeDelete): void {
    this.#map.deleteRange(range);
    this.#recorder.forget(this.#name, this.kind, range);
  }

  get(key: Key): Promise<Value | undefined> {
    return this.#map.get(key);
  }

  count(): Promise<number> {
    return this.#map.count();
  }

  weight(): Promise<number> {
    return this.#map.weight();
  }

  atOffset(offset: number): Promise<WeighedItem | undefined> {
    return this.#map.atOffset(offset);
  }

  items(range?: RangeRead): AsyncGenerator<MapItem> {
    return this.#map.items(range);
  }

  firstKey(from: Key): Promise<Key | undefined> {
    return this.#map.firstKey(from);
  }

  keys(): AsyncGenerator<Key[]> {
    return this.#map.keys();
  }

  firstKeys(set: KeySet): Promise<Key[]> {
    return this.#map.firstKeys(set);
  }
}
