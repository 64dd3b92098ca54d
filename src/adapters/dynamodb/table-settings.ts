import { DescribeTableCommand, DescribeTimeToLiveCommand, type DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { translateDynamoDbError } from '../aws/dynamodb-error.ts';

/**
 * Write units per second that a new on-demand table accepts immediately. Source: Amazon DynamoDB
 * Developer Guide, "DynamoDB on-demand capacity mode", initial throughput.
 */
const ON_DEMAND_WRITE_UNITS = 4_000;

/**
 * The write units per second that a table accepts: its provisioned throughput, its configured
 * limit, or the initial throughput of an on-demand table.
 * @throws ResourceMissingError if the table does not exist
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
 * The TTL attribute of a table; undefined if TTL is off.
 * @throws ResourceMissingError if the table does not exist
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
