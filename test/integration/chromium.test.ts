import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FilesystemBlobStore } from '../../src/adapters/filesystem/blob-store.ts';
import { answerLogRequest } from '../../src/adapters/web/answer-log-request.ts';
import type { Value } from '../../src/codec/value.ts';
import { loadState } from '../../src/snapshot/load.ts';
import { sheetOf } from '../../src/state/spreadsheet/reducer.ts';
import type { PageTask } from '../programs/page.ts';
import { findChromium, openPage } from '../support/chromium.ts';
import { newLogId } from '../support/logs.ts';
import { bundlePage, type PageBundle } from '../support/page-bundle.ts';
import { SheetLog, set } from '../support/sheet-log.ts';
import { type Handler, ObjectServer } from '../support/stores/object-server.ts';

const PAGE = fileURLToPath(new URL('../programs/page.ts', import.meta.url));
const RECTANGLE = { rows: { from: 2_000, to: 2_050 }, columns: { from: 10, to: 30 } };
const HTML =
  '<!doctype html><meta charset="utf-8"><title>logfold</title><script type="module" src="/page.js"></script>';
/** WebAssembly and the glue code of zstd-codec need these sources; a page may forbid all others. */
const POLICY = "default-src 'self'; script-src 'self' 'unsafe-eval'";

const chromium = findChromium();
if (chromium === undefined) {
  console.log('NOT RUN: a page in Chromium. Install it, for example with apt-get install chromium.');
}

describe.skipIf(chromium === undefined)('a page in Chromium', () => {
  let sheet: SheetLog;
  let server: ObjectServer;
  let directory: string;
  let bundle: PageBundle;
  /** The job of the open page, and its answer. */
  let task: PageTask;
  let answer: PromiseWithResolvers<unknown>;

  beforeAll(async () => {
    bundle = await bundlePage(PAGE);
    sheet = await SheetLog.create();
    for (let part = 0; part < 10; part++) {
      await sheet.fill(500, 50);
      await sheet.edit({ type: 'Insert Rows', position: 0, count: 500 });
    }
    await sheet.completed();
    await sheet.edit(set(2_010, 12, 'Łódź'), set(0, 0, 'elsewhere'));
    directory = await mkdtemp(join(tmpdir(), 'logfold-page-'));
    const blobs = new FilesystemBlobStore(directory);
    for await (const { key } of sheet.blobs.list('')) {
      const bytes = await sheet.blobs.get(key);
      if (bytes !== undefined) await blobs.put(key, bytes);
    }
    server = await ObjectServer.start(blobs, serve);
  });
  afterAll(async () => {
    await server?.stop();
    await rm(directory, { recursive: true });
  });

  const serve: Handler = async (request, response) => {
    const { url } = request;
    if (url === '/')
      response.writeHead(200, { 'Content-Type': 'text/html', 'Content-Security-Policy': POLICY }).end(HTML);
    else if (url === '/page.js') response.writeHead(200, { 'Content-Type': 'text/javascript' }).end(bundle.script);
    else if (url === '/task') response.end(JSON.stringify(task));
    else if (url === '/log') {
      const ports = { store: sheet.deps.store, tables: sheet.tables };
      const options = { allows: (log: string) => log === sheet.log };
      response.end(JSON.stringify(await answerLogRequest(ports, await json(request), options)));
    } else if (url === '/answer') {
      answer.resolve(await json(request));
      response.end();
    } else return false;
    return true;
  };

  /** Opens a page that does a job, and closes it. */
  async function open(next: PageTask): Promise<unknown> {
    task = next;
    answer = Promise.withResolvers();
    const page = openPage(chromium ?? '', `${server.origin}/`);
    try {
      return await Promise.race([answer.promise, page.ended]);
    } finally {
      await page.close();
    }
  }

  /** The rows of the rectangle, folded in Node. */
  async function rowsInNode(): Promise<(Value | null)[][]> {
    const { draft } = await loadState(sheet.deps, sheet.log);
    const { rows, columns } = RECTANGLE;
    const grid = Array.from({ length: 50 }, () => Array.from({ length: 20 }, (): Value | null => null));
    for await (const { row, column, value } of sheetOf(draft).cells(rows, columns)) {
      grid[row - rows.from]?.splice(column - columns.from, 1, value);
    }
    return grid;
  }

  test('it shows the same cells as Node, and fetches only the chunks of its rectangle', async () => {
    const rows = await rowsInNode();
    expect(rows[10]?.[2]).toBe('Łódź');
    const result = await open({ log: sheet.log, ...RECTANGLE });
    // Opening takes two requests if the root is inline.
    expect(result).toEqual({ rows, requests: ['newestSegments', 'items'] });
    const { asked, sentBytes } = server;
    console.log(`The page sent 2 requests for entries, and fetched ${asked.length} objects with ${sentBytes} bytes.`);
    expect(asked).toEqual([...new Set(asked)]);
    expect(asked.length).toBeLessThanOrEqual(4);
  });

  test('it appends an entry that Node reads', async () => {
    const result = await open({ log: sheet.log, ...RECTANGLE, write: 'from the page' });
    const last = (await sheet.items()).length - 1;
    const rows = await rowsInNode();
    expect(rows[0]?.[0]).toBe('from the page');
    expect(result).toMatchObject({ rows, appended: `0/${last}` });
  });

  test('it gets the error of its server', async () => {
    expect(await open({ log: newLogId(), ...RECTANGLE })).toEqual({ failed: 'NOT_ALLOWED' });
    const items = (await sheet.items()).length;
    expect(await open({ log: sheet.log, ...RECTANGLE, write: 'x'.repeat(20_000) })).toEqual({ failed: 'USAGE' });
    expect(await sheet.items()).toHaveLength(items);
  });
});
