import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { applyUpdate, Doc, encodeStateAsUpdate } from 'yjs';
import type { CellEntry, CellValue, SheetCell } from '../workload.ts';
import type { System, Usage } from './system.ts';

/**
 * A shared document with one map of cells, edited in one transaction. `encodeStateAsUpdate` writes
 * the snapshot.
 */
export const yjs: System = {
  async full(directory, pages) {
    const document = new Doc();
    fold(document, pages);
    return write(directory, document, 0);
  },

  async edit(directory, entries) {
    const { document } = await read(directory);
    fold(document, [entries]);
    return write(directory, document, 1);
  },

  async view(directory, { rows, columns }) {
    const { document, bytes } = await read(directory);
    const map = document.getMap<CellValue>('cells');
    const cells: SheetCell[] = [];
    for (let row = rows.from; row < rows.to; row++) {
      for (let column = columns.from; column < columns.to; column++) {
        const value = map.get(cellName(row, column));
        if (value !== undefined) cells.push({ row, column, value });
      }
    }
    return { cells, usage: { bytes, objects: 1, requests: 1 } };
  },
};

function fold(document: Doc, pages: Iterable<readonly CellEntry[]>): void {
  const map = document.getMap<CellValue>('cells');
  document.transact(() => {
    for (const page of pages) {
      for (const { body } of page) for (const [row, column, value] of body) map.set(cellName(row, column), value);
    }
  });
}

function cellName(row: number, column: number): string {
  return `${row}:${column}`;
}

async function read(directory: string): Promise<{ readonly document: Doc; readonly bytes: number }> {
  const bytes = await readFile(join(directory, 'state.yjs'));
  const document = new Doc();
  applyUpdate(document, bytes);
  return { document, bytes: bytes.length };
}

async function write(directory: string, document: Doc, objectsRead: number): Promise<Usage> {
  const bytes = encodeStateAsUpdate(document);
  await writeFile(join(directory, 'state.yjs'), bytes);
  return { bytes: bytes.length, objects: 1, requests: objectsRead + 1 };
}
