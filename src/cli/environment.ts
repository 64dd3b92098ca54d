import { existsSync } from 'node:fs';
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import type { TableMeter } from '../adapters/dynamodb/requests.ts';
import { describeTable, OWN_TTL_ATTRIBUTE, readTtlAttribute } from '../adapters/dynamodb/table-settings.ts';
import { MeteredBlobStore } from '../adapters/metered-blob-store.ts';
import { foldWatchOf } from '../adapters/platform/fold-watch.ts';
import { sleep, wireLogs } from '../adapters/platform/node-logs.ts';
import { feedGroupsOf, type MappedLogs, openStores, type Stores } from '../adapters/platform/open-stores.ts';
import type { Document } from '../client/document.ts';
import type { Logs } from '../client/logs.ts';
import { ReducerForeignError, ResourceMissingError } from '../errors.ts';
import { FEED_LOG } from '../feed/feed-log.ts';
import { feedReducer } from '../feed/feed-reducer.ts';
import type { LogId } from '../ids/log-id.ts';
import { dataPath } from '../local/engine-program.ts';
import { type OnForeign, oncePerPart, partNotice } from '../log/guard.ts';
import type { OnBadEntry } from '../snapshot/bad-entry.ts';
import type { Reducer } from '../state/reducer.ts';
import { FeedWriter } from '../workers/feed/feed-writer.ts';
import { type OpenPlace, openPlace, type Place, typesOf } from './place.ts';
import { chooseReducer, reducerGuard } from './reducer.ts';

/** The dependencies of every job, except a queue and a policy. */
interface Deps extends Omit<Stores<MeteredBlobStore>, 'mapped' | 'requests'> {
  readonly reducer: Reducer;
  readonly watch: ReturnType<typeof foldWatchOf>;
  readonly onForeign: OnForeign;
  readonly now: () => number;
  readonly random: () => number;
}

/** The stores, clients and settings of one place. */
export interface Environment extends Omit<OpenPlace, 'deployment'> {
  /** Counts the requests to the tables. */
  readonly requests: TableMeter;
  /** Counts the requests to the bucket. */
  readonly blobs: MeteredBlobStore;
  readonly logs: Logs;
  /**
   * Opens a log as a live document with the chosen reducer. Before it folds an entry, it throws
   * ReducerForeignError if another reducer folds the log: see {@link reducerGuard}.
   */
  readonly open: (log: LogId) => Promise<Document>;
  readonly deps: Deps;
  /** Throws ReducerForeignError if another reducer folds the log: see {@link reducerGuard}. */
  readonly requireReducer: (log: LogId) => Promise<void>;
  /**
   * For the pipeline, which leaves such a log to its reducer: resolves to that error. It rejects
   * with the error in logs of an application, because without a named reducer none can be folded.
   */
  readonly otherReducer: (log: LogId) => Promise<ReducerForeignError | undefined>;
  readonly onBadEntry: OnBadEntry | undefined;
  /** Tells people something that is not part of the answer. */
  readonly notice: (text: string) => void;
  readonly settings: TableSettings;
  /** The application's table; undefined without a mapping, and for the feed itself. */
  readonly mapped: MappedLogs | undefined;
  /** Appends to the feed; undefined if there is none. */
  readonly feed: FeedWriter | undefined;
  readonly streamArn: () => Promise<string>;
}

/** Settings of the Entry table. */
export interface TableSettings {
  /** Write units that the table takes per second. */
  readonly writeCapacity: () => Promise<number>;
  /** The TTL attribute; undefined if TTL is off. */
  readonly ttlAttribute: () => Promise<string | undefined>;
  /** The attribute that logfold stamps; undefined if the mapping names none. */
  readonly stampedAttribute: string | undefined;
  /** Whether expired items stay, because the engine accepts the TTL setting and ignores it. */
  readonly ignoresTtl: boolean;
}

/**
 * @param notice called with sentences for people, for example about parts that another program
 * wrote
 * @throws UsageError, EngineError, ResourceMissingError
 * @throws BucketTakenError, MappingDiffersError if the bucket holds the logs of another table or
 * mapping
 */
export async function openEnvironment(
  place: Place,
  notice: (text: string) => void = () => undefined,
): Promise<Environment> {
  // Fails before anything is opened.
  typesOf(place);
  const chosen = place.isFeed ? { reducer: feedReducer, named: true } : await chooseReducer(place.reducer);
  const { reducer } = chosen;
  const { deployment, ...opened } = await openPlace(place);
  const blobs = new MeteredBlobStore(deployment.blobs);
  const stores = openStores({ ...deployment, blobs });
  const mapped = place.isFeed ? undefined : stores.mapped;
  const onForeign = oncePerPart((part) => notice(partNotice(part)));
  const { requests, mapped: _, ...rest } = stores;
  const watch = foldWatchOf(process.env);
  const deps = { ...rest, reducer, watch, onForeign, now: Date.now, random: Math.random };
  const requireReducer = reducerGuard(deps, chosen, (log) => mapped !== undefined && log !== FEED_LOG);
  const logs = wireLogs({ ...stores, feedGroups: feedGroupsOf(stores), close: opened.close });
  const { onBadEntry } = place;
  const open = async (log: LogId): Promise<Document> => {
    await requireReducer(log);
    return logs.open(log, { reducer, onForeign, onBadEntry });
  };
  return {
    ...opened,
    requests,
    blobs,
    logs,
    open,
    deps,
    requireReducer,
    otherReducer: async (log) => {
      try {
        await requireReducer(log);
      } catch (error) {
        if (error instanceof ReducerForeignError && mapped === undefined) return error;
        throw error;
      }
      return undefined;
    },
    onBadEntry,
    notice,
    settings: tableSettings(place, stores),
    mapped,
    feed: stores.feedTable === undefined ? undefined : new FeedWriter({ logs, sleep, random: Math.random }),
    streamArn: () => describeStream(deployment.dynamodb, deployment.entryTable),
    close: () => logs.close(),
  };
}

function tableSettings({ isFeed, local }: Place, { dynamodb, entryTable, feedTable, mapping }: Stores): TableSettings {
  const table = (isFeed && feedTable) || entryTable;
  return {
    writeCapacity: async () => (await describeTable(dynamodb, table)).writeCapacity,
    ttlAttribute: () => readTtlAttribute(dynamodb, table),
    stampedAttribute: isFeed || mapping === undefined ? OWN_TTL_ATTRIBUTE : mapping.ttl,
    ignoresTtl: local !== undefined && existsSync(dataPath('dynoxide', local)),
  };
}

async function describeStream(client: DynamoDBClient, table: string): Promise<string> {
  const { streamArn } = await describeTable(client, table);
  if (streamArn !== undefined) return streamArn;
  throw new ResourceMissingError(`table '${table}' has no stream`, {
    advice: 'Switch its stream on, with the view type NEW_IMAGE or NEW_AND_OLD_IMAGES',
  });
}
