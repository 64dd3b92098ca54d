import {
  CreateTableCommand,
  type CreateTableCommandInput,
  type DynamoDBClient,
  type ScalarAttributeType,
  type StreamViewType,
} from '@aws-sdk/client-dynamodb';

/** The names of a table's keys with their types: the partition key, then the sort key. */
export type TableKeys = Readonly<Record<string, ScalarAttributeType>>;

/** The keys of a table of orders. */
export const ORDER_KEYS: TableKeys = { pk: 'S', sk: 'N' };

/** How DynamoDB takes the keys of a table. */
export function keySettings(keys: TableKeys): Pick<CreateTableCommandInput, 'AttributeDefinitions' | 'KeySchema'> {
  const names = Object.entries(keys);
  return {
    AttributeDefinitions: names.map(([AttributeName, AttributeType]) => ({ AttributeName, AttributeType })),
    KeySchema: names.map(([AttributeName], i) => ({ AttributeName, KeyType: i === 0 ? 'HASH' : 'RANGE' })),
  };
}

/** Creates a table of an application. @returns the ARN of its stream, or an empty text */
export async function createItemTable(
  client: DynamoDBClient,
  name: string,
  { keys = ORDER_KEYS, stream }: { readonly keys?: TableKeys; readonly stream?: StreamViewType } = {},
): Promise<string> {
  const { TableDescription: made } = await client.send(
    new CreateTableCommand({
      ...{ TableName: name, BillingMode: 'PAY_PER_REQUEST', ...keySettings(keys) },
      ...(stream !== undefined && { StreamSpecification: { StreamEnabled: true, StreamViewType: stream } }),
    }),
  );
  return made?.LatestStreamArn ?? '';
}
