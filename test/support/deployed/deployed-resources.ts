import { CreateTableCommand, type DynamoDBClient, UpdateTimeToLiveCommand } from '@aws-sdk/client-dynamodb';
import { CreateBucketCommand, type S3Client } from '@aws-sdk/client-s3';
import { CreateTopicCommand, type SNSClient } from '@aws-sdk/client-sns';
import { CreateQueueCommand, GetQueueAttributesCommand, type SQSClient } from '@aws-sdk/client-sqs';
import { z } from 'zod';
import type { Stack } from './template.ts';

export interface AwsClients {
  readonly dynamodb: DynamoDBClient;
  readonly s3: S3Client;
  readonly sqs: SQSClient;
  readonly sns: SNSClient;
}

const tableSchema = z.object({
  BillingMode: z.literal('PAY_PER_REQUEST'),
  AttributeDefinitions: z.array(z.object({ AttributeName: z.string(), AttributeType: z.enum(['B', 'N', 'S']) })),
  KeySchema: z.array(z.object({ AttributeName: z.string(), KeyType: z.enum(['HASH', 'RANGE']) })),
  StreamSpecification: z.object({ StreamViewType: z.literal('NEW_IMAGE') }).optional(),
  TimeToLiveSpecification: z.object({ AttributeName: z.string(), Enabled: z.boolean() }).optional(),
});
const redriveSchema = z.object({ deadLetterTargetArn: z.string(), maxReceiveCount: z.number() });

/**
 * Creates the tables of a stack from the template, as far as the engine supports them.
 * @returns the attribute `StreamArn` of tables with a stream, by `<resource>.StreamArn`
 */
export async function makeTables(stack: Stack, dynamodb: DynamoDBClient): Promise<Readonly<Record<string, string>>> {
  const streams: Record<string, string> = {};
  for (const { id, properties } of stack.ofType('AWS::DynamoDB::Table')) {
    const { StreamSpecification: stream, TimeToLiveSpecification: ttl, ...keys } = tableSchema.parse(properties);
    const TableName = stack.ref(id);
    const StreamSpecification = stream && { StreamEnabled: true, ...stream };
    const created = await dynamodb.send(new CreateTableCommand({ TableName, ...keys, StreamSpecification }));
    const streamArn = created.TableDescription?.LatestStreamArn;
    if (streamArn !== undefined) streams[`${id}.StreamArn`] = streamArn;
    if (ttl !== undefined) {
      await dynamodb.send(new UpdateTimeToLiveCommand({ TableName, TimeToLiveSpecification: ttl }));
    }
  }
  return streams;
}

/**
 * Creates the buckets, queues and topics of a stack from the template, as far as the local servers
 * support them.
 */
export async function makeBucketsAndQueues(stack: Stack, { s3, sqs, sns }: AwsClients): Promise<void> {
  for (const { id } of stack.ofType('AWS::S3::Bucket')) {
    await s3.send(new CreateBucketCommand({ Bucket: stack.ref(id) }));
  }
  await makeQueues(stack, sqs);
  for (const { id } of stack.ofType('AWS::SNS::Topic')) {
    const { TopicArn } = await sns.send(new CreateTopicCommand({ Name: id }));
    if (TopicArn !== stack.ref(id)) throw new Error(`topic ${id} has the ARN ${TopicArn}, not ${stack.ref(id)}`);
  }
}

/** Names of the buckets with versioning. */
export function versionedBuckets(stack: Stack): ReadonlySet<string> {
  const versioned = z.object({ VersioningConfiguration: z.object({ Status: z.literal('Enabled') }) });
  const buckets = stack.ofType('AWS::S3::Bucket').filter(({ properties }) => versioned.safeParse(properties).success);
  return new Set(buckets.map(({ id }) => stack.ref(id)));
}

/** The name of a queue: the last part of its URL or ARN. */
export function queueName(urlOrArn: string): string {
  return /[^/:]+$/.exec(urlOrArn)?.[0] ?? '';
}

/** Creates dead-letter queues first, because the other queues name them. */
async function makeQueues(stack: Stack, sqs: SQSClient): Promise<void> {
  const arns = new Map<string, string | undefined>();
  const { dead = [], alive = [] } = Object.groupBy(stack.ofType('AWS::SQS::Queue'), ({ properties }) =>
    properties.RedrivePolicy === undefined ? 'dead' : 'alive',
  );
  for (const { id, properties } of [...dead, ...alive]) {
    const { RedrivePolicy, ...rest } = properties;
    const Attributes = Object.fromEntries(Object.entries(rest).map(([name, value]) => [name, String(value)]));
    if (RedrivePolicy !== undefined) {
      const { deadLetterTargetArn: arn, maxReceiveCount } = redriveSchema.parse(RedrivePolicy);
      Attributes.RedrivePolicy = JSON.stringify({ deadLetterTargetArn: arns.get(arn), maxReceiveCount });
    }
    const QueueName = queueName(stack.ref(id));
    const { QueueUrl } = await sqs.send(new CreateQueueCommand({ QueueName, Attributes }));
    if (QueueUrl !== stack.ref(id)) throw new Error(`queue ${id} has the URL ${QueueUrl}, not ${stack.ref(id)}`);
    const got = await sqs.send(new GetQueueAttributesCommand({ QueueUrl, AttributeNames: ['QueueArn'] }));
    arns.set(stack.attribute(id, 'Arn'), got.Attributes?.QueueArn);
  }
}
