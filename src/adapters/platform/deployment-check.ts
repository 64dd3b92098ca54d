import { ResourceNotFoundException } from '@aws-sdk/client-dynamodb';
import { HeadBucketCommand, type S3Client, S3ServiceException } from '@aws-sdk/client-s3';
import { CredentialsError, DeploymentInvalidError, ResourceMissingError, UsageError } from '../../errors.ts';
import type { TableKeys } from '../../proposal/table-sample.ts';
import { translateAwsError } from '../aws/aws-error.ts';
import {
  type DescribedTable,
  describeKeys,
  describeTable,
  mappedKeys,
  OWN_KEYS,
  OWN_TTL_ATTRIBUTE,
  type RequestLimit,
  readTtlAttribute,
} from '../dynamodb/table-settings.ts';
import type { Deployment } from './open-stores.ts';

/** The resources of a deployment, by the names in its template's parameters. */
export interface CheckedDeployment extends Omit<Deployment, 'blobs' | 'types'> {
  readonly s3: S3Client;
  readonly bucket: string;
  /** Whether entries expire by TTL, so that the Entry table needs a TTL attribute. */
  readonly ttl: boolean;
  /** Called with the error of each request that failed. The check then skips that resource. */
  readonly onUnknown: (error: unknown) => void;
  /** Time limit of the whole check, in milliseconds; 10 seconds by default. */
  readonly limitMs?: number;
}

/** The stream of a deployment, by the names in its template's parameters. */
export interface DeployedStream extends Pick<CheckedDeployment, 'dynamodb' | 'entryTable' | 'onUnknown' | 'limitMs'> {
  /** ARN of the stream whose records the stream function receives. */
  readonly streamArn: string;
  /** Whether the stream function reads more of a record than the item's key. */
  readonly readsImages: boolean;
}

const LIMIT_MS = 10_000;

/**
 * Checks the tables and the bucket, in three requests, one more if entries expire by TTL, and one
 * more if there is a feed. The keys of a mapped table must be those of its mapping. If a request is
 * throttled, refused or not answered, nothing is known about that resource. Jobs do not need these
 * requests, so work goes on.
 * @throws DeploymentInvalidError if a resource is missing or unsuitable; it names the template's
 * parameter
 * @throws UsageError if DynamoDB rejects the name of a table
 */
export async function checkDeployment(deployment: CheckedDeployment): Promise<void> {
  const { entryTable, segmentTable, feedTable, mapping, ttl, limitMs = LIMIT_MS } = deployment;
  const limit: RequestLimit = { abortSignal: AbortSignal.timeout(limitMs) };
  const own = { parameter: 'EntryTableName', name: entryTable, wanted: OWN_KEYS };
  const entry =
    mapping === undefined
      ? {
          ...own,
          advice: 'Name a table with the schema of a log, or say in Mapping how the items of this table become entries',
        }
      : {
          ...own,
          wanted: mappedKeys(mapping),
          advice: 'Correct partitionKey and sortKey in Mapping, or name the table whose keys they are',
        };
  const segments = {
    ...{ parameter: 'SegmentTableName', name: segmentTable, wanted: OWN_KEYS },
    advice: 'Name a table with the schema of a log; this table belongs to something else',
  };
  await answerTo(deployment, () => requireKeys(deployment, entry, limit));
  await answerTo(deployment, () => requireKeys(deployment, segments, limit));
  if (feedTable !== undefined) await answerTo(deployment, () => requireFeedTable(deployment, feedTable, limit));
  if (ttl) await answerTo(deployment, () => requireTtlSetting(deployment, limit));
  await answerTo(deployment, () => requireBucket(deployment, limit));
}

/**
 * Checks that the Entry table's stream brings its new entries to the stream function, in one
 * request. Jobs, sweeps and replays work without the stream, so this is not part of
 * {@link checkDeployment}.
 * @throws DeploymentInvalidError if the stream is off, is another one or lacks new images; it names
 * the template's parameter
 */
export async function checkStream(deployed: DeployedStream): Promise<void> {
  const { entryTable, limitMs = LIMIT_MS } = deployed;
  const limit: RequestLimit = { abortSignal: AbortSignal.timeout(limitMs) };
  await answerTo(deployed, async () => {
    const table = await describeNamed(deployed, { parameter: 'EntryTableName', name: entryTable }, limit);
    requireStream(table, deployed);
    requireLatestStream(table, deployed);
  });
}

/** Asks a question. If its request failed, the answer is unknown. */
async function answerTo(
  { onUnknown }: Pick<CheckedDeployment, 'onUnknown'>,
  question: () => Promise<void>,
): Promise<void> {
  try {
    await question();
  } catch (error) {
    if (error instanceof DeploymentInvalidError || error instanceof UsageError) throw error;
    onUnknown(error);
  }
}

interface TableParameter {
  /** The template's parameter with the name. */
  readonly parameter: string;
  readonly name: string;
}

async function describeNamed(
  { dynamodb }: Pick<CheckedDeployment, 'dynamodb'>,
  { parameter, name }: TableParameter,
  limit: RequestLimit,
): Promise<DescribedTable> {
  return describeTable(dynamodb, name, limit).catch((error: unknown) => {
    throw ifMissing(error, (cause) => {
      return new DeploymentInvalidError(parameter, `is '${name}', a table that does not exist in this region`, {
        advice: "Name a table in the deployment's region and account",
        cause,
      });
    });
  });
}

/** The stack creates the table of the feed, so it can only be missing if somebody deleted it. */
async function requireFeedTable({ dynamodb }: CheckedDeployment, name: string, limit: RequestLimit): Promise<void> {
  await describeTable(dynamodb, name, limit).catch((error: unknown) => {
    throw ifMissing(error, (cause) => {
      return new DeploymentInvalidError('Feed', `is on, but the table of the feed, '${name}', does not exist`, {
        advice: 'Deploy with Feed=off, then with the value from before, which creates an empty table',
        cause,
      });
    });
  });
}

/** Another error for a table that does not exist; any other error unchanged. */
function ifMissing(error: unknown, missing: (cause: unknown) => DeploymentInvalidError): unknown {
  const isMissing = error instanceof ResourceMissingError && error.cause instanceof ResourceNotFoundException;
  return isMissing ? missing(error.cause) : error;
}

interface WantedKeys extends TableParameter {
  readonly wanted: TableKeys;
  readonly advice: string;
}

async function requireKeys(deployment: CheckedDeployment, table: WantedKeys, limit: RequestLimit): Promise<void> {
  const { parameter, name, advice } = table;
  const { keys } = await describeNamed(deployment, table, limit);
  const [has, needs] = [keys, table.wanted].map(describeKeys);
  if (has === needs) return;
  throw new DeploymentInvalidError(parameter, `is '${name}', a table with the keys ${has} instead of ${needs}`, {
    advice,
  });
}

function requireStream({ stream: view }: DescribedTable, { entryTable: name, readsImages }: DeployedStream): void {
  if (view === 'NEW_IMAGE' || view === 'NEW_AND_OLD_IMAGES') return;
  if (view !== undefined && !readsImages) return;
  const is = view === undefined ? 'no stream' : `a stream of ${view}, which does not carry new images`;
  throw new DeploymentInvalidError('EntryTableName', `is '${name}', a table with ${is}`, {
    advice: 'Turn its stream on with the view type NEW_IMAGE, and pass its ARN as EntryTableStreamArn',
  });
}

/**
 * A stream that is turned off and on again has another ARN. The old stream ends without an error.
 */
function requireLatestStream({ streamArn: latest }: DescribedTable, { entryTable, streamArn }: DeployedStream): void {
  if (latest === streamArn) return;
  const reason = `is '${streamArn}', but the stream of table '${entryTable}' is '${latest}': no records arrive`;
  throw new DeploymentInvalidError('EntryTableStreamArn', reason, {
    advice:
      "Deploy with the ARN of the table's stream. If the stack created its tables, pass their names too, so that they " +
      'stay. The next sweep finds the records that did not arrive',
  });
}

async function requireTtlSetting(
  { dynamodb, entryTable, mapping }: CheckedDeployment,
  limit: RequestLimit,
): Promise<void> {
  const wanted = mapping === undefined ? OWN_TTL_ATTRIBUTE : mapping.ttl;
  if (wanted === undefined) {
    throw new DeploymentInvalidError('Expire', `is 'ttl', but Mapping names no TTL attribute: no entry would expire`, {
      advice: "Name the table's TTL attribute as ttl in Mapping, or set Expire to 'delete' or 'never'",
    });
  }
  const attribute = await readTtlAttribute(dynamodb, entryTable, limit);
  if (attribute === wanted) return;
  const is = attribute === undefined ? 'has no TTL' : `has its TTL on attribute '${attribute}'`;
  throw new DeploymentInvalidError('Expire', `is 'ttl', but table '${entryTable}' ${is}: no entry would expire`, {
    advice: `Turn its TTL on for attribute '${wanted}', or set Expire to 'delete' or 'never'`,
  });
}

async function requireBucket({ s3, bucket }: CheckedDeployment, limit: RequestLimit): Promise<void> {
  const here = await s3.config.region();
  const region = await s3.send(new HeadBucketCommand({ Bucket: bucket }), limit).then(
    (answer) => answer.BucketRegion,
    (error: unknown) => regionFromError(error, { bucket, here }),
  );
  // Some servers that speak S3's protocol do not report the region of a bucket.
  if (region === undefined || region === here) return;
  throw invalidBucket(bucket, `a bucket in region ${region}, but the functions run in ${here}`, undefined);
}

/** The answer to a HEAD request has no body, so only its status and headers show the reason. */
function regionFromError(error: unknown, { bucket, here }: { readonly bucket: string; readonly here: string }): string {
  if (!(error instanceof S3ServiceException)) throw translateAwsError(error, `bucket '${bucket}'`);
  const { httpStatusCode: status } = error.$metadata;
  const region = error.$response?.headers['x-amz-bucket-region'];
  if (region !== undefined && region !== here) return region;
  if (status === 301 || status === 307) throw invalidBucket(bucket, 'a bucket in another region', error);
  if (status === 404) throw invalidBucket(bucket, 'a bucket that does not exist', error);
  // The bucket may belong to another account, or a policy of the organization refuses this request
  // for a while.
  if (status === 403) {
    throw new CredentialsError(`parameter BucketName is '${bucket}', a bucket that the functions cannot access`, {
      advice: 'If jobs fail too, name a bucket of this account, or allow the functions s3:ListBucket on it',
      cause: error,
    });
  }
  throw translateAwsError(error, `bucket '${bucket}'`);
}

function invalidBucket(bucket: string, reason: string, cause: unknown): DeploymentInvalidError {
  return new DeploymentInvalidError('BucketName', `is '${bucket}', ${reason}`, {
    advice: "Name a bucket in the deployment's region and account, or leave it empty to have one created",
    cause,
  });
}
