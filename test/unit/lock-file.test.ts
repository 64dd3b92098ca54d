import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';

const Lock = z.object({
  packages: z.record(
    z.string(),
    z.object({
      version: z.string(),
      integrity: z.string().optional(),
      optional: z.boolean().optional(),
      optionalDependencies: z.record(z.string(), z.string()).optional(),
    }),
  ),
});

const { '': root, ...packages } = Lock.parse(JSON.parse(readFileSync('package-lock.json', 'utf8'))).packages;

describe('the lock file', () => {
  it.each(['darwin-arm64', 'darwin-x64', 'linux-arm64', 'linux-x64', 'win32-x64'])(
    'the embedded engine for %s is an optional package',
    (platform) => {
      const name = `@dynoxide/${platform}`;
      expect(packages[`node_modules/${name}`]).toMatchObject({
        version: root?.optionalDependencies?.[name],
        optional: true,
      });
    },
  );

  it('only the packages that docs/dependencies.md lists have no hash', () => {
    const listed = readFileSync('docs/dependencies.md', 'utf8').match(/(?<=^- `)[^`]+(?=`$)/gm);
    const lacking = Object.entries(packages)
      .filter(([, { integrity }]) => integrity === undefined)
      .map(([path, { version }]) => `${path.replace('node_modules/', '')}@${version}`);
    expect(lacking.sort()).toEqual(listed);
  });
});
