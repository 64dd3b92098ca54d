import { loadWasmPlatform } from '../../src/adapters/platform/wasm.ts';
import type { LogRequest } from '../../src/adapters/web/log-message.ts';
import { RemoteLogStore } from '../../src/adapters/web/remote-log-store.ts';
import { UrlBlobStore } from '../../src/adapters/web/url-blob-store.ts';
import { LogfoldError } from '../../src/errors.ts';
import { parseLogId } from '../../src/ids/log-id.ts';
import { formatPosition } from '../../src/ids/position.ts';
import { LogClient } from '../../src/log/client.ts';
import { RESERVED_TYPES } from '../../src/log/entry.ts';
import { loadState } from '../../src/snapshot/load.ts';
import { sheetOf, spreadsheet } from '../../src/state/spreadsheet/reducer.ts';
import type { Cell, Span } from '../../src/state/spreadsheet/sheet.ts';

/** The job of a page: what it shows of which log, and the text that it then writes into a cell. */
export interface PageTask {
  readonly log: string;
  readonly rows: Span;
  readonly columns: Span;
  readonly write?: string | undefined;
}

export interface PageResult {
  readonly cells: readonly Cell[];
  /** The operations that the page asked its server for, in order. */
  readonly requests: readonly string[];
  /** Position of the entry that the page appended. */
  readonly appended?: string | undefined;
}

/** Shows a rectangle of a sheet as the page of an application does. A test bundles this module. */
async function work(task: PageTask): Promise<PageResult> {
  const requests: string[] = [];
  const store = new RemoteLogStore(async (request: LogRequest) => {
    requests.push(request.op);
    const response = await fetch('/log', { method: 'POST', body: JSON.stringify(request) });
    if (!response.ok) throw new Error(`status ${response.status}`);
    return response.json();
  });
  const blobs = new UrlBlobStore({ urlOf: (key) => `/objects/${encodeURIComponent(key)}` });
  const platform = await loadWasmPlatform();
  const log = parseLogId(task.log);
  const loaded = await loadState({ store, blobs, platform, types: RESERVED_TYPES, reducer: spreadsheet }, log);
  const cells = await Array.fromAsync(sheetOf(loaded.draft).cells(task.rows, task.columns));
  if (task.write === undefined) return { cells, requests };
  const client = new LogClient({
    store,
    tables: store,
    blobs,
    now: Date.now,
    random: Math.random,
    sleep: (ms) => new Promise((resolve) => setTimeout(resolve, ms)),
    newLogId: () => log,
  });
  const body = [[task.rows.from, task.columns.from, task.write]];
  const { position } = await client.addEntry(log, { type: 'Set', version: 1, body });
  return { cells, requests, appended: formatPosition(position) };
}

async function main(): Promise<void> {
  const response = await fetch('/task');
  const answer = await work((await response.json()) as PageTask).catch((error: unknown) => ({
    failed: error instanceof LogfoldError ? error.code : String(error),
  }));
  await fetch('/answer', { method: 'POST', body: JSON.stringify(answer) });
}

void main();
