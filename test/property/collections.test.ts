import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { toHex } from '../../src/codec/bytes.ts';
import { encodeValue } from '../../src/codec/canonical.ts';
import { decodeValue } from '../../src/codec/message-pack.ts';
import type { Value, ValueObject } from '../../src/codec/value.ts';
import {
  type Collection,
  type CollectionItem,
  type CollectionItemChange,
  collectionsOf,
} from '../../src/state/collections/collections.ts';
import type { CollectionsEdit } from '../../src/state/collections/reducer.ts';
import { collections } from '../../src/state/collections/reducer.ts';
import { Draft } from '../../src/state/draft.ts';
import { FrozenState } from '../../src/state/frozen-state.ts';
import { flushState, type State, saveState } from '../../src/state/state.ts';
import type { NodeStore } from '../../src/tree/node-store.ts';
import { MemoryChunks, nodeStore, SMALL_SHAPE } from '../support/chunks.ts';
import { foldEntryAt } from '../support/logs.ts';
import { flushedHash } from '../support/models/flushed-hash.ts';
import { reloaded } from '../support/models/reloaded.ts';
import { values } from '../support/models/values.ts';
import { propertyRuns } from '../support/property-runs.ts';

/** Documents of collections as plain as possible: keeps every change, and counts when asked. */
class CollectionsModel {
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

  changesSince(collection: string, version: number): CollectionItemChange[] {
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

const options = { shape: SMALL_SHAPE, cacheBytes: 5000 };

// Few names, so that most entries change something that exists. Some sort around the separator.
const names = fc.constantFrom('a', 'a-', '__proto__');
const ids = fc.constantFrom('/', '0', 'a/b', '__proto__', 'é');
const fields = fc.constantFrom('x', 'y', '__proto__', 'toJSON');
const large = fc.integer({ min: 5000, max: 6000 }).map((length) => 'large'.repeat(length / 5));
const value = fc.oneof({ weight: 9, arbitrary: values }, { weight: 1, arbitrary: large });
const patch: fc.Arbitrary<ValueObject> = fc.letrec<{ patch: Value; object: ValueObject }>((tie) => ({
  patch: fc.oneof({ depthSize: 'small' }, fc.constant(null), fc.integer(), values, tie('object')),
  object: fc.dictionary(fields, tie('patch'), { maxKeys: 3, noNullPrototype: true }),
})).object;

const type = <T extends string>(text: T): fc.Arbitrary<T> => fc.constant(text);
const place = { collection: names, id: ids };
const edits: fc.Arbitrary<CollectionsEdit> = fc.oneof(
  { weight: 1, arbitrary: fc.record({ type: type('Put'), name: names, value }) },
  { weight: 2, arbitrary: fc.record({ type: type('Patch'), patch }) },
  { weight: 1, arbitrary: fc.record({ type: type('Delete'), name: names }) },
  { weight: 4, arbitrary: fc.record({ type: type('Put'), ...place, value }) },
  { weight: 4, arbitrary: fc.record({ type: type('Patch'), ...place, patch: fc.oneof(patch, values) }) },
  { weight: 4, arbitrary: fc.record({ type: type('Delete'), ...place }) },
);

/** An event after an entry: nothing, or a snapshot from which another process continues. */
type Between = 'nothing' | 'snapshot' | 'flush';
const steps = fc.array(
  fc.record({ edit: edits, next: fc.constantFrom<Between[]>('nothing', 'nothing', 'snapshot', 'flush') }),
  {
    maxLength: 30,
    size: 'max',
  },
);

async function fold(draft: Draft, { type, ...body }: CollectionsEdit, entry: number): Promise<void> {
  await collections.fold(draft, foldEntryAt(entry, type, body));
}

/** The edit as a decoder gives it: without bigints that a number can hold, for example. */
function canonical(edit: CollectionsEdit): CollectionsEdit {
  const fields = Object.entries(edit).map(([name, value]) => [name, decodeValue(encodeValue(value))]);
  return Object.assign({ ...edit }, Object.fromEntries(fields));
}

/** A value as text, so that values that look equal differ. */
function text(value: Value | undefined): string {
  return value === undefined ? 'none' : toHex(encodeValue(value));
}

interface Valued {
  readonly value: Value | undefined;
}

function shown(items: readonly Valued[]): unknown[] {
  return items.map((item) => ({ ...item, value: text(item.value) }));
}

async function shownAll(items: AsyncIterable<Valued>): Promise<unknown[]> {
  return shown(await Array.fromAsync(items));
}

async function compareCollection(collection: Collection, model: CollectionsModel): Promise<void> {
  const { name } = collection;
  const version = await collection.version();
  expect(version).toBe(model.version(name));
  const items = model.items(name);
  expect(await shownAll(collection.items())).toEqual(shown(items));
  expect(await shownAll(collection.items({ reverse: true }))).toEqual(shown(items.toReversed()));
  for (const id of ['0', 'a', 'é']) {
    expect(await shownAll(collection.items({ from: id, limit: 2 }))).toEqual(
      shown(items.filter((item) => item.id >= id).slice(0, 2)),
    );
    expect(await shownAll(collection.items({ to: id }))).toEqual(shown(items.filter((item) => item.id < id)));
    const found = await collection.get(id);
    expect(shown(found === undefined ? [] : [found])).toEqual(shown(items.filter((item) => item.id === id)));
  }
  for (const since of [0, Math.floor(version / 2), version - 1, version]) {
    expect(await shownAll(collection.changesSince(since))).toEqual(shown(model.changesSince(name, since)));
  }
}

describe('documents of collections', () => {
  test('all reads equal those of a plain model, wherever snapshots are', { tags: ['I9'] }, async () => {
    let changes = 0;
    await fc.assert(
      fc.asyncProperty(steps, async (plan) => {
        const chunks = new MemoryChunks();
        const model = new CollectionsModel();
        const plain = new Draft(nodeStore(options));
        let nodes = nodeStore(options, chunks);
        let draft = new Draft(nodes);
        for (const [index, { edit, next }] of plan.entries()) {
          model.apply(canonical(edit));
          await fold(draft, edit, index);
          await fold(plain, edit, index);
          if (next === 'nothing') continue;
          const state = await draft.state();
          const loaded = await reloaded(nodes, next === 'flush' ? await flushState(nodes, state) : state, index);
          nodes = nodeStore(options, chunks);
          draft = new Draft(nodes, loaded);
        }
        const read = collectionsOf(new FrozenState(nodes, await draft.state()));
        const scalars = Object.entries(await read.scalars()).map(([name, each]) => [name, text(each)]);
        expect(scalars.sort()).toEqual([...model.scalars].map(([name, each]) => [name, text(each)]).sort());
        expect(await read.names()).toEqual(model.names);
        for (const name of model.names) await compareCollection(read.collection(name), model);
        changes += model.names.reduce((sum, name) => sum + model.version(name), 0);
        expect(await hashOf(draft, nodes, chunks)).toBe(await hashOf(plain, nodeStore(options), new MemoryChunks()));
      }),
      { numRuns: propertyRuns(100, 20) },
    );
    expect(changes).toBeGreaterThan(propertyRuns(100));
  });

  test('a client that asks for changes now and then has all items', async () => {
    const plan = fc.array(fc.record({ edit: edits, asks: fc.nat(7).map((n) => n === 0) }), {
      maxLength: 40,
      size: 'max',
    });
    await fc.assert(
      fc.asyncProperty(plan, async (entries) => {
        const nodes = nodeStore(options);
        const draft = new Draft(nodes);
        const copies = new Map<string, { version: number; readonly items: Map<string, string> }>();
        for (const [index, { edit, asks }] of entries.entries()) {
          await fold(draft, edit, index);
          if (!asks && index + 1 < entries.length) continue;
          const read = collectionsOf(draft);
          for (const name of await read.names()) {
            const copy = copies.get(name) ?? { version: 0, items: new Map() };
            copies.set(name, copy);
            const collection = read.collection(name);
            for await (const { id, value } of collection.changesSince(copy.version)) {
              if (value === undefined) copy.items.delete(id);
              else copy.items.set(id, text(value));
            }
            copy.version = await collection.version();
            const items = await Array.fromAsync(collection.items());
            expect([...copy.items].sort()).toEqual(items.map(({ id, value }) => [id, text(value)]).sort());
          }
        }
      }),
      { numRuns: propertyRuns(30, 6) },
    );
  });
});

async function hashOf(draft: Draft, nodes: NodeStore, chunks: MemoryChunks): Promise<string> {
  const state: State = await draft.state();
  await saveState(nodes, state);
  return flushedHash(chunks, state, options);
}
