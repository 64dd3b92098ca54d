import { CreateTableCommand, type DynamoDBClient, type StreamViewType } from '@aws-sdk/client-dynamodb';

/** Creates a table of an application: a String as partition key, a Number as sort key. */
export async function createItemTable(
  client: DynamoDBClient,
  name: string,
  {
    keys: [partition, sort] = ['pk', 'sk'],
    stream,
  }: { keys?: readonly [string, string]; stream?: StreamViewType } = {},
): Promise<void> {
  await client.send(
    new CreateTableCommand({
      TableName: name,
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: [
        { AttributeName: partition, AttributeType: 'S' },
        { AttributeName: sort, AttributeType: 'N' },
      ],
      KeySchema: [
        { AttributeName: partition, KeyType: 'HASH' },
        { AttributeName: sort, KeyType: 'RANGE' },
      ],
      ...(stream !== undefined && { StreamSpecification: { StreamEnabled: true, StreamViewType: stream } }),
    }),
  );
}
