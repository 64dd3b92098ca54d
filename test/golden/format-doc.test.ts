import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { toHex } from '../../src/codec/bytes.ts';
import { readGoldenBytes } from '../support/golden.ts';

const page = await readFile(new URL('../../docs/format.md', import.meta.url), 'utf8');

/**
 * The bytes of the example under a heading. Each line has bytes in hexadecimal, two spaces and an
 * explanation.
 */
function example(heading: string): string {
  const section = page.slice(page.indexOf(`### ${heading}\n`));
  const block = /```text\n(.*?)```/s.exec(section)?.[1] ?? '';
  return block.replaceAll(/ {2}.*$/gm, '').replaceAll(/\s/g, '');
}

test.each([
  ['A tiny chunk', 'chunk-plain.stored.hex'],
  ['A tiny root', 'root-empty.stored.hex'],
  ['A seek table', 'archive.seek-table.hex'],
  ["An archive's index", 'archive.index.hex'],
])('the example of docs/format.md under "%s" is %s', async (heading, file) => {
  expect(example(heading)).toBe(toHex(await readGoldenBytes(file)));
});

test('the axis of docs/format.md is the axis in root-small', async () => {
  const axis = example('An axis');
  expect(axis).toMatch(/^9400/);
  expect(toHex(await readGoldenBytes('root-small.canonical.hex'))).toContain(axis);
});
