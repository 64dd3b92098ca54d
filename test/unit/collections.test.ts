import { describe, expect, test } from 'vitest';
import type { Value } from '../../src/codec/value.ts';
import { LogfoldError } from '../../src/errors.ts';
import { type Collections, collectionsOf, type IdRange } from '../../src/state/collections/collections.ts';
import { type CollectionsEntryType, collections } from '../../src/state/collections/reducer.ts';
import { Draft } from '../../src/state/draft.ts';
import { nodeStore, SMALL_SHAPE } from '../support/chunks.ts';
import { foldEntryAt } from '../support/logs.ts';

type Edit = readonly [type: CollectionsEntryType, body: Value];

/** Folds entries, and returns what their state has. */
async function folded(...edits: readonly Edit[]): Promise<{ read: Collections; draft: Draft }> {
  const draft = new Draft(nodeStore({ shape: SMALL_SHAPE }));
  for (const [entry, [type, body]] of edits.entries()) {
    await collections.fold(draft, foldEntryAt(entry, type, body));
  }
  return { read: collectionsOf(draft), draft };
}

describe('scalars', () => {
  test('they are put, patched and deleted by name', async () => {
    const { read } = await folded(
      ['Put', { name: 'title', value: 'My project' }],
      ['Put', { name: 'owner', value: { id: 7, mail: 'a@example.com' } }],
      ['Put', { name: 'draft', value: true }],
      [
        'Patch',
        { patch: { title: 'My project (edited)', owner: { mail: null, phone: '1' }, draft: null, none: null } },
      ],
      ['Delete', { name: 'absent' }],
    );
    expect(await read.scalars()).toEqual({ title: 'My project (edited)', owner: { id: 7, phone: '1' } });
    expect(await read.scalar('title')).toBe('My project (edited)');
    expect(await read.scalar('draft')).toBeUndefined();
    expect(await read.names()).toEqual([]);
  });

  test('a name that is special in JavaScript is a name as any other', async () => {
    const patch: Value = JSON.parse('{"__proto__":{"a":1},"constructor":2}');
    const { read } = await folded(['Patch', { patch }], ['Patch', { patch: JSON.parse('{"__proto__":{"b":1}}') }]);
    expect(JSON.stringify(await read.scalars())).toBe('{"__proto__":{"a":1,"b":1},"constructor":2}');
  });
});

describe('a collection', () => {
  test('it counts its changes, and each item counts its own', async () => {
    const { read } = await folded(
      ['Put', { collection: 'tasks', id: 'a', value: { text: 'buy', done: false } }],
      ['Put', { collection: 'tasks', id: 'b', value: 1 }],
      ['Patch', { collection: 'tasks', id: 'a', patch: { done: true } }],
      ['Put', { collection: 'people', id: 'a', value: 'Ann' }],
    );
    const tasks = read.collection('tasks');
    expect(await tasks.version()).toBe(3);
    expect(await tasks.get('a')).toEqual({ id: 'a', version: 2, value: { text: 'buy', done: true } });
    expect(await tasks.get('c')).toBeUndefined();
    expect(await Array.fromAsync(tasks.items())).toEqual([
      { id: 'a', version: 2, value: { text: 'buy', done: true } },
      { id: 'b', version: 1, value: 1 },
    ]);
    expect(await read.names()).toEqual(['people', 'tasks']);
    expect(await read.collection('other').version()).toBe(0);
  });

  test('a reader at a version gets each later change once, deletions too', async () => {
    const { read } = await folded(
      ['Put', { collection: 'tasks', id: 'a', value: 1 }],
      ['Put', { collection: 'tasks', id: 'b', value: 1 }],
      ['Put', { collection: 'tasks', id: 'c', value: 1 }],
      ['Put', { collection: 'tasks', id: 'a', value: 2 }],
      ['Delete', { collection: 'tasks', id: 'b' }],
      ['Put', { collection: 'tasks', id: 'a', value: 3 }],
    );
    const changes = (since: number) => Array.fromAsync(read.collection('tasks').changesSince(since));
    expect(await changes(3)).toEqual([
      { id: 'b', version: 2, value: undefined },
      { id: 'a', version: 3, value: 3 },
    ]);
    expect((await changes(0)).map(({ id }) => id)).toEqual(['c', 'b', 'a']);
    expect(await changes(6)).toEqual([]);
    expect(await changes(99)).toEqual([]);
    await expect(changes(-1)).rejects.toThrow('a version is -1, not a whole number of at least 0');
  });

  test('the version of an item goes on after its deletion', async () => {
    const { read } = await folded(
      ['Put', { collection: 'tasks', id: 'a', value: 1 }],
      ['Delete', { collection: 'tasks', id: 'a' }],
      ['Delete', { collection: 'tasks', id: 'a' }],
      ['Put', { collection: 'tasks', id: 'a', value: 1 }],
    );
    expect(await read.collection('tasks').get('a')).toEqual({ id: 'a', version: 3, value: 1 });
    expect(await read.collection('tasks').version()).toBe(3);
  });

  test('a range of ids stays in its collection', async () => {
    const names = ['a', 'a-b', 'a0', 'b'];
    const ids = ['-', '/', '0', 'a/b', 'x'];
    const { read } = await folded(
      ...names.flatMap((collection) =>
        ids.map((id): Edit => ['Put', { collection, id, value: `${collection} ${id}` }]),
      ),
      ['Delete', { collection: 'a', id: '0' }],
    );
    const found = async (range: IdRange) =>
      (await Array.fromAsync(read.collection('a').items(range))).map(({ id, value }) => [id, value]);
    expect(await found({})).toEqual(['-', '/', 'a/b', 'x'].map((id) => [id, `a ${id}`]));
    expect(await found({ from: '/', to: 'x' })).toEqual(['/', 'a/b'].map((id) => [id, `a ${id}`]));
    expect(await found({ from: '/', limit: 2 })).toEqual(['/', 'a/b'].map((id) => [id, `a ${id}`]));
    expect(await found({ limit: 0 })).toEqual([]);
    expect(await found({ reverse: true })).toEqual(['x', 'a/b', '/', '-'].map((id) => [id, `a ${id}`]));
    expect(await found({ to: 'x', reverse: true, limit: 1 })).toEqual([['a/b', 'a a/b']]);
    await expect(found({ limit: 0.5 })).rejects.toThrow('the limit of a range is 0.5');
    expect(await read.names()).toEqual(['a', 'a-b', 'a0', 'b']);
  });
});

describe('an entry that is not an edit', () => {
  test.each<[CollectionsEntryType, Value, string]>([
    ['Put', null, 'its body is not an object'],
    ['Put', [1], 'its body is not an object'],
    ['Put', {}, 'its body has the fields (none), not name,value or collection,id,value'],
    ['Put', { collection: 'a', value: 1 }, 'its body has the fields collection,value'],
    ['Put', { name: '', value: 1 }, "'name' is not a text of 1 to 512 UTF-16 code units"],
    ['Put', { collection: 'a/b', id: '1', value: 1 }, "the name of a collection cannot contain '/'"],
    ['Put', { collection: 'a'.repeat(257), id: '1', value: 1 }, "'collection' is not a text of 1 to 256"],
    ['Put', { collection: 'a', id: 1, value: 1 }, "'id' is not a text of 1 to 512"],
    ['Patch', { patch: [1] }, "the 'patch' of scalars is not an object"],
    ['Patch', { patch: { '': 1 } }, "'name' is not a text of 1 to 512"],
    ['Patch', { collection: 'a', id: '1', patch: 1, value: 2 }, 'its body has the fields collection,id,patch,value'],
    ['Delete', { name: 'a', value: 1 }, 'its body has the fields name,value, not name or collection,id'],
  ])('%s %j fails its log and changes nothing', async (type, body, reason) => {
    const { draft, read } = await folded(['Put', { name: 'title', value: 1 }]);
    const failing = collections.fold(draft, foldEntryAt(1, type, body));
    const error: unknown = await Promise.resolve(failing).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(LogfoldError);
    expect(error).toMatchObject({ code: 'BODY_INVALID', stopsLog: true });
    expect(error).toMatchObject({ reason: expect.stringContaining(reason) });
    expect(await read.scalars()).toEqual({ title: 1 });
  });

  test('another type or version of an entry is unknown', async () => {
    const body = { name: 'a', value: 1 };
    const { draft } = await folded();
    await expect(collections.fold(draft, foldEntryAt(1, 'Set', body))).rejects.toThrow(
      'this one knows Put, Patch, Delete',
    );
    await expect(collections.fold(draft, { ...foldEntryAt(1, 'Put', body), version: 2 })).rejects.toThrow(
      'this one knows versions 1 to 1',
    );
  });
});
