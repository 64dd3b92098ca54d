/**
 * A program that completes a snapshot, and prints by how many bytes the job raised the peak of the
 * process's memory.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { z } from 'zod';
import { peakBytes } from '../../bench/measured.ts';
import { DynamoDbLogStore } from '../../src/adapters/dynamodb/log-store.ts';
import { FilesystemBlobStore } from '../../src/adapters/filesystem/blob-store.ts';
import { parseLogId } from '../../src/ids/log-id.ts';
import { spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { completeSnapshot } from '../../src/workers/snapshot/build-snapshot.ts';
import { testClient } from '../support/stores/engine.ts';
import { testDeployment } from '../support/test-deployment.ts';

const taskSchema = z.object({
  endpoint: z.string(),
  tables: z.object({ entryTable: z.string(), segmentTable: z.string() }),
  log: z.string().transform(parseLogId),
  position: z.object({ segment: z.number(), entry: z.number() }),
});
/** The argument of the program, as JSON. */
export type BuildTask = z.input<typeof taskSchema>;

const { endpoint, tables: names, log, position } = taskSchema.parse(JSON.parse(process.argv[2] ?? ''));
const client = testClient(endpoint);
const tables = new DynamoDbLogStore({ client, ...names });
const directory = await mkdtemp(join(tmpdir(), 'logfold-memory-'));
const blobs = new FilesystemBlobStore(directory, { fsync: false });
// The first request loads modules of the SDK.
await tables.getEntry(log, position, { consistent: true });
const before = peakBytes();
const deps = testDeployment({ tables, blobs, reducer: spreadsheet, now: Date.now });
const result = await completeSnapshot(deps, { kind: 'snapshot', log, position });
process.stdout.write(JSON.stringify({ ...result, bytes: peakBytes() - before }));
client.destroy();
await rm(directory, { recursive: true });
