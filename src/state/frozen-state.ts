import type { Value } from '../codec/value.ts';
import { UsageError } from '../errors.ts';
import { checkOptionNames } from '../log/option-names.ts';
import { type BufferedTree, findMerged, getMerged, mergedValues } from '../tree/buffered-tree.ts';
import { describeKey, type Key, type KeyKind } from '../tree/key.ts';
import { treeCount } from '../tree/node.ts';
import type { NodeStore } from '../tree/node-store.ts';
import { checkLimit, type LimitedRange, type MapItem, type RangeRead, READ_AHEAD } from '../tree/read.ts';
import { Draft } from './draft.ts';
import type { DraftMeta } from './meta.ts';
import type { ReducerDraft } from './reducer.ts';
import { isHiddenMap, type State } from './state.ts';

/** The metadata record of a frozen state. Values are new objects, so a reader may change them. */
export type FrozenMeta = Omit<DraftMeta, 'set' | 'delete' | 'clear'>;

const RANGE_NAMES = ['from', 'to', 'limit', 'reverse'] satisfies (keyof LimitedRange)[];

/**
 * One map of a frozen state. A map that the state does not have is empty and accepts keys of either
 * kind.
 */
export class FrozenMap {
  readonly name: string;
  readonly #store: NodeStore;
  readonly #map: BufferedTree | undefined;

  constructor(store: NodeStore, name: string, map: BufferedTree | undefined) {
    this.#store = store;
    this.name = name;
    this.#map = map;
  }

  /** The kind of the map's keys; undefined if the map is empty. */
  get kind(): KeyKind | undefined {
    return this.#map?.kind;
  }

  /**
   * The number of items in the tree, and of edits in the write buffer. Without edits, the map has
   * exactly this many items. Each edit may add or remove one. Takes no request.
   */
  get counts(): { readonly items: number; readonly edits: number } {
    return { items: this.#map ? treeCount(this.#map.tree) : 0, edits: this.#map ? treeCount(this.#map.buffer) : 0 };
  }

  /**
   * The value under a key; a new object.
   * @throws UsageError if the key has the other kind
   */
  async get(key: Key): Promise<Value | undefined> {
    this.#checkKey(key);
    return this.#map && getMerged(this.#store, this.#map, key);
  }

  /**
   * Whether the map has a key. Fetches no large value.
   * @throws UsageError if the key has the other kind
   */
  async has(key: Key): Promise<boolean> {
    this.#checkKey(key);
    return this.#map !== undefined && (await findMerged(this.#store, this.#map, key)) !== undefined;
  }

  /**
   * The items of a range in order of key, for one iteration. Requests the next few chunks of the
   * range ahead, and none after the limit. So `range({ reverse: true, limit: 1 })` reads the last
   * item.
   * @throws UsageError if a bound has the other kind of keys, the limit is not a whole number, or
   * a name is wrong
   */
  range(range: LimitedRange = {}): AsyncGenerator<MapItem, undefined> {
    checkOptionNames('a range', range, RANGE_NAMES);
    const { from, to, limit, reverse } = range;
    for (const bound of [from, to]) if (bound !== undefined) this.#checkKey(bound);
    checkLimit(range);
    return this.#items({ from, to, limit, reverse, ahead: READ_AHEAD });
  }

  async *#items(range: RangeRead): AsyncGenerator<MapItem, undefined> {
    if (this.#map !== undefined) yield* mergedValues(this.#store, this.#map, range);
  }

  #checkKey(key: Key): void {
    const kind: unknown = typeof key;
    const fits = this.kind === undefined ? kind === 'number' || kind === 'string' : kind === this.kind;
    if (fits && !Number.isNaN(key)) return;
    throw new UsageError(
      `${describeKey(key)} cannot be a key of map '${this.name}', which has ${this.kind ?? 'number or string'} keys`,
    );
  }
}

/**
 * A state for reading. It stays the same while later entries are folded, since later states share
 * its nodes and change none of them. Reads fetch only the chunks that they need.
 */
export class FrozenState {
  readonly state: State;
  /** The store that has the state's nodes. */
  readonly nodes: NodeStore;
  readonly #maps = new Map<string, FrozenMap>();
  #draft: ReducerDraft | undefined;

  constructor(store: NodeStore, state: State) {
    this.nodes = store;
    this.state = state;
  }

  /** The metadata record. */
  get meta(): FrozenMeta {
    return this.draft.meta;
  }

  /**
   * The names of the reducer's maps with items, in ascending order of UTF-16 code units. Leaves out
   * maps for bookkeeping, whose names begin with `logfold:`.
   */
  get mapNames(): readonly string[] {
    return [...this.state.maps.keys()].filter((name) => !isHiddenMap(name));
  }

  /**
   * The map with a name. The same call gives the same object.
   * @param kind the kind of keys that the caller expects
   * @throws UsageError if the map has items with keys of the other kind
   */
  map(name: string, kind?: KeyKind): FrozenMap {
    this.#checkKind(name, kind);
    const known = this.#maps.get(name) ?? new FrozenMap(this.nodes, name, this.state.maps.get(name));
    this.#maps.set(name, known);
    return known;
  }

  /**
   * The state as a reducer sees it, for the reading half of a reducer's code, such as a sheet.
   * Edits throw a UsageError and change nothing.
   */
  get draft(): ReducerDraft {
    this.#draft ??= this.#frozenDraft();
    return this.#draft;
  }

  #frozenDraft(): ReducerDraft {
    const draft = new Draft(this.nodes, this.state);
    draft.use.freeze();
    return {
      meta: draft.meta,
      map: (name, kind, options) => {
        // In the draft itself, one use with the wrong kind would fail all later uses.
        this.#checkKind(name, kind);
        return draft.map(name, kind, options);
      },
    };
  }

  #checkKind(name: string, kind: KeyKind | undefined): void {
    const stored = this.state.maps.get(name)?.kind;
    if (kind === undefined || stored === undefined || kind === stored) return;
    throw new UsageError(`map '${name}' has ${stored} keys, not ${String(kind)} keys`);
  }
}
