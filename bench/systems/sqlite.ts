import { rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { CellEntry, Rectangle, SheetCell } from '../workload.ts';
import type { System, Usage } from './system.ts';

/** Settings for speed, without crash safety. */
const SETTINGS = `
  PRAGMA journal_mode = OFF;
  PRAGMA synchronous = OFF;
  PRAGMA locking_mode = EXCLUSIVE;
  PRAGMA temp_store = MEMORY`;
/**
 * The first snapshot also gets a page cache for a million cells, which halves the time for cells in
 * random order. A few edits are faster without the cache.
 */
const SCHEMA = `
  PRAGMA cache_size = -262144;
  CREATE TABLE cells (key INTEGER PRIMARY KEY, value)`;
/** The most columns of a row. */
const ROW_SPAN = 128;

/**
 * SQLite on its fast path: cells with an integer primary key, and prepared upserts in one
 * transaction on a working database. `VACUUM INTO` writes the snapshot.
 */
export const sqlite: System = {
  async full(directory, pages) {
    return write(directory, pages, SCHEMA);
  },

  edit(directory, entries) {
    return write(directory, [entries]);
  },

  async view(directory, rectangle) {
    const path = join(directory, 'snapshot.db');
    const database = new DatabaseSync(path, { readOnly: true });
    const cells = readCells(database, rectangle);
    database.close();
    const { size } = await stat(path);
    // A reader of a database in an object store fetches the whole database first.
    return { cells, usage: { bytes: size, objects: 1, requests: 1 } };
  },
};

async function write(directory: string, pages: Iterable<readonly CellEntry[]>, schema?: string): Promise<Usage> {
  const database = new DatabaseSync(join(directory, 'working.db'));
  database.exec(SETTINGS);
  if (schema !== undefined) database.exec(schema);
  const put = database.prepare(
    'INSERT INTO cells VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value',
  );
  database.exec('BEGIN');
  for (const page of pages) {
    for (const { body } of page) for (const [row, column, value] of body) put.run(row * ROW_SPAN + column, value);
  }
  database.exec('COMMIT');
  const next = join(directory, 'next.db');
  database.prepare('VACUUM INTO ?').run(next);
  database.close();
  await rename(next, join(directory, 'snapshot.db'));
  const { size } = await stat(join(directory, 'snapshot.db'));
  return { bytes: size, objects: 1, requests: schema === undefined ? 2 : 1 };
}

function readCells(database: DatabaseSync, { rows, columns }: Rectangle): SheetCell[] {
  const select = database.prepare('SELECT key, value FROM cells WHERE key >= ? AND key < ? ORDER BY key');
  const cells: SheetCell[] = [];
  for (let row = rows.from; row < rows.to; row++) {
    for (const { key, value } of select.iterate(row * ROW_SPAN + columns.from, row * ROW_SPAN + columns.to)) {
      if (typeof value !== 'number' && typeof value !== 'string') throw new Error(`the cell ${key} holds ${value}`);
      cells.push({ row, column: Number(key) % ROW_SPAN, value });
    }
  }
  return cells;
}
