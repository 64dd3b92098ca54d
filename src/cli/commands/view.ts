import { stringify } from 'csv-stringify/sync';
import { type AxisRange, cellText, checkRectangle } from '../../state/spreadsheet/sheet.ts';
import { examples, inEnvironment, parse, readingCommand } from '../command.ts';
import { describeFetched, textTable } from '../format.ts';
import { atOption, loadShownState, MOMENT_HELP, onBadEntryOption } from '../moment.ts';
import { requireSheets } from '../reducer.ts';

/** The rectangle without options. */
const FIRST = { rows: { from: 0, to: 20 }, columns: { from: 0, to: 8 } };
/** The most columns of the screen for a cell, and the fewest on a narrow terminal. */
const CELL_WIDTH = { most: 24, fewest: 4 };

const NOTES = `
Without --rows and --columns, the command shows the first ${FIRST.rows.to} rows and ${FIRST.columns.to} columns. On a terminal, and without options
anywhere, it shows them in a table with the numbers of rows and columns, without the empty ones at their ends, and cuts
long values. Elsewhere it writes the rectangle as CSV. --json has all cells as they are.`;

export function viewCommand() {
  return readingCommand('view', 'Show a rectangle of a sheet, and the number of objects and bytes fetched for it.')
    .argument('<log>', 'the log', parse.log)
    .option('--rows <from:to>', 'rows FROM up to, but not including, TO, counted from 0', parse.span)
    .option('--columns <from:to>', 'columns FROM up to, but not including, TO, counted from 0', parse.span)
    .addOption(atOption())
    .addOption(onBadEntryOption())
    .addHelpText('after', NOTES)
    .addHelpText('after', MOMENT_HELP)
    .addHelpText(
      'after',
      examples(
        'view budget',
        'view budget --rows 0:50 --columns 0:8',
        'view budget --rows 0:50 --columns 0:8 --at 2026-01-31T18:00:00+01:00',
      ),
    )
    .action((log, { at, rows, columns, ...options }) => {
      const rectangle = { rows: rows ?? FIRST.rows, columns: columns ?? FIRST.columns };
      const isTable = process.stdout.isTTY || (rows === undefined && columns === undefined);
      checkRectangle(rectangle);
      return inEnvironment(options, async (environment, output) => {
        requireSheets(environment.deps.reducer, 'view');
        const { state, position, badEntry } = await loadShownState(environment, log, at);
        const cells = (await state.view(rectangle)).map((row) => row.map(cellText));
        const { gets: objects, bytesRead: bytes } = environment.blobs.usage();
        output.note(`${describeFetched(environment.blobs.usage())}.`);
        const document = {
          rows: cells,
          rectangle,
          ...(at && { position }),
          ...(badEntry !== undefined && { badEntry }),
          fetched: { objects, bytes },
        };
        output.result(document, isTable ? tableOf(cells, rectangle) : stringify(cells).trimEnd());
      });
    });
}

/** The cells with the numbers of their rows and columns, as wide as the terminal at most. */
function tableOf(
  cells: readonly (readonly string[])[],
  { rows, columns }: Record<'rows' | 'columns', AxisRange>,
): string {
  const height = cells.findLastIndex((row) => row.some((cell) => cell !== '')) + 1;
  const width = Math.max(0, ...cells.map((row) => row.findLastIndex((cell) => cell !== '') + 1));
  if (width === 0) return `No cell has a value in rows ${spanOf(rows)} and columns ${spanOf(columns)}.`;
  const head = ['', ...Array.from({ length: width }, (_, i) => `${columns.from + i}`)];
  const lines = cells.slice(0, height).map((row, i) => [rows.from + i, ...row.slice(0, width)]);
  // Some terminals say that they have no columns.
  const screen = process.stdout.columns || Number.POSITIVE_INFINITY;
  const { most, fewest } = CELL_WIDTH;
  for (let cellWidth = most; ; cellWidth--) {
    const table = textTable(head, lines, cellWidth);
    if (cellWidth === fewest || table.indexOf('\n') <= screen) return table;
  }
}

function spanOf({ from, to }: AxisRange): string {
  return `${from}:${to}`;
}
