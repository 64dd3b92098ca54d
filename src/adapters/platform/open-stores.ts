import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { ArchivedLogStore } from '../../archive/archived-log-store.ts';
import { UsageError } from '../../errors.ts';
import { withFeed } from '../../feed/feed-log-store.ts';
import type { GroupStore } from '../../feed/group-store.ts';
import { type ParseLog, parseLogId } from '../../ids/log-id.ts';
import { RESERVED_TYPES, type ReservedTypes } from '../../log/entry.ts';
import type { LogStore } from '../../log/log-store.ts';
import { VIRTUAL_TYPES } from '../../log/schedule.ts';
import { type MappedTable, requireClaim, requireMappedBooks } from '../../mapping/bucket-claim.ts';
import { parseMappedLog } from '../../mapping/key-pattern.ts';
import { LogRegistrar } from '../../mapping/log-registrar.ts';
import type { MappedItems } from '../../mapping/mapped-items.ts';
import { MappedLogStore } from '../../mapping/mapped-log-store.ts';
import type { SchemaMapping } from '../../mapping/schema-mapping.ts';
import type { BlobStore } from '../../store/blob-store.ts';
import { DynamoDbGroupStore } from '../dynamodb/group-store.ts';
import { DynamoDbLogStore, type DynamoDbLogStoreOptions } from '../dynamodb/log-store.ts';
import { DynamoDbMappedItems } from '../dynamodb/mapped-items.ts';
import { TableMeter } from '../dynamodb/requests.ts';
import { nativePlatform } from './native.ts';

/** The names of a deployment's tables. */
export interface DeployedTables {
  readonly entryTable: string;
  readonly segmentTable: string;
  /** Undefined if the deployment has no feed. */
  readonly feedTable?: string | undefined;
}

/** A deployment: its clients and names, and how its items become entries. */
export interface Deployment<Blobs extends BlobStore = BlobStore> extends DeployedTables {
  readonly dynamodb: DynamoDBClient;
  /** As `openBucket` opens it, or the objects of a data directory. */
  readonly blobs: Blobs;
  /** How the items of the Entry table become entries; undefined if they are logfold's own. */
  readonly mapping?: SchemaMapping | undefined;
  /** {@link RESERVED_TYPES} by default. A mapping has its own. */
  readonly types?: ReservedTypes | undefined;
}

/** An application's table, and the logs in it. */
export interface MappedLogs extends MappedTable {
  readonly items: MappedItems;
  readonly registrar: LogRegistrar;
}

/** The stores of a deployment, from which every process takes what it needs. */
export interface Stores<Blobs extends BlobStore = BlobStore> extends Deployment<Blobs> {
  readonly tables: LogStore;
  readonly store: ArchivedLogStore;
  readonly platform: typeof nativePlatform;
  readonly types: ReservedTypes;
  /** Parses the id of a log of this deployment. */
  readonly parseLog: ParseLog;
  /** Counts the requests to the tables. */
  readonly requests: TableMeter;
  /** Undefined without a mapping. */
  readonly mapped: MappedLogs | undefined;
}

/**
 * Opens the stores of a deployment. Sends no request: a wrong name shows with the first one.
 * @throws UsageError if the feed would be in a table of the logs
 */
export function openStores<Blobs extends BlobStore>(deployment: Deployment<Blobs>): Stores<Blobs> {
  const { entryTable: table, feedTable, blobs, mapping, types = RESERVED_TYPES } = deployment;
  requireOwnFeedTable(deployment);
  const requests = new TableMeter();
  const client = { client: deployment.dynamodb, meter: requests.meter };
  const own = { ...client, entryTable: table, segmentTable: deployment.segmentTable };
  const shared = { platform: nativePlatform, requests };
  const withTables = (logs: LogStore) => {
    const tables = feedTable === undefined ? logs : withFeed(logs, storeInOneTable(client, feedTable));
    return { tables, store: new ArchivedLogStore(tables, { blobs, platform: nativePlatform }) };
  };
  if (mapping === undefined) {
    const tables = withTables(new DynamoDbLogStore(own));
    return { ...deployment, ...shared, ...tables, types, parseLog: parseLogId, mapped: undefined };
  }
  const items = new DynamoDbMappedItems({ ...own, table, mapping });
  const logs = new MappedLogStore({ items, books: storeInOneTable(client, own.segmentTable), mapping, now: Date.now });
  return {
    ...deployment,
    ...shared,
    ...withTables(logs),
    types: VIRTUAL_TYPES,
    parseLog: (text) => parseMappedLog(mapping, text),
    mapped: { table, mapping, items, registrar: new LogRegistrar({ store: logs, blobs, table, mapping }) },
  };
}

/** A store whose entries and segments are in one table. */
function storeInOneTable(client: Pick<DynamoDbLogStoreOptions, 'client' | 'meter'>, table: string): DynamoDbLogStore {
  return new DynamoDbLogStore({ ...client, entryTable: table, segmentTable: table });
}

/** The consumer groups of the feed; undefined if there is no feed. */
export function feedGroupsOf({ dynamodb: client, feedTable, requests }: Stores): GroupStore | undefined {
  return feedTable === undefined ? undefined : new DynamoDbGroupStore({ client, feedTable, meter: requests.meter });
}

/**
 * Checks that the bucket and the Segment table hold the logs of this deployment, or none yet.
 * @throws BucketTakenError or MappingDiffersError if they hold others
 */
export async function requireOwnBucket({ dynamodb: client, blobs, segmentTable, mapped }: Stores): Promise<void> {
  await requireClaim(blobs, mapped);
  if (mapped !== undefined) await requireMappedBooks(blobs, storeInOneTable({ client }, segmentTable));
}

/** @throws UsageError if the feed would be in a table of the logs */
export function requireOwnFeedTable({ entryTable, segmentTable, feedTable }: DeployedTables): void {
  if (feedTable !== entryTable && feedTable !== segmentTable) return;
  throw new UsageError(`the table '${feedTable}' is one of the logs, so it cannot have the feed too`, {
    advice: 'Name another table for the feed',
  });
}
