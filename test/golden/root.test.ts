import { describe, expect, test } from 'vitest';
import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { unpackChunk } from '../../src/codec/chunk.ts';
import { parseLogId } from '../../src/ids/log-id.ts';
import type { Position } from '../../src/ids/position.ts';
import { decodeRoot, type EncodedRoot, encodeRoot } from '../../src/snapshot/root.ts';
import type { SheetEdit } from '../../src/state/spreadsheet/reducer.ts';
import { hashFlushedState } from '../../src/state/state.ts';
import type { NodeStore } from '../../src/tree/node-store.ts';
import { walkChunks } from '../../src/tree/walk.ts';
import { nodeStore } from '../support/chunks.ts';
import {
  expectGoldenBytes,
  expectGoldenText,
  readGoldenBytes,
  readGoldenText,
  updateGoldenBytes,
} from '../support/golden.ts';
import { savedSheet, sheetRows } from '../support/models/saved-sheet.ts';

const LOG = parseLogId('0192f7a0-5b1c-7d3e-8f10-2a3b4c5d6e7f');

interface Input {
  readonly name: string;
  readonly position: Position;
  readonly edits: readonly SheetEdit[];
}

const EMPTY: Input = { name: 'root-empty', position: { segment: 0, entry: 0 }, edits: [] };
const SMALL: Input = {
  name: 'root-small',
  position: { segment: 0, entry: 7 },
  edits: [
    {
      type: 'Set',
      cells: [
        [0, 0, 'Name'],
        [0, 1, 'Price'],
        [1, 0, 'Łódź'],
        [1, 1, 12.5],
        [2, 0, 'Kraków'],
        [2, 1, 7],
        [2, 130, true],
      ],
    },
    { type: 'Insert Rows', position: 1, count: 2 },
    { type: 'Set', cells: [[1, 0, 'Gdańsk']] },
    { type: 'Delete Rows', position: 4, count: 1 },
    { type: 'Insert Columns', position: 1, count: 1 },
    { type: 'Set', cells: [[1, 1, null]] },
  ],
};
const LARGE: Input = { name: 'root-large', position: { segment: 3, entry: 61 }, edits: largeEdits() };

/**
 * 3,000 rows of 20 cells with numbers, texts and fractions, then inserted rows and a deleted
 * column.
 */
function largeEdits(): SheetEdit[] {
  const edits: SheetEdit[] = [];
  for (let from = 0; from < 3000; from += 50) {
    const cells = Array.from({ length: 1000 }, (_, i) => {
      const [row, column] = [from + Math.floor(i / 20), i % 20];
      const mixed = (row * 7919 + column * 104_729) % 100_003;
      return [row, column, column % 3 === 0 ? mixed : column % 3 === 1 ? `text ${mixed}` : mixed / 8] as const;
    });
    edits.push({ type: 'Set', cells });
  }
  edits.push({ type: 'Insert Rows', position: 1500, count: 3 });
  edits.push({ type: 'Delete Columns', position: 7, count: 1 });
  return edits;
}

async function build(
  store: NodeStore,
  input: Input,
): Promise<{ encoded: EncodedRoot; canonical: Uint8Array; hash: string }> {
  const state = await savedSheet(store, input.edits);
  const hash = hashFlushedState(nativePlatform, state);
  const reducer = { name: 'spreadsheet', version: 1 };
  const encoded = encodeRoot(nativePlatform, { log: LOG, position: input.position, reducer, state });
  return { encoded, canonical: unpackChunk(nativePlatform, encoded.stored), hash };
}

test.each([EMPTY, SMALL, LARGE])('$name has the id and the state hash of the golden file', async (input) => {
  const { encoded, hash } = await build(nodeStore(), input);
  await expectGoldenText(`${input.name}.txt`, `root id ${encoded.id}\nstate hash ${hash}\n`);
});

describe.each([EMPTY, SMALL])('$name', (input) => {
  test('the root is encoded as in the golden file', async () => {
    const { canonical } = await build(nodeStore(), input);
    await expectGoldenBytes(`${input.name}.canonical.hex`, canonical);
  });

  // Another version of Zstandard may compress to other bytes, which does not change the format. The
  // committed bytes must open.
  test('the stored root opens', async () => {
    const { encoded, hash } = await build(nodeStore(), input);
    await updateGoldenBytes(`${input.name}.stored.hex`, encoded.stored);
    const stored = await readGoldenBytes(`${input.name}.stored.hex`);
    const id = /^root id (.*)$/m.exec(await readGoldenText(`${input.name}.txt`))?.[1];
    const read = decodeRoot(nativePlatform, stored, { log: LOG, position: input.position, id });
    expect(read.stateHash).toBe(hash);
    expect(read.reducer).toEqual({ name: 'spreadsheet', version: 1 });
  });
});

test('the root of a mapped log is encoded as in the golden file, and states the mapping', async () => {
  const { position, edits } = EMPTY;
  const state = await savedSheet(nodeStore(), edits);
  const lastItem = new Uint8Array(32).fill(7);
  const root = {
    log: LOG,
    position,
    reducer: { name: 'spreadsheet', version: 1 },
    mapping: 'ab'.repeat(32),
    lastItem,
    state,
  };
  const { stored } = encodeRoot(nativePlatform, root);
  await expectGoldenBytes('root-mapped.canonical.hex', unpackChunk(nativePlatform, stored));
  expect(decodeRoot(nativePlatform, stored, { log: LOG, position })).toMatchObject({ mapping: root.mapping, lastItem });
});

test('root-small holds this sheet', async () => {
  const stored = await readGoldenBytes('root-small.stored.hex');
  const { state } = decodeRoot(nativePlatform, stored, { log: LOG, position: SMALL.position });
  const rows = await sheetRows(nodeStore(), state);
  expect(rows.map((row) => row.slice(0, 4))).toEqual([['Name', '', 'Price'], ['Gdańsk'], [], ['Łódź', '', '12.5']]);
});

test('root-large has an inner node at its top and several leaves', async () => {
  const store = nodeStore();
  const state = await savedSheet(store, LARGE.edits);
  const top = state.maps.get('cells')?.tree.top;
  if (top === undefined) throw new Error('the sheet has no cells');
  const reached = await Array.fromAsync(walkChunks(store, top, { values: true }));
  expect(top.level).toBe(1);
  await expectGoldenText('root-large.chunks.txt', reached.map(({ id, holds }) => `${holds} ${id}\n`).join(''));
  expect(reached.length).toBeGreaterThan(3);
});
