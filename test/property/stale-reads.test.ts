import { expect, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { MemoryLogStore } from '../../src/adapters/memory/log-store.ts';
import type { Document } from '../../src/client/document.ts';
import { Logs } from '../../src/client/logs.ts';
import { comparePositions, formatPosition, type Position } from '../../src/ids/position.ts';
import { completeSnapshot } from '../../src/workers/snapshot/build-snapshot.ts';
import { rowsOf } from '../support/live-logs.ts';
import { NOON } from '../support/logs.ts';
import { Random } from '../support/models/random.ts';
import { versionedSheet } from '../support/models/versioned-sheet.ts';
import { propertyRuns } from '../support/property-runs.ts';
import { RecordedLogStore, STALE_MS } from '../support/stores/recorded-log-store.ts';
import { testDeployment } from '../support/test-deployment.ts';

const STEPS = 60;
const reducer = versionedSheet(1);

/** A document, and the last place that it showed. */
interface Reader {
  readonly document: Document;
  position: Position;
}

/** Runs documents that often load the newest snapshot, alongside quick writers and stale reads. */
async function runHistory(seed: number): Promise<void> {
  const random = new Random(seed);
  let nowMs = NOON * 1000;
  const now = (): number => nowMs;
  const tables = new RecordedLogStore({ inner: new MemoryLogStore(), random, now, onRecord: () => undefined });
  const blobs = new MemoryBlobStore(now);
  const sleep = async (ms: number): Promise<void> => {
    nowMs += ms;
  };
  const stores = testDeployment({ tables, blobs, now, random: () => random.next(), sleep });
  const logs = new Logs(stores);
  const { client } = logs;
  const log = await client.createLog();
  const cells: string[] = [];
  const readers: Reader[] = [];
  for (const entries of [1, 2, 1_000]) {
    const document = await logs.open(log, { reducer, reloadAfter: { entries } });
    readers.push({ document, position: document.position });
  }
  const write = async (document: Document): Promise<void> => {
    const value = `value ${cells.length}`;
    await document.append({ type: 'Set', version: 1, body: [[cells.length, 0, value]] });
    cells.push(value);
  };
  for (let step = 0; step < STEPS; step++) {
    nowMs += random.integer(0, STALE_MS / 4);
    const { document } = random.pick(readers) ?? {};
    if (document === undefined) continue;
    if (random.chance(0.4)) await write(document);
    else if (random.chance(0.2)) {
      const { position } = await client.addSnapshot(log);
      await completeSnapshot({ ...stores, reducer }, { kind: 'snapshot', log, position });
    } else if (random.chance(0.1)) await client.startSegment(log).catch(() => undefined);
    else await document.refresh();
    for (const reader of readers) {
      const { position } = reader.document;
      if (comparePositions(position, reader.position) < 0) {
        const [from, to] = [reader.position, position].map(formatPosition);
        throw new Error(`seed ${seed}: after step ${step} a document went back from ${from} to ${to}`);
      }
      reader.position = position;
    }
  }
  nowMs += STALE_MS + 1;
  for (const { document } of readers) {
    await document.refresh();
    expect(await rowsOf(document), `seed ${seed}`).toEqual(cells.map((value) => [value]));
  }
  await logs.close();
}

test('no call takes a document back, and none of its entries is lost, whatever stale reads show', async () => {
  for (let seed = 1; seed <= propertyRuns(400, 20); seed++) await runHistory(seed);
});
