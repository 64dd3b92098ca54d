import { setTimeout as sleep } from 'node:timers/promises';
import { type _Error, DeleteObjectsCommand, type ObjectIdentifier, type S3Client } from '@aws-sdk/client-s3';
import { BlobDeleteError } from '../../errors.ts';
import { type RetryLimits, retry } from '../../log/backoff.ts';
import { translateAwsError } from '../aws/aws-error.ts';

/** The most keys of one DeleteObjects request. */
export const DELETE_BATCH = 1000;
/**
 * Reasons for which S3 does not delete a key under load. For other reasons a retry does not help.
 */
const TEMPORARY_REASONS = new Set(['InternalError', 'ServiceUnavailable', 'SlowDown']);

/** Object Lock protects a version until its retention ends. Only the message of S3 says so. */
const LOCKED = /object lock/i;

/** S3 did not delete some keys of a batch, for a temporary reason. */
class UndeletedError extends BlobDeleteError {}

/**
 * Deletes up to {@link DELETE_BATCH} objects. Deletes the keys again for which S3 is too busy.
 * @returns the keys of objects that Object Lock protects, which are not deleted
 * @throws BlobDeleteError if S3 refuses some keys
 * @throws AttemptsExhaustedError if S3 is too busy for some keys in every attempt
 */
export async function deleteObjects(
  { client, bucket, retries }: { readonly client: S3Client; readonly bucket: string; readonly retries: RetryLimits },
  objects: ObjectIdentifier[],
): Promise<string[]> {
  let left = objects;
  const locked = new Set<string>();
  const retryable = (error: unknown): boolean => error instanceof UndeletedError;
  const failure = `deleting ${objects.length} objects failed`;
  await retry({ ...retries, sleep, random: Math.random, retryable, failure }, async () => {
    const command = new DeleteObjectsCommand({ Bucket: bucket, Delete: { Objects: left, Quiet: true } });
    const answer = await client.send(command).catch((error) => {
      throw translateAwsError(error, `bucket '${bucket}'`);
    });
    const errors: _Error[] = [];
    for (const error of answer.Errors ?? []) {
      if (error.Key !== undefined && LOCKED.test(error.Message ?? '')) locked.add(error.Key);
      else errors.push(error);
    }
    const refused = errors.find(({ Code }) => !TEMPORARY_REASONS.has(Code ?? ''));
    const shown = refused ?? errors[0];
    if (shown === undefined) return;
    const more = errors.length === 1 ? '' : ` (and ${errors.length - 1} more)`;
    const reason = `bucket '${bucket}' did not delete '${shown.Key}'${more}: ${shown.Code}: ${shown.Message}`;
    if (refused !== undefined) throw new BlobDeleteError(reason);
    const undeleted = new Set(errors.map(({ Key }) => Key));
    left = left.filter(({ Key }) => undeleted.has(Key));
    throw new UndeletedError(reason);
  });
  return [...locked];
}
