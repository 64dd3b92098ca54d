import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect, onTestFinished, test } from 'vitest';
import { DynamoDbLogStore } from '../../src/adapters/dynamodb/log-store.ts';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { wireLogs } from '../../src/adapters/platform/node-logs.ts';
import type { Value } from '../../src/codec/value.ts';
import { START } from '../../src/ids/position.ts';
import { decodeEntryBody } from '../../src/log/body.ts';
import { RESERVED_TYPES } from '../../src/log/entry.ts';
import { readEntries } from '../../src/log/read-entries.ts';
import { spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import type { ContendingTask } from '../programs/contending-document.ts';
import { startTestEngine } from '../support/stores/engine.ts';
import { testDeployment } from '../support/test-deployment.ts';

const PROGRAM = fileURLToPath(new URL('../programs/contending-document.ts', import.meta.url));
const [DOCUMENTS, APPENDS] = [50, 20];

/** A process with a document, and the lines that it prints. */
interface Contender {
  readonly process: ChildProcess;
  readonly nextLine: () => Promise<string>;
}

function contender(task: ContendingTask): Contender {
  const child = spawn(process.execPath, [PROGRAM, JSON.stringify(task)], { stdio: ['pipe', 'pipe', 'inherit'] });
  onTestFinished(() => void child.kill());
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const nextLine = async (): Promise<string> => {
    const { value, done } = await lines.next();
    if (done === true) throw new Error(`process ${task.column} ended with code ${child.exitCode}`);
    return value;
  };
  return { process: child, nextLine };
}

test('50 processes that append to one log at a time store each entry once', { tags: ['I8'] }, async () => {
  const engine = await startTestEngine();
  onTestFinished(() => engine.stop());
  const names = await engine.createTables();
  const tables = new DynamoDbLogStore({ client: engine.client, ...names });
  const logs = wireLogs(testDeployment({ tables, blobs: new MemoryBlobStore() }));
  const log = await logs.create();
  const { endpoint } = engine;
  const contenders = Array.from({ length: DOCUMENTS }, (_, column) =>
    contender({ endpoint, tables: names, log, column, appends: APPENDS }),
  );
  for (const { nextLine } of contenders) expect(await nextLine()).toBe('ready');
  const startedMs = performance.now();
  for (const { process } of contenders) process.stdin?.write('go\n');
  const waits = (
    await Promise.all(contenders.map(async ({ nextLine }) => JSON.parse(await nextLine()) as number[]))
  ).flat();
  const totalMs = performance.now() - startedMs;

  const sorted = waits.toSorted((a, b) => a - b);
  expect(sorted).toHaveLength(DOCUMENTS * APPENDS);
  const at = (share: number): string => `${Math.round(sorted[Math.ceil(share * sorted.length) - 1] ?? 0)} ms`;
  console.info(
    `${sorted.length} appends in ${Math.round(totalMs)} ms; median wait ${at(0.5)}, 99 of 100 below ${at(0.99)}, worst ${at(1)}`,
  );

  const bodies: Value[] = [];
  for await (const page of readEntries({ store: tables, types: RESERVED_TYPES }, log, { from: START, to: 'end' }))
    for (const entry of page) if (entry.type === 'Set') bodies.push(decodeEntryBody(entry));
  const sent = Array.from({ length: DOCUMENTS * APPENDS }, (_, i) => {
    const [row, column] = [i % APPENDS, Math.floor(i / APPENDS)];
    return [[row, column, `${row}/${column}`]];
  });
  const inOrder = (values: readonly Value[]): string[] => values.map((value) => JSON.stringify(value)).sort();
  expect(inOrder(bodies)).toEqual(inOrder(sent));
  const document = await logs.open(log, { reducer: spreadsheet });
  const cells = await document.view({ rows: { from: 0, to: APPENDS }, columns: { from: 0, to: DOCUMENTS } });
  expect(cells).toEqual(
    Array.from({ length: APPENDS }, (_, row) => Array.from({ length: DOCUMENTS }, (_, column) => `${row}/${column}`)),
  );
});
