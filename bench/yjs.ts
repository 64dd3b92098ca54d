/** Measures the folds of examples/yjs: `npm run bench:yjs`. Takes about a minute. */
import * as Y from 'yjs';
import { UPDATE, yjs } from '../examples/yjs/reducer.ts';
import { nativePlatform } from '../src/adapters/platform/native.ts';
import type { ChunkId, ChunkStore } from '../src/codec/chunk.ts';
import { parseLogId } from '../src/ids/log-id.ts';
import { Draft } from '../src/state/draft.ts';
import type { Reducer, ReducerDraft } from '../src/state/reducer.ts';
import { type State, saveState } from '../src/state/state.ts';
import { NodeStore } from '../src/tree/node-store.ts';

const LOG = parseLogId('bench/yjs');
/** Edits before the first snapshot: a document of about a megabyte. */
const FIRST_EDITS = 20_000;
/** Edits between the first snapshot and the second. */
const NEXT_EDITS = 1_200;

/** The same numbers between 0 and 1 in each run. */
function random(seed: number): () => number {
  let last = seed;
  return () => {
    last = (last * 48_271) % 2_147_483_647;
    return last / 2_147_483_647;
  };
}

/** A text that compresses little. */
function textOf(next: () => number, length: number): string {
  return Array.from({ length }, () => String.fromCharCode(48 + next() * 64)).join('');
}

/** The updates of an author who types words at random places and deletes some. */
function updatesOf(edits: number): Uint8Array[] {
  const doc = new Y.Doc();
  doc.clientID = 1;
  const updates: Uint8Array[] = [];
  doc.on('update', (update) => updates.push(update));
  const text = doc.getText('text');
  const next = random(17);
  while (updates.length < edits) {
    const place = Math.floor(next() * text.length);
    if (next() < 0.9) text.insert(place, textOf(next, 20 + next() * 40));
    else text.delete(place, Math.min(5, text.length - place));
  }
  return updates;
}

/** A reducer that holds the whole document as one value, as applications begin. */
function whole(isLate: boolean): Reducer {
  const docs = new WeakMap<ReducerDraft, Y.Doc>();
  return {
    name: 'whole',
    version: 1,
    async fold(draft, { body }) {
      const map = draft.map('doc', 'string');
      let doc = docs.get(draft);
      if (doc === undefined) {
        doc = new Y.Doc();
        const stored = await map.get('doc');
        if (stored instanceof Uint8Array) Y.applyUpdate(doc, stored);
        docs.set(draft, doc);
      }
      if (body instanceof Uint8Array) Y.applyUpdate(doc, body);
      const known = doc;
      const encode = () => Y.encodeStateAsUpdate(known);
      map.put('doc', isLate ? encode : encode());
    },
  };
}

class MemoryChunks implements ChunkStore {
  readonly #chunks = new Map<ChunkId, Uint8Array>();
  async get(id: ChunkId): Promise<Uint8Array | undefined> {
    return this.#chunks.get(id);
  }
  async put(id: ChunkId, stored: Uint8Array): Promise<void> {
    this.#chunks.set(id, stored);
  }
}

/** Folds updates onto a state in a new process, and saves the result. */
async function snapshot(reducer: Reducer, chunks: ChunkStore, before: State | undefined, updates: Uint8Array[]) {
  const nodes = new NodeStore(chunks, nativePlatform);
  const draft = new Draft(nodes, before);
  const start = performance.now();
  for (const [entry, body] of updates.entries()) {
    const position = { segment: 0, entry };
    await reducer.fold(draft, { log: LOG, position, created: 1, createdMs: 1000, type: UPDATE, version: 1, body });
  }
  const state = await draft.state();
  await saveState(nodes, state);
  return { state, ms: performance.now() - start, counts: nodes.counts };
}

const updates = updatesOf(FIRST_EDITS + NEXT_EDITS);
const [first, next] = [updates.slice(0, FIRST_EDITS), updates.slice(FIRST_EDITS)];
console.log(`second snapshot, after ${NEXT_EDITS} updates of a document with ${FIRST_EDITS} updates`);
const systems = [
  { name: 'one value, put with each entry', reducer: whole(false), before: whole(true) },
  { name: 'one value, put late', reducer: whole(true), before: whole(true) },
  { name: 'tiers, the newest put late', reducer: yjs, before: yjs },
];
for (const { name, reducer, before } of systems) {
  const chunks = new MemoryChunks();
  const { state, counts: all } = await snapshot(before, chunks, undefined, first);
  const { ms, counts } = await snapshot(reducer, chunks, state, next);
  const kilobytes = (bytes: number) => `${(bytes / 1000).toFixed(0)} KB`;
  const line = [
    `${ms.toFixed(0)} ms`,
    `read ${kilobytes(counts.bytesRead)}`,
    `wrote ${kilobytes(counts.bytesWritten)}`,
  ];
  console.log(`${name.padEnd(32)} ${line.join(', ')} (first snapshot: ${kilobytes(all.bytesWritten)} written in all)`);
}
