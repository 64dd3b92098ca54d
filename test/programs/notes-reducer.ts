/**
 * A reducer that consists of several functions, which name the types that they use. It shows that
 * the package exports these types.
 */
import type {
  DraftMap,
  DraftMeta,
  DraftOptions,
  FoldEntry,
  FrozenMap,
  FrozenMeta,
  Key,
  KeyKind,
  KeyRange,
  MapItem,
  RangeDelete,
  RangeRead,
  Reducer,
  ReducerDraft,
  Value,
  WeighedItem,
} from '../../src/exports/logfold.ts';

type Note = { readonly text: string; readonly tags: readonly string[] };
const kind: KeyKind = 'number';
const options: DraftOptions = { buffers: false };

function put(notes: DraftMap, key: Key, note: Note): void {
  const value: Value = note;
  notes.put(key, value);
}
async function move(notes: DraftMap, { from, to }: KeyRange, gone: RangeDelete): Promise<WeighedItem | undefined> {
  const range: RangeRead = { from, to, ahead: 1 };
  const items: MapItem[] = [];
  for await (const item of notes.items(range)) items.push(item);
  notes.deleteRange(gone);
  return notes.atOffset(items.length);
}
function count(meta: DraftMeta): void {
  meta.set('notes', 1);
}
export async function read(map: FrozenMap, meta: FrozenMeta): Promise<readonly [Value | undefined, Value | undefined]> {
  return [await map.get(1), meta.get('notes')];
}
export const notes: Reducer = {
  name: 'notes',
  version: 1,
  async fold(draft: ReducerDraft, { position }: FoldEntry) {
    const map = draft.map('notes', kind, options);
    put(map, position.entry, { text: 'x', tags: [] });
    await move(map, { from: 1 }, { from: 0, to: 1 });
    count(draft.meta);
  },
};
