import { stringify } from 'csv-stringify/sync';
import { UsageError } from '../../errors.ts';
import { loadState } from '../../snapshot/load.ts';
import { MAX_COLUMNS, MAX_ROWS } from '../../state/spreadsheet/cell-key.ts';
import { sheetOf } from '../../state/spreadsheet/reducer.ts';
import type { Span } from '../../state/spreadsheet/sheet.ts';
import { cellText } from '../../state/spreadsheet/sheet-rows.ts';
import { command, inEnvironment, parse } from '../command.ts';
import { count, formatBytes } from '../format.ts';
import { requireSheets } from '../reducer.ts';

/** The whole rectangle is in memory until it is printed. */
const MAX_CELLS = 1_000_000;

export function viewCommand() {
  return command('view', 'Show a rectangle of a sheet, and the number of objects and bytes fetched for it.')
    .argument('<log>', 'the log', parse.log)
    .requiredOption('--rows <from:to>', 'rows FROM up to, but not including, TO, counted from 0', parse.span)
    .requiredOption('--columns <from:to>', 'columns FROM up to, but not including, TO, counted from 0', parse.span)
    .action((log, { rows, columns, ...options }) => {
      checkSpans(rows, columns);
      return inEnvironment(options, async ({ deps, blobs }, output) => {
        requireSheets(deps.reducer, 'view');
        const { draft } = await loadState(deps, log);
        const height = rows.to - rows.from;
        const grid = Array.from({ length: height }, () => Array.from({ length: columns.to - columns.from }, () => ''));
        for await (const cell of sheetOf(draft).cells(rows, columns)) {
          const row = grid[cell.row - rows.from];
          if (row !== undefined) row[cell.column - columns.from] = cellText(cell.value);
        }
        const { gets: objects, bytesRead: bytes } = blobs.usage();
        output.note(`${count(objects, 'object')} with ${formatBytes(bytes)} fetched.`);
        output.result({ rows: grid, fetched: { objects, bytes } }, stringify(grid).trimEnd());
      });
    });
}

function checkSpans(rows: Span, columns: Span): void {
  if (rows.to > MAX_ROWS || columns.to > MAX_COLUMNS) {
    throw new UsageError(`the rectangle reaches past the sheet's ${MAX_ROWS} rows and ${MAX_COLUMNS} columns`);
  }
  const cells = (rows.to - rows.from) * (columns.to - columns.from);
  if (cells > MAX_CELLS) {
    throw new UsageError(`the rectangle has ${cells} cells, but view shows at most ${MAX_CELLS}`, {
      advice: 'View a smaller rectangle, or use export',
    });
  }
}
