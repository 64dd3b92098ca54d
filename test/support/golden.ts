import { readFile, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import { fromHex, toHex } from '../../src/codec/bytes.ts';

const FILES = new URL('../golden/files/', import.meta.url);
const LINE_DIGITS = 96;

function changed(name: string): string {
  return [
    `test/golden/files/${name} differs from the output of the code: the format has changed.`,
    'Stored objects would no longer be found or shared. Set a new format version',
    '(FORMAT_VERSION in src/codec/chunk.ts, ROOT_FORMAT in src/snapshot/root.ts, or FORMAT in',
    'src/archive/archive-index.ts) and change docs/format.md.',
    'If the change is intended, write the files again: UPDATE_GOLDEN=1 npx vitest run test/golden',
  ].join('\n');
}

/**
 * Compares a text with the committed file of that name. With UPDATE_GOLDEN=1 in the environment it
 * overwrites the file instead, which CI refuses.
 */
export async function expectGoldenText(name: string, text: string): Promise<void> {
  const path = fileURLToPath(new URL(name, FILES));
  if (process.env.UPDATE_GOLDEN === '1') {
    if (process.env.CI !== undefined) throw new Error('CI must not write golden files. Unset UPDATE_GOLDEN.');
    await writeFile(path, text);
  }
  expect(text, changed(name)).toBe(await readFile(path, 'utf8'));
}

/**
 * Compares bytes with the committed file of that name, which has them in hexadecimal. See {@link
 * expectGoldenText}.
 */
export async function expectGoldenBytes(name: string, bytes: Uint8Array): Promise<void> {
  const lines = toHex(bytes).match(new RegExp(`.{1,${LINE_DIGITS}}`, 'g')) ?? [];
  await expectGoldenText(name, lines.map((line) => `${line}\n`).join(''));
}

/** The text of a committed file. */
export async function readGoldenText(name: string): Promise<string> {
  return readFile(new URL(name, FILES), 'utf8');
}

/** The bytes of a committed file, decoded from hexadecimal. */
export async function readGoldenBytes(name: string): Promise<Uint8Array> {
  return fromHex((await readGoldenText(name)).replaceAll('\n', ''));
}

/**
 * Overwrites a file that tests cannot compare, because its bytes depend on the version of a
 * library. Without UPDATE_GOLDEN=1 it does nothing.
 */
export async function updateGoldenBytes(name: string, bytes: Uint8Array): Promise<void> {
  if (process.env.UPDATE_GOLDEN === '1') await expectGoldenBytes(name, bytes);
}
