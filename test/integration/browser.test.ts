import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createContext, runInContext } from 'node:vm';
import { expect, test } from 'vitest';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { toHex } from '../../src/codec/bytes.ts';
import { encodeRoot } from '../../src/snapshot/root.ts';
import { MemoryChunks, nodeStore } from '../support/chunks.ts';
import { LOG } from '../support/logs.ts';
import { savedSheet } from '../support/models/saved-sheet.ts';
import { bundleFirstLoad, bundlePage, gzippedBytes } from '../support/page-bundle.ts';

/** The globals of a page, without those of Node. */
const PAGE = { TextEncoder, TextDecoder, console, setTimeout, clearTimeout, performance, URL };

const MAX_GZIPPED_BYTES = 200_000;

function program(file: string): string {
  return fileURLToPath(new URL(`../programs/${file}`, import.meta.url));
}

test('a browser reads a snapshot that Node wrote', async () => {
  const chunks = new MemoryChunks();
  const rows = Array.from({ length: 3_000 }, (_, row) => [`row ${row}`, `${row * 7}`, 'Łódź', `${row % 13}`]);
  const cells = rows.flatMap((texts, row) => texts.map((text, column) => [row, column, text] as const));
  const state = await savedSheet(nodeStore({}, chunks), [{ type: 'Set', cells }]);
  const position = { segment: 0, entry: 1 };
  const root = encodeRoot(nativePlatform, { log: LOG, position, reducer: { name: 'spreadsheet', version: 1 }, state });
  expect(chunks.stored.size).toBeGreaterThan(1);

  const { script } = await bundlePage(program('browser-reader.ts'), { globalName: 'reader' });
  const page = createContext({ ...PAGE, window: {}, self: {}, document: { currentScript: { src: '' } } });
  runInContext(script, page);
  const snapshot = {
    log: LOG,
    position,
    root: toHex(root.stored),
    chunks: Object.fromEntries([...chunks.stored].map(([id, stored]) => [id, toHex(stored)])),
  };
  const read: unknown = await runInContext(`reader.readSheet(${JSON.stringify(snapshot)}).then(JSON.stringify)`, page);
  expect(JSON.parse(String(read))).toEqual(rows);
});

test('the code of a page is small and has no module of Node', async () => {
  const { script, modules } = await bundleFirstLoad(program('page.ts'), { external: ['zstd-codec'] });
  const { script: whole } = await bundlePage(program('page.ts'));
  const { script: without } = await bundlePage(program('page.ts'), { external: ['zstd-codec'] });
  const [bytes, zstd] = [gzippedBytes(script), gzippedBytes(whole) - gzippedBytes(without)];
  console.log(`The code of a page has ${bytes} bytes gzipped, and loads ${zstd} bytes of Zstandard in WebAssembly.`);
  expect(bytes).toBeLessThan(MAX_GZIPPED_BYTES);
  const stated = /code of a page has about\s(\d+) KB gzipped, and Zstandard adds (\d+) KB/.exec(
    readFileSync(join(import.meta.dirname, '../../docs/library.md'), 'utf8'),
  );
  // The document rounds.
  for (const [i, measured] of [bytes, zstd].entries()) {
    expect(Math.abs(Number(stated?.[i + 1]) * 1000 - measured)).toBeLessThan(measured / 10);
  }
  const packages = modules.map((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1]).filter(Boolean);
  expect([...new Set(packages)].sort()).toEqual([
    '@noble/hashes',
    'fractional-indexing',
    'msgpackr',
    'p-limit',
    'uuid',
    'yocto-queue',
  ]);
  expect(
    modules.filter((path) => /^(node:|src\/adapters\/(?!web|platform\/(?:wasm|zstd)|s3\/request))/.test(path)),
  ).toEqual([]);
});

test('a page of collections does not load the spreadsheet', async () => {
  const { script, modules } = await bundleFirstLoad(program('collections-page.ts'), { external: ['zstd-codec'] });
  console.log(`The code of a page of collections has ${gzippedBytes(script)} bytes gzipped.`);
  expect(modules).toContain('src/state/collections/reducer.ts');
  expect(modules.filter((path) => path.startsWith('src/state/spreadsheet/'))).toEqual([
    'src/state/spreadsheet/sheet-maps.ts',
  ]);
  expect(modules.filter((path) => path.includes('fractional-indexing'))).toEqual([]);
});
