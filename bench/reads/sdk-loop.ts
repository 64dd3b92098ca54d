import { DynamoDBClient, QueryCommand, type QueryCommandOutput } from '@aws-sdk/client-dynamodb';
import { entryKey } from '../../src/log/item-codec.ts';
import { CREDENTIALS, endOf, LOG, REGION, TABLES } from './engine-log.ts';
import type { ReadSystem } from './system.ts';

/** The loop that a user of the SDK writes. It takes pages of 1 MB and drops the items. */
export const queryPages: ReadSystem = async ({ endpoint, workload }, clock) => {
  const client = new DynamoDBClient({ endpoint, region: REGION, credentials: CREDENTIALS });
  const { S, N } = entryKey(LOG, endOf(workload));
  const read = { entries: 0, requests: 0, readUnits: 0, objects: 0 };
  await clock.time(async () => {
    let start: QueryCommandOutput['LastEvaluatedKey'];
    do {
      const output: QueryCommandOutput = await client.send(
        new QueryCommand({
          TableName: TABLES.entryTable,
          KeyConditionExpression: 'S = :s AND N < :end',
          ExpressionAttributeValues: { ':s': S, ':end': N },
          ExclusiveStartKey: start,
          ReturnConsumedCapacity: 'TOTAL',
        }),
      );
      read.entries += output.Items?.length ?? 0;
      read.requests++;
      read.readUnits += output.ConsumedCapacity?.CapacityUnits ?? 0;
      start = output.LastEvaluatedKey;
    } while (start !== undefined);
  });
  return { ...read, finish: async () => client.destroy() };
};
