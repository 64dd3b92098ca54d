import { DescribeTableCommand, DescribeTimeToLiveCommand, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { translateDynamoDbError } from '../aws/dynamodb-error.ts';

/**
 * Write units a second that a new on-demand table takes from its first second on.
 * Source: Amazon DynamoDB Developer Guide, "DynamoDB on-demand capacity mode", initial throughput.
 */
const ON_DEMAND_WRITE_UNITS = 4_000;

/**
 * How many write units a second a table takes: what is provisioned, the limit that it was given, or what every on-demand
 * table takes.
 * @throws ResourceMissingError where there is no such table
 */
export async function readWriteCapacity(client: DynamoDBClient, table: string): Promise<number> {
  try {
    const { Table } = await client.send(new DescribeTableCommand({ TableName: table }));
    const provisioned = Table?.ProvisionedThroughput?.WriteCapacityUnits ?? 0;
    const limited = Table?.OnDemandThroughput?.MaxWriteRequestUnits ?? -1;
    if (Table?.BillingModeSummary?.BillingMode !== 'PAY_PER_REQUEST' && provisioned > 0) return provisioned;
    return limited > 0 ? limited : ON_DEMAND_WRITE_UNITS;
  } catch (error) {
    throw translateDynamoDbError(error, [table]);
  }
}

/**
 * The attribute by which a table lets its items expire; undefined where it does not.
 * @throws ResourceMissingError where there is no such table
 */
export async function readTtlAttribute(client: DynamoDBClient, table: string): Promise<string | undefined> {
  try {
    const { TimeToLiveDescription: ttl } = await client.send(new DescribeTimeToLiveCommand({ TableName: table }));
    const on = ttl?.TimeToLiveStatus === 'ENABLED' || ttl?.TimeToLiveStatus === 'ENABLING';
    return on ? ttl.AttributeName : undefined;
  } catch (error) {
    throw translateDynamoDbError(error, [table]);
  }
}
