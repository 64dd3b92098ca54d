import type { Value } from '../../../src/codec/value.ts';
import type { CollectionItem, ItemChange } from '../../../src/state/collections/collections.ts';
import type { CollectionsEdit } from '../../../src/state/collections/edit.ts';

/** Documents of collections as plain as possible: keeps every change, and counts when asked. */
export class CollectionsModel {
  readonly scalars = new Map<string, Value>();
  readonly #items = new Map<string, Map<string, Value>>();
  /** The ids of each collection's changes, in order. */
  readonly #changes = new Map<string, string[]>();

  apply(edit: CollectionsEdit): void {
    if (!('collection' in edit)) {
      if (edit.type === 'Put') this.scalars.set(edit.name, edit.value);
      else if (edit.type === 'Delete') this.scalars.delete(edit.name);
      else for (const [name, value] of Object.entries(edit.patch)) this.#patchScalar(name, value);
      return;
    }
    const { collection, id } = edit;
    const items = this.#items.get(collection) ?? new Map<string, Value>();
    if (edit.type === 'Delete' && !items.has(id)) return;
    if (edit.type === 'Delete') items.delete(id);
    else items.set(id, edit.type === 'Put' ? edit.value : merged(items.get(id), edit.patch));
    this.#items.set(collection, items);
    this.#changes.set(collection, [...(this.#changes.get(collection) ?? []), id]);
  }

  #patchScalar(name: string, value: Value): void {
    if (value === null) this.scalars.delete(name);
    else this.scalars.set(name, merged(this.scalars.get(name), value));
  }

  get names(): string[] {
    return [...this.#items.keys()].sort();
  }

  version(collection: string): number {
    return this.#changes.get(collection)?.length ?? 0;
  }

  items(collection: string): CollectionItem[] {
    const items = [...(this.#items.get(collection) ?? [])].sort(([a], [b]) => (a < b ? -1 : 1));
    return items.map(([id, value]) => ({ id, version: this.#itemVersion(collection, id), value }));
  }

  changesSince(collection: string, version: number): ItemChange[] {
    const changes = (this.#changes.get(collection) ?? []).slice(version);
    const last = changes.filter((id, i) => changes.lastIndexOf(id) === i);
    return last.map((id) => ({
      ...{ id, version: this.#itemVersion(collection, id) },
      value: this.#items.get(collection)?.get(id),
    }));
  }

  #itemVersion(collection: string, id: string): number {
    return (this.#changes.get(collection) ?? []).filter((each) => each === id).length;
  }
}

/** MergePatch of RFC 7396, section 2. */
function merged(target: Value | undefined, patch: Value): Value {
  if (!hasFields(patch)) return patch;
  const fields = new Map(hasFields(target) ? Object.entries(target) : []);
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) fields.delete(name);
    else fields.set(name, merged(fields.get(name), value));
  }
  return Object.fromEntries(fields);
}

function hasFields(value: Value | undefined): value is { readonly [name: string]: Value } {
  return Object.prototype.toString.call(value) === '[object Object]';
}
