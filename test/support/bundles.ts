import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { build } from 'esbuild';
import { z } from 'zod';
import type { Stack } from './template.ts';

const ROOT = join(import.meta.dirname, '../..');

/** What the SAM CLI hands on to esbuild, by its names in the template. */
const buildSchema = z.strictObject({
  BuildMethod: z.literal('esbuild'),
  BuildProperties: z.strictObject({
    EntryPoints: z.tuple([z.string()]),
    Format: z.enum(['esm', 'cjs']),
    Target: z.string(),
    MainFields: z.string(),
    Minify: z.boolean(),
    Sourcemap: z.boolean(),
    SourcesContent: z.boolean(),
    OutExtension: z.array(z.string()),
    External: z.array(z.string()),
    Banner: z.array(z.string()),
  }),
});

const mapSchema = z.object({ version: z.literal(3), sources: z.array(z.string()) });

/** A function's code as it is deployed. */
export interface Bundle {
  readonly file: string;
  readonly bytes: number;
  /** The files of which its source map names places. */
  readonly sources: readonly string[];
  /** How many of its bytes come from each file, by the file's path from where the function's code is. */
  readonly parts: ReadonlyMap<string, number>;
  /** What it asks Node for when it runs. */
  readonly imports: readonly string[];
}

/**
 * Bundles every function of a stack as `sam build` does, which calls the same esbuild with the same settings.
 * @param directory where it puts them; outside of the repository, or they would find modules that are not deployed
 * @returns by the functions' names in the template
 */
export async function buildBundles(stack: Stack, directory: string): Promise<ReadonlyMap<string, Bundle>> {
  const functions = stack.ofType('AWS::Serverless::Function');
  const bundles = functions.map(async ({ id, properties, metadata }): Promise<[string, Bundle]> => {
    const code = join(ROOT, z.string().parse(properties.CodeUri));
    return [id, await buildBundle(metadata, code, join(directory, id))];
  });
  return new Map(await Promise.all(bundles));
}

async function buildBundle(metadata: unknown, code: string, outdir: string): Promise<Bundle> {
  const { BuildProperties: given } = buildSchema.parse(metadata);
  const built = await build({
    absWorkingDir: code,
    entryPoints: given.EntryPoints.map((file) => join(code, file)),
    outdir,
    bundle: true,
    platform: 'node',
    format: given.Format,
    target: given.Target,
    mainFields: given.MainFields.split(','),
    minify: given.Minify,
    sourcemap: given.Sourcemap,
    sourcesContent: given.SourcesContent,
    outExtension: pairs(given.OutExtension),
    external: given.External,
    banner: pairs(given.Banner),
    metafile: true,
    logLevel: 'silent',
  });
  const [file, output] = Object.entries(built.metafile.outputs).find(([name]) => !name.endsWith('.map')) ?? [];
  if (file === undefined || output === undefined) throw new Error(`nothing was bundled of ${given.EntryPoints}`);
  const path = join(code, file);
  const { sources } = mapSchema.parse(JSON.parse(await readFile(`${path}.map`, 'utf8')));
  return {
    file: path,
    bytes: output.bytes,
    sources,
    parts: new Map(Object.entries(output.inputs).map(([input, { bytesInOutput }]) => [input, bytesInOutput])),
    imports: [...new Set(output.imports.map((each) => each.path))].sort(),
  };
}

/** `name=value`, as on esbuild's command line. */
function pairs(texts: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    texts.map((text) => {
      const equals = text.indexOf('=');
      return [text.slice(0, equals), text.slice(equals + 1)];
    }),
  );
}
