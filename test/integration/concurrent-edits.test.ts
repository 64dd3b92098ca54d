import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { DynamoDbLogStore } from '../../src/adapters/dynamodb/log-store.ts';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { wireLogs } from '../../src/adapters/platform/node-logs.ts';
import { answerLogRequest } from '../../src/adapters/web/answer-log-request.ts';
import { RemoteLogStore } from '../../src/adapters/web/remote-log-store.ts';
import type { Document } from '../../src/client/document.ts';
import type { Logs } from '../../src/client/logs.ts';
import type { Value } from '../../src/codec/value.ts';
import { EntryDroppedError } from '../../src/errors.ts';
import { findDynoxide } from '../../src/local/engine-program.ts';
import type { NewEntry } from '../../src/log/client.ts';
import { spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { startTestEngine, type TestEngine } from '../support/stores/engine.ts';
import { testDeployment } from '../support/test-deployment.ts';

const entry = (type: string, body: Value): NewEntry => ({ type, version: 1, body });
const CITIES = entry('Set', [
  [0, 0, 'city'],
  [1, 0, 'Austin'],
  [2, 0, 'Denver'],
]);
const TABLE = { rows: { from: 0, to: 4 }, columns: { from: 0, to: 2 } };

let engine: TestEngine;
let tables: DynamoDbLogStore;
const blobs = new MemoryBlobStore(Date.now);

beforeAll(async () => {
  if (findDynoxide() === undefined) return;
  engine = await startTestEngine();
  tables = new DynamoDbLogStore({ client: engine.client, ...(await engine.createTables()) });
});
afterAll(() => engine?.stop());

/** A client with the tables, and one that sends everything to an application's server. */
const clients: Readonly<Record<string, () => Logs>> = {
  program: () => wireLogs(testDeployment({ tables, blobs, now: Date.now })),
  page: () => {
    const ports = { store: testDeployment({ tables, blobs }).store, tables };
    const remote = new RemoteLogStore(async (request) => {
      const body: unknown = JSON.parse(JSON.stringify(request));
      return JSON.parse(JSON.stringify(await answerLogRequest(ports, body, { allows: () => true })));
    });
    return wireLogs({ ...testDeployment({ tables, blobs, now: Date.now }), tables: remote, store: remote });
  },
};

/** Two clients that see the same table. */
async function both(kind: string): Promise<readonly [Document, Document]> {
  const others = clients.program?.();
  const own = clients[kind]?.();
  if (others === undefined || own === undefined) throw new Error(`there is no ${kind}`);
  const log = await others.create();
  await others.client.addEntry(log, CITIES);
  return [await own.open(log, { reducer: spreadsheet }), await others.open(log, { reducer: spreadsheet })];
}

const WAYS: Readonly<Record<string, (document: Document, edit: NewEntry) => Promise<unknown>>> = {
  append: (document, edit) => document.append(edit),
  mutate: (document, edit) => document.mutate(edit),
};

describe.skipIf(findDynoxide() === undefined)('edits of two clients at the same time', { tags: ['I12'] }, () => {
  test.each(Object.keys(clients).flatMap((kind) => Object.entries(WAYS).map(([way, send]) => ({ kind, way, send }))))(
    'an entry of $way of a $kind reaches its row, and leaves the header alone',
    async ({ kind, send }) => {
      const [ann, ben] = await both(kind);
      await ben.append(entry('Insert Rows', [2, 1]));
      await send(ann, entry('Set', [[2, 1, 'Colorado']]));
      const rows = [
        ['city', null],
        ['Austin', null],
        [null, null],
        ['Denver', 'Colorado'],
      ];
      expect(await ann.view(TABLE)).toEqual(rows);
      await ben.refresh();
      expect(await ben.view(TABLE)).toEqual(rows);

      await ben.append([entry('Delete Rows', [2, 1]), entry('Insert Rows', [0, 1])]);
      await send(ann, entry('Set', [[1, 0, 'Boulder']]));
      const header = [
        [null, null],
        ['city', null],
        ['Boulder', null],
        ['Denver', 'Colorado'],
      ];
      expect(await ann.view(TABLE)).toEqual(header);
      await ben.refresh();
      expect(await ben.view(TABLE)).toEqual(header);

      await ben.append(entry('Delete Rows', [3, 1]));
      await expect(send(ann, entry('Set', [[3, 1, 'CO']]))).rejects.toThrow(EntryDroppedError);
      expect(await ann.view(TABLE)).toEqual([...header.slice(0, 3), [null, null]]);
    },
  );
});
