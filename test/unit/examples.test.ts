import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import manifest from '../../package.json' with { type: 'json' };

const EXAMPLES = join(import.meta.dirname, '../../examples');

/** The adapters, and the number of lines of code that each must stay below. */
const ADAPTERS: Readonly<Record<string, number>> = {
  'castore/event-storage.ts': 80,
  'castore/snapshots.ts': 40,
  'emmett/event-store.ts': 80,
  'infinisheet/event-log.ts': 200,
  'yjs/binding.ts': 70,
  'yjs/reducer.ts': 80,
};

const textOf = (file: string) => readFileSync(join(EXAMPLES, file), 'utf8');

test.each(Object.entries(ADAPTERS))('the adapter %s has fewer than %i lines of code', (file, limit) => {
  const lines = textOf(file).split('\n');
  expect(lines.filter((line) => !/^\s*($|\/\/|\/\*\*|\*)/.test(line)).length).toBeLessThan(limit);
});

const copied = readdirSync(EXAMPLES, { recursive: true, encoding: 'utf8' }).filter(
  (file) => file.endsWith('.ts') && !file.startsWith('demo/'),
);

test.each(copied)('%s imports only packages, logfold by its entries, and its own folder', (file) => {
  const imported = Array.from(textOf(file).matchAll(/^(?:import|export) .* from '([^']+)'/gm), ([, name = '']) => name);
  expect(imported.filter((name) => name.startsWith('logfold')).length).toBeGreaterThan(0);
  const entries = Object.keys(manifest.exports).map((path) => path.replace('.', 'logfold'));
  const packages = [...entries, ...Object.keys({ ...manifest.dependencies, ...manifest.devDependencies })];
  expect(imported.filter((name) => !packages.includes(name) && !/^\.\/[\w-]+\.ts$/.test(name))).toEqual([]);
});
