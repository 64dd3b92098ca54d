import { loadWasmPlatform } from '../../src/adapters/platform/wasm.ts';
import { UrlBlobStore } from '../../src/adapters/web/url-blob-store.ts';
import { fromHex, toHex } from '../../src/codec/bytes.ts';
import { parseLogId } from '../../src/ids/log-id.ts';
import type { Position } from '../../src/ids/position.ts';
import { encodeBody } from '../../src/log/body.ts';
import { decodeRoot } from '../../src/snapshot/root.ts';
import { chunkStore } from '../../src/snapshot/snapshots.ts';
import { Draft } from '../../src/state/draft.ts';
import { sheetOf } from '../../src/state/spreadsheet/reducer.ts';
import type { Cell } from '../../src/state/spreadsheet/sheet.ts';
import { NodeStore } from '../../src/tree/node-store.ts';

/** The job of a page: a rectangle of a snapshot. */
export interface PageTask {
  readonly log: string;
  readonly position: Position;
  /** The stored bytes of the root, in hexadecimal. */
  readonly root: string;
  readonly rows: { readonly from: number; readonly to: number };
  readonly columns: { readonly from: number; readonly to: number };
}

export interface PageResult {
  readonly cells: readonly Cell[];
  /** Bytes that the page compressed and decompressed again. */
  readonly unpacked: string;
  /** A body in MessagePack, in hexadecimal. */
  readonly body: string;
}

/** Reads a rectangle of a sheet as the page of an application does. A test bundles this module. */
async function view(task: PageTask): Promise<PageResult> {
  const platform = await loadWasmPlatform();
  const blobs = new UrlBlobStore({ urlOf: (key) => `/objects/${encodeURIComponent(key)}` });
  const log = parseLogId(task.log);
  const root = decodeRoot(platform, fromHex(task.root), { log, position: task.position });
  const draft = new Draft(new NodeStore(chunkStore(blobs, log), platform), root.state);
  const cells = await Array.fromAsync(sheetOf(draft).cells(task.rows, task.columns));
  const packed = platform.compress(new TextEncoder().encode('logfold '.repeat(100)));
  return {
    cells,
    unpacked: new TextDecoder().decode(platform.decompress(packed, 1000)),
    body: toHex(encodeBody([1, 'two', { three: 3.5 }])),
  };
}

async function main(): Promise<void> {
  const response = await fetch('/task');
  const result = await view((await response.json()) as PageTask).catch((error: unknown) => ({ error: String(error) }));
  await fetch('/result', { method: 'POST', body: JSON.stringify(result) });
}

void main();
