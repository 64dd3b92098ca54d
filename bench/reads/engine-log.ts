import { join } from 'node:path';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { sdkConfig } from '../../src/adapters/aws/sdk-config.ts';
import { DynamoDbLogStore } from '../../src/adapters/dynamodb/log-store.ts';
import { parseLogId } from '../../src/ids/log-id.ts';
import { joinEngine } from '../../src/local/engine.ts';
import { ensureTables } from '../../src/local/tables.ts';
import { encodeBody } from '../../src/log/body.ts';
import { type Entry, newEntryId, RESERVED_TYPES, RESERVED_VERSION } from '../../src/log/entry.ts';
import { Random } from '../random.ts';
import type { CellEntry, Workload } from '../workload.ts';

export const TABLES = { entryTable: 'entries', segmentTable: 'segments' };
export const LOG = parseLogId('eb789ff7-5ac5-487f-8325-2ca4eae84208');
/** Accepted by every engine. */
export const CREDENTIALS = { accessKeyId: 'local', secretAccessKey: 'local' };
export const REGION = 'local';

const SEED = 20_261_122;
const CREATED = 1_700_000_000;
const TRANSACTION_ENTRIES = 100;

/** The end of the log, where the pending Snapshot entry is. */
export function endOf({ cells }: Workload): { readonly segment: number; readonly entry: number } {
  return { segment: 0, entry: cells + 1 };
}

/** Runs a function while an engine serves the data of a directory. */
export async function withEngine<T>(directory: string, use: (endpoint: string) => Promise<T>): Promise<T> {
  const engine = await joinEngine(join(directory, 'engine'));
  try {
    return await use(engine.endpoint);
  } finally {
    await engine.leave();
  }
}

/** A client as the functions make it. */
export function workerClient(endpoint: string): DynamoDBClient {
  return new DynamoDBClient({ ...sdkConfig(), endpoint, region: REGION, credentials: CREDENTIALS });
}

/**
 * Fills a new engine with a log of one segment: an entry for each cell of the workload in random
 * order, as a client of logfold writes them, and a Snapshot entry at each end.
 */
export async function fillEngine(directory: string, workload: Workload): Promise<void> {
  await withEngine(directory, async (endpoint) => {
    const client = workerClient(endpoint);
    await ensureTables(client, TABLES);
    const store = new DynamoDbLogStore({ client, ...TABLES });
    const random = new Random(SEED);
    const id = () => newEntryId(() => random.next());
    await store.createLog({ log: LOG, segment: 0, created: CREATED }, snapshotEntry(0, 0, id()));
    for (const page of workload.pages('shuffled')) {
      for (let from = 0; from < page.length; from += TRANSACTION_ENTRIES) {
        const cells = page.slice(from, from + TRANSACTION_ENTRIES);
        await store.putEntries(cells.map((cell) => cellEntry(cell, id())));
      }
    }
    const { entry } = endOf(workload);
    await store.putEntries([snapshotEntry(entry, workload.cells, id())]);
    client.destroy();
  });
}

function cellEntry({ position, type, version, body }: CellEntry, id: Uint8Array): Entry {
  const number = position.entry;
  const created = CREATED + number;
  return { log: LOG, position, created, type, version, id, number, body: { format: 'bytes', bytes: encodeBody(body) } };
}

function snapshotEntry(entry: number, number: number, id: Uint8Array): Entry {
  const position = { segment: 0, entry };
  return {
    log: LOG,
    position,
    created: CREATED + entry,
    type: RESERVED_TYPES.snapshot,
    version: RESERVED_VERSION,
    id,
    number,
  };
}
