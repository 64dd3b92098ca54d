import { MappedLogStore } from '../../mapping/mapped-log-store.ts';
import type { SchemaMapping } from '../../mapping/schema-mapping.ts';
import { DynamoDbLogStore, type DynamoDbLogStoreOptions } from './log-store.ts';
import { DynamoDbMappedItems } from './mapped-items.ts';

export interface TablesOptions extends DynamoDbLogStoreOptions {
  /** How the items of the Entry table become entries; undefined for logfold's own schema. */
  readonly mapping: SchemaMapping | undefined;
  /** Epoch milliseconds. */
  readonly now: () => number;
}

/**
 * The logs of two tables. With a mapping, the Entry table is the application's, and everything that
 * logfold writes is in the Segment table.
 */
export function openTables({ mapping, now, ...options }: TablesOptions): DynamoDbLogStore | MappedLogStore {
  if (mapping === undefined) return new DynamoDbLogStore(options);
  const { entryTable: table, segmentTable } = options;
  return new MappedLogStore({
    items: new DynamoDbMappedItems({ ...options, table, mapping }),
    books: new DynamoDbLogStore({ ...options, entryTable: segmentTable }),
    mapping,
    now,
  });
}
