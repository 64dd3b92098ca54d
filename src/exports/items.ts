/**
 * The package `logfold/items`: the reducer for revisions of the items of a plain table. Runs in a
 * browser too.
 */
export type { AttributeValue, Item } from '../log/attribute.ts';
export {
  ITEMS_ENTRY_VERSIONS,
  type ItemEdit,
  type ItemRevision,
  type RevisionChange,
  readItemRevision,
  type StreamPlace,
} from '../state/items/edit.ts';
export { itemKey, type KeyNames } from '../state/items/item-key.ts';
export {
  foldsItems,
  ITEMS_MAP,
  type ItemsState,
  items,
  type LastRevisions,
  type LiveItem,
  lastRevisions,
  liveItems,
  sourceTableOf,
} from '../state/items/reducer.ts';
