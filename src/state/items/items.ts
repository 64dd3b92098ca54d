import type { Item } from '../../log/attribute.ts';
import { READ_AHEAD } from '../../tree/read.ts';
import type { ReducerDraft } from '../reducer.ts';
import { type ItemRevision, readItemRevision } from './item-revision.ts';
import { itemsMap, TABLE_NAME, TIME_NAME } from './reducer.ts';

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
