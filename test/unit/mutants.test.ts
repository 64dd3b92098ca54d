import { access, readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { MUTANTS } from '../simulation/mutants.ts';
import { plant } from '../simulation/plant.ts';

describe('planted faults', () => {
  test.each(MUTANTS.map((mutant) => [mutant.name, mutant] as const))('%s fits the source', async (_, { edits }) => {
    expect(edits.length).toBeGreaterThan(0);
    for (const edit of edits) {
      const source = await readFile(new URL(`../../src/${edit.file}`, import.meta.url), 'utf8');
      expect(plant(source, edit)).not.toBe(source);
    }
  });

  test('the test that each fault names exists', async () => {
    for (const { test } of MUTANTS) {
      if (test !== undefined) await expect(access(new URL(`../../${test}`, import.meta.url))).resolves.toBeUndefined();
    }
  });

  test('docs/invariants.md lists exactly the planted faults', async () => {
    const text = await readFile(new URL('../../docs/invariants.md', import.meta.url), 'utf8');
    const [, table = ''] = text.split('## Planted faults');
    const rows = [...table.matchAll(/^\| `([a-z-]+)` +\| (.*?) +\| (.*?) +\|/gm)];
    const named = rows.map(([, name, fault, foundBy]) => ({ name, fault, foundBy }));
    expect(named).toEqual(
      MUTANTS.map(({ name, fault, test }) => ({
        name,
        fault,
        foundBy: test === undefined ? 'simulation' : `\`${test}\``,
      })),
    );
  });
});
