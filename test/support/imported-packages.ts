import { isBuiltin } from 'node:module';
import { build } from 'esbuild';

/** The modules that a file imports from outside its project. */
export interface Imports {
  /** Names of packages, such as `@aws-sdk/client-s3`. */
  readonly packages: readonly string[];
  /** Modules of Node, such as `node:zlib`. */
  readonly builtins: readonly string[];
}

/** Finds what a file imports, directly or through other files. Types do not count. */
export async function importsOf(file: string): Promise<Imports> {
  const { metafile } = await build({
    entryPoints: [file],
    bundle: true,
    format: 'esm',
    packages: 'external',
    // Node loads every imported module, used or not.
    treeShaking: false,
    write: false,
    metafile: true,
  });
  const imports = Object.values(metafile.outputs).flatMap((output) => output.imports.map(({ path }) => path));
  const unique = (names: string[]) => [...new Set(names)].sort();
  return {
    packages: unique(imports.filter((path) => !isBuiltin(path)).map(packageOf)),
    builtins: unique(imports.filter((path) => isBuiltin(path))),
  };
}

/** Returns the package of an import such as `@scope/name/file.js`. */
function packageOf(path: string): string {
  return path
    .split('/')
    .slice(0, path.startsWith('@') ? 2 : 1)
    .join('/');
}
