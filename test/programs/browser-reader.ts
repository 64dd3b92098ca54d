import { loadWasmPlatform } from '../../src/adapters/platform/wasm.ts';
import { fromHex } from '../../src/codec/bytes.ts';
import { parseLogId } from '../../src/ids/log-id.ts';
import type { Position } from '../../src/ids/position.ts';
import { decodeRoot } from '../../src/snapshot/root.ts';
import { Draft } from '../../src/state/draft.ts';
import { sheetOf } from '../../src/state/spreadsheet/reducer.ts';
import { sheetRows } from '../../src/state/spreadsheet/sheet.ts';
import { NodeStore } from '../../src/tree/node-store.ts';

/**
 * A snapshot as a page would have fetched it. Bytes are in hexadecimal, because a Uint8Array of
 * another realm is not a Uint8Array here.
 */
export interface FetchedSnapshot {
  readonly log: string;
  readonly position: Position;
  readonly root: string;
  readonly chunks: Readonly<Record<string, string>>;
}

/**
 * Reads a whole sheet with features of browsers only: no Node, Zstandard in WebAssembly. The test
 * bundles this module and runs it.
 */
export async function readSheet(snapshot: FetchedSnapshot): Promise<string[][]> {
  const platform = await loadWasmPlatform();
  const place = { log: parseLogId(snapshot.log), position: snapshot.position };
  const root = decodeRoot(platform, fromHex(snapshot.root), place);
  const chunks = {
    get: async (id: string) => {
      const stored = snapshot.chunks[id];
      return stored === undefined ? undefined : fromHex(stored);
    },
    put: async () => {
      throw new Error('a reader must not write');
    },
  };
  return Array.fromAsync(sheetRows(sheetOf(new Draft(new NodeStore(chunks, platform), root.state))));
}
