import { BlobKeyInvalidError } from '../../errors.ts';
import type { BlobRange } from '../../store/blob-store.ts';

/** The longest key of S3, in bytes of UTF-8. */
const MAX_KEY_BYTES = 1024;

/**
 * Checks a key against the limits of S3, which allow more than logfold writes.
 * @throws BlobKeyInvalidError if S3 has no such keys
 */
export function checkS3Key(key: string): string {
  if (key === '' || !key.isWellFormed() || Buffer.byteLength(key) > MAX_KEY_BYTES) {
    throw new BlobKeyInvalidError(`${JSON.stringify(key)} is not a key for an object in S3`, {
      advice: `Use 1 to ${MAX_KEY_BYTES} bytes of UTF-8`,
    });
  }
  return key;
}

/** Compares names, because the SDK has no class for some errors. */
export function isNamed(error: unknown, name: string): boolean {
  return error instanceof Error && error.name === name;
}

/**
 * The Range header for a part of an object; undefined for an empty part, which no header can
 * express.
 */
export function rangeHeader(range: BlobRange): string | undefined {
  if ('last' in range) return range.last > 0 ? `bytes=-${range.last}` : undefined;
  return range.from < range.to ? `bytes=${range.from}-${range.to - 1}` : undefined;
}

/** The size of the whole object, in bytes, from a header such as `bytes 0-9/100`. */
export function sizeOf(contentRange: string | undefined): number {
  const [, size] = /^bytes \d+-\d+\/(\d+)$/.exec(contentRange ?? '') ?? [];
  if (size === undefined) throw new Error(`S3 answered with '${contentRange}' as the range of an object`);
  return Number(size);
}
