import type { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { DeploymentInvalidError, ResourceMissingError } from '../../errors.ts';
import type { SourceTable } from '../../revisions/source-table.ts';
import { streamTable } from '../../revisions/stream-arn.ts';
import { describeSource } from './table-settings.ts';

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
 * Finds and checks the plain table of a deployment, in one request.
 * @throws DeploymentInvalidError if the table does not exist or belongs to logfold, or if its
 * stream is another one or does not carry both images; it names the template's parameter
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
  } = await describeSource(dynamodb, table).catch((error: unknown) => {
    if (!(error instanceof ResourceMissingError)) throw error;
    throw invalid(streamArn, 'the stream of a table that does not exist in this region', error);
  });
  if (stream === undefined || latest === undefined) throw invalid(streamArn, 'the stream of a table without a stream');
  if (stream !== 'NEW_AND_OLD_IMAGES') throw invalid(streamArn, `a stream of ${stream}, not of both images`);
  if (latest !== streamArn) {
    throw invalid(streamArn, `but the stream of table '${table}' is '${latest}': no records arrive`);
  }
  return { table, keyNames, per, actor };
}

function invalid(streamArn: string, reason: string, cause?: unknown): DeploymentInvalidError {
  return new DeploymentInvalidError('RevisionsStreamArn', `is '${streamArn}', ${reason}`, {
    advice:
      'Turn the stream of the plain table on with the view type NEW_AND_OLD_IMAGES, and deploy with its LatestStreamArn. ' +
      'The next comparison finds the changes that did not arrive',
    cause,
  });
}
