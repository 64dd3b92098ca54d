import { readFile } from 'node:fs/promises';
import { join, relative, resolve } from 'node:path';
import { z } from 'zod';
import { buildFunctions } from '../../../handlers/bundle.ts';
import { deployedFunctions } from './deployed-functions.ts';
import type { Stack } from './template.ts';

const ROOT = join(import.meta.dirname, '../../..');
/** The folder that `npm run build` fills. The template takes the functions' code from it. */
const BUILD = join(ROOT, 'build');

const mapSchema = z.strictObject({
  version: z.literal(3),
  sources: z.array(z.string()),
  mappings: z.string(),
  names: z.array(z.string()),
});

/** The deployed code of a function. */
export interface Bundle {
  readonly file: string;
  readonly bytes: number;
  /** Length of the source map, in bytes. */
  readonly mapBytes: number;
  /** Files that have mappings in the source map. */
  readonly sources: readonly string[];
  /** Bytes of the bundle by source file, as a path in the repository. */
  readonly parts: ReadonlyMap<string, number>;
  /** Modules that the bundle imports from Node at run time. */
  readonly imports: readonly string[];
}

/**
 * Bundles every function of a stack like `npm run build`.
 * @param directory outside the repository, so that the bundles find only modules that are deployed
 * @returns bundles by the function's name in the template
 * @throws Error if `npm run build` does not create the folder of a function
 */
export async function buildBundles(stack: Stack, directory: string): Promise<ReadonlyMap<string, Bundle>> {
  const { outputs } = await buildFunctions(directory);
  const bundles = [...deployedFunctions(stack).values()].map(
    async ({ id, code, handler }): Promise<[string, Bundle]> => {
      const folder = join(directory, relative(BUILD, resolve(ROOT, code)));
      const file = join(folder, `${handler.slice(0, handler.lastIndexOf('.'))}.mjs`);
      const output = outputs[relative(ROOT, file)];
      if (output === undefined) throw new Error(`npm run build does not create ${code} with the handler ${handler}`);
      const map = await readFile(`${file}.map`);
      const { sources } = mapSchema.parse(JSON.parse(map.toString()));
      return [
        id,
        {
          file,
          bytes: output.bytes,
          mapBytes: map.length,
          sources,
          parts: new Map(Object.entries(output.inputs).map(([input, { bytesInOutput }]) => [input, bytesInOutput])),
          imports: [...new Set(output.imports.map((each) => each.path))].sort(),
        },
      ];
    },
  );
  return new Map(await Promise.all(bundles));
}
