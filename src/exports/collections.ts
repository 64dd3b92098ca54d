/**
 * The package `logfold/collections`: the reducer for documents of scalars and collections. Runs in
 * a browser too.
 */
export type { ValueObject } from '../codec/value.ts';
export {
  Collection,
  type CollectionItem,
  Collections,
  collectionsOf,
  type IdRange,
  type ItemChange,
} from '../state/collections/collections.ts';
export {
  COLLECTIONS_ENTRY_VERSIONS,
  type CollectionsEdit,
  type CollectionsEntryType,
  collections,
  type ItemPlace,
  mergePatch,
} from '../state/collections/reducer.ts';
