import { isObject, type Value, type ValueObject } from '../../codec/value.ts';
import { bodyInvalid } from '../reducer.ts';
import { SEPARATOR } from './collections.ts';

/**
 * The entry types that the reducer for collections folds, each with the highest version of its
 * body.
 */
export const COLLECTIONS_ENTRY_VERSIONS = { Put: 1, Patch: 1, Delete: 1 } as const;

export type CollectionsEntryType = keyof typeof COLLECTIONS_ENTRY_VERSIONS;

/** Limits of names and ids, in UTF-16 code units. */
const [MAX_COLLECTION_LENGTH, MAX_ID_LENGTH] = [256, 512];

export interface ItemPlace {
  readonly collection: string;
  readonly id: string;
}

/** One entry of a log with collections: a change of scalars or of an item. */
export type CollectionsEdit =
  | { readonly type: 'Put'; readonly name: string; readonly value: Value }
  | ({ readonly type: 'Put'; readonly value: Value } & ItemPlace)
  /** A JSON Merge Patch (RFC 7396) of the object of all scalars. */
  | { readonly type: 'Patch'; readonly patch: ValueObject }
  /** A JSON Merge Patch of the item. */
  | ({ readonly type: 'Patch'; readonly patch: Value } & ItemPlace)
  | { readonly type: 'Delete'; readonly name: string }
  | ({ readonly type: 'Delete' } & ItemPlace);

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

function checkPlace(type: string, collection: Value | undefined, id: Value | undefined): ItemPlace {
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
