import { describeTable } from '../adapters/dynamodb/table-settings.ts';
import { UsageError } from '../errors.ts';
import type { RecordedTable } from '../local/pipeline.ts';
import type { SourceTable } from '../revisions/source-table.ts';
import { RevisionLogs, recordedKind } from '../workers/revisions/revision-logs.ts';
import type { Environment } from './environment.ts';
import { openDynamoDb, type Place } from './place.ts';

/** The plain table that a command names. */
export interface NamedTable extends Pick<Place, 'local'> {
  readonly revisionsOf: string;
  /** By default the kind of the logs that exist, or `item` if there are none. */
  readonly per?: SourceTable['per'] | undefined;
  readonly actor?: string | undefined;
}

/**
 * The plain table whose changes a pipeline records.
 * @throws UsageError if the table's stream does not carry both images, or if there are logs of both
 * kinds and none is named
 * @throws ResourceMissingError if the table does not exist
 */
export async function recordedTable(
  { logs, deps, checkpoints }: Pick<Environment, 'logs' | 'deps' | 'checkpoints'>,
  { revisionsOf: table, per, actor, local }: NamedTable,
): Promise<RecordedTable> {
  const place = await openDynamoDb(local === undefined ? {} : { local });
  const { keyNames, stream, streamArn } = await describeTable(place.client, table).finally(() => place.close());
  if (stream !== 'NEW_AND_OLD_IMAGES' || streamArn === undefined) {
    throw new UsageError(`table '${table}' has ${stream === undefined ? 'no stream' : `a stream of ${stream}`}`, {
      advice: 'Turn the stream of the table on with the view type NEW_AND_OLD_IMAGES',
    });
  }
  const kind = per ?? (await recordedKind(deps, table)) ?? 'item';
  const source: SourceTable = { table, keyNames, per: kind, actor };
  return {
    streamArn,
    checkpoints: checkpoints(streamArn, 'revisions'),
    logs: new RevisionLogs({ logs, source, platform: deps.platform, reducer: deps.reducer }),
  };
}
