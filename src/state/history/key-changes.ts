import { equalBytes } from '../../codec/bytes.ts';
import { encodeValue } from '../../codec/canonical.ts';
import { decodeValue } from '../../codec/message-pack.ts';
import type { Value } from '../../codec/value.ts';
import type { EntryMetadata } from '../../log/entry.ts';
import { type EncodedItem, findMerged, mergedItems } from '../../tree/buffered-tree.ts';
import { type Key, sortedUnique } from '../../tree/key.ts';
import { type KeySet, keysInSet } from '../../tree/key-set.ts';
import { valueBytes } from '../../tree/node.ts';
import type { NodeStore } from '../../tree/node-store.ts';
import { type RangeDelete, rangeSet } from '../../tree/range-delete.ts';
import { leafValue, READ_AHEAD } from '../../tree/read.ts';
import type { FoldEntry } from '../reducer.ts';
import { HISTORY_MAP, type State } from '../state.ts';
import {
  keyPrefix,
  prefixRange,
  type RecordEntry,
  readEntrySuffix,
  readNumberRecord,
  recordsOf,
  storedValue,
  valueOfRecord,
} from './history-record.ts';
import type { ChangeRecorder } from './with-history.ts';

/** The keys of a map whose history is asked for: one key, or a range of number keys. */
export type HistoryKeys = { readonly map: string } & (
  | { readonly key: Key }
  | { readonly range: Omit<RangeDelete, 'after'> }
);

/** The value that an entry left under a key. */
export interface KeyChange extends RecordEntry {
  readonly key: Key;
  /** The entry's metadata, if it has been read already. */
  readonly metadata?: EntryMetadata | undefined;
  /** Equal for equal values, and for removals. */
  readonly stored: Uint8Array;
  /** The value; undefined for a removal. Fetches a large one. */
  readonly value: () => Promise<Value | undefined>;
}

const REMOVAL = encodeValue(storedValue(undefined));

/** The changes of keys that a state keeps, in order of key and position. */
export async function* keptChanges(nodes: NodeStore, state: State, keys: HistoryKeys): AsyncGenerator<KeyChange> {
  const map = state.maps.get(HISTORY_MAP);
  if (map === undefined) return;
  if ('key' in keys) {
    const { key } = keys;
    const prefix = keyPrefix(keys.map, key);
    for await (const item of mergedItems(nodes, map, { ...prefixRange(prefix), ahead: READ_AHEAD })) {
      yield { key, ...readEntrySuffix(String(item.key), prefix.length), ...recordedValue(nodes, item) };
    }
    return;
  }
  const set = rangeSet(recordsOf(keys.map, 'number', keys.range));
  const found: Key[] = [];
  for (const tree of [map.tree, map.buffer]) {
    for await (const part of keysInSet(nodes, tree, set)) for (const each of part) found.push(each);
  }
  for (const each of sortedUnique(found)) {
    const item = await findMerged(nodes, map, each);
    if (item === undefined) continue;
    const { number: key, ...entry } = readNumberRecord(keys.map, String(each));
    yield { key, ...entry, ...recordedValue(nodes, item) };
  }
}

function recordedValue(nodes: NodeStore, { leaf, index }: EncodedItem): Pick<KeyChange, 'stored' | 'value'> {
  return {
    stored: valueBytes(leaf, index),
    value: async () => valueOfRecord(await leafValue(nodes, leaf, index)),
  };
}

/**
 * The changes of each key, in order of position, without those that left its value as it was.
 * @param changes in order of key and position
 */
export async function* realChanges(changes: AsyncIterable<KeyChange>): AsyncGenerator<KeyChange> {
  let latest: Pick<KeyChange, 'key' | 'stored'> | undefined;
  for await (const change of changes) {
    const before = latest?.key === change.key ? latest.stored : REMOVAL;
    latest = change;
    if (!equalBytes(before, change.stored)) yield change;
  }
}

/** Records the changes of a few keys in memory, while a reducer folds a log without a history. */
export class KeyRecorder implements ChangeRecorder {
  readonly #keys: HistoryKeys;
  readonly #range: KeySet | undefined;
  readonly #changes = new Map<Key, KeyChange[]>();
  #entry: FoldEntry | undefined;

  constructor(keys: HistoryKeys) {
    this.#keys = keys;
    this.#range = 'range' in keys ? rangeSet(keys.range) : undefined;
  }

  begin(entry: FoldEntry): void {
    this.#entry = entry;
  }

  record(map: string, key: Key, value: Value | undefined): void {
    if (this.#entry === undefined || map !== this.#keys.map || !this.#contains(key)) return;
    const { position, created, metadata } = this.#entry;
    const stored = encodeValue(storedValue(value));
    const change = { key, position, created, metadata, stored, value: async () => valueOfRecord(decodeValue(stored)) };
    const changes = this.#changes.get(key) ?? [];
    this.#changes.set(key, changes);
    // An entry leaves one value under a key.
    if (changes.at(-1)?.position === position) changes.pop();
    changes.push(change);
  }

  forget(map: string, _kind: unknown, range: RangeDelete): void {
    if (map !== this.#keys.map) return;
    const deleted = rangeSet(range);
    for (const key of [...this.#changes.keys()]) {
      const span = typeof key === typeof range.from ? deleted.next(key) : undefined;
      if (span !== undefined && span.from <= key && key < span.to) this.#changes.delete(key);
    }
  }

  /** The recorded changes in order of key and position. */
  async *changes(): AsyncGenerator<KeyChange> {
    for (const key of sortedUnique([...this.#changes.keys()])) yield* this.#changes.get(key) ?? [];
  }

  #contains(key: Key): boolean {
    if ('key' in this.#keys) return key === this.#keys.key;
    const span = typeof key === 'number' ? this.#range?.next(key) : undefined;
    return span !== undefined && span.from <= key;
  }
}
