import { type DynamoDBClient, ResourceNotFoundException } from '@aws-sdk/client-dynamodb';
import { requireMappedKeys } from '../adapters/dynamodb/table-settings.ts';
import { ResourceMissingError } from '../errors.ts';
import type { SchemaMapping } from '../mapping/schema-mapping.ts';
import { ensureSegmentTable, hasSegmentTable, type TableNames } from './tables.ts';

export interface MappedTablesOptions {
  readonly mapping: SchemaMapping;
  /** Whether to create a missing Segment table. The application's table is never created. */
  readonly creates: boolean;
  /** The data directory, for errors. */
  readonly dir: string;
}

/**
 * Finds the application's table in the embedded engine, and finds or creates the Segment table.
 * @returns the names of the tables that were created
 * @throws ResourceMissingError if a table is missing that is not created
 * @throws UsageError if a table has other keys
 */
export async function openMappedTables(
  client: DynamoDBClient,
  { entryTable, segmentTable }: TableNames,
  { mapping, creates, dir }: MappedTablesOptions,
): Promise<string[]> {
  await requireMappedKeys(client, entryTable, mapping).catch((error: unknown) => {
    const isMissing = error instanceof ResourceMissingError && error.cause instanceof ResourceNotFoundException;
    if (!isMissing) throw error;
    throw new ResourceMissingError(`there is no table '${entryTable}' in '${dir}'`, {
      advice: "Check the name, or create the table at the endpoint that 'logfold engine' prints; nothing was created",
      cause: error,
    });
  });
  if (await hasSegmentTable(client, segmentTable)) return [];
  if (!creates) {
    throw new ResourceMissingError(`there is no table '${segmentTable}' in '${dir}'`, {
      advice: "Check the name, or run 'logfold adopt', which creates it; nothing was created",
    });
  }
  await ensureSegmentTable(client, segmentTable);
  return [segmentTable];
}
