import { fileURLToPath } from 'node:url';
import { createContext, runInContext } from 'node:vm';
import { build } from 'esbuild';
import { expect, test } from 'vitest';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { toHex } from '../../src/codec/bytes.ts';
import { encodeRoot } from '../../src/snapshot/root.ts';
import { MemoryChunks, nodeStore } from '../support/chunks.ts';
import { LOG } from '../support/logs.ts';
import { savedSheet } from '../support/saved-sheet.ts';

/** The globals of a page, without those of Node. */
const PAGE = { TextEncoder, TextDecoder, console, setTimeout, clearTimeout, performance, URL };

test('a browser reads a snapshot that Node wrote', async () => {
  const chunks = new MemoryChunks();
  const rows = Array.from({ length: 3_000 }, (_, row) => [`row ${row}`, `${row * 7}`, 'Łódź', `${row % 13}`]);
  const cells = rows.flatMap((texts, row) => texts.map((text, column) => [row, column, text] as const));
  const state = await savedSheet(nodeStore({}, chunks), [{ type: 'Set', cells }]);
  const position = { segment: 0, entry: 1 };
  const root = encodeRoot(nativePlatform, { log: LOG, position, reducer: { name: 'spreadsheet', version: 1 }, state });
  expect(chunks.stored.size).toBeGreaterThan(1);

  const entry = fileURLToPath(new URL('../support/browser-reader.ts', import.meta.url));
  const bundled = await build({
    entryPoints: [entry],
    bundle: true,
    platform: 'browser',
    format: 'iife',
    globalName: 'reader',
    write: false,
    logLevel: 'silent',
    // zstd-codec imports these modules only in Node.
    external: ['fs', 'path', 'crypto'],
  });
  const [script] = bundled.outputFiles;
  if (script === undefined) throw new Error('nothing was bundled');
  expect(script.text).not.toMatch(/node:(zlib|crypto|fs|buffer)/);
  const page = createContext({ ...PAGE, window: {}, self: {}, document: { currentScript: { src: '' } } });
  runInContext(script.text, page);
  const snapshot = {
    log: LOG,
    position,
    root: toHex(root.stored),
    chunks: Object.fromEntries([...chunks.stored].map(([id, stored]) => [id, toHex(stored)])),
  };
  const read: unknown = await runInContext(`reader.readSheet(${JSON.stringify(snapshot)}).then(JSON.stringify)`, page);
  expect(JSON.parse(String(read))).toEqual(rows);
});
