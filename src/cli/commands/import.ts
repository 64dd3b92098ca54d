import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { extname } from 'node:path';
import { Option } from '@commander-js/extra-typings';
import type { ByteSource } from '../../codec/bytes.ts';
import { checkValue } from '../../codec/value.ts';
import { InterruptedError, LogfoldError, UsageError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import { formatPosition } from '../../ids/position.ts';
import { queryNewestSegments } from '../../log/newest.ts';
import { importBody, readImport, type SheetImport } from '../../state/spreadsheet/import.ts';
import { count } from '../../workers/jobs/report.ts';
import { command, examples, inEnvironment, parse } from '../command.ts';
import { cannotBeRead, type InputFile, readableTwice, watchChanges } from '../input-file.ts';
import { requireOwnSchema } from '../mapping.ts';
import type { Output } from '../output.ts';
import { chooseReducer, requireSheets } from '../reducer.ts';
import { untilInterrupted } from '../signals.ts';
import { appendFile } from './append.ts';

/** How to read a file, by its extension. */
const EXTENSIONS: Readonly<Record<string, Pick<SheetImport, 'format' | 'delimiter'>>> = {
  '.csv': { format: 'csv' },
  '.tsv': { format: 'csv', delimiter: '\t' },
  '.xlsx': { format: 'xlsx' },
};
const LINES_EXTENSIONS = ['.ndjson', '.jsonl'];
const PROGRESS_ROWS = 1_000;

const NOTES = `
The whole file is read first, as a fold would read it: a file that cannot be read appends and uploads nothing. Then the
file is uploaded, an Import entry names it, and a Snapshot entry asks for a snapshot. Empty fields leave cells as they
are. Cells are the texts that a spreadsheet program shows; with --values typed, numbers, booleans and dates keep their
kind. A time of day is not a date. With --values typed, 13:45 is the text 13:45 in a CSV file, and the part of the day
0.5729166666666666 in an XLSX file, as its cells store times. Without --values typed, both are texts. Some programs write formulas whose results nothing has computed yet. Such a file is refused; with --formulas
stored, a formula without a result is an empty cell, and the number of formulas without a valid result is printed. A
file with the extension .ndjson or .jsonl is appended line by line, as 'logfold append' does.`;

export function importCommand() {
  return command('import', 'Put the cells of a CSV or XLSX file into a sheet, with one entry.')
    .argument('<log>', 'the log', parse.log)
    .argument('<file>', 'the file; may be a pipe; - for standard input')
    .addOption(
      new Option('--format <format>', "the file's format; by default its extension says it").choices(['csv', 'xlsx']),
    )
    .option('--sheet <name>', 'the sheet of an XLSX file; default: the first')
    .option(
      '--delimiter <character>',
      'the character between the fields of a CSV file; default: a comma, or a tab for .tsv',
    )
    .addOption(
      new Option('--values <kind>', 'whether cells become texts, or numbers, booleans and dates too')
        .choices(['text', 'typed'])
        .default('text' as const),
    )
    .addOption(
      new Option(
        '--formulas <results>',
        'whether formulas of an XLSX file need valid results (computed, the default), or have those in the file (stored)',
      ).choices(['computed', 'stored']),
    )
    .option('--row <n>', "position in the sheet of the file's first row, from 0", parse.index, 0)
    .option('--column <n>', "position in the sheet of the file's first column, from 0", parse.index, 0)
    .addHelpText('after', NOTES)
    .addHelpText(
      'after',
      examples(
        'import budget cities.csv',
        'import budget prices.xlsx --sheet 2026 --values typed --row 1',
        'import budget export.txt --format csv --delimiter :',
      ),
    )
    .action(async (log, file, options) => {
      requireOwnSchema(options, log);
      if (options.format === undefined && LINES_EXTENSIONS.includes(extname(file).toLowerCase())) {
        requireNoTable(file, options);
        return appendFile(log, file, { ...options, check: false });
      }
      const { reducer } = await chooseReducer(options.reducer);
      requireSheets(reducer, 'an import', "Append entries of the reducer with 'logfold append LOG FILE'");
      const given = importOf(file, options);
      const input = await untilInterrupted(() => readableTwice(file));
      try {
        await inEnvironment({ ...options, endsItself: true }, async (environment, output, stop) => {
          const { deps, logs, requireReducer } = environment;
          const uploaded = await untilInterrupted(async () => {
            await queryNewestSegments(deps.store, log, { consistent: true });
            await requireReducer(log);
            const upload = (source: ByteSource) => logs.client.saveFile(log, source);
            return uploadChecked(input, { log, file, given, output, upload });
          });
          stop.throwIfAborted();
          const entry = { type: 'Import', version: 1, body: importBody(given), file: uploaded.key };
          const { position } = await logs.client.addEntry(log, entry);
          const { position: snapshot } = await logs.client.addSnapshot(log);
          const { key, rows, columns, cells, invalidResults } = uploaded;
          const invalid = invalidResults === 0 ? '' : ` (${count(invalidResults, 'formula')} without a valid result)`;
          output.result(
            { log, position, snapshot, file: key, rows, columns, cells, invalidResults },
            `${count(cells, 'cell')} in ${count(rows, 'row')} and ${count(columns, 'column')} imported at ${formatPosition(position)}${invalid}; Snapshot entry at ${formatPosition(snapshot)}`,
          );
        });
      } catch (error) {
        throw error instanceof InterruptedError ? describe(error, log) : error;
      } finally {
        input.close();
      }
    });
}

/** Before the append, a signal ends the command; after it, the command ends by itself. */
function describe({ signal, reason }: InterruptedError, log: LogId): InterruptedError {
  return new InterruptedError(signal, reason, { log, advice: 'Run the command again: nothing was appended' });
}

type ImportOptions = Partial<SheetImport>;

/** @throws UsageError if options are for a table, although the file has lines */
function requireNoTable(file: string, { sheet, delimiter, values, formulas, row, column }: ImportOptions): void {
  const isPlain = sheet === undefined && delimiter === undefined && formulas === undefined && values === 'text';
  if (isPlain && row === 0 && column === 0) return;
  throw new UsageError(
    `'${file}' is appended line by line, and --sheet, --delimiter, --values, --formulas, --row and --column are for tables`,
    { advice: 'Leave these options out, or give --format csv or --format xlsx if the file is a table' },
  );
}

/** @throws UsageError if the format of the file is not known */
function importOf(file: string, given: ImportOptions): SheetImport {
  const { format, sheet, delimiter, values, formulas, row, column } = given;
  const known = EXTENSIONS[extname(file).toLowerCase()];
  const form = format ?? known?.format;
  if (form === undefined) {
    throw new UsageError(`the format of '${file}' is not known from its name`, {
      advice: 'Give --format csv or --format xlsx',
    });
  }
  const separator = delimiter ?? (form === known?.format ? known.delimiter : undefined);
  return { format: form, sheet, delimiter: separator, values, formulas, row, column };
}

/** Names the file in an error, which names the row. */
function nameFile(error: LogfoldError, file: string): LogfoldError {
  error.message = `${file === '-' ? 'standard input' : `'${file}'`}: ${error.message}`;
  return error;
}

interface Upload {
  readonly log: LogId;
  /** The file's name in messages. */
  readonly file: string;
  readonly given: SheetImport;
  readonly output: Output;
  readonly upload: (source: ByteSource) => Promise<string>;
}

interface Uploaded {
  readonly key: string;
  /** The size of the smallest rectangle from the file's first cell that contains all cells. */
  readonly rows: number;
  readonly columns: number;
  readonly cells: number;
  /** Formulas without a result, or in a workbook that asks to compute all results again. */
  readonly invalidResults: number;
}

/** Reads a whole file as the fold of its import would, and then uploads it. */
async function uploadChecked({ path }: InputFile, { log, file, given, output, upload }: Upload): Promise<Uploaded> {
  const requireSame = await watchChanges(path, file, 'Try again when nothing writes to the file');
  const bytes: ByteSource = async function* () {
    try {
      yield* createReadStream(path, { highWaterMark: 256 * 1024 });
    } catch (cause) {
      throw cannotBeRead(file, cause);
    }
  };
  const found = await output
    .during('Rows checked', (progress) => countCells(bytes, given, progress))
    .catch((error: unknown) => {
      throw error instanceof LogfoldError ? nameFile(error.at({ log }), file) : error;
    });
  if (found.cells === 0) {
    throw new UsageError(`'${file}' has no cell that is not empty`, {
      log,
      advice: 'Check which file it is, and for XLSX name the sheet with --sheet',
    });
  }
  const { size } = await stat(path);
  const progress = output.progress('Bytes read', 2 * size);
  try {
    let read = 0;
    const key = await upload(async function* () {
      for await (const slice of bytes()) {
        read += slice.length;
        progress.update(read);
        yield slice;
      }
      await requireSame();
    });
    return { key, ...found };
  } finally {
    progress.stop();
  }
}

async function countCells(
  file: ByteSource,
  given: SheetImport,
  progress: { update(rows: number): void },
): Promise<Omit<Uploaded, 'key'>> {
  const { row: top = 0, column: left = 0 } = given;
  let [rows, columns, cells, shown, invalidResults] = [0, 0, 0, 0, 0];
  const onInvalidResult = () => void invalidResults++;
  await readImport(file, { ...given, onInvalidResult }, (row, column, value) => {
    checkValue(value);
    rows = row - top + 1;
    columns = Math.max(columns, column - left + 1);
    cells++;
    if (rows >= shown + PROGRESS_ROWS) {
      shown = rows;
      progress.update(rows);
    }
    return undefined;
  });
  return { rows, columns, cells, invalidResults };
}
