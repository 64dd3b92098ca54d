import { parseKey } from '../../../src/store/keys.ts';

/** The parts of a request to AWS that determine the rights it needs. */
export interface AwsRequest {
  readonly service: string;
  readonly method: string;
  /** Path and query. */
  readonly url: string;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: Buffer;
}

/** A right that IAM must allow: one action on one resource. */
export interface Right {
  readonly action: string;
  /** Its ARN. */
  readonly resource: string;
}

const REGIONAL = 'us-east-1:123456789012';

/**
 * The rights that a request needs.
 *
 * Sources: Service Authorization Reference, "Actions, resources, and condition keys for Amazon
 * DynamoDB", "... Amazon S3", "... Amazon SNS" and "... Amazon SQS". Amazon DynamoDB Developer
 * Guide, "Using IAM with transactions". Amazon S3 User Guide, "Required permissions for Amazon S3
 * API operations".
 * @throws Error if the rights of the request are unknown here
 */
export function rightsOf(request: AwsRequest): Right[] {
  switch (request.service) {
    case 'dynamodb':
      return ofDynamoDb(operationOf(request), JSON.parse(request.body.toString()));
    case 'sqs':
      return [{ action: `sqs:${operationOf(request)}`, resource: queueArn(request) }];
    case 'sns':
      return [ofSns(new URLSearchParams(request.body.toString()))];
    case 's3':
      return ofS3(request);
    default:
      throw new Error(`unknown service ${request.service}. Add its rights to aws-rights.ts.`);
  }
}

/**
 * The rights that a caller needs to see `NoSuchKey`. S3 answers callers that may not list the
 * bucket with `AccessDenied`.
 */
export function rightsToLearnOfAbsence(request: AwsRequest): Right[] {
  const { bucket, key } = s3Place(request);
  return key === '' ? [] : [{ action: 's3:ListBucket', resource: bucketArn(bucket) }];
}

/**
 * Bucket and key of a request in path style. The key is empty if the request addresses the bucket.
 */
export function s3Place({ url }: AwsRequest): { readonly bucket: string; readonly key: string } {
  const [, bucket = '', key = ''] = /^\/([^/?]+)\/?([^?]*)/.exec(url) ?? [];
  return { bucket, key: decodeURIComponent(key) };
}

export function hasQuery({ url }: AwsRequest, name: string): boolean {
  return new URL(url, 'http://s3').searchParams.has(name);
}

/**
 * The keys that a DeleteObjects request names, each with a flag: does the request name a version?
 */
export function deletedObjects(body: Buffer): { readonly key: string; readonly versioned: boolean }[] {
  return [...body.toString().matchAll(/<Object>(.*?)<\/Object>/gs)].map(([, object = '']) => ({
    key: /<Key>(.*)<\/Key>/s.exec(object)?.[1] ?? '',
    versioned: object.includes('<VersionId>'),
  }));
}

function operationOf({ headers }: AwsRequest): string {
  return String(headers['x-amz-target']).split('.').at(-1) ?? '';
}

interface DynamoDbInput {
  readonly TableName?: string;
  readonly RequestItems?: Readonly<Record<string, unknown>>;
  readonly TransactItems?: readonly Readonly<Record<string, { readonly TableName: string }>>[];
}

function ofDynamoDb(operation: string, { TableName, RequestItems, TransactItems }: DynamoDbInput): Right[] {
  const right = (action: string, table: string): Right => ({
    action: `dynamodb:${action}`,
    resource: `arn:aws:dynamodb:${REGIONAL}:table/${table}`,
  });
  if (operation === 'BatchWriteItem' || operation === 'BatchGetItem') {
    return Object.keys(RequestItems ?? {}).map((table) => right(operation, table));
  }
  if (operation === 'TransactWriteItems') {
    // A transaction needs the rights for its parts, and no right for itself.
    return (TransactItems ?? []).flatMap((item) =>
      Object.entries(item).map(([part, of]) =>
        right(part === 'ConditionCheck' ? 'ConditionCheckItem' : `${part}Item`, of.TableName),
      ),
    );
  }
  if (TableName === undefined) throw new Error(`unknown operation ${operation}. Add its rights to aws-rights.ts.`);
  return [right(operation, TableName)];
}

function queueArn({ body }: AwsRequest): string {
  const { QueueUrl }: { QueueUrl: string } = JSON.parse(body.toString());
  return `arn:aws:sqs:${REGIONAL}:${QueueUrl.slice(QueueUrl.lastIndexOf('/') + 1)}`;
}

function ofSns(parameters: URLSearchParams): Right {
  return { action: `sns:${parameters.get('Action')}`, resource: parameters.get('TopicArn') ?? '' };
}

function ofS3(request: AwsRequest): Right[] {
  const { bucket, key } = s3Place(request);
  const asks = (name: string): boolean => hasQuery(request, name);
  const ofBucket = (action: string): Right[] => [{ action: `s3:${action}`, resource: bucketArn(bucket) }];
  const ofObject = (action: string, of = key): Right[] => [
    { action: `s3:${action}`, resource: `${bucketArn(bucket)}/${of}` },
  ];
  if (key === '') {
    switch (request.method) {
      case 'HEAD':
        return ofBucket('ListBucket');
      case 'GET':
        return ofBucket(asks('uploads') ? 'ListBucketMultipartUploads' : 'ListBucket');
      case 'POST':
        return deletedObjects(request.body).flatMap((object) =>
          ofObject(object.versioned ? 'DeleteObjectVersion' : 'DeleteObject', object.key),
        );
      default:
        throw new Error(`unknown request ${request.method} ${request.url}. Add its rights to aws-rights.ts.`);
    }
  }
  switch (request.method) {
    case 'HEAD':
    case 'GET':
      return ofObject('GetObject');
    case 'DELETE':
      return ofObject(asks('uploadId') ? 'AbortMultipartUpload' : 'DeleteObject');
    default:
      // Every request of a multipart upload needs the same right as PutObject. An archive is a
      // stream: if it is large and a part fails, the client aborts the upload.
      return [...ofObject('PutObject'), ...(isArchive(key) ? ofObject('AbortMultipartUpload') : [])];
  }
}

function isArchive(key: string): boolean {
  return parseKey(key)?.kind === 'archive';
}

function bucketArn(bucket: string): string {
  return `arn:aws:s3:::${bucket}`;
}
