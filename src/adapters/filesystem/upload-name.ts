import { randomUUID } from 'node:crypto';
import { BlobKeyInvalidError } from '../../errors.ts';
import type { UploadInfo } from '../../store/blob-store.ts';
import { checkBlobKey } from '../../store/keys.ts';

/** Bytes that the name of one file may have nearly everywhere are 255. */
const MAX_PART = 250;
const NAME = /^((\d{1,15})-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.([^/]+)$/;

/** Something that begins to be written now, under this key. */
export function newUpload(key: string): UploadInfo {
  const started = Date.now();
  return { key, id: `${started}-${randomUUID()}`, started };
}

/**
 * What the file of an upload is called: its id, which has the time, then its key. Names too long for one file are cut
 * into folders, which no two uploads share. All of our own keys are short enough.
 * @throws BlobKeyInvalidError for a key or an id that is none
 */
export function formatUploadName({ key, id }: UploadInfo): string {
  // No dots, so that no part of it is '..'.
  const name = `${id}.${encodeURIComponent(checkBlobKey(key)).replaceAll('.', '%2E')}`;
  if (!NAME.test(name)) throw new BlobKeyInvalidError(`'${id}' is not the id of an upload`);
  const parts = Array.from({ length: Math.ceil(name.length / MAX_PART) }, (_, i) =>
    name.slice(i * MAX_PART, (i + 1) * MAX_PART),
  );
  return parts.join('/');
}

/** The inverse of `formatUploadName`; undefined for every name that it does not give. */
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
