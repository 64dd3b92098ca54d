import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { decodeItemLine, encodeItemLine } from '../../src/archive/item-line.ts';
import { toHex } from '../../src/codec/bytes.ts';
import { textLogId } from '../../src/ids/log-id.ts';
import { endOf, entryAt } from '../../src/log/schedule.ts';
import { fingerprintOf } from '../../src/mapping/meaning.ts';
import { parseMapping, readMapping } from '../../src/mapping/schema-mapping.ts';
import { toApplicationItem, toEntryItem } from '../../src/mapping/translate.ts';
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

/** The JSON documents of the section on mapped logs. */
function mappedExamples(): unknown[] {
  const section = page.slice(page.indexOf('## 15. Mapped logs\n'));
  return [...section.matchAll(/```json\n(.*?)```/gs)].map(([, json = '']) => JSON.parse(json));
}

test('the mapping of docs/format.md is the ready-made one', () => {
  expect(parseMapping(mappedExamples()[0])).toEqual(readMapping('castore'));
});

test('the fingerprint of docs/format.md is that of the ready-made mapping', () => {
  const mapping = parseMapping(mappedExamples()[0]);
  expect(page).toContain(`fingerprint \`${fingerprintOf(nativePlatform, mapping)}\``);
});

test('the item of docs/format.md is translated as the page says, and back', () => {
  const [original, translated] = mappedExamples()
    .slice(1)
    .map((Item) => decodeItemLine(JSON.stringify({ Item })));
  const mapping = readMapping('pk-sk:order');
  if (original === undefined || translated === undefined || mapping === undefined) throw new Error('no example');
  const place = { log: textLogId('17'), position: { segment: 0, entry: 2 }, index: 1 };
  expect(encodeItemLine(toEntryItem(mapping, original, place))).toBe(encodeItemLine(translated));
  expect(toApplicationItem(mapping, translated)).toEqual(original);
});

test('the schedule of docs/format.md has the entries that the page shows', () => {
  const schedule = { first: 0, items: 5, snapshotEvery: 2 };
  const shown = /^ {8}(S .*)$/m.exec(page)?.[1]?.split(/ +/);
  const entries = Array.from({ length: endOf(schedule) + 1 }, (_, entry) => entryAt(schedule, entry));
  const letters = { snapshot: 'S', 'end segment': 'E' };
  expect(entries.map((entry) => entry && (entry.kind === 'item' ? `i${entry.index}` : letters[entry.kind]))).toEqual(
    shown,
  );
});
