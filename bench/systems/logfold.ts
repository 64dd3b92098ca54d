import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { FilesystemBlobStore } from '../../src/adapters/filesystem/blob-store.ts';
import { MeteredBlobStore } from '../../src/adapters/metered-blob-store.ts';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { parseLogId } from '../../src/ids/log-id.ts';
import { type Position, parsePosition } from '../../src/ids/position.ts';
import { BATCH_BYTES } from '../../src/snapshot/build.ts';
import { saveWhenOver } from '../../src/snapshot/fold.ts';
import { encodeRoot, flushDue, type Root } from '../../src/snapshot/root.ts';
import { chunkStore, loadRoot } from '../../src/snapshot/snapshots.ts';
import { Draft } from '../../src/state/draft.ts';
import { sheetOf, spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import { flushState, type State, saveState } from '../../src/state/state.ts';
import { rootKey } from '../../src/store/keys.ts';
import { NodeCache } from '../../src/tree/node-cache.ts';
import { NodeStore } from '../../src/tree/node-store.ts';
import { KEPT_NODE_BYTES } from '../../src/workers/snapshot/build-snapshot.ts';
import type { CellEntry, SheetCell } from '../workload.ts';
import type { System, Usage } from './system.ts';

const LOG = parseLogId('eb789ff7-5ac5-487f-8325-2ca4eae84208');

/** The public functions of logfold, with a directory as blob store. */
export const logfold: System = {
  async full(directory, pages) {
    const { blobs, nodes } = openStore(directory);
    return write(directory, blobs, await fold(nodes, new Draft(nodes), pages));
  },

  edit(directory, entries) {
    return edit(directory, entries);
  },

  openWarm(directory) {
    // As a snapshot function does.
    const cache = new NodeCache(KEPT_NODE_BYTES);
    return { edit: (entries) => edit(directory, entries, cache), close: () => undefined };
  },

  async view(directory, { rows, columns }) {
    const { blobs, nodes } = openStore(directory);
    const { state } = await readRoot(directory, blobs);
    const cells: SheetCell[] = [];
    for await (const { row, column, value } of sheetOf(new Draft(nodes, state)).cells(rows, columns)) {
      if (typeof value !== 'number' && typeof value !== 'string') throw new Error(`a cell holds ${String(value)}`);
      cells.push({ row, column, value });
    }
    const { gets, bytesRead } = blobs.usage();
    return { cells, usage: { bytes: bytesRead, objects: gets, requests: gets } };
  },
};

interface OpenStore {
  readonly blobs: MeteredBlobStore;
  readonly nodes: NodeStore;
}

/** Opens the store, with an empty cache by default. */
export function openStore(directory: string, cache?: NodeCache): OpenStore {
  const blobs = new MeteredBlobStore(new FilesystemBlobStore(directory, { fsync: false }));
  return { blobs, nodes: new NodeStore(chunkStore(blobs, LOG), nativePlatform, { cache }) };
}

async function edit(directory: string, entries: readonly CellEntry[], cache?: NodeCache): Promise<Usage> {
  const { blobs, nodes } = openStore(directory, cache);
  const root = await readRoot(directory, blobs);
  return write(directory, blobs, await fold(nodes, new Draft(nodes, root.state), [entries]));
}

/**
 * Reads the newest root. A file replaces the Snapshot entry that names the root, and does not count
 * as a request.
 */
export async function readRoot(directory: string, blobs: MeteredBlobStore): Promise<Root> {
  const [position = '', key = ''] = (await readFile(entryPath(directory), 'utf8')).split(' ');
  return loadRoot({ blobs, platform: nativePlatform }, { log: LOG, position: parsePosition(position) }, { key });
}

interface Folded {
  readonly nodes: NodeStore;
  readonly draft: Draft;
  readonly end: Position;
}

async function fold(nodes: NodeStore, draft: Draft, pages: Iterable<readonly CellEntry[]>): Promise<Folded> {
  const keepBounded = saveWhenOver(nodes, BATCH_BYTES);
  let end: Position = { segment: 0, entry: 0 };
  for (const page of pages) {
    for (const entry of page) {
      const folding = spreadsheet.fold(draft, entry);
      if (folding !== undefined) await folding;
      end = entry.position;
    }
    await keepBounded(draft, 1);
  }
  return { nodes, draft, end };
}

/**
 * Writes chunks and the root, and flushes the state if a flush is due, as the jobs of a deployment
 * do. Even a small root is an object here, so that it is counted.
 */
async function write(directory: string, blobs: MeteredBlobStore, { nodes, draft, end }: Folded): Promise<Usage> {
  const state = await draft.state({ savesEarly: true });
  await saveState(nodes, state);
  const position = { segment: end.segment, entry: end.entry + 1 };
  await writeRoot(directory, blobs, position, state);
  if (flushDue(state) !== undefined) {
    const flushed = await flushState(nodes, state);
    await saveState(nodes, flushed);
    await writeRoot(directory, blobs, position, flushed);
  }
  const { gets, puts, bytesWritten } = blobs.usage();
  return { bytes: bytesWritten, objects: puts, requests: gets + puts };
}

async function writeRoot(directory: string, blobs: MeteredBlobStore, position: Position, state: State): Promise<void> {
  const { name, version } = spreadsheet;
  const { id, stored } = encodeRoot(nativePlatform, { log: LOG, position, reducer: { name, version }, state });
  const key = rootKey(LOG, position, id);
  await blobs.put(key, stored);
  await writeFile(entryPath(directory), `${position.segment}/${position.entry} ${key}`);
}

function entryPath(directory: string): string {
  return join(directory, 'snapshot-entry.txt');
}
