import { nativePlatform } from '../src/adapters/platform/native.ts';
import type { ChunkStore } from '../src/codec/chunk.ts';
import { parseLogId } from '../src/ids/log-id.ts';
import { decodeBody, encodeBody } from '../src/log/body.ts';
import { entryDecoder } from '../src/log/entry-json.ts';
import { encodeEntry } from '../src/log/item-codec.ts';
import { ItemJson } from '../src/log/item-json.ts';
import { Draft } from '../src/state/draft.ts';
import { cellKey } from '../src/state/spreadsheet/cell-key.ts';
import { spreadsheet } from '../src/state/spreadsheet/reducer.ts';
import { saveState } from '../src/state/state.ts';
import { ascendingOrder } from '../src/tree/key.ts';
import { encodeNode, type Leaf } from '../src/tree/node.ts';
import { NodeStore } from '../src/tree/node-store.ts';
import { treeLeaves } from './leaves.ts';
import { type Measured, peakBytes, type Report } from './measured.ts';
import { Stopwatch } from './stopwatch.ts';
import { type CellEntry, Workload } from './workload.ts';

const LOG = parseLogId('eb789ff7-5ac5-487f-8325-2ca4eae84208');

/**
 * Measures each part of a first snapshot of shuffled cells alone, on all of the data:
 * - `decode` turns DynamoDB's JSON of items into entries and their bodies.
 * - `fold` turns entries into edits of the draft.
 * - `sort` sorts the keys of the edits.
 * - `cut` turns sorted edits into leaves and inner nodes.
 * - `encode` turns leaves into canonical bytes.
 * - `hash` and `compress` process these bytes.
 *
 * The bytes of a result are the output of the part. The objects are entries for the first three
 * parts, and leaves for the others.
 */
export async function measureParts(rows: number): Promise<Report> {
  const workload = new Workload(rows);
  const decode = measureDecode(workload);
  const fold = await measureFold(workload);
  const sort = measureSort(workload);
  const { cut, leaves } = await measureCut(workload);
  const parts = { decode, fold, sort, cut, ...measureLeaves(leaves) };
  const results = Object.entries(parts).map(([system, measured]) => ({ system, ...measured }));
  return { results, peakBytes: peakBytes() };
}

function measured(clock: Stopwatch, bytes: number, objects: number): Measured {
  return { seconds: clock.seconds, cpuSeconds: clock.cpuSeconds, bytes, objects, requests: 0 };
}

function measureDecode(workload: Workload): Measured {
  const clock = new Stopwatch();
  let bytes = 0;
  let entries = 0;
  const decoder = entryDecoder();
  for (const page of workload.pages('shuffled')) {
    const items = page.map(({ position, created, type, version, body }) => {
      const encoded = encodeBody(body);
      bytes += encoded.length;
      return encodeEntry({ log: LOG, position, created, type, version, body: { format: 'bytes', bytes: encoded } });
    });
    const json = new ItemJson(Buffer.from(JSON.stringify(items, binaryAsBase64)));
    clock.start();
    for (const { body } of json.list(() => decoder.fromJson(json))) {
      if (body !== undefined && decodeBody(body) !== null) entries++;
    }
    clock.stop();
  }
  return measured(clock, bytes, entries);
}

/** For `JSON.stringify`, as DynamoDB sends binaries. */
function binaryAsBase64(_: string, value: unknown): unknown {
  return value instanceof Uint8Array ? Buffer.from(value).toString('base64') : value;
}

/** A draft with the edits of all entries. The clock runs during the folds. */
async function folded(nodes: NodeStore, pages: Iterable<readonly CellEntry[]>, clock: Stopwatch): Promise<Draft> {
  const draft = new Draft(nodes);
  for (const page of pages) {
    clock.start();
    for (const entry of page) {
      const folding = spreadsheet.fold(draft, entry);
      if (folding !== undefined) await folding;
    }
    clock.stop();
  }
  return draft;
}

async function measureFold(workload: Workload): Promise<Measured> {
  const clock = new Stopwatch();
  const draft = await folded(new NodeStore(memoryChunks(), nativePlatform), workload.pages('shuffled'), clock);
  return measured(clock, draft.heldBytes, workload.cells);
}

function measureSort(workload: Workload): Measured {
  const keys: number[] = [];
  for (const page of workload.pages('shuffled')) {
    for (const { body } of page) for (const [row, column] of body) keys.push(cellKey(row, column));
  }
  const clock = new Stopwatch();
  clock.start();
  const order = ascendingOrder(keys);
  clock.stop();
  return measured(clock, order.byteLength, order.length);
}

async function measureCut(workload: Workload): Promise<{ readonly cut: Measured; readonly leaves: readonly Leaf[] }> {
  const nodes = new NodeStore(memoryChunks(), nativePlatform, { cacheBytes: 0 });
  // The rows come in order, so that the sort costs nothing.
  const draft = await folded(nodes, workload.pages('rows'), new Stopwatch());
  const clock = new Stopwatch();
  const state = await clock.time(() => draft.state());
  await saveState(nodes, state);
  const leaves = await Array.fromAsync(treeLeaves(nodes, state));
  return { cut: measured(clock, sum(leaves.map(({ bytes }) => bytes.length)), leaves.length), leaves };
}

function measureLeaves(leaves: readonly Leaf[]): Record<'encode' | 'hash' | 'compress', Measured> {
  const time = (
    step: () => readonly Uint8Array[],
  ): { readonly out: readonly Uint8Array[]; readonly part: Measured } => {
    const clock = new Stopwatch();
    clock.start();
    const out = step();
    clock.stop();
    return { out, part: measured(clock, sum(out.map(({ length }) => length)), out.length) };
  };
  const encode = time(() => leaves.map(encodeNode));
  const hash = time(() => encode.out.map(nativePlatform.sha256));
  const compress = time(() => encode.out.map(nativePlatform.compress));
  return { encode: encode.part, hash: hash.part, compress: compress.part };
}

function memoryChunks(): ChunkStore {
  const chunks = new Map<string, Uint8Array>();
  return {
    get: async (id) => chunks.get(id),
    put: async (id, stored) => {
      chunks.set(id, stored);
    },
  };
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
