import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { MemoryBlobStore } from '../../src/adapters/memory/blob-store.ts';
import { openLogs, type ServerLogs } from '../../src/exports/local.ts';
import { spreadsheet as reducer } from '../../src/exports/spreadsheet.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import { findChromium, openPage } from '../support/chromium.ts';
import { codeBlocks } from '../support/code-blocks.ts';
import { newLogId } from '../support/logs.ts';
import { bundlePage } from '../support/page-bundle.ts';
import { ObjectServer } from '../support/stores/object-server.ts';

const ENTRIES = join(import.meta.dirname, '../../src/exports');
/** The programs of the guide, which import the sources instead of the package. */
const [page = '', server = ''] = codeBlocks('docs/library.md', 'ts', 'Pages in a browser').map((code) =>
  code.replaceAll(
    /'logfold(?:\/(\w+))?'/g,
    (_, entry = 'logfold') => `'${pathToFileURL(join(ENTRIES, `${entry}.ts`))}'`,
  ),
);

let place: string;
let logs: ServerLogs;
let log: LogId;
let origin: string;

beforeAll(async () => {
  place = await mkdtemp(join(tmpdir(), 'logfold-documented-'));
  logs = await openLogs({ directory: join(place, 'data') });
  log = await logs.create();
  await (await logs.open(log, { reducer })).append({ type: 'Set', version: 1, body: [[49, 19, 'Łódź']] });
});
afterAll(async () => {
  await logs.close();
  await rm(place, { recursive: true });
});

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo;
  probe.close();
  await once(probe, 'close');
  return port;
}

/** Runs the server of the guide until it answers. */
async function start(): Promise<string> {
  const file = join(place, 'server.ts');
  await writeFile(file, server);
  const port = await freePort();
  const env = { ...process.env, PORT: String(port) };
  const child = spawn(process.execPath, [file, log], { cwd: place, env, stdio: ['ignore', 'ignore', 'pipe'] });
  const ended = text(child.stderr);
  onTestFinished(async () => {
    child.kill();
    await ended;
  });
  const address = `http://127.0.0.1:${port}`;
  for (;;) {
    if (child.exitCode !== null) throw new Error(`the server ended: ${await ended}`);
    const answer = await fetch(address).catch(() => undefined);
    if (answer !== undefined) return address;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const chromium = findChromium();
if (chromium === undefined) console.log('NOT RUN: the page of the guide in Chromium, which is missing.');

test('the server and the page of the guide show a sheet', async () => {
  origin = await start();
  const request = { format: 1, op: 'newestSegments', log: newLogId(), limit: 1, consistent: false };
  const refused = await fetch(`${origin}/log`, { method: 'POST', body: JSON.stringify(request) });
  expect(await refused.json()).toMatchObject({ error: { code: 'NOT_ALLOWED' } });
  const chunk = (of: LogId) =>
    fetch(`${origin}/object?key=${encodeURIComponent(`logs/${of}/chunks/${'0'.repeat(64)}`)}`);
  expect([(await chunk(log)).status, (await chunk(newLogId())).status]).toEqual([404, 403]);
  expect((await fetch(`${origin}/log`, { method: 'POST', body: 'no JSON' })).status).toBe(500);
  if (chromium === undefined) return;

  const file = join(place, 'page.ts');
  await writeFile(file, page.replaceAll("'file://", "'"));
  const { script } = await bundlePage(file);
  const shown = Promise.withResolvers<string>();
  const front = await ObjectServer.start(new MemoryBlobStore(), async (request, response) => {
    const { url = '/', method = 'GET' } = request;
    if (url === '/')
      response.end('<!doctype html><meta charset="utf-8"><body><script type="module" src="/page.js"></script>');
    else if (url === '/page.js') {
      const report = "fetch('/shown', { method: 'POST', body: document.body.textContent });";
      response.writeHead(200, { 'Content-Type': 'text/javascript' }).end(`${script}\n${report}`);
    } else if (url === '/shown') {
      shown.resolve(await text(request));
      response.end();
    } else {
      const body = method === 'POST' ? await text(request) : null;
      const answer = await fetch(`${origin}${url}`, { method, body });
      response.writeHead(answer.status).end(Buffer.from(await answer.arrayBuffer()));
    }
    return true;
  });
  onTestFinished(() => front.stop());
  const opened = openPage(chromium, `${front.origin}/#${log}`);
  onTestFinished(() => opened.close());
  const cells = JSON.parse(await Promise.race([shown.promise, opened.ended]));
  expect([cells.length, cells[0]?.length, cells[49]?.[19]]).toEqual([50, 20, 'Łódź']);
});
