import { S3Client } from '@aws-sdk/client-s3';
import { UsageError } from '../../errors.ts';
import type { BlobStore } from '../../store/blob-store.ts';
import { sdkConfig } from '../aws/sdk-config.ts';
import { S3BlobStore } from '../s3/blob-store.ts';

/** Opens the objects of a bucket, by the scheme of its URL. */
const BUCKETS: Readonly<Record<string, (name: string, clients: BucketClients) => BlobStore>> = {
  s3: (bucket, { s3 = new S3Client(sdkConfig()) }) => new S3BlobStore({ client: s3, bucket }),
};

/** Existing clients; a client is made if it is missing. */
export interface BucketClients {
  readonly s3?: S3Client;
}

/**
 * Opens the objects of a bucket. Sends no request.
 * @param url such as `s3://snapshots`; a name without a scheme is a bucket of S3
 * @throws UsageError if no blob store has the scheme
 */
export function openBucket(url: string, clients: BucketClients = {}): BlobStore {
  const [, scheme = 's3', name = url] = /^(\w+):\/\/(.*)$/s.exec(url) ?? [];
  const open = Object.hasOwn(BUCKETS, scheme) ? BUCKETS[scheme] : undefined;
  if (open !== undefined) return open(name, clients);
  throw new UsageError(`no store of objects has the scheme of '${url}'`, {
    advice: `Give the name of a bucket, or a URL that begins with ${Object.keys(BUCKETS).join(':// or ')}://`,
  });
}
