import { randomUUID } from 'node:crypto';
import { BlobKeyInvalidError } from '../../errors.ts';
import type { UploadInfo } from '../../store/blob-store.ts';
import { checkBlobKey } from '../../store/keys.ts';

/** Longest part of a name, in bytes. Nearly all file systems allow 255 bytes. */
const MAX_PART = 250;
const NAME = /^((\d{1,15})-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.([^/]+)$/;

/** An upload to this key that starts now. */
export function newUpload(key: string): UploadInfo {
  const started = Date.now();
  return { key, id: `${started}-${randomUUID()}`, started };
}

/**
 * The file name of an upload: its id, which contains the time, then its key. Names that are too
 * long for one file are cut into folders, which no two uploads share. The keys of logs with UUIDs
 * are short enough.
 * @throws BlobKeyInvalidError if the key or the id is malformed
 */
export function formatUploadName({ key, id }: UploadInfo): string {
  // Dots are encoded, so that no part of the name is '..'.
  const name = `${id}.${encodeURIComponent(checkBlobKey(key)).replaceAll('.', '%2E')}`;
  if (!NAME.test(name)) throw new BlobKeyInvalidError(`'${id}' is not the id of an upload`);
  const parts = Array.from({ length: Math.ceil(name.length / MAX_PART) }, (_, i) =>
    name.slice(i * MAX_PART, (i + 1) * MAX_PART),
  );
  return parts.join('/');
}

/** The inverse of `formatUploadName`; undefined for every other name. */
export function parseUploadName(name: string): UploadInfo | undefined {
  const [, id, started, encoded] = NAME.exec(name.replaceAll('/', '')) ?? [];
  if (id === undefined || encoded === undefined) return undefined;
  try {
    const upload = { key: decodeURIComponent(encoded), id, started: Number(started) };
    return formatUploadName(upload) === name ? upload : undefined;
  } catch (error) {
    if (error instanceof URIError || error instanceof BlobKeyInvalidError) return undefined;
    throw error;
  }
}
