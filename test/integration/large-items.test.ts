import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { DynamoDbLogStore } from '../../src/adapters/dynamodb/log-store.ts';
import { encodeBody } from '../../src/log/body.ts';
import type { Entry } from '../../src/log/entry.ts';
import type { BuildTask } from '../programs/build-memory.ts';
import { LOG, NOON } from '../support/logs.ts';
import { Random } from '../support/models/random.ts';
import { startTestEngine } from '../support/stores/engine.ts';

const run = promisify(execFile);
const BUILD_MEMORY = fileURLToPath(new URL('../programs/build-memory.ts', import.meta.url));

/** The engine reads a whole segment for each page, so segments are short. */
const SEGMENTS = 10;
const SEGMENT_ITEMS = 40;
/** DynamoDB allows 409,600 bytes for an item. */
const VALUE_BYTES = 390_000;
/** Items of one transaction, whose limit is 4 MB. */
const TOGETHER = 10;
/** For pages ahead, 40 MB of edits and garbage. A build that holds all items takes 280 MB. */
const MOST_BYTES = 256_000_000;

const random = new Random(1);

function entry(segment: number, number: number, type: string): Entry {
  return { log: LOG, position: { segment, entry: number }, created: NOON, type, version: 1 };
}

/** Sets its cell to random digits, which compress badly. */
function largeEntry(segment: number, number: number): Entry {
  const words = Uint32Array.from({ length: VALUE_BYTES / 8 }, () => random.integer(0, 2 ** 32 - 1));
  const bytes = encodeBody([[segment, number, Buffer.from(words.buffer).toString('hex')]]);
  return { ...entry(segment, number, 'Set'), body: { format: 'bytes', bytes } };
}

async function fill(store: DynamoDbLogStore): Promise<void> {
  await store.createLog({ log: LOG, segment: 0, created: NOON }, entry(0, 0, 'Snapshot'));
  for (let segment = 0; segment < SEGMENTS; segment++) {
    for (let first = 1; first <= SEGMENT_ITEMS; first += TOGETHER) {
      await store.putEntries(Array.from({ length: TOGETHER }, (_, i) => largeEntry(segment, first + i)));
    }
    await store.startSegment({
      end: entry(segment, SEGMENT_ITEMS + 1, 'End Segment'),
      segment: { log: LOG, segment: segment + 1, created: NOON },
      first: entry(segment + 1, 0, 'Snapshot'),
    });
  }
}

test('a build of 156 MB of items of 390 KB takes less than 256 MB of memory', async () => {
  const engine = await startTestEngine();
  try {
    const { streamArn: _, ...tables } = await engine.createTables();
    await fill(new DynamoDbLogStore({ client: engine.client, ...tables }));
    const task: BuildTask = { endpoint: engine.endpoint, tables, log: LOG, position: { segment: SEGMENTS, entry: 0 } };
    const { stdout } = await run(process.execPath, [BUILD_MEMORY, JSON.stringify(task)]);
    const { outcome, entries, bytes } = JSON.parse(stdout);
    expect({ outcome, entries }).toEqual({ outcome: 'built', entries: SEGMENTS * (SEGMENT_ITEMS + 2) });
    expect(bytes).toBeLessThan(MOST_BYTES);
  } finally {
    await engine.stop();
  }
});
