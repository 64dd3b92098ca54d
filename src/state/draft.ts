import { StateUnsupportedError } from '../errors.ts';
import type { ClientMutation } from '../log/entry.ts';
import { type BufferedTree, emptyBufferedTree, getMerged } from '../tree/buffered-tree.ts';
import type { EditOptions } from '../tree/edit.ts';
import { describeKey, type KeyKind, MAX_STRING_KEY_LENGTH } from '../tree/key.ts';
import type { NodeStore } from '../tree/node-store.ts';
import { type DraftMap, EditableMap } from './draft-map.ts';
import { DraftUse } from './draft-use.ts';
import { EditedMap } from './edited-map.ts';
import { DraftMeta } from './meta.ts';
import { EMPTY_STATE, HISTORY_MAP, MUTATIONS_MAP, RESERVED_MAPS, type State } from './state.ts';

/** How a reducer wants to use a map. */
export interface DraftOptions {
  /**
   * Buffers edits until enough of them fall into one leaf to be worth writing it. Reads by key and
   * by order are not affected, but the map has no counts, weights and offsets. False by default.
   */
  readonly buffers?: boolean;
  /** Whether `withHistory` records the changes of the map. True by default. */
  readonly history?: boolean;
}

/** The most maps of a state. The root contains the top node of each map. */
export const MAX_MAPS = 10_000;

interface UsedMap {
  readonly edited: EditedMap;
  readonly uses: EditableMap[];
}

/**
 * A mutable state into which entries are folded. A reducer cannot tell a draft that has folded
 * entries from a draft that was loaded from a snapshot of the same state.
 */
export class Draft {
  /** The metadata record: few and small values. */
  readonly meta: DraftMeta;
  /** Controls who may use the draft: everyone, or only the reducer. */
  readonly use = new DraftUse();
  readonly #store: NodeStore;
  /** Lets a fold use the map of mutations beside the reducer. */
  readonly #mutationsUse = new DraftUse();
  readonly #maps = new Map<string, UsedMap>();
  readonly #unchecked = new Set<EditedMap>();

  constructor(store: NodeStore, state: State = EMPTY_STATE) {
    this.#store = store;
    this.meta = new DraftMeta(this.use, state.meta);
    for (const [name, map] of state.maps) this.#addMap(name, map);
  }

  /**
   * The map with a name; a new map is empty. An empty map accepts keys of either kind. If the map
   * has items with keys of the other kind, every read of it fails, and so does the entry.
   * @throws StateUnsupportedError if the name or the kind of keys is invalid, or the name is
   * reserved
   */
  map(name: string, kind: KeyKind, options: DraftOptions = {}): DraftMap {
    if (RESERVED_MAPS.has(name)) {
      throw new StateUnsupportedError(`the map '${name}' is reserved for logfold`, {
        advice: 'Correct the reducer so that it gives its map another name, raise its version, and deploy it',
      });
    }
    return this.#use(name, kind, { buffers: options.buffers === true, use: this.use });
  }

  /** The highest applied mutation of each client. Not for reducers. */
  get mutations(): DraftMap {
    return this.#use(MUTATIONS_MAP, 'string', { buffers: true, use: this.#mutationsUse });
  }

  /** The recorded changes, for `withHistory`. Not for reducers. */
  get history(): DraftMap {
    return this.#use(HISTORY_MAP, 'string', { buffers: true, use: this.use });
  }

  #use(name: string, kind: KeyKind, how: { readonly buffers: boolean; readonly use: DraftUse }): DraftMap {
    const { buffers } = how;
    const { edited, uses } = this.#maps.get(name) ?? this.#newMap(name, kind);
    const known = uses.find((use) => use.kind === kind && use.buffers === buffers);
    if (known !== undefined) return known;
    checkKind(kind);
    const use = new EditableMap(edited, how.use, { kind, buffers });
    uses.push(use);
    return use;
  }

  /**
   * Checks at the end of an entry that a snapshot can hold the state.
   * @returns undefined if there is nothing to check
   * @throws KeyInvalidError, StateUnsupportedError if no snapshot can hold the state
   */
  checkEntry(): Promise<void> | undefined {
    return this.hasUnchecked ? this.use.run(() => this.#checkMaps()) : undefined;
  }

  /** Whether {@link checkEntry} has something to check. */
  get hasUnchecked(): boolean {
    return this.#unchecked.size > 0 || this.#maps.size > MAX_MAPS;
  }

  /** Approximate memory of edits, nodes and large values until the draft is saved, in bytes. */
  get heldBytes(): number {
    let total = this.#store.heldValueBytes;
    for (const { edited } of this.#maps.values()) total += edited.heldBytes;
    return total;
  }

  /**
   * Evaluates all late values.
   * @throws LogfoldError if one fails, with the place of the entry that put it
   */
  evaluate(): void {
    for (const { edited } of this.#maps.values()) edited.evaluate();
  }

  /**
   * The state with all edits so far. New nodes are only in memory, unless the options save them
   * early.
   */
  async state(options?: EditOptions): Promise<State> {
    // The checks are for the end of an entry. A fold may save a draft within an entry with a file.
    if (!this.use.isFolding) await this.#checkMaps();
    const maps: [string, BufferedTree][] = [];
    for (const [name, { edited }] of this.#maps) {
      const applied = await edited.apply(options);
      // An empty map equals no map, so that equal contents are equal states.
      if (applied.tree.top !== undefined) maps.push([name, applied]);
    }
    maps.sort(([a], [b]) => (a < b ? -1 : 1));
    return { meta: Object.fromEntries(this.meta), maps: new Map(maps) };
  }

  #newMap(name: string, kind: KeyKind): UsedMap {
    if (typeof name !== 'string' || !name.isWellFormed() || name.length > MAX_STRING_KEY_LENGTH) {
      throw new StateUnsupportedError(`${describeKey(name)} cannot be the name of a map`, {
        advice: `Correct the reducer so that it uses well-formed strings of at most ${MAX_STRING_KEY_LENGTH} UTF-16 code units, raise its version, and deploy it`,
      });
    }
    checkKind(kind);
    return this.#addMap(name, emptyBufferedTree(kind));
  }

  #addMap(name: string, map: BufferedTree): UsedMap {
    const used: UsedMap = { edited: new EditedMap(name, map, this.#store, this.#unchecked), uses: [] };
    this.#maps.set(name, used);
    return used;
  }

  async #checkMaps(): Promise<void> {
    for (const map of this.#unchecked) await map.check();
    this.#unchecked.clear();
    if (this.#maps.size <= MAX_MAPS) return;
    // Empty maps are not part of the state, and a reducer does not know of the reserved ones.
    let count = 0;
    for (const [name, { edited }] of this.#maps) {
      if (!RESERVED_MAPS.has(name) && !(await edited.isEmpty())) count++;
    }
    if (count <= MAX_MAPS) return;
    throw new StateUnsupportedError(`the state has ${count} maps and exceeds the limit of ${MAX_MAPS}`, {
      advice:
        'Correct the reducer so that it puts the items of several maps into one, under keys that begin with the old name; then raise its version, and deploy it',
    });
  }
}

function checkKind(kind: unknown): void {
  if (kind === 'number' || kind === 'string') return;
  throw new StateUnsupportedError(`${describeKey(kind)} is not a kind of keys`, {
    advice: "Correct the reducer so that it uses 'number' or 'string', raise its version, and deploy it",
  });
}

/**
 * The highest mutation of a client that a state has applied; 0 if there is none. A client that
 * continues after a crash appends only higher ones. Fetches one leaf at most.
 */
export async function appliedMutation(store: NodeStore, state: State, client: string): Promise<number> {
  const map = state.maps.get(MUTATIONS_MAP);
  return Number((map && (await getMerged(store, map, client))) ?? 0);
}

/**
 * Records a mutation as applied, unless the draft has applied this or a later mutation of the
 * client.
 * @returns whether the entry with the mutation takes effect
 */
export async function applyMutation({ mutations }: Draft, { client, mutation }: ClientMutation): Promise<boolean> {
  if (mutation <= Number((await mutations.get(client)) ?? 0)) return false;
  mutations.put(client, mutation);
  return true;
}
