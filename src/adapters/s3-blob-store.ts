import {
  DeleteObjectsCommand,
  GetObjectCommand,
  NoSuchKey,
  PutObjectCommand,
  paginateListObjectsV2,
  type S3Client,
} from '@aws-sdk/client-s3';
import { BlobDeleteError, BlobKeyInvalidError } from '../errors.ts';
import type { BlobInfo, BlobStore } from '../store/blob-store.ts';
import { checkBlobKey } from '../store/keys.ts';
import { translateAwsError } from './aws-error.ts';

/** The most keys that one DeleteObjects request takes. */
const DELETE_BATCH = 1000;
/** The most bytes of UTF-8 that a key in S3 has. */
const MAX_KEY_BYTES = 1024;

export interface S3BlobStoreOptions {
  readonly client: S3Client;
  readonly bucket: string;
}

/**
 * Blobs in an S3 bucket. The credentials need `s3:ListBucket` too: without it S3 answers that access is denied where
 * an object is missing.
 *
 * Every method throws ResourceMissingError where the bucket does not exist, and CredentialsError where there are no
 * credentials or S3 refuses them. Retries are the client's.
 */
export class S3BlobStore implements BlobStore {
  readonly #client: S3Client;
  readonly #bucket: string;

  constructor(options: S3BlobStoreOptions) {
    this.#client = options.client;
    this.#bucket = options.bucket;
  }

  /** @throws BlobKeyInvalidError where S3 has no such keys: an empty one, one of more than 1,024 bytes of UTF-8 */
  async get(key: string): Promise<Uint8Array | undefined> {
    const command = new GetObjectCommand({ Bucket: this.#bucket, Key: checkS3Key(key) });
    try {
      const answer = await this.#client.send(command);
      return (await answer.Body?.transformToByteArray()) ?? new Uint8Array();
    } catch (error) {
      if (error instanceof NoSuchKey) return undefined;
      throw this.#translate(error);
    }
  }

  async put(key: string, bytes: Uint8Array): Promise<void> {
    const command = new PutObjectCommand({ Bucket: this.#bucket, Key: checkBlobKey(key), Body: bytes });
    try {
      await this.#client.send(command);
    } catch (error) {
      throw this.#translate(error);
    }
  }

  /** @throws BlobDeleteError where S3 refuses some of the keys; batches before them are deleted already */
  async delete(keys: readonly string[]): Promise<void> {
    const full = keys.map((key) => checkBlobKey(key));
    for (let start = 0; start < full.length; start += DELETE_BATCH) {
      await this.#deleteBatch(full.slice(start, start + DELETE_BATCH));
    }
  }

  async *list(prefix: string): AsyncGenerator<BlobInfo> {
    const pages = paginateListObjectsV2({ client: this.#client }, { Bucket: this.#bucket, Prefix: prefix });
    try {
      for await (const page of pages) {
        for (const { Key, Size, LastModified } of page.Contents ?? []) {
          if (Key === undefined || Size === undefined || LastModified === undefined) {
            throw new Error(`S3 listed an object of bucket '${this.#bucket}' without key, size or date`);
          }
          yield { key: Key, bytes: Size, modified: LastModified.getTime() };
        }
      }
    } catch (error) {
      throw this.#translate(error);
    }
  }

  async #deleteBatch(keys: readonly string[]): Promise<void> {
    const command = new DeleteObjectsCommand({
      Bucket: this.#bucket,
      Delete: { Objects: keys.map((Key) => ({ Key })), Quiet: true },
    });
    const answer = await this.#client.send(command).catch((error) => {
      throw this.#translate(error);
    });
    const [first, ...others] = answer.Errors ?? [];
    if (first !== undefined) {
      const more = others.length === 0 ? '' : ` (and ${others.length} more)`;
      throw new BlobDeleteError(
        `bucket '${this.#bucket}' did not delete '${first.Key}'${more}: ${first.Code}: ${first.Message}`,
      );
    }
  }

  #translate(error: unknown): unknown {
    return translateAwsError(error, `bucket '${this.#bucket}'`);
  }
}

/** Holds a key to what S3 takes from anybody, which is much more than we write. */
function checkS3Key(key: string): string {
  if (key === '' || !key.isWellFormed() || Buffer.byteLength(key) > MAX_KEY_BYTES) {
    throw new BlobKeyInvalidError(`${JSON.stringify(key)} is not a key for an object in S3`, {
      advice: `Keys there are 1 to ${MAX_KEY_BYTES} bytes of UTF-8`,
    });
  }
  return key;
}
