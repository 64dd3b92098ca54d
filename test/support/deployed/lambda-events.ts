import { randomUUID } from 'node:crypto';
import { DescribeTableCommand, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import {
  type AttributeValue,
  DescribeStreamCommand,
  DynamoDBStreamsClient,
  GetRecordsCommand,
  GetShardIteratorCommand,
} from '@aws-sdk/client-dynamodb-streams';
import type { Context, DynamoDBRecord, DynamoDBStreamEvent, AttributeValue as LambdaAttribute } from 'aws-lambda';
import type { LogId } from '../../../src/ids/log-id.ts';
import { logIdBytes } from '../../../src/ids/log-id.ts';

/** The event that Lambda creates from one log's stream records: JSON, with binaries in base64. */
export async function streamEvent(dynamodb: DynamoDBClient, table: string, log: LogId): Promise<DynamoDBStreamEvent> {
  const { Table } = await dynamodb.send(new DescribeTableCommand({ TableName: table }));
  const endpoint = await dynamodb.config.endpoint?.();
  const client = new DynamoDBStreamsClient({
    region: 'eu-central-1',
    credentials: { accessKeyId: 'local', secretAccessKey: 'local' },
    endpoint: `http://${endpoint?.hostname}:${endpoint?.port}`,
  });
  const StreamArn = Table?.LatestStreamArn;
  const { StreamDescription } = await client.send(new DescribeStreamCommand({ StreamArn }));
  const [shard] = StreamDescription?.Shards ?? [];
  const first = await client.send(
    new GetShardIteratorCommand({ StreamArn, ShardId: shard?.ShardId, ShardIteratorType: 'TRIM_HORIZON' }),
  );
  const { Records } = await client.send(new GetRecordsCommand({ ShardIterator: first.ShardIterator }));
  const prefix = Buffer.from(logIdBytes(log));
  const own = (Records ?? []).filter(({ dynamodb: change }) => {
    const id = change?.Keys?.S?.B;
    return id !== undefined && prefix.equals(id.subarray(0, 16));
  });
  return {
    Records: own.map((record): DynamoDBRecord => {
      const { SequenceNumber, Keys, NewImage } = record.dynamodb ?? {};
      if (record.eventID === undefined || record.eventName === undefined || SequenceNumber === undefined) {
        throw new Error('the engine returned a record without id, name or sequence number');
      }
      return {
        eventID: record.eventID,
        eventName: record.eventName,
        eventSource: 'aws:dynamodb',
        dynamodb: { SequenceNumber, Keys: lambdaItem(Keys), NewImage: lambdaItem(NewImage) },
      };
    }),
  };
}

function lambdaItem(item: Readonly<Record<string, AttributeValue>> = {}): Record<string, LambdaAttribute> {
  const entries = Object.entries(item).map(([name, { S, N, B }]): [string, LambdaAttribute] => {
    if (B !== undefined) return [name, { B: Buffer.from(B).toString('base64') }];
    return [name, N === undefined ? { S: S ?? '' } : { N }];
  });
  return Object.fromEntries(entries);
}

/** The context of an invocation. */
export function lambdaContext(remainingMs = 900_000, awsRequestId: string = randomUUID()): Context {
  return {
    callbackWaitsForEmptyEventLoop: true,
    functionName: 'logfold',
    functionVersion: '1',
    invokedFunctionArn: 'arn:aws:lambda:us-east-1:000000000000:function:logfold',
    memoryLimitInMB: '256',
    awsRequestId,
    logGroupName: '/aws/lambda/logfold',
    logStreamName: 'stream',
    getRemainingTimeInMillis: () => remainingMs,
    done: () => {},
    fail: () => {},
    succeed: () => {},
  };
}
