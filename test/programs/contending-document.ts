/**
 * A program that opens a document and, as soon as it gets a line on its standard input, appends
 * entries one after the other. It prints a line when it is ready, and at the end how long each
 * append took, in milliseconds.
 */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { z } from 'zod';
import { DynamoDbLogStore } from '../../src/adapters/dynamodb/log-store.ts';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { sleep } from '../../src/adapters/platform/node-logs.ts';
import { Logs } from '../../src/client/logs.ts';
import { parseLogId } from '../../src/ids/log-id.ts';
import { DEFAULT_RETRIES } from '../../src/log/client-context.ts';
import { spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { testClient } from '../support/stores/engine.ts';
import { testDeployment } from '../support/test-deployment.ts';

const taskSchema = z.object({
  endpoint: z.string(),
  tables: z.object({ entryTable: z.string(), segmentTable: z.string() }),
  log: z.string(),
  /** Number of this program: the column of its cells. */
  column: z.number(),
  appends: z.number(),
});
/** The argument of the program, as JSON. */
export type ContendingTask = z.input<typeof taskSchema>;

const { endpoint, tables: names, log, column, appends } = taskSchema.parse(JSON.parse(process.argv[2] ?? ''));
const client = testClient(endpoint);
const tables = new DynamoDbLogStore({ client, ...names });
const blobs = new MemoryBlobStore();
const logs = new Logs({
  ...testDeployment({ tables, blobs, now: Date.now, sleep }),
  newLogId: () => parseLogId(randomUUID()),
  // A busy machine must not fail a test.
  retries: { ...DEFAULT_RETRIES, forMs: 20 * 60_000 },
});
const document = await logs.open(log, { reducer: spreadsheet });
process.stdout.write('ready\n');
await once(process.stdin, 'data');
const waits: number[] = [];
for (let row = 0; row < appends; row++) {
  const startedMs = performance.now();
  await document.append({ type: 'Set', version: 1, body: [[row, column, `${row}/${column}`]] });
  waits.push(performance.now() - startedMs);
}
process.stdout.write(`${JSON.stringify(waits)}\n`);
await logs.close();
client.destroy();
process.stdin.destroy();
