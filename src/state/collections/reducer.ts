import type { Value, ValueObject } from '../../codec/value.ts';
import { plainName } from '../history/with-history.ts';
import { checkType, type FoldEntry, type Reducer, type ReducerDraft } from '../reducer.ts';
import {
  type CollectionMaps,
  changeKey,
  changeValue,
  collectionMaps,
  itemKey,
  itemVersionValue,
  readItemVersion,
} from './collections.ts';
import { COLLECTIONS_ENTRY_VERSIONS, type ItemPlace, parseCollectionsEdit } from './edit.ts';
import { mergePatch } from './merge-patch.ts';

/**
 * Folds documents of scalars and collections: `Put`, `Patch` and `Delete` of a scalar or of an item
 * in a collection. Counts the changes of each item and of each collection.
 */
export const collections: Reducer = {
  name: 'collections',
  version: 1,
  async fold(draft: ReducerDraft, entry: FoldEntry): Promise<void> {
    checkType(entry, COLLECTIONS_ENTRY_VERSIONS);
    const edit = parseCollectionsEdit(entry.type, entry.body);
    const maps = collectionMaps(draft);
    if ('collection' in edit) {
      if (edit.type === 'Put') return change(maps, edit, edit.value);
      if (edit.type === 'Delete') return change(maps, edit, undefined);
      return change(maps, edit, mergePatch(await maps.items.get(itemKey(edit.collection, edit.id)), edit.patch));
    }
    if (edit.type === 'Put') return maps.scalars.put(edit.name, edit.value);
    if (edit.type === 'Delete') return maps.scalars.delete(edit.name);
    return patchScalars(maps, edit.patch);
  },
};

/** Whether a reducer folds collections, with or without their history. */
export function foldsCollections(reducer: Pick<Reducer, 'name'>): boolean {
  return plainName(reducer) === collections.name;
}

/**
 * Changes an item and counts the change. Reads no other item, and not the item itself.
 * @param value undefined to delete the item; a missing item then stays as it is
 */
async function change(maps: CollectionMaps, { collection, id }: ItemPlace, value: Value | undefined): Promise<void> {
  const key = itemKey(collection, id);
  const [stored, count] = await Promise.all([maps.versions.get(key), maps.collections.get(collection)]);
  const before = readItemVersion(stored);
  const isDeleted = value === undefined;
  if (isDeleted && (before === undefined || before.isDeleted)) return;
  const changed = Number(count ?? 0) + 1;
  const version = (before?.version ?? 0) + 1;
  maps.collections.put(collection, changed);
  maps.versions.put(key, itemVersionValue({ version, change: changed, isDeleted }));
  if (before !== undefined) maps.changes.delete(changeKey(collection, before.change));
  maps.changes.put(changeKey(collection, changed), changeValue({ id, version, isDeleted }));
  if (isDeleted) maps.items.delete(key);
  else maps.items.put(key, value);
}

async function patchScalars({ scalars }: CollectionMaps, patch: ValueObject): Promise<void> {
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) scalars.delete(name);
    else scalars.put(name, mergePatch(await scalars.get(name), value));
  }
}
