import { CreateTableCommand, type DynamoDBClient, UpdateTimeToLiveCommand } from '@aws-sdk/client-dynamodb';
import { DynamoDBSingleTableEventStorageAdapter } from '@castore/event-storage-adapter-dynamodb';

/** Creates a table for Castore's events, as its documentation describes it. */
export async function createCastoreTable(client: DynamoDBClient, table: string): Promise<void> {
  await client.send(
    new CreateTableCommand({
      TableName: table,
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: [
        { AttributeName: 'aggregateId', AttributeType: 'S' },
        { AttributeName: 'version', AttributeType: 'N' },
        { AttributeName: 'eventStoreId', AttributeType: 'S' },
        { AttributeName: 'timestamp', AttributeType: 'S' },
      ],
      KeySchema: [
        { AttributeName: 'aggregateId', KeyType: 'HASH' },
        { AttributeName: 'version', KeyType: 'RANGE' },
      ],
      GlobalSecondaryIndexes: [
        {
          IndexName: 'initialEvents',
          KeySchema: [
            { AttributeName: 'eventStoreId', KeyType: 'HASH' },
            { AttributeName: 'timestamp', KeyType: 'RANGE' },
          ],
          Projection: { ProjectionType: 'KEYS_ONLY' },
        },
      ],
      StreamSpecification: { StreamEnabled: true, StreamViewType: 'NEW_IMAGE' },
    }),
  );
  await client.send(
    new UpdateTimeToLiveCommand({
      TableName: table,
      TimeToLiveSpecification: { Enabled: true, AttributeName: 'expiresAt' },
    }),
  );
}

/** Lets Castore append events to one aggregate, from a version onward. */
export async function pushEvents(
  client: DynamoDBClient,
  { table, store, aggregate }: { readonly table: string; readonly store: string; readonly aggregate: string },
  { from, count }: { readonly from: number; readonly count: number },
): Promise<void> {
  const adapter = new DynamoDBSingleTableEventStorageAdapter({ tableName: table, dynamoDBClient: client });
  for (let version = from; version < from + count; version++) {
    const event = {
      aggregateId: aggregate,
      version,
      type: version === 1 ? 'OPENED' : 'MOVED',
      payload: { order: version, to: [version * 1.5, `place ${version}`], deep: { none: null, yes: true } },
      metadata: { by: `user ${version % 3}` },
    };
    await adapter.pushEvent(event, { eventStoreId: store });
  }
}
