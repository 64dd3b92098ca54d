import { stringify } from 'csv-stringify';
import type { DocumentState } from '../../client/document-state.ts';
import { UsageError } from '../../errors.ts';
import { formatPosition } from '../../ids/position.ts';
import { foldsSheets, sheetOf } from '../../state/spreadsheet/reducer.ts';
import { type AxisRange, type Sheet, sheetRows } from '../../state/spreadsheet/sheet.ts';
import { count } from '../../workers/jobs/report.ts';
import { examples, inEnvironment, parse, readingCommand } from '../command.ts';
import { jsonFromValue, jsonFromValues } from '../json-value.ts';
import { atOption, loadShownState, MOMENT_HELP, onBadEntryOption } from '../moment.ts';
import type { Output } from '../output.ts';
import { requireSheets } from '../reducer.ts';
import { documentParts, lineParts, withPauses, writeFile, writeStandardOutput } from '../write.ts';

/** The limit without `--all-rows`. One cell far from all others makes most fields empty. */
const MAX_FIELDS = 1_000_000_000;

const FORMATS = `
A sheet is written as CSV. The used rows end with the last cell that is not empty. Empty rows before it are written as
empty lines.

Any other state is written as lines of JSON: {"meta":{…}} for its metadata record, then {"map":…,"key":…,"value":…} for
each item. Values that JSON does not have are {"$bytes":"BASE64"}, {"$date":"TIME"}, {"$integer":"DIGITS"} beyond 2^53,
and {"$number":"NaN"}, "Infinity", "-Infinity" or "-0". An object whose only name starts with $ is {"$object":{…}}.`;

export function exportCommand() {
  return readingCommand('export', 'Write the state of a log, now or at a moment of the past.')
    .argument('<log>', 'the log', parse.log)
    .addOption(atOption())
    .addOption(onBadEntryOption())
    .option(
      '--rows <from:to>',
      'for sheets: export only rows FROM up to, but not including, TO, counted from 0; all used rows by default',
      parse.span,
    )
    .option(
      '--all-rows',
      `for sheets: write the used rows even if they have more than ${MAX_FIELDS / 1e9} billion fields`,
      false,
    )
    .option(
      '--csv <file>',
      'for sheets: write CSV into this file; without it and without --json, write CSV to standard output',
    )
    .addHelpText('after', MOMENT_HELP)
    .addHelpText('after', FORMATS)
    .addHelpText(
      'after',
      examples(
        'export budget > budget.csv',
        'export budget --at 2026-01-31 --csv january.csv',
        'export votes --reducer votes.js --json',
      ),
    )
    .action((log, { at, rows: span, allRows, csv, ...options }) =>
      inEnvironment(options, async (environment, output) => {
        const { reducer } = environment.deps;
        for (const [option, given] of Object.entries({
          '--rows': span,
          '--all-rows': allRows || undefined,
          '--csv': csv,
        })) {
          if (given !== undefined) requireSheets(reducer, option);
        }
        const { state, ...found } = await output.during('Snapshots loaded', () => loadShownState(environment, log, at));
        const head = { log, ...found };
        if (!foldsSheets(reducer)) {
          const items = itemsOf(state);
          await writeStandardOutput(
            output.json ? documentParts(head, 'items', items) : lineParts(items, JSON.stringify),
          );
          return;
        }
        const part = await output.during('Used rows found', () => usedPart(sheetOf(state.draft), span, allRows));
        if (csv === undefined && output.json) {
          await writeStandardOutput(documentParts(head, 'rows', rowsOf(part)));
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

/** Yields the metadata record, then each item of each map. */
async function* itemsOf(state: DocumentState): AsyncGenerator<object> {
  yield { meta: jsonFromValues(state.meta) };
  for (const map of state.mapNames) {
    for await (const { key, value } of state.map(map).range()) yield { map, key, value: jsonFromValue(value) };
  }
}

/** The part of a sheet that is written. */
interface Part {
  readonly sheet: Sheet;
  readonly rows: AxisRange;
  /** The number of used columns of the whole sheet. */
  readonly columns: number;
}

/** @throws UsageError if the part has too many fields and `allRows` is off */
async function usedPart(sheet: Sheet, span: AxisRange | undefined, allRows: boolean): Promise<Part> {
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
