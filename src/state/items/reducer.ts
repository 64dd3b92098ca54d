import type { DraftMap } from '../draft-map.ts';
import { plainName } from '../history/with-history.ts';
import { bodyInvalid, checkType, type FoldEntry, type Reducer, type ReducerDraft } from '../reducer.ts';
import { ITEMS_ENTRY_VERSIONS, parseItemEdit } from './edit.ts';
import { itemRevisionValue, readItemRevision } from './item-revision.ts';

/** The newest revision of each item, also of a deleted one, under the key of the item. */
export const ITEMS_MAP = 'items';
/** Names in the metadata record: the source table, and the time of the log's newest revision. */
export const [TABLE_NAME, TIME_NAME] = ['table', 'time'] as const;

export function itemsMap(draft: ReducerDraft): DraftMap {
  return draft.map(ITEMS_MAP, 'string', { buffers: true });
}

/**
 * Folds the revisions of items of a plain table: `Put`, `Delete`, `Expire` and `Gap`. Refuses a
 * revision whose number is not the next one of its item, so that two writers cannot both count.
 */
export const items: Reducer = {
  name: 'items',
  version: 1,
  async fold(draft: ReducerDraft, entry: FoldEntry): Promise<void> {
    checkType(entry, ITEMS_ENTRY_VERSIONS);
    const { type, created } = entry;
    const { table, key, ...edit } = parseItemEdit(type, entry.body);
    const known = draft.meta.get(TABLE_NAME) ?? table;
    if (known !== table) throw bodyInvalid(type, `it is of table '${table}', and the log of '${String(known)}'`);
    const map = itemsMap(draft);
    const stored = await map.get(key);
    const last = stored === undefined ? undefined : readItemRevision(stored);
    const next = (last?.revision ?? 0) + 1;
    if (edit.revision !== next) throw bodyInvalid(type, `it is revision ${edit.revision}, and the next one is ${next}`);
    draft.meta.set(TABLE_NAME, table);
    draft.meta.set(TIME_NAME, Math.max(created, Number(draft.meta.get(TIME_NAME) ?? 0)));
    const { stream = last?.stream, sequence = last?.sequence, ...rest } = edit;
    const place = stream === undefined || sequence === undefined ? {} : { stream, sequence };
    map.put(key, itemRevisionValue({ ...rest, ...place, created }));
  },
  /** Refuses a time before that of the newest revision, which another writer may have added. */
  validate({ type, created }: FoldEntry, { meta }: ReducerDraft): void {
    const newest = Number(meta.get(TIME_NAME) ?? 0);
    if (created < newest)
      throw bodyInvalid(type, `its time ${created} is before ${newest}, that of the newest revision`);
  },
};

/** Whether a reducer folds revisions of items, with or without their history. */
export function foldsItems(reducer: Pick<Reducer, 'name'>): boolean {
  return plainName(reducer) === items.name;
}
