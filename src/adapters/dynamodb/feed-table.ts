import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { UsageError } from '../../errors.ts';
import { withFeed } from '../../feed/feed-log-store.ts';
import type { GroupStore } from '../../feed/group-store.ts';
import type { LogStore } from '../../log/log-store.ts';
import { DynamoDbGroupStore } from './group-store.ts';
import { DynamoDbLogStore } from './log-store.ts';
import type { Meter } from './requests.ts';

/** The names of a deployment's tables. */
export interface FedTableNames {
  readonly entryTable: string;
  readonly segmentTable: string;
  /** Undefined if the deployment has no feed. */
  readonly feedTable: string | undefined;
}

/** @throws UsageError if the feed would be in a table of the logs */
export function requireOwnFeedTable({ entryTable, segmentTable, feedTable }: FedTableNames): void {
  if (feedTable !== entryTable && feedTable !== segmentTable) return;
  throw new UsageError(`the table '${feedTable}' is one of the logs, so it cannot have the feed too`, {
    advice: 'Name another table for the feed',
  });
}

export interface FeedTableOptions {
  readonly client: DynamoDBClient;
  /** Undefined if the deployment has no feed. */
  readonly feedTable: string | undefined;
  readonly meter?: Meter;
}

/** The tables of a deployment, and the consumer groups of its feed. */
export interface FedTables {
  readonly tables: LogStore;
  /** Undefined if there is no feed. */
  readonly feedGroups: GroupStore | undefined;
}

/**
 * Adds the table of the feed to the tables of a deployment, so that the feed is one more log of
 * them. Without a feed, the tables stay as they are.
 */
export function withFeedTable(tables: LogStore, { feedTable, ...options }: FeedTableOptions): FedTables {
  if (feedTable === undefined) return { tables, feedGroups: undefined };
  const feed = openFeedTable({ ...options, feedTable });
  return { tables: withFeed(tables, feed), feedGroups: new DynamoDbGroupStore({ ...options, feedTable }) };
}

/** The table of the feed alone, which has both its entries and its segments. */
export function openFeedTable({
  feedTable,
  ...options
}: FeedTableOptions & { readonly feedTable: string }): DynamoDbLogStore {
  return new DynamoDbLogStore({ ...options, entryTable: feedTable, segmentTable: feedTable });
}
