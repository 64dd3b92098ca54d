import {
  DescribeTableCommand,
  DescribeTimeToLiveCommand,
  type DynamoDBClient,
  ResourceNotFoundException,
  type TableDescription,
} from '@aws-sdk/client-dynamodb';
import { HeadBucketCommand, type S3Client, S3ServiceException } from '@aws-sdk/client-s3';
import { CredentialsError, DeploymentInvalidError, UsageError } from '../../errors.ts';
import { translateAwsError } from './aws-error.ts';
import { translateDynamoDbError } from './dynamodb-error.ts';

/** What a deployment works on, by the names that its template was given. */
export interface Deployment {
  readonly dynamodb: DynamoDBClient;
  readonly s3: S3Client;
  readonly entryTable: string;
  /** Of the stream that the stream function is given records of. */
  readonly streamArn: string;
  readonly segmentTable: string;
  readonly bucket: string;
  /** Whether entries are to expire by TTL, so that the Entry table must have it. */
  readonly ttl: boolean;
  /** Told what could not be checked, and why: a request failed. */
  readonly onUnknown: (error: unknown) => void;
  /** For how long the check asks altogether, in milliseconds; 10 seconds by default. */
  readonly limitMs?: number | undefined;
}

const KEYS = 'S (HASH, B), N (RANGE, N)';
const TTL_ATTRIBUTE = 'X';
const LIMIT_MS = 10_000;

interface Limit {
  readonly abortSignal: AbortSignal;
}

/**
 * Looks at the tables and the bucket, in three requests, or four if entries expire by TTL. A request that is throttled,
 * refused or not answered says nothing about the deployment: work does not need such requests, and goes on.
 * @throws DeploymentInvalidError naming the template's parameter, if one is missing or not as it must be
 * @throws UsageError if DynamoDB takes no such name for a table
 */
export async function checkDeployment(deployment: Deployment): Promise<void> {
  const { entryTable, segmentTable, ttl, limitMs = LIMIT_MS } = deployment;
  const limit: Limit = { abortSignal: AbortSignal.timeout(limitMs) };
  const entries = await answerTo(deployment, () => describeTable(deployment, 'EntryTableName', entryTable, limit));
  await answerTo(deployment, () => describeTable(deployment, 'SegmentTableName', segmentTable, limit));
  if (entries !== undefined) {
    requireStream(entries, entryTable);
    requireLatestStream(entries, deployment);
  }
  if (ttl) await answerTo(deployment, () => requireTtl(deployment, limit));
  await answerTo(deployment, () => requireBucket(deployment, limit));
}

/** @returns undefined if a request failed, so that nobody knows */
async function answerTo<T>({ onUnknown }: Deployment, question: () => Promise<T>): Promise<T | undefined> {
  try {
    return await question();
  } catch (error) {
    if (error instanceof DeploymentInvalidError || error instanceof UsageError) throw error;
    onUnknown(error);
    return undefined;
  }
}

async function describeTable(
  { dynamodb }: Deployment,
  parameter: string,
  name: string,
  limit: Limit,
): Promise<TableDescription> {
  const table = await dynamodb.send(new DescribeTableCommand({ TableName: name }), limit).catch((error: unknown) => {
    if (!(error instanceof ResourceNotFoundException)) throw translateDynamoDbError(error, [name]);
    throw new DeploymentInvalidError(parameter, `is '${name}', and there is no such table in this region`, {
      advice: 'Name a table of the region and account of the deployment',
      cause: error,
    });
  });
  const keys = keysOf(table.Table ?? {});
  if (keys === KEYS) return table.Table ?? {};
  throw new DeploymentInvalidError(parameter, `is '${name}', a table with the keys ${keys} instead of ${KEYS}`, {
    advice: 'Name the table that has the schema of a log; this one belongs to something else',
  });
}

function keysOf({ KeySchema, AttributeDefinitions }: TableDescription): string {
  const keys = (KeySchema ?? []).map(({ AttributeName, KeyType }) => {
    const type = AttributeDefinitions?.find((definition) => definition.AttributeName === AttributeName)?.AttributeType;
    return `${AttributeName} (${KeyType}, ${type})`;
  });
  return keys.join(', ');
}

function requireStream({ StreamSpecification: stream }: TableDescription, name: string): void {
  const view = stream?.StreamEnabled === true ? stream.StreamViewType : undefined;
  if (view === 'NEW_IMAGE' || view === 'NEW_AND_OLD_IMAGES') return;
  const is = view === undefined ? 'no stream' : `a stream of ${view}, which does not carry new images`;
  throw new DeploymentInvalidError('EntryTableName', `is '${name}', a table with ${is}`, {
    advice: 'Switch its stream on with the view type NEW_IMAGE, and give the ARN of that as EntryTableStreamArn',
  });
}

/** A stream that is switched off and on again is another one, and the old one ends without any error. */
function requireLatestStream(
  { LatestStreamArn: latest }: TableDescription,
  { entryTable, streamArn }: Deployment,
): void {
  if (latest === streamArn) return;
  const reason = `is '${streamArn}', while the stream of table '${entryTable}' is '${latest}': nothing arrives any more`;
  throw new DeploymentInvalidError('EntryTableStreamArn', reason, {
    advice:
      "Deploy with the ARN of the table's stream; to a stack that has made its tables give their names as well, and they " +
      'stay. The next sweep finds what did not arrive',
  });
}

async function requireTtl({ dynamodb, entryTable }: Deployment, limit: Limit): Promise<void> {
  const command = new DescribeTimeToLiveCommand({ TableName: entryTable });
  const { TimeToLiveDescription: ttl } = await dynamodb.send(command, limit).catch((error: unknown) => {
    throw translateDynamoDbError(error, [entryTable]);
  });
  const on = ttl?.TimeToLiveStatus === 'ENABLED' || ttl?.TimeToLiveStatus === 'ENABLING';
  if (on && ttl.AttributeName === TTL_ATTRIBUTE) return;
  const is = on ? `has its TTL on attribute '${ttl.AttributeName}'` : 'has no TTL';
  throw new DeploymentInvalidError('Expire', `is 'ttl', but table '${entryTable}' ${is}: nothing would ever go`, {
    advice: `Switch its TTL on for attribute '${TTL_ATTRIBUTE}', or let entries expire by 'delete' or 'never'`,
  });
}

async function requireBucket({ s3, bucket }: Deployment, limit: Limit): Promise<void> {
  const here = await s3.config.region();
  const region = await s3.send(new HeadBucketCommand({ Bucket: bucket }), limit).then(
    (answer) => answer.BucketRegion,
    (error: unknown) => regionFromError(error, { bucket, here }),
  );
  // Not every server that speaks S3's protocol says where a bucket is.
  if (region === undefined || region === here) return;
  throw invalidBucket(bucket, `a bucket of region ${region}, while the functions run in ${here}`, undefined);
}

/** The answer to a HEAD request has no body that would say more than its status and headers do. */
function regionFromError(error: unknown, { bucket, here }: { readonly bucket: string; readonly here: string }): string {
  if (!(error instanceof S3ServiceException)) throw translateAwsError(error, `bucket '${bucket}'`);
  const { httpStatusCode: status } = error.$metadata;
  const region = error.$response?.headers['x-amz-bucket-region'];
  if (region !== undefined && region !== here) return region;
  if (status === 301 || status === 307) throw invalidBucket(bucket, 'a bucket of another region', error);
  if (status === 404) throw invalidBucket(bucket, 'and there is no such bucket', error);
  // It may be somebody else's bucket, or a policy of the organization that refuses this request for a while.
  if (status === 403) {
    throw new CredentialsError(`parameter BucketName is '${bucket}', a bucket to which the functions have no access`, {
      advice: 'If jobs fail as well, name a bucket of this account, or allow the functions s3:ListBucket on it',
      cause: error,
    });
  }
  throw translateAwsError(error, `bucket '${bucket}'`);
}

function invalidBucket(bucket: string, reason: string, cause: unknown): DeploymentInvalidError {
  return new DeploymentInvalidError('BucketName', `is '${bucket}', ${reason}`, {
    advice: 'Name a bucket of the region and account of the deployment, or none, to have one made',
    cause,
  });
}
