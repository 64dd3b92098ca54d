import { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  AbortMultipartUploadCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  type ListMultipartUploadsCommandOutput,
  ListObjectsV2Command,
  NoSuchKey,
  NotFound,
  type ObjectIdentifier,
  PutObjectCommand,
  paginateListObjectsV2,
  type S3Client,
  S3ServiceException,
} from '@aws-sdk/client-s3';
import { Upload } from '@aws-sdk/lib-storage';
import pLimit from 'p-limit';
import {
  BlobKeyInvalidError,
  BlobLockedError,
  CredentialsError,
  StoreUnavailableError,
  textOf,
  UploadAbortedError,
} from '../../errors.ts';
import { type RetryLimits, retry } from '../../log/backoff.ts';
import {
  type BlobInfo,
  type BlobPart,
  type BlobRange,
  type BlobStore,
  clampRange,
  isSameWrite,
  type ListOptions,
  rangeHeader,
  STREAM_PART_BYTES,
  type UploadInfo,
} from '../../store/blob-store.ts';
import { checkBlobKey } from '../../store/keys.ts';
import { translateAwsError } from '../aws/aws-error.ts';
import { DELETE_BATCH, deleteObjects } from './delete-objects.ts';

/** Concurrent uploads of parts of one stream. */
const CONCURRENT_PARTS = 2;
const CONCURRENT_HEADS = 16;
const RETRIES: RetryLimits = { attempts: 10, baseMs: 50, capMs: 2_000 };

export interface S3BlobStoreOptions {
  readonly client: S3Client;
  readonly bucket: string;
  /**
   * Retries for failures that the SDK does not retry: an object broke off during its transfer, some
   * keys of a batch were not deleted, or an object changed between read and write. Ten attempts by
   * default, which take up to ten seconds.
   */
  readonly retries?: RetryLimits;
}

/** S3's answers to a conditional write if the object was written or deleted after it was read. */
const CONFLICTS = ['PreconditionFailed', 'ConditionalRequestConflict', 'NoSuchKey'];

/** An object broke off during its transfer. */
class BrokenOffError extends StoreUnavailableError {}

/** Another process wrote an object between read and write. */
class ConflictError extends StoreUnavailableError {}

interface FoundObject extends Omit<BlobInfo, 'key'> {
  /** Undefined if the bucket has no versioning. */
  readonly versionId: string | undefined;
}

/**
 * Blobs in an S3 bucket. The credentials need `s3:ListBucket` too: without it S3 answers "access
 * denied" for a missing object. `uploads` and `abort` need `s3:ListBucketMultipartUploads` and
 * `s3:AbortMultipartUpload`.
 *
 * A stream of more than 8 MiB becomes a multipart upload. S3 dates such an object at the start of
 * the upload, not at its end. It takes at most 10,000 parts, which are 78 GiB.
 *
 * Every method throws ResourceMissingError if the bucket does not exist, and CredentialsError if
 * there are no credentials or S3 refuses them. The client retries after throttling and lost
 * connections; configure it with `sdkConfig`.
 */
export class S3BlobStore implements BlobStore {
  readonly #client: S3Client;
  readonly #bucket: string;
  readonly #retries: RetryLimits;

  constructor(options: S3BlobStoreOptions) {
    this.#client = options.client;
    this.#bucket = options.bucket;
    this.#retries = options.retries ?? RETRIES;
  }

  /**
   * @throws BlobKeyInvalidError if S3 has no such keys: the key is empty or has more than 1,024
   * bytes of UTF-8
   * @throws AttemptsExhaustedError if the object breaks off in every attempt
   */
  async get(key: string): Promise<Uint8Array | undefined> {
    const command = new GetObjectCommand({ Bucket: this.#bucket, Key: checkS3Key(key) });
    try {
      return (await this.#read(command)).bytes;
    } catch (error) {
      if (error instanceof NoSuchKey) return undefined;
      throw this.#translate(error);
    }
  }

  /** @throws BlobKeyInvalidError, AttemptsExhaustedError as `get` does */
  async getRange(key: string, range: BlobRange): Promise<BlobPart | undefined> {
    const header = rangeHeader(range);
    if (header === undefined) return this.#emptyPart(key);
    const command = new GetObjectCommand({ Bucket: this.#bucket, Key: checkS3Key(key), Range: header });
    try {
      const { bytes, contentRange } = await this.#read(command);
      return { bytes, size: sizeOf(contentRange) };
    } catch (error) {
      if (error instanceof NoSuchKey) return undefined;
      if (!isNamed(error, 'InvalidRange')) throw this.#translate(error);
    }
    const nothing = await this.#emptyPart(key);
    if (nothing === undefined) return undefined;
    // Some servers that speak S3's protocol fail if a suffix range is longer than the object.
    const { from, to } = clampRange(range, nothing.size);
    return from === to ? nothing : this.getRange(key, { from, to });
  }

  async put(key: string, bytes: Uint8Array): Promise<void> {
    const command = new PutObjectCommand({ Bucket: this.#bucket, Key: checkBlobKey(key), Body: bytes });
    try {
      await this.#client.send(command);
    } catch (error) {
      throw this.#translate(error);
    }
  }

  async putStream(key: string, bytes: AsyncIterable<Uint8Array>): Promise<void> {
    const Key = checkBlobKey(key);
    const upload = new Upload({
      client: this.#client,
      params: { Bucket: this.#bucket, Key, Body: Readable.from(bytes, { objectMode: false }) },
      partSize: STREAM_PART_BYTES,
      queueSize: CONCURRENT_PARTS,
      leavePartsOnError: false,
    });
    try {
      await upload.done();
    } catch (error) {
      if (!isNamed(error, 'NoSuchUpload')) throw this.#translate(error);
      throw new UploadAbortedError(`the upload of '${key}' was aborted`, { cause: error });
    }
  }

  /**
   * @throws BlobDeleteError if S3 refuses some keys; earlier batches of 1,000 keys are deleted
   * already
   * @throws BlobLockedError if Object Lock protects some keys; the others of the batch are deleted
   * @throws AttemptsExhaustedError if S3 is too busy for some keys in every attempt
   */
  async delete(keys: readonly string[]): Promise<void> {
    const full = keys.map((key) => ({ Key: checkBlobKey(key) }));
    for (const batch of batches(full)) {
      const locked = await this.#deleteBatch(batch);
      if (locked.length > 0) throw this.#locked(locked);
    }
  }

  /**
   * Checks every object with a HEAD request and deletes those that have not changed since they were
   * listed.
   *
   * In a bucket with versioning, only the checked version is deleted. This frees its storage and
   * needs `s3:DeleteObjectVersion`. A version that it replaced becomes visible again.
   *
   * Without versioning, an object that is written between both requests is deleted too: no
   * condition of S3 tells two writes of the same bytes apart.
   * @throws BlobLockedError if Object Lock protects some of them; the others are deleted
   * @throws BlobDeleteError, AttemptsExhaustedError as `delete` does
   */
  async deleteUnchanged(blobs: readonly BlobInfo[]): Promise<number> {
    for (const { key } of blobs) checkBlobKey(key);
    const limit = pLimit(CONCURRENT_HEADS);
    let gone = 0;
    const locked: string[] = [];
    for (const batch of batches(blobs)) {
      const found = await Promise.all(
        batch.map((blob) => limit(async () => ({ blob, object: await this.#head(blob.key) }))),
      );
      const unchanged: ObjectIdentifier[] = [];
      for (const { blob, object } of found) {
        if (object === undefined) gone++;
        else if (isUnchanged(blob, object)) unchanged.push({ Key: blob.key, VersionId: object.versionId });
      }
      if (unchanged.length > 0) locked.push(...(await this.#deleteBatch(unchanged)));
      gone += unchanged.length;
    }
    if (locked.length > 0) throw this.#locked(locked);
    return gone;
  }

  /** Uses conditional writes. Needs `s3:GetObject` and `s3:PutObject`. */
  async update(key: string, change: (bytes: Uint8Array | undefined) => Uint8Array | undefined): Promise<void> {
    const object = { Bucket: this.#bucket, Key: checkBlobKey(key) };
    await this.#retry(ConflictError, `changing '${key}' in bucket '${this.#bucket}' failed`, async () => {
      try {
        const present = await this.#read(new GetObjectCommand(object)).catch((error: unknown) => {
          if (error instanceof NoSuchKey) return undefined;
          throw error;
        });
        const changed = change(present?.bytes);
        if (changed === undefined) return;
        const condition = present === undefined ? { IfNoneMatch: '*' } : { IfMatch: present.etag };
        await this.#client.send(new PutObjectCommand({ ...object, ...condition, Body: changed }));
      } catch (error) {
        if (!CONFLICTS.some((name) => isNamed(error, name))) throw this.#translate(error);
        throw new ConflictError(`'${key}' in bucket '${this.#bucket}' was changed by another process`, {
          cause: error,
        });
      }
    });
  }

  async *list(prefix: string, { after }: ListOptions = {}): AsyncGenerator<BlobInfo> {
    const input = { Bucket: this.#bucket, Prefix: prefix, StartAfter: after };
    const pages = paginateListObjectsV2({ client: this.#client }, input);
    try {
      for await (const page of pages) {
        for (const { Key, Size, LastModified, ETag } of page.Contents ?? []) {
          if (Key === undefined || Size === undefined || LastModified === undefined) {
            throw new Error(`S3 listed an object of bucket '${this.#bucket}' without key, size or date`);
          }
          yield { key: Key, bytes: Size, modified: LastModified.getTime(), version: ETag };
        }
      }
    } catch (error) {
      throw this.#translate(error);
    }
  }

  async *uploads(prefix: string): AsyncGenerator<UploadInfo> {
    let page: ListMultipartUploadsCommandOutput | undefined;
    do {
      const command: ListMultipartUploadsCommand = new ListMultipartUploadsCommand({
        Bucket: this.#bucket,
        Prefix: prefix,
        KeyMarker: page?.NextKeyMarker,
        UploadIdMarker: page?.NextUploadIdMarker,
      });
      page = await this.#client.send(command).catch((error: unknown) => {
        throw this.#translate(error);
      });
      for (const { Key, UploadId, Initiated } of page.Uploads ?? []) {
        if (Key === undefined || UploadId === undefined || Initiated === undefined) {
          throw new Error(`S3 listed an upload to bucket '${this.#bucket}' without key, id or date`);
        }
        yield { key: Key, id: UploadId, started: Initiated.getTime() };
      }
    } while (page.IsTruncated === true && page.NextKeyMarker !== undefined);
  }

  async abort({ key, id }: UploadInfo): Promise<void> {
    const command = new AbortMultipartUploadCommand({ Bucket: this.#bucket, Key: checkBlobKey(key), UploadId: id });
    try {
      await this.#client.send(command);
    } catch (error) {
      if (!isNamed(error, 'NoSuchUpload')) throw this.#translate(error);
    }
  }

  #locked(keys: readonly string[]): BlobLockedError {
    const more = keys.length === 1 ? '' : ` and ${keys.length - 1} more`;
    return new BlobLockedError(
      `Object Lock of bucket '${this.#bucket}' protects '${keys[0]}'${more} from deletion`,
      new Set(keys),
    );
  }

  async #emptyPart(key: string): Promise<BlobPart | undefined> {
    const object = await this.#head(key);
    return object === undefined ? undefined : { bytes: new Uint8Array(), size: object.bytes };
  }

  async #head(key: string): Promise<FoundObject | undefined> {
    try {
      const command = new HeadObjectCommand({ Bucket: this.#bucket, Key: checkS3Key(key) });
      const { ContentLength, LastModified, ETag, VersionId } = await this.#client.send(command);
      if (ContentLength === undefined || LastModified === undefined) {
        throw new Error(`S3 found '${key}' in bucket '${this.#bucket}' without size or date`);
      }
      // Objects from before versioning was turned on have the version "null".
      const versionId = VersionId === 'null' ? undefined : VersionId;
      return { bytes: ContentLength, modified: LastModified.getTime(), version: ETag, versionId };
    } catch (error) {
      // The answer to a HEAD request has no body, so only its status shows the reason.
      if (error instanceof S3ServiceException && error.$metadata.httpStatusCode === 403) {
        throw new CredentialsError(`no access to '${key}' in bucket '${this.#bucket}'`, {
          advice: 'Check which credentials the AWS SDK finds here (environment, profile or role) and their permissions',
          cause: error,
        });
      }
      if (!(error instanceof NotFound)) throw this.#translate(error);
    }
    await this.#checkBucket();
    return undefined;
  }

  /**
   * S3 answers a HEAD request alike for a missing object and a missing bucket. A listing tells them
   * apart.
   */
  async #checkBucket(): Promise<void> {
    await this.#client.send(new ListObjectsV2Command({ Bucket: this.#bucket, MaxKeys: 1 })).catch((error: unknown) => {
      throw this.#translate(error);
    });
  }

  /** Reads an object, or the requested range of it, completely. */
  async #read(command: GetObjectCommand): Promise<{
    readonly bytes: Uint8Array;
    readonly contentRange: string | undefined;
    readonly etag: string | undefined;
  }> {
    const key = command.input.Key;
    return this.#retry(BrokenOffError, `reading '${key}' from bucket '${this.#bucket}' failed`, async () => {
      const { Body, ContentRange: contentRange, ETag: etag } = await this.#client.send(command);
      try {
        return { bytes: (await Body?.transformToByteArray()) ?? new Uint8Array(), contentRange, etag };
      } catch (cause) {
        throw new BrokenOffError(`'${key}' in bucket '${this.#bucket}' broke off: ${textOf(cause)}`, { cause });
      }
    });
  }

  #deleteBatch(objects: ObjectIdentifier[]): Promise<string[]> {
    return deleteObjects({ client: this.#client, bucket: this.#bucket, retries: this.#retries }, objects);
  }

  #retry<T>(
    failing: typeof BrokenOffError | typeof ConflictError,
    failure: string,
    attempt: () => Promise<T>,
  ): Promise<T> {
    const retryable = (error: unknown): boolean => error instanceof failing;
    return retry({ ...this.#retries, sleep, random: Math.random, retryable, failure }, attempt);
  }

  #translate(error: unknown): unknown {
    return translateAwsError(error, `bucket '${this.#bucket}'`);
  }
}

function isUnchanged(listed: BlobInfo, found: FoundObject): boolean {
  // For a single object S3 reports the date in whole seconds; listings may be finer.
  return isSameWrite(inSeconds(listed), inSeconds(found));
}

function inSeconds<T extends Omit<BlobInfo, 'key'>>(blob: T): T {
  return { ...blob, modified: Math.floor(blob.modified / 1000) };
}

function* batches<T>(all: readonly T[]): Generator<T[]> {
  for (let start = 0; start < all.length; start += DELETE_BATCH) yield all.slice(start, start + DELETE_BATCH);
}

/** The longest key of S3, in bytes of UTF-8. */
const MAX_KEY_BYTES = 1024;

/**
 * Checks a key against the limits of S3, which allow more than logfold writes.
 * @throws BlobKeyInvalidError if S3 has no such keys
 */
function checkS3Key(key: string): string {
  if (key === '' || !key.isWellFormed() || Buffer.byteLength(key) > MAX_KEY_BYTES) {
    throw new BlobKeyInvalidError(`${JSON.stringify(key)} is not a key for an object in S3`, {
      advice: `Use 1 to ${MAX_KEY_BYTES} bytes of UTF-8`,
    });
  }
  return key;
}

/** Compares names, because the SDK has no class for some errors. */
function isNamed(error: unknown, name: string): boolean {
  return error instanceof Error && error.name === name;
}

/** The size of the whole object, in bytes, from a header such as `bytes 0-9/100`. */
function sizeOf(contentRange: string | undefined): number {
  const [, size] = /^bytes \d+-\d+\/(\d+)$/.exec(contentRange ?? '') ?? [];
  if (size === undefined) throw new Error(`S3 answered with '${contentRange}' as the range of an object`);
  return Number(size);
}
