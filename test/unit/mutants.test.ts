import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { MUTANTS } from '../simulation/mutants.ts';
import { plant } from '../simulation/plant.ts';

describe('planted faults', () => {
  test.each(MUTANTS.map((mutant) => [mutant.name, mutant] as const))('%s can be planted', async (_, { edits }) => {
    expect(edits.length).toBeGreaterThan(0);
    for (const edit of edits) {
      const source = await readFile(new URL(`../../src/${edit.file}`, import.meta.url), 'utf8');
      expect(plant(source, edit)).not.toBe(source);
    }
  });

  test('are all named in docs/invariants.md, which names no others', async () => {
    const text = await readFile(new URL('../../docs/invariants.md', import.meta.url), 'utf8');
    const [, table = ''] = text.split('## Faults that the simulation finds');
    const named = [...table.matchAll(/^\| `([a-z-]+)` +\| (.*?) +\|/gm)].map(([, name, fault]) => ({ name, fault }));
    expect(named).toEqual(MUTANTS.map(({ name, fault }) => ({ name, fault })));
  });
});
