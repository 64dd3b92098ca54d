import { equalBytes } from '../codec/bytes.ts';
import { encodeValue } from '../codec/canonical.ts';
import type { Value } from '../codec/value.ts';
import { diffMerged, emptyBufferedTree, isSameMap, type MapDifference, type StoredMap } from '../tree/buffered-tree.ts';
import type { Key } from '../tree/key.ts';
import type { FrozenState } from './frozen-state.ts';
import { RESERVED_MAPS } from './state.ts';

/** A name of the metadata record whose value differs. An absent value is missing in that state. */
export interface MetaChange {
  readonly kind: 'meta';
  readonly name: string;
  readonly before?: Value;
  readonly after?: Value;
}

/** A key of a map whose value differs. An absent value is missing in that state. */
export interface MapChange {
  readonly kind: 'item';
  readonly map: string;
  readonly key: Key;
  readonly before?: Value;
  readonly after?: Value;
}

/**
 * The differences between two states: first of the metadata record in order of name, then of each
 * map, in order of name and key. Leaves out the maps of logfold itself, and ignores weights.
 * Requests and time grow with the chunks in which the states differ.
 * @param without names of further maps to leave out
 */
export async function* diffStates(
  before: FrozenState,
  after: FrozenState,
  without: ReadonlySet<string> = new Set(),
): AsyncGenerator<MetaChange | MapChange, undefined> {
  yield* diffMeta(before, after);
  const names = new Set([...before.mapNames, ...after.mapNames]);
  for (const map of [...names].sort()) {
    if (without.has(map)) continue;
    for await (const difference of diffMaps(before, after, map)) yield { kind: 'item', map, ...difference };
  }
}

/**
 * Whether two states have the same metadata record and the same items and weights in all maps.
 * Leaves out the applied mutations and the history, which no reader of a state sees. Reads what
 * {@link diffStates} reads for the first difference.
 */
export async function isSameContent(before: FrozenState, after: FrozenState): Promise<boolean> {
  if (diffMeta(before, after).next().done !== true) return false;
  const all = new Set([...before.state.maps.keys(), ...after.state.maps.keys()]);
  for (const name of all) {
    if (RESERVED_MAPS.has(name)) continue;
    const [old, now] = [before.state.maps.get(name), after.state.maps.get(name)];
    if (old === undefined || now?.kind !== old.kind) return false;
    if (!(await isSameMap({ store: before.nodes, map: old }, { store: after.nodes, map: now }))) return false;
  }
  return true;
}

function* diffMeta(before: FrozenState, after: FrozenState): Generator<MetaChange, undefined> {
  const names = new Set([...before.meta.keys(), ...after.meta.keys()]);
  for (const name of [...names].sort()) {
    const [old, now] = [before.meta.get(name), after.meta.get(name)];
    if (old !== undefined && now !== undefined && equalBytes(encodeValue(old), encodeValue(now))) continue;
    yield {
      kind: 'meta',
      name,
      ...(old !== undefined && { before: old }),
      ...(now !== undefined && { after: now }),
    };
  }
}

/**
 * The differences between the maps with a name, in order of key. If the keys have another kind
 * afterwards, all old items come before all new ones.
 */
export async function* diffMaps(
  before: FrozenState,
  after: FrozenState,
  name: string,
): AsyncGenerator<MapDifference, undefined> {
  const [old, now] = [before.state.maps.get(name), after.state.maps.get(name)];
  const kinds = new Set([old, now].flatMap((map) => (map === undefined ? [] : [map.kind])));
  for (const kind of kinds) {
    const side = ({ nodes: store }: FrozenState, map: typeof old): StoredMap => ({
      store,
      map: map?.kind === kind ? map : emptyBufferedTree(kind),
    });
    yield* diffMerged(side(before, old), side(after, now));
  }
}
