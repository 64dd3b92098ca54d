import { rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync, type StatementSync } from 'node:sqlite';
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
    const database = open(directory, SCHEMA);
    const usage = await write(database, pages);
    database.connection.close();
    return usage;
  },

  async edit(directory, entries) {
    const database = open(directory);
    const usage = await write(database, [entries]);
    database.connection.close();
    // One more to read the working database.
    return { ...usage, requests: usage.requests + 1 };
  },

  openWarm(directory) {
    const database = open(directory);
    return { edit: (entries) => write(database, [entries]), close: () => database.connection.close() };
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

/** The working database, with its prepared statements. */
interface Database {
  readonly directory: string;
  readonly connection: DatabaseSync;
  readonly put: StatementSync;
  readonly vacuum: StatementSync;
}

function open(directory: string, schema?: string): Database {
  const connection = new DatabaseSync(join(directory, 'working.db'));
  connection.exec(SETTINGS);
  if (schema !== undefined) connection.exec(schema);
  const put = connection.prepare(
    'INSERT INTO cells VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value',
  );
  return { directory, connection, put, vacuum: connection.prepare('VACUUM INTO ?') };
}

async function write(
  { directory, connection, put, vacuum }: Database,
  pages: Iterable<readonly CellEntry[]>,
): Promise<Usage> {
  connection.exec('BEGIN');
  for (const page of pages) {
    for (const { body } of page) for (const [row, column, value] of body) put.run(row * ROW_SPAN + column, value);
  }
  connection.exec('COMMIT');
  const next = join(directory, 'next.db');
  vacuum.run(next);
  await rename(next, join(directory, 'snapshot.db'));
  const { size } = await stat(join(directory, 'snapshot.db'));
  return { bytes: size, objects: 1, requests: 1 };
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
