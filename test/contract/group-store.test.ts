import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { DynamoDbGroupStore } from '../../src/adapters/dynamodb/group-store.ts';
import { MemoryGroupStore } from '../../src/adapters/memory/group-store.ts';
import type { GroupLease, GroupStore } from '../../src/feed/group-store.ts';
import { startTestEngine, type TestEngine } from '../support/stores/engine.ts';

const NOW = 1_000_000;
const MINUTE = 60_000;

const leaseOf = (owner: string, until = NOW + MINUTE): GroupLease => ({ owner, until });
const FIRST = { checkpoint: 5, saved: 1_000 };

let engine: TestEngine;
beforeAll(async () => {
  engine = await startTestEngine();
});
afterAll(() => engine.stop());

const backends: readonly { readonly name: string; readonly open: () => Promise<GroupStore> }[] = [
  { name: 'memory', open: async () => new MemoryGroupStore() },
  {
    name: 'DynamoDB',
    open: async () => {
      const { segmentTable: feedTable } = await engine.createTables();
      return new DynamoDbGroupStore({ client: engine.client, feedTable });
    },
  },
];

describe.each(backends)('group store: $name', ({ open }) => {
  let store: GroupStore;
  beforeEach(async () => {
    store = await open();
  });

  test('the first member creates a group and has its lease', async () => {
    expect(await store.get('search')).toBeUndefined();
    const group = await store.take('search', leaseOf('ann'), FIRST);
    expect(group).toEqual({ name: 'search', ...FIRST, lease: leaseOf('ann') });
    expect(await store.get('search')).toEqual(group);
  });

  test('another member takes over exactly the lease that it names', async () => {
    await store.take('search', leaseOf('ann'), FIRST);
    const late = leaseOf('bob', NOW + 3 * MINUTE);
    const progress = { checkpoint: 9, saved: 9_000 };
    for (const over of [undefined, leaseOf('ann', NOW), leaseOf('cid')]) {
      const refused = await store.take('search', late, progress, over);
      expect(refused).toEqual({ name: 'search', ...FIRST, lease: leaseOf('ann') });
    }
    const taken = await store.take('search', late, progress, leaseOf('ann'));
    expect(taken).toEqual({ name: 'search', ...FIRST, lease: late });
    expect(await store.take('search', leaseOf('cid'), progress, leaseOf('ann'))).toEqual(taken);
  });

  test('a lease is taken over by one of two members', async () => {
    await store.take('search', leaseOf('ann'), FIRST);
    const take = (owner: string) => store.take('search', leaseOf(owner), FIRST, leaseOf('ann'));
    const answers = await Promise.all([take('bob'), take('cid')]);
    const { lease } = (await store.get('search')) ?? {};
    expect(answers.map((answer) => answer.lease)).toEqual([lease, lease]);
  });

  test('a member that takes its lease again has it longer', async () => {
    await store.take('search', leaseOf('ann'), FIRST);
    const again = await store.take('search', leaseOf('ann', NOW + 2 * MINUTE), FIRST);
    expect(again.lease).toEqual(leaseOf('ann', NOW + 2 * MINUTE));
  });

  test('a save moves the checkpoint and renews the lease', async () => {
    await store.take('search', leaseOf('ann'), FIRST);
    const renewed = leaseOf('ann', NOW + 2 * MINUTE);
    const progress = { checkpoint: 2 ** 53 - 1, saved: 1_001 };
    expect(await store.save('search', renewed, progress)).toBe(true);
    expect(await store.save('search', renewed, progress)).toBe(true);
    expect(await store.get('search')).toEqual({ name: 'search', ...progress, lease: renewed });
  });

  test('a place within an entry of the feed is kept until a later one is saved', async () => {
    await store.take('search', leaseOf('ann'), FIRST);
    const within = { span: 399, to: { segment: 2 ** 32 - 1, entry: 17 } };
    const place = { checkpoint: 5, within, saved: 1_001 };
    expect(await store.save('search', leaseOf('ann'), place)).toBe(true);
    expect(await store.get('search')).toEqual({ name: 'search', ...place, lease: leaseOf('ann') });
    await store.release('search', 'ann', place);
    const late = leaseOf('bob', NOW + MINUTE + 1);
    expect(await store.take('search', late, FIRST)).toEqual({ name: 'search', ...place, lease: late });
    const next = { checkpoint: 6, saved: 1_002 };
    await store.save('search', late, next);
    expect(await store.get('search')).toEqual({ name: 'search', ...next, lease: late });
  });

  test('a checkpoint never goes back', async () => {
    await store.take('search', leaseOf('ann'), FIRST);
    expect(await store.save('search', leaseOf('ann'), { checkpoint: 4, saved: 1_001 })).toBe(false);
    await store.release('search', 'ann', { checkpoint: 4, saved: 1_001 });
    expect(await store.get('search')).toEqual({ name: 'search', ...FIRST, lease: leaseOf('ann') });
  });

  test('a member that lost its lease changes nothing', async () => {
    await store.take('search', leaseOf('ann'), FIRST);
    const taken = await store.take('search', leaseOf('bob', NOW + 2 * MINUTE), FIRST, leaseOf('ann'));
    const progress = { checkpoint: 7, saved: 1_001 };
    expect(await store.save('search', leaseOf('ann', NOW + 3 * MINUTE), progress)).toBe(false);
    await store.release('search', 'ann', progress);
    expect(await store.get('search')).toEqual(taken);
  });

  test('a member that nobody knows saves nothing', async () => {
    expect(await store.save('search', leaseOf('ann'), FIRST)).toBe(false);
    await store.release('search', 'ann', FIRST);
    expect(await store.get('search')).toBeUndefined();
  });

  test('a released group can be taken immediately and continues at its checkpoint', async () => {
    await store.take('search', leaseOf('ann'), FIRST);
    const progress = { checkpoint: 7, saved: 1_001 };
    await store.release('search', 'ann', progress);
    expect(await store.get('search')).toEqual({ name: 'search', ...progress });
    const taken = await store.take('search', leaseOf('bob'), FIRST);
    expect(taken).toEqual({ name: 'search', ...progress, lease: leaseOf('bob') });
  });

  test('groups are independent, and the list has all of them', async () => {
    const names = ['search', 'search ', 'Ünïcode', 'x'.repeat(256)];
    for (const [i, name] of names.entries()) {
      await store.take(name, leaseOf(`owner ${i}`), { checkpoint: i, saved: i });
    }
    const listed = await Array.fromAsync(store.list());
    expect(listed.map(({ name }) => name).toSorted()).toEqual(names.toSorted());
    expect(await store.get('search ')).toEqual({
      name: 'search ',
      checkpoint: 1,
      saved: 1,
      lease: leaseOf('owner 1'),
    });
  });

  test.each([
    ['is empty', ''],
    ['is too long', 'x'.repeat(257)],
    ['has a lone surrogate', '\ud800'],
  ])('a name that %s is refused', async (_, name) => {
    await expect(store.take(name, leaseOf('ann'), FIRST)).rejects.toThrow('cannot be the name of a group');
    expect(await Array.fromAsync(store.list())).toEqual([]);
  });
});
