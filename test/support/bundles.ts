import { readFile } from 'node:fs/promises';
import { join, relative, resolve } from 'node:path';
import { z } from 'zod';
import { buildFunctions } from '../../handlers/bundle.ts';
import type { Stack } from './template.ts';

const ROOT = join(import.meta.dirname, '../..');
/** The folder that `npm run build` fills, and that the template takes the functions' code from. */
const BUILD = join(ROOT, 'build');

const mapSchema = z.strictObject({
  version: z.literal(3),
  sources: z.array(z.string()),
  mappings: z.string(),
  names: z.array(z.string()),
});

/** A function's code as it is deployed. */
export interface Bundle {
  readonly file: string;
  readonly bytes: number;
  /** The length of its source map. */
  readonly mapBytes: number;
  /** The files of which its source map names places. */
  readonly sources: readonly string[];
  /** How many of its bytes come from each file, by the file's path in the repository. */
  readonly parts: ReadonlyMap<string, number>;
  /** What it asks Node for when it runs. */
  readonly imports: readonly string[];
}

/**
 * Bundles every function of a stack as `npm run build` does.
 * @param directory outside of the repository, or the bundles would find modules that are not deployed
 * @returns by the functions' names in the template
 * @throws Error if a function's code lies where `npm run build` puts none
 */
export async function buildBundles(stack: Stack, directory: string): Promise<ReadonlyMap<string, Bundle>> {
  const { outputs } = await buildFunctions(directory);
  const bundles = stack
    .ofType('AWS::Serverless::Function')
    .map(async ({ id, properties }): Promise<[string, Bundle]> => {
      const { CodeUri, Handler } = z.object({ CodeUri: z.string(), Handler: z.string() }).parse(properties);
      const code = relative(BUILD, resolve(ROOT, CodeUri));
      const file = join(directory, code, `${Handler.slice(0, Handler.lastIndexOf('.'))}.mjs`);
      const output = outputs[relative(ROOT, file)];
      if (output === undefined) throw new Error(`npm run build does not make ${CodeUri} with the handler ${Handler}`);
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
    });
  return new Map(await Promise.all(bundles));
}
