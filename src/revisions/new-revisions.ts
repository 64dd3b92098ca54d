import type { Item, StoredItem } from '../log/attribute.ts';
import type { NewEntry } from '../log/new-entry.ts';
import { canonicalItem, sameItem } from '../state/items/canonical-item.ts';
import {
  ITEMS_ENTRY_VERSIONS,
  type ItemEdit,
  type ItemRevision,
  itemBody,
  MAX_TEXT,
  type StreamPlace,
} from '../state/items/edit.ts';
import { itemKey } from '../state/items/item-key.ts';
import type { LastRevisions } from '../state/items/reducer.ts';
import { type ImageChange, isNewerRecord } from './image-change.ts';
import type { SourceTable } from './source-table.ts';

/**
 * The entries that record a change after the newest revision of its item. None if the log has the
 * record already. If the old image is not the item that the newest revision left, records are lost:
 * a `Gap` comes before the change. The entries have the record's time, or that of the log's newest
 * revision if it is later.
 * @throws UsageError if the key is malformed
 */
export function newRevisions(source: SourceTable, { last, time }: LastRevisions, change: ImageChange): NewEntry[] {
  const { stream, sequence } = change;
  const recorded = streamPlaceOf(last);
  if (recorded !== undefined && !isNewerRecord(change, recorded)) return [];
  const key = itemKey(source, change.keys);
  const created = Math.max(change.created, time);
  const old = change.oldImage && canonicalItem(change.oldImage);
  const entries: NewEntry[] = [];
  let revision = (last?.revision ?? 0) + 1;
  if (!sameItem(old, last?.item)) {
    entries.push(entryOf({ table: source.table, key, revision, change: 'Gap', ...known(source, old) }, created));
    revision++;
  }
  const item = change.change === 'Put' ? canonicalItem(change.newImage ?? {}) : undefined;
  const edit = { table: source.table, key, revision, change: change.change, stream, sequence, ...known(source, item) };
  return [...entries, entryOf(edit, created)];
}

/**
 * The entry for changes that the stream lost. Its revision follows the one that was compared.
 * @param found the key, the item as it is (undefined if there is none), and the time at which the
 * comparison saw it first, in epoch seconds by the clock of the source table
 */
export function gapRevision(
  source: SourceTable,
  { last, time }: LastRevisions,
  found: { readonly keys: StoredItem; readonly item: StoredItem | undefined; readonly created: number },
): NewEntry {
  const item = found.item && canonicalItem(found.item);
  const edit: ItemEdit = {
    table: source.table,
    key: itemKey(source, found.keys),
    revision: (last?.revision ?? 0) + 1,
    change: 'Gap',
    ...known(source, item),
  };
  return entryOf(edit, Math.max(found.created, time));
}

function entryOf(edit: ItemEdit, created: number): NewEntry {
  return { type: edit.change, version: ITEMS_ENTRY_VERSIONS[edit.change], body: itemBody(edit), created };
}

/** The item and who changed it last. A removal does not say who removed the item. */
function known({ actor }: SourceTable, item: Item | undefined): Pick<ItemRevision, 'item' | 'actor'> {
  const name = actor === undefined || item === undefined ? undefined : nameIn(item, actor);
  return { ...(item !== undefined && { item }), ...(name !== undefined && { actor: name }) };
}

/** The text or the number of an attribute; undefined if it is too long for a name. */
function nameIn(item: StoredItem, actor: string): string | undefined {
  const { S, N } = (Object.hasOwn(item, actor) ? item[actor] : undefined) ?? {};
  const name = S ?? N ?? '';
  return name === '' || name.length > MAX_TEXT ? undefined : name;
}

function streamPlaceOf(last: ItemRevision | undefined): StreamPlace | undefined {
  const { stream, sequence } = last ?? {};
  return stream === undefined || sequence === undefined ? undefined : { stream, sequence };
}
