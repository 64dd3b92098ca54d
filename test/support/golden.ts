import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import { fromHex, toHex } from '../../src/codec/bytes.ts';

const FILES = new URL('../golden/files/', import.meta.url);
const LINE_DIGITS = 96;

function changed(name: string): string {
  return [
    `test/golden/files/${name} differs from the output of the code: the format has changed.`,
    'What was stored before would no longer be found or shared, so this needs a new format version',
    '(FORMAT_VERSION in src/codec/chunk.ts, ROOT_FORMAT in src/snapshot/root.ts, or FORMAT in',
    'src/archive/archive-index.ts) and a change of docs/format.md.',
    'Where it is meant so, write the files anew: UPDATE_GOLDEN=1 npx vitest run test/golden',
  ].join('\n');
}

/**
 * Holds a text to the committed file of that name. With UPDATE_GOLDEN=1 in the environment it becomes the file instead,
 * which CI refuses.
 */
export async function expectGoldenText(name: string, text: string): Promise<void> {
  const path = fileURLToPath(new URL(name, FILES));
  if (process.env.UPDATE_GOLDEN === '1') {
    if (process.env.CI !== undefined) throw new Error('CI must not write golden files. Unset UPDATE_GOLDEN.');
    await writeFile(path, text);
  }
  expect(text, changed(name)).toBe(await readFile(path, 'utf8'));
}

/** Holds bytes to the committed file of that name, which has them in hexadecimal; see {@link expectGoldenText}. */
export async function expectGoldenBytes(name: string, bytes: Uint8Array): Promise<void> {
  const lines = toHex(bytes).match(new RegExp(`.{1,${LINE_DIGITS}}`, 'g')) ?? [];
  await expectGoldenText(name, lines.map((line) => `${line}\n`).join(''));
}

/** The text of a committed file. */
export async function readGoldenText(name: string): Promise<string> {
  return readFile(new URL(name, FILES), 'utf8');
}

/** The bytes of a committed file in hexadecimal. */
export async function readGoldenBytes(name: string): Promise<Uint8Array> {
  return fromHex((await readGoldenText(name)).replaceAll('\n', ''));
}

/**
 * Writes a file that a comparison cannot hold, since other versions of a library write other bytes. Without
 * UPDATE_GOLDEN=1 it does nothing.
 */
export async function updateGoldenBytes(name: string, bytes: Uint8Array): Promise<void> {
  if (process.env.UPDATE_GOLDEN === '1') await expectGoldenBytes(name, bytes);
}
