import { isObject, setKey, type Value, type ValueObject } from '../../codec/value.ts';
import { plainName } from '../history/with-history.ts';
import { bodyInvalid, checkType, type FoldEntry, type Reducer, type ReducerDraft } from '../reducer.ts';
import {
  type CollectionMaps,
  changeKey,
  changeValue,
  collectionItemKey,
  collectionMaps,
  itemVersionValue,
  readItemVersion,
  SEPARATOR,
} from './collections.ts';

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
      return change(
        maps,
        edit,
        mergePatch(await maps.items.get(collectionItemKey(edit.collection, edit.id)), edit.patch),
      );
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
async function change(
  maps: CollectionMaps,
  { collection, id }: CollectionItemPlace,
  value: Value | undefined,
): Promise<void> {
  const key = collectionItemKey(collection, id);
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

/**
 * The entry types that the reducer for collections folds, each with the highest version of its
 * body.
 */
export const COLLECTIONS_ENTRY_VERSIONS = { Put: 1, Patch: 1, Delete: 1 } as const;

export type CollectionsEntryType = keyof typeof COLLECTIONS_ENTRY_VERSIONS;

/** Limits of names and ids, in UTF-16 code units. */
const MAX_COLLECTION_LENGTH = 256;
const MAX_ID_LENGTH = 512;

export interface CollectionItemPlace {
  readonly collection: string;
  readonly id: string;
}

/** One entry of a log with collections: a change of scalars or of an item. */
export type CollectionsEdit =
  | { readonly type: 'Put'; readonly name: string; readonly value: Value }
  | ({ readonly type: 'Put'; readonly value: Value } & CollectionItemPlace)
  /** A JSON Merge Patch (RFC 7396) of the object of all scalars. */
  | { readonly type: 'Patch'; readonly patch: ValueObject }
  /** A JSON Merge Patch of the item. */
  | ({ readonly type: 'Patch'; readonly patch: Value } & CollectionItemPlace)
  | { readonly type: 'Delete'; readonly name: string }
  | ({ readonly type: 'Delete' } & CollectionItemPlace);

/**
 * Reads the body of an entry in version 1: an object with exactly the fields of its edit.
 * @throws BodyInvalidError if the body has another form, or a name is too long
 */
export function parseCollectionsEdit(type: CollectionsEntryType, body: Value): CollectionsEdit {
  if (!isObject(body)) throw bodyInvalid(type, 'its body is not an object');
  const { name, collection, id, value, patch } = body;
  const fields = Object.keys(body).sort().join();
  switch (`${type} ${fields}`) {
    case 'Put name,value':
      return { type: 'Put', name: checkText(type, 'name', name, MAX_ID_LENGTH), value: present(value) };
    case 'Put collection,id,value':
      return { type: 'Put', ...checkPlace(type, collection, id), value: present(value) };
    case 'Patch patch':
      if (!isObject(patch)) throw bodyInvalid(type, "the 'patch' of scalars is not an object");
      for (const each of Object.keys(patch)) checkText(type, 'name', each, MAX_ID_LENGTH);
      return { type: 'Patch', patch };
    case 'Patch collection,id,patch':
      return { type: 'Patch', ...checkPlace(type, collection, id), patch: present(patch) };
    case 'Delete name':
      return { type: 'Delete', name: checkText(type, 'name', name, MAX_ID_LENGTH) };
    case 'Delete collection,id':
      return { type: 'Delete', ...checkPlace(type, collection, id) };
    default:
      throw bodyInvalid(type, `its body has the fields ${fields === '' ? '(none)' : fields}, not ${FIELDS[type]}`);
  }
}

/** The fields that a body may have, for messages. */
const FIELDS = {
  Put: 'name,value or collection,id,value',
  Patch: 'patch or collection,id,patch',
  Delete: 'name or collection,id',
} as const;

function checkPlace(type: string, collection: Value | undefined, id: Value | undefined): CollectionItemPlace {
  const name = checkText(type, 'collection', collection, MAX_COLLECTION_LENGTH);
  if (name.includes(SEPARATOR)) throw bodyInvalid(type, `the name of a collection cannot contain '${SEPARATOR}'`);
  return { collection: name, id: checkText(type, 'id', id, MAX_ID_LENGTH) };
}

function checkText(type: string, field: string, text: Value | undefined, most: number): string {
  if (typeof text === 'string' && text !== '' && text.length <= most) return text;
  throw bodyInvalid(type, `'${field}' is not a text of 1 to ${most} UTF-16 code units`);
}

function present(value: Value | undefined): Value {
  return value ?? null;
}

/**
 * Applies a JSON Merge Patch (RFC 7396): fields of the patch replace those of the target, null
 * removes a field, and objects merge field by field. Anything else replaces the target. Dates,
 * bytes and bigints are replaced as a whole, as numbers are. Changes neither argument; the result
 * may share parts with both.
 */
export function mergePatch(target: Value | undefined, patch: Value): Value {
  if (!isObject(patch)) return patch;
  const merged: Record<string, Value> = isObject(target) ? { ...target } : {};
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete merged[key];
    else setKey(merged, key, mergePatch(Object.hasOwn(merged, key) ? merged[key] : undefined, value));
  }
  return merged;
}
