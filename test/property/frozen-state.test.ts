import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Value } from '../../src/codec/value.ts';
import { Draft } from '../../src/state/draft.ts';
import { FrozenState } from '../../src/state/frozen-state.ts';
import { saveState } from '../../src/state/state.ts';
import type { NodeStore } from '../../src/tree/node-store.ts';
import { MemoryChunks, nodeStore, SMALL_SHAPE } from '../support/chunks.ts';
import { propertyRuns } from '../support/property-runs.ts';

const MAPS = ['plain', 'buffered'];

interface Step {
  /** A put, or a deletion if the value is null. */
  readonly edits: readonly { readonly map: string; readonly key: number; readonly value: Value }[];
  readonly next: 'go on' | 'save' | 'new draft';
}

const edit = fc.record({
  map: fc.constantFrom(...MAPS),
  key: fc.nat({ max: 300 }),
  value: fc.oneof(
    { weight: 8, arbitrary: fc.string({ maxLength: 20 }) },
    { weight: 3, arbitrary: fc.constant(null) },
    { weight: 1, arbitrary: fc.integer({ min: 4090, max: 4110 }).map((length) => 'x'.repeat(length)) },
  ),
});
const step = fc.record({
  edits: fc.array(edit, { minLength: 1, maxLength: 150, size: 'max' }),
  next: fc.constantFrom<Step['next'][]>('go on', 'save', 'new draft'),
});

function applyStep(draft: Draft, edits: Step['edits']): void {
  for (const { map: name, key, value } of edits) {
    const map = draft.map(name, 'number', { buffers: name === 'buffered' });
    if (value === null) map.delete(key);
    else map.put(key, value);
  }
  draft.meta.set('edits', Number(draft.meta.get('edits') ?? 0) + edits.length);
}

/** Everything that a frozen state shows. */
async function contents(frozen: FrozenState): Promise<unknown> {
  const maps = frozen.mapNames.map(async (name) => [name, await Array.fromAsync(frozen.map(name).range())]);
  return { meta: [...frozen.meta], maps: await Promise.all(maps) };
}

async function freeze(store: NodeStore, draft: Draft) {
  const frozen = new FrozenState(store, await draft.state());
  return { frozen, contents: await contents(frozen) };
}

test('a frozen state stays the same while later entries are folded and saved', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 2, maxLength: 8 }), async (steps) => {
      const store = nodeStore({ shape: SMALL_SHAPE, cacheBytes: 3000 }, new MemoryChunks());
      let draft = new Draft(store);
      const model = new Map<string, Map<number, Value>>(MAPS.map((name) => [name, new Map()]));
      const held: Awaited<ReturnType<typeof freeze>>[] = [];
      for (const { edits, next } of steps) {
        applyStep(draft, edits);
        for (const { map, key, value } of edits) {
          if (value === null) model.get(map)?.delete(key);
          else model.get(map)?.set(key, value);
        }
        const last = await freeze(store, draft);
        held.push(last);
        for (const [name, items] of model) {
          const sorted = [...items].sort(([a], [b]) => a - b).map(([key, value]) => ({ key, value }));
          expect(await Array.fromAsync(last.frozen.map(name).range())).toEqual(sorted);
          expect(await Array.fromAsync(last.frozen.map(name).range({ from: 50, to: 200, limit: 7 }))).toEqual(
            sorted.filter(({ key }) => key >= 50 && key < 200).slice(0, 7),
          );
          const backwards = { from: 50, to: 200, limit: 7, reverse: true };
          expect(await Array.fromAsync(last.frozen.map(name).range(backwards))).toEqual(
            sorted
              .filter(({ key }) => key >= 50 && key < 200)
              .toReversed()
              .slice(0, 7),
          );
          for (const key of [0, 100, 299]) {
            expect(await last.frozen.map(name).get(key)).toEqual(items.get(key));
            expect(await last.frozen.map(name).has(key)).toBe(items.has(key));
          }
        }
        if (next === 'save') await saveState(store, last.frozen.state);
        if (next === 'new draft') draft = new Draft(store, last.frozen.state);
      }
      for (const { frozen, contents: before } of held) expect(await contents(frozen)).toEqual(before);
    }),
    { numRuns: propertyRuns(100) },
  );
});
