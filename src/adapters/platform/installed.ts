import { PackageMissingError } from '../../errors.ts';

/** The clients of AWS's services, which npm leaves out with `--omit=optional`. */
export const SDK_PACKAGES: readonly string[] = [
  '@aws-sdk/client-dynamodb',
  '@aws-sdk/client-dynamodb-streams',
  '@aws-sdk/client-s3',
  '@aws-sdk/lib-storage',
];

/**
 * Loads a module that imports optional packages.
 * @throws PackageMissingError if one of them is not installed
 */
export function loadInstalled<T>(load: () => T): T {
  try {
    return load();
  } catch (error) {
    throw explainMissing(error);
  }
}

/** A PackageMissingError for Node's error about an optional package; other errors as they are. */
export function explainMissing(error: unknown): unknown {
  const [, name = ''] =
    /^Cannot find package '((?:@[^/']+\/)?[^/']+)/.exec(error instanceof Error ? error.message : '') ?? [];
  if (!SDK_PACKAGES.includes(name)) return error;
  return new PackageMissingError(`the package ${name} is not installed`, {
    advice: `Run 'npm install ${SDK_PACKAGES.join(' ')}'. On one machine (logfold/local, --local), install without --omit=optional instead: it needs the embedded database too`,
    cause: error,
  });
}
