import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gunzipSync, gzipSync } from 'node:zlib';
import type { CellEntry, CellValue, SheetCell } from '../workload.ts';
import type { System, Usage } from './system.ts';

type Rows = CellValue[][];

/**
 * Stores the whole state as JSON, an array of rows, compressed by gzip with its default settings.
 */
export const jsonGzip: System = {
  async full(directory, pages) {
    const rows: Rows = [];
    for (const page of pages) fold(rows, page);
    return write(directory, rows, 0);
  },

  async edit(directory, entries) {
    const { rows } = await read(directory);
    fold(rows, entries);
    return write(directory, rows, 1);
  },

  async view(directory, { rows: { from, to }, columns }) {
    const { rows, bytes } = await read(directory);
    const cells = rows.slice(from, to).flatMap((row, i) =>
      row.slice(columns.from, columns.to).map((value, j): SheetCell => {
        return { row: from + i, column: columns.from + j, value };
      }),
    );
    return { cells, usage: { bytes, objects: 1, requests: 1 } };
  },
};

function fold(rows: Rows, entries: readonly CellEntry[]): void {
  for (const { body } of entries) {
    for (const [row, column, value] of body) {
      rows[row] ??= [];
      const cells = rows[row];
      cells[column] = value;
    }
  }
}

async function read(directory: string): Promise<{ readonly rows: Rows; readonly bytes: number }> {
  const bytes = await readFile(join(directory, 'state.json.gz'));
  const rows: Rows = JSON.parse(gunzipSync(bytes).toString());
  return { rows, bytes: bytes.length };
}

async function write(directory: string, rows: Rows, objectsRead: number): Promise<Usage> {
  const bytes = gzipSync(JSON.stringify(rows));
  await writeFile(join(directory, 'state.json.gz'), bytes);
  return { bytes: bytes.length, objects: 1, requests: objectsRead + 1 };
}
