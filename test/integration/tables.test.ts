import {
  CreateTableCommand,
  DescribeTableCommand,
  DescribeTimeToLiveCommand,
  type DynamoDBClient,
  PutItemCommand,
  ScanCommand,
} from '@aws-sdk/client-dynamodb';
import { describe, expect, test } from 'vitest';
import { UsageError } from '../../src/errors.ts';
import { findDynoxide } from '../../src/local/engine-program.ts';
import { ensureTables, missingTables, segmentTableInput } from '../../src/local/tables.ts';
import { startEngine, temporaryDirectory } from '../support/stores/shared-engine.ts';

const NAMES = { entryTable: 'orders-entries', segmentTable: 'orders-segments' };

async function engine(): Promise<DynamoDBClient> {
  return (await startEngine(await temporaryDirectory())).db;
}

describe.skipIf(findDynoxide() === undefined)('ensureTables', () => {
  test('creates both tables with their keys, the stream and the TTL attribute', async () => {
    const db = await engine();
    const streamArn = await ensureTables(db, NAMES);
    const { Table: entry } = await db.send(new DescribeTableCommand({ TableName: NAMES.entryTable }));
    expect(entry).toMatchObject({
      TableStatus: 'ACTIVE',
      LatestStreamArn: streamArn,
      BillingModeSummary: { BillingMode: 'PAY_PER_REQUEST' },
      StreamSpecification: { StreamEnabled: true, StreamViewType: 'NEW_IMAGE' },
    });
    const { TimeToLiveDescription: ttl } = await db.send(
      new DescribeTimeToLiveCommand({ TableName: NAMES.entryTable }),
    );
    expect(ttl).toEqual({ AttributeName: 'X', TimeToLiveStatus: 'ENABLED' });
    const { Table: segment } = await db.send(new DescribeTableCommand({ TableName: NAMES.segmentTable }));
    expect(segment?.StreamSpecification).toBeUndefined();
    const key = { S: { B: new Uint8Array(16) }, N: { N: '0' } };
    await db.send(new PutItemCommand({ TableName: NAMES.segmentTable, Item: key }));
  });

  test('creates each table once, also for several callers, and keeps its items', async () => {
    const db = await engine();
    const arns = await Promise.all(Array.from({ length: 6 }, () => ensureTables(db, NAMES)));
    expect(new Set(arns).size).toBe(1);
    const Item = { S: { B: new Uint8Array(20) }, N: { N: '0' } };
    await db.send(new PutItemCommand({ TableName: NAMES.entryTable, Item }));
    expect(await ensureTables(db, NAMES)).toBe(arns[0]);
    expect((await db.send(new ScanCommand({ TableName: NAMES.entryTable }))).Items).toEqual([Item]);
  });

  test('has a dry run, missingTables, which names missing tables and creates none', async () => {
    const db = await engine();
    expect(await missingTables(db, NAMES)).toEqual([NAMES.entryTable, NAMES.segmentTable]);
    expect(await missingTables(db, NAMES)).toEqual([NAMES.entryTable, NAMES.segmentTable]);
    await ensureTables(db, NAMES);
    expect(await missingTables(db, NAMES)).toEqual([]);
    expect(await missingTables(db, { ...NAMES, segmentTable: 'new' })).toEqual(['new']);
  });

  test('refuses the tables of another program', async () => {
    const db = await engine();
    await db.send(new CreateTableCommand(segmentTableInput(NAMES.entryTable)));
    for (const look of [ensureTables, missingTables]) {
      await expect(look(db, NAMES)).rejects.toThrow("table 'orders-entries' has no stream");
    }
    await db.send(
      new CreateTableCommand({
        ...segmentTableInput('other'),
        AttributeDefinitions: [
          { AttributeName: 'S', AttributeType: 'S' },
          { AttributeName: 'N', AttributeType: 'N' },
        ],
      }),
    );
    for (const look of [missingTables, ensureTables]) {
      const refused = look(db, { entryTable: 'new', segmentTable: 'other' });
      await expect(refused).rejects.toThrow(UsageError);
      await expect(refused).rejects.toThrow("table 'other' has the keys S (String) and N (Number) instead of");
    }
  });
});
