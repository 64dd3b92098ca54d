import { stringify } from 'csv-stringify';
import { UsageError } from '../../errors.ts';
import { formatPosition, type Position } from '../../ids/position.ts';
import { assertPosition } from '../../log/newest.ts';
import { loadState } from '../../snapshot/load.ts';
import { sheetOf } from '../../state/spreadsheet/reducer.ts';
import type { Sheet, Span } from '../../state/spreadsheet/sheet.ts';
import { sheetRows } from '../../state/spreadsheet/sheet-rows.ts';
import { command, inEnvironment, parse } from '../command.ts';
import { count } from '../format.ts';
import { type Output, withPauses, writeFile, writeStandardOutput } from '../output.ts';
import { requireSheets } from '../reducer.ts';

/** The limit without `--all-rows`. One cell far from all others makes most fields empty. */
const MAX_FIELDS = 1_000_000_000;

export function exportCommand() {
  return command('export', 'Write the state of a log, now or at a position.')
    .argument('<log>', 'the log', parse.log)
    .option(
      '--at <position>',
      'the state before this entry, as SEGMENT/ENTRY; by default the newest state',
      parse.position,
    )
    .option(
      '--rows <from:to>',
      'export only rows FROM up to, but not including, TO, counted from 0; all used rows by default',
      parse.span,
    )
    .option('--all-rows', `write the used rows even if they have more than ${MAX_FIELDS / 1e9} billion fields`, false)
    .option('--csv <file>', 'write CSV into this file; without it and without --json, write CSV to standard output')
    .addHelpText(
      'after',
      '\nThe used rows end with the last cell that is not empty. Empty rows before it are written as empty lines.',
    )
    .action((log, { at, rows: span, allRows, csv, ...options }) =>
      inEnvironment(options, async ({ deps }, output) => {
        requireSheets(deps.reducer, 'export');
        if (at !== undefined) await assertPosition(deps, log, at);
        const { draft, end, base } = await output.during('Snapshots loaded', () => loadState(deps, log, { at }));
        const snapshot = base?.position ?? null;
        const part = await output.during('Used rows found', () => usedPart(sheetOf(draft), span, allRows));
        const head = { log, position: at ?? end, snapshot };
        if (csv === undefined && output.json) {
          await writeStandardOutput(documentOf(head, part));
          return;
        }
        const rows = await writeCsv(part, csv, output);
        if (csv === undefined) return;
        const { columns } = part;
        output.result(
          { ...head, csv, rowCount: rows, columnCount: columns },
          `${count(rows, 'row')} and ${count(columns, 'column')} at ${formatPosition(head.position)} written to ${csv}`,
        );
      }),
    );
}

/** The part of a sheet that is written. */
interface Part {
  readonly sheet: Sheet;
  readonly rows: Span;
  /** The number of used columns of the whole sheet. */
  readonly columns: number;
}

/** @throws UsageError if the part has too many fields and `allRows` is off */
async function usedPart(sheet: Sheet, span: Span | undefined, allRows: boolean): Promise<Part> {
  const used = await sheet.usedRange();
  const { from, to } = span ?? { from: 0, to: used.rows };
  const rows = { from, to: Math.max(from, Math.min(to, used.rows)) };
  const height = rows.to - from;
  if (height * used.columns > MAX_FIELDS && !allRows) {
    throw new UsageError(
      `the used rows ${from} to ${rows.to - 1} with ${count(used.columns, 'column')} have ${height * used.columns} fields, but export writes at most ${MAX_FIELDS} by default`,
      { advice: 'Select fewer rows with --rows FROM:TO, or give --all-rows' },
    );
  }
  return { sheet, rows, columns: used.columns };
}

/** Yields the rows of a part, each without the empty cells at its end. */
async function* rowsOf({ sheet, rows }: Part): AsyncGenerator<string[]> {
  let { from } = rows;
  for await (const row of sheetRows(sheet, rows)) {
    yield row;
    from++;
  }
  for (; from < rows.to; from++) yield [];
}

/** Writes rows of equal length, as readers of CSV expect. @returns the number of rows */
async function writeCsv(part: Part, file: string | undefined, output: Output): Promise<number> {
  const progress = output.progress('Rows', part.rows.to - part.rows.from);
  const csv = stringify();
  let rows = 0;
  async function* padded(): AsyncGenerator<string[]> {
    for await (const row of withPauses(rowsOf(part))) {
      for (let column = row.length; column < part.columns; column++) row.push('');
      yield row;
      progress.update(++rows);
    }
  }
  try {
    await (file === undefined ? writeStandardOutput(padded(), csv) : writeFile(file, padded(), csv));
  } finally {
    progress.stop();
  }
  return rows;
}

/** Yields the JSON document in parts, because the whole may be too long for a string. */
async function* documentOf(
  head: { readonly log: string; readonly position: Position; readonly snapshot: Position | null },
  part: Part,
): AsyncGenerator<string> {
  let text = `${JSON.stringify(head).slice(0, -1)},"rows":[`;
  let separator = '';
  for await (const row of withPauses(rowsOf(part))) {
    text += separator + JSON.stringify(row);
    separator = ',';
    if (text.length < PART_LENGTH) continue;
    yield text;
    text = '';
  }
  yield `${text}]}\n`;
}

const PART_LENGTH = 64 * 1024;
