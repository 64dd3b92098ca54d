import { once } from 'node:events';
import { createWriteStream, type WriteStream } from 'node:fs';
import { pipeline } from 'node:stream/promises';
import { stringify } from 'csv-stringify';
import { UsageError } from '../../errors.ts';
import { formatPosition } from '../../log/position.ts';
import { loadState } from '../../snapshot/load.ts';
import { sheetOf } from '../../state/spreadsheet/reducer.ts';
import { sheetRows } from '../../state/spreadsheet/rows.ts';
import type { Sheet } from '../../state/spreadsheet/sheet.ts';
import { requirePosition } from '../../workers/require-position.ts';
import { command, inEnvironment, parse } from '../command.ts';
import { count } from '../count.ts';
import type { Output } from '../output.ts';
import { requireSheets } from '../reducer.ts';
import { isSystemError } from '../system-error.ts';

export function exportCommand() {
  return command('export', 'Write the state of a log, now or at a position.')
    .argument('<log>', 'the log', parse.log)
    .option(
      '--at <position>',
      'the state before this entry, as SEGMENT/ENTRY; now where it is left out',
      parse.position,
    )
    .option('--csv <file>', 'write CSV into this file; to standard output where neither this nor --json is given')
    .action((log, options) =>
      inEnvironment(options, async ({ deps }, output) => {
        requireSheets(deps.reducer, 'export');
        if (options.at !== undefined) await requirePosition(deps, log, options.at);
        const { draft, end, snapshot } = await loadState(deps, log, options.at);
        const sheet = sheetOf(draft);
        const position = options.at ?? end;
        if (options.csv === undefined && output.json) {
          const rows = await Array.fromAsync(sheetRows(sheet));
          output.result({ log, position, snapshot: snapshot ?? null, rows }, '');
          return;
        }
        const { rows, columns } = await writeCsv(sheet, options.csv, output);
        const text = `${count(rows, 'row')} and ${count(columns, 'column')} at ${formatPosition(position)} written to ${options.csv}`;
        output.result(
          { log, position, snapshot: snapshot ?? null, csv: options.csv, rowCount: rows, columnCount: columns },
          options.csv === undefined ? '' : text,
        );
      }),
    );
}

/** Writes rows of equal length, as readers of CSV expect, to a file or to standard output. */
async function writeCsv(
  sheet: Sheet,
  file: string | undefined,
  output: Output,
): Promise<{ readonly rows: number; readonly columns: number }> {
  let columns = 0;
  for await (const { column } of sheet.cells()) columns = Math.max(columns, column + 1);
  const target = file === undefined ? process.stdout : await openFile(file);
  const progress = output.progress('Rows');
  let rows = 0;
  async function* padded(): AsyncGenerator<string[]> {
    for await (const row of sheetRows(sheet)) {
      yield row.concat(Array.from({ length: columns - row.length }, () => ''));
      progress.update(++rows);
    }
  }
  try {
    await pipeline(padded(), stringify(), target, { end: file !== undefined });
  } finally {
    progress.stop();
  }
  return { rows, columns };
}

async function openFile(file: string): Promise<WriteStream> {
  const target = createWriteStream(file);
  try {
    await once(target, 'open');
  } catch (cause) {
    if (!isSystemError(cause)) throw cause;
    throw new UsageError(`'${file}' cannot be written: ${cause.message}`, { advice: 'Name a file that can be', cause });
  }
  return target;
}
