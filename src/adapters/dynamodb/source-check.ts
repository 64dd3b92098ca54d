import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { DeploymentInvalidError, ResourceMissingError } from '../../errors.ts';
import { streamTable } from '../../revisions/image-change.ts';
import type { SourceTable } from '../../revisions/source-table.ts';
import { describeTable } from './table-settings.ts';

/** The settings of a deployment that records the revisions of a plain table. */
export interface RevisionsDeployment {
  readonly dynamodb: DynamoDBClient;
  /** ARN of the stream whose records the revisions function receives. */
  readonly streamArn: string;
  /** The tables of the logs, which must be other tables. */
  readonly ownTables: readonly string[];
  readonly per: SourceTable['per'];
  readonly actor: string | undefined;
}

/**
 * Finds and checks the plain table of a deployment, in one request. The stream may have been turned
 * off or replaced: its last records are still worth recording. {@link requireCurrentStream} reports
 * that.
 * @throws DeploymentInvalidError if the table does not exist or belongs to logfold, or if the
 * stream does not carry both images; it names the template's parameter
 * @throws the errors of DynamoDB, translated: without the keys of the table nothing can be recorded
 */
export async function checkSource(deployment: RevisionsDeployment): Promise<SourceTable> {
  const { dynamodb, streamArn, ownTables, per, actor } = deployment;
  const table = streamTable(streamArn);
  if (table === undefined || ownTables.includes(table)) {
    throw invalid(streamArn, table === undefined ? 'no ARN of a stream' : 'the stream of a table of logs');
  }
  const {
    keyNames,
    stream,
    streamArn: latest,
  } = await describeTable(dynamodb, table).catch((error: unknown) => {
    if (!(error instanceof ResourceMissingError)) throw error;
    throw invalid(streamArn, 'the stream of a table that does not exist in this region', error);
  });
  // Nobody knows the view type of an earlier stream. Its records have both images, or fail alone.
  const view = latest === streamArn ? stream : undefined;
  if (view !== undefined && view !== 'NEW_AND_OLD_IMAGES') {
    throw invalid(streamArn, `a stream of ${view}, not of both images`);
  }
  return { table, keyNames, per, actor };
}

/**
 * Checks that new changes of the plain table still arrive, in one request.
 * @throws DeploymentInvalidError if its stream is off or another one; it names the template's
 * parameter
 */
export async function requireCurrentStream(dynamodb: DynamoDBClient, streamArn: string): Promise<void> {
  const table = streamTable(streamArn) ?? '';
  const { stream, streamArn: latest } = await describeTable(dynamodb, table);
  if (stream === undefined || latest === undefined) throw invalid(streamArn, 'the stream of a table without a stream');
  if (latest !== streamArn) {
    throw invalid(streamArn, `but the stream of table '${table}' is '${latest}': no new records arrive`);
  }
}

function invalid(streamArn: string, reason: string, cause?: unknown): DeploymentInvalidError {
  return new DeploymentInvalidError('RevisionsStreamArn', `is '${streamArn}', ${reason}`, {
    advice:
      'Turn the stream of the plain table on with the view type NEW_AND_OLD_IMAGES, and deploy with its LatestStreamArn. ' +
      'The next comparison finds the changes that did not arrive',
    cause,
  });
}
