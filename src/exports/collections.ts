/**
 * The package `logfold/collections`: the reducer for documents of scalars and collections. Runs in
 * a browser too.
 */
export type { ValueObject } from '../codec/value.ts';
export {
  Collection,
  type CollectionItem,
  type CollectionItemChange,
  Collections,
  collectionsOf,
  type IdRange,
} from '../state/collections/collections.ts';
export {
  COLLECTIONS_ENTRY_VERSIONS,
  type CollectionItemPlace,
  type CollectionsEdit,
  type CollectionsEntryType,
  collections,
  mergePatch,
} from '../state/collections/reducer.ts';
