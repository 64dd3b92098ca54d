/** The package `logfold/local`: logs in a directory with an embedded engine, for Node. */
import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { checkLogsOptions, checkLogsSettings, type LogsSettings, NODE_PORTS } from '../adapters/platform/node-logs.ts';
import { feedGroupsOf, openStores } from '../adapters/platform/open-stores.ts';
import { ServerLogs } from '../adapters/web/server-logs.ts';
import { isLogfoldError, StoreUnavailableError, textOf } from '../errors.ts';
import { LOCAL_TABLES, openDataDirectory } from '../local/data-directory.ts';
import type { Engine } from '../local/engine.ts';
import type { TableNames } from '../local/tables.ts';
import { requireClaim } from '../mapping/bucket-claim.ts';

export { DynamoDbLogStore, type DynamoDbLogStoreOptions } from '../adapters/dynamodb/log-store.ts';
export { FilesystemBlobStore, type FilesystemBlobStoreOptions } from '../adapters/filesystem/blob-store.ts';
export { nativePlatform } from '../adapters/platform/native.ts';
export type { LogsSettings } from '../adapters/platform/node-logs.ts';
export type { AnswerOptions, LogOperation } from '../adapters/web/answer-log-request.ts';
export type { ObjectAnswer, ObjectOptions } from '../adapters/web/answer-object-request.ts';
export type { LogAnswer } from '../adapters/web/log-message.ts';
export { ServerLogs } from '../adapters/web/server-logs.ts';
export { type Engine, joinEngine } from '../local/engine.ts';
export { ensureTables, type TableNames } from '../local/tables.ts';

export interface LocalLogsOptions extends LogsSettings, Partial<TableNames> {
  /** Holds the tables of the engine and the objects. Several processes can share it. */
  readonly directory: string;
}

/**
 * The logs of a data directory, with the tables `Entry` and `Segment` by default. Creates what is
 * missing. Starts the embedded engine or joins it; `close` leaves the engine, which ends with its
 * last process. Share one object within a process.
 *
 * If the engine ends early, each request throws StoreUnavailableError.
 * @throws UsageError if an option is invalid, a table exists with other keys, or the directory
 * cannot be used
 * @throws EngineError if the engine does not start
 * @throws BucketTakenError, MappingDiffersError if the directory holds the mapped logs of another
 * table or mapping
 */
export async function openLogs(options: LocalLogsOptions): Promise<ServerLogs> {
  checkLogsOptions(options, ['directory', 'entryTable', 'segmentTable'] satisfies (keyof LocalLogsOptions)[]);
  const { directory, entryTable, segmentTable, cacheBytes, warmBytes, feedTable } = { ...LOCAL_TABLES, ...options };
  const { types, mapping } = checkLogsSettings({ directory, entryTable, segmentTable }, options);
  const place = { entryTable, segmentTable, feedTable, mapping, creates: true };
  const { engine, deployment } = await openDataDirectory(directory, place);
  const { dynamodb } = deployment;
  const stores = openStores({ ...deployment, types });
  await requireClaim(stores.blobs, stores.mapped).catch(async (error: unknown) => {
    await engine.leave();
    throw error;
  });
  explainLoss(dynamodb, engine.lost);
  const close = async (): Promise<void> => {
    dynamodb.destroy();
    await engine.leave();
  };
  return new ServerLogs({ ...stores, ...NODE_PORTS, feedGroups: feedGroupsOf(stores), cacheBytes, warmBytes, close });
}

/** A lost engine explains the error of a request better than the refused connection does. */
function explainLoss(client: DynamoDBClient, lost: Engine['lost']): void {
  client.middlewareStack.add(
    (next) => async (args) => {
      try {
        return await next(args);
      } catch (error) {
        if (!lost.aborted) throw error;
        const { reason: cause }: { reason: unknown } = lost;
        throw new StoreUnavailableError(isLogfoldError(cause) ? cause.reason : textOf(cause), {
          advice: 'Close the logs and open them again, which starts another engine',
          cause,
        });
      }
    },
    { step: 'initialize', priority: 'high', name: 'explainLoss' },
  );
}
