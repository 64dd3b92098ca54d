import type { Item } from '../../log/attribute.ts';
import { READ_AHEAD } from '../../tree/read.ts';
import type { DraftMap } from '../draft-map.ts';
import { plainName } from '../history/with-history.ts';
import { bodyInvalid, checkType, type FoldEntry, type Reducer, type ReducerDraft } from '../reducer.ts';
import { ITEMS_ENTRY_VERSIONS, type ItemRevision, itemRevisionValue, parseItemEdit, readItemRevision } from './edit.ts';

/** The newest revision of each item, also of a deleted one, under the key of the item. */
export const ITEMS_MAP = 'items';
/** The name of the source table in the metadata record. */
const TABLE_NAME = 'table';
/** The time of the log's newest revision. */
const TIME_NAME = 'time';

function itemsMap(draft: ReducerDraft): DraftMap {
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

/** The current state of a document, a state of the past, or the draft of a reducer. */
export type ItemsState = ReducerDraft | { readonly draft: ReducerDraft };

/** The newest revision of an item that exists. */
export type LiveItem = ItemRevision & { readonly key: string; readonly item: Item };

/** The newest revisions in a log, from which the next revision of an item follows. */
export interface LastRevisions {
  /** The item's newest revision; undefined if it has none. */
  readonly last: ItemRevision | undefined;
  /** The time of the log's newest revision, in epoch seconds; 0 if there is none. */
  readonly time: number;
}

/** The newest revision of an item, also of a deleted one. @param key see {@link itemKey} */
export async function lastRevisions(state: ItemsState, key: string): Promise<LastRevisions> {
  const stored = await itemsMap(draftOf(state)).get(key);
  return { last: stored === undefined ? undefined : readItemRevision(stored), time: newestTime(state) };
}

/** The time of the newest revision of any item in a log, in epoch seconds; 0 if there is none. */
export function newestTime(state: ItemsState): number {
  return Number(draftOf(state).meta.get(TIME_NAME) ?? 0);
}

/** The items that exist in a state that the reducer `items` folded, in order of key. */
export async function* liveItems(state: ItemsState): AsyncGenerator<LiveItem> {
  for await (const { key, value } of itemsMap(draftOf(state)).items({ ahead: READ_AHEAD })) {
    const { item, ...revision } = readItemRevision(value);
    if (item !== undefined) yield { key: String(key), item, ...revision };
  }
}

/** The source table of a log of revisions; undefined if the log has no revision. */
export function sourceTableOf(state: ItemsState): string | undefined {
  const table = draftOf(state).meta.get(TABLE_NAME);
  return typeof table === 'string' ? table : undefined;
}

function draftOf(state: ItemsState): ReducerDraft {
  return 'draft' in state ? state.draft : state;
}
