import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FilesystemBlobStore } from '../../src/adapters/filesystem/blob-store.ts';
import { toHex } from '../../src/codec/bytes.ts';
import type { Position } from '../../src/ids/position.ts';
import { encodeBody } from '../../src/log/body.ts';
import { nodeStore } from '../../src/snapshot/snapshots.ts';
import { Draft } from '../../src/state/draft.ts';
import { sheetOf } from '../../src/state/spreadsheet/reducer.ts';
import { findChromium, openPage } from '../support/chromium.ts';
import { type Handler, ObjectServer } from '../support/object-server.ts';
import type { PageResult, PageTask } from '../support/page.ts';
import { bundlePage, type PageBundle } from '../support/page-bundle.ts';
import { SheetLog } from '../support/sheet-log.ts';

const PAGE = fileURLToPath(new URL('../support/page.ts', import.meta.url));
const RECTANGLE = { rows: { from: 2_000, to: 2_050 }, columns: { from: 10, to: 30 } };
const HTML =
  '<!doctype html><meta charset="utf-8"><title>logfold</title><script type="module" src="/page.js"></script>';
const FILES: Readonly<Record<string, { readonly type: string; readonly text: (page: PageBundle) => string }>> = {
  '/': { type: 'text/html', text: () => HTML },
  '/page.js': { type: 'text/javascript', text: ({ script }) => script },
};

const chromium = findChromium();
if (chromium === undefined) {
  console.log('NOT RUN: a page in Chromium. Install it, for example with apt-get install chromium.');
}

describe.skipIf(chromium === undefined)('a page in Chromium', () => {
  let sheet: SheetLog;
  let snapshot: Position;
  let server: ObjectServer;
  let directory: string;
  let page: PageBundle;
  /** The job of the next page, and its answer. */
  let task: PageTask;
  let answer: PromiseWithResolvers<PageResult>;

  beforeAll(async () => {
    page = await bundlePage(PAGE);
    sheet = await SheetLog.create();
    for (let part = 0; part < 10; part++) {
      const cells = Array.from({ length: 25_000 }, (_, i) => {
        const [row, column] = [part * 500 + Math.floor(i / 50), i % 50];
        return [row, column, `Łódź ${row * 7 + column}`] as const;
      });
      await sheet.edit({ type: 'Set', cells });
    }
    snapshot = await sheet.completed();
    directory = await mkdtemp(join(tmpdir(), 'logfold-page-'));
    const blobs = new FilesystemBlobStore(directory);
    for await (const { key } of sheet.blobs.list(''))
      await blobs.put(key, (await sheet.blobs.get(key)) ?? new Uint8Array());
    server = await ObjectServer.start(blobs, serve);
  });
  afterAll(async () => {
    await server?.stop();
    await rm(directory, { recursive: true });
  });

  const serve: Handler = async (request, response) => {
    const file = FILES[request.url ?? ''];
    if (file !== undefined) response.writeHead(200, { 'Content-Type': file.type }).end(file.text(page));
    else if (request.url === '/task') response.end(JSON.stringify(task));
    else if (request.url === '/result') {
      answer.resolve(JSON.parse(await text(request)));
      response.end();
    } else return false;
    return true;
  };

  /** Opens a page that does a job, and closes it. */
  async function run(next: PageTask): Promise<PageResult> {
    task = next;
    answer = Promise.withResolvers();
    const opened = openPage(chromium ?? '', `${server.origin}/`);
    try {
      return await Promise.race([answer.promise, opened.ended]);
    } finally {
      await opened.close();
    }
  }

  test('it shows the same cells as Node, and fetches only the chunks of its rectangle', async () => {
    const root = await sheet.ref(snapshot);
    if (root === undefined || 'key' in root) throw new Error('the root is not inline');
    const result = await run({ log: sheet.log, position: snapshot, root: toHex(root.inline), ...RECTANGLE });
    const { state } = await sheet.root(snapshot);
    const draft = new Draft(nodeStore(sheet.deps, sheet.log), state);
    expect(result).toEqual({
      cells: await Array.fromAsync(sheetOf(draft).cells(RECTANGLE.rows, RECTANGLE.columns)),
      unpacked: 'logfold '.repeat(100),
      body: toHex(encodeBody([1, 'two', { three: 3.5 }])),
    });
    expect(result.cells).toHaveLength(50 * 20);
    console.log(`The page fetched ${server.asked.length} objects with ${server.sentBytes} bytes.`);
    expect(server.asked.length).toBeLessThanOrEqual(4);
  });
});
