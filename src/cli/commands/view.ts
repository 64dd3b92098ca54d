import { stringify } from 'csv-stringify/sync';
import { UsageError } from '../../errors.ts';
import { cellText, checkRectangle } from '../../state/spreadsheet/sheet.ts';
import { count, formatBytes } from '../../workers/jobs/report.ts';
import { command, examples, inEnvironment, parse } from '../command.ts';
import { atOption, loadShownState, MOMENT_HELP, onBadEntryOption } from '../moment.ts';
import { requireSheets } from '../reducer.ts';

export function viewCommand() {
  return command('view', 'Show a rectangle of a sheet, and the number of objects and bytes fetched for it.')
    .argument('<log>', 'the log', parse.log)
    .option('--rows <from:to>', 'rows FROM up to, but not including, TO, counted from 0', parse.span)
    .option('--columns <from:to>', 'columns FROM up to, but not including, TO, counted from 0', parse.span)
    .addOption(atOption())
    .addOption(onBadEntryOption())
    .addHelpText('after', MOMENT_HELP)
    .addHelpText(
      'after',
      examples(
        'view budget --rows 0:50 --columns 0:8',
        'view budget --rows 0:50 --columns 0:8 --at 2026-01-31T18:00:00+01:00',
      ),
    )
    .action((log, { at, rows, columns, ...options }) => {
      if (rows === undefined || columns === undefined) {
        throw new UsageError('the options do not name a rectangle of the sheet', {
          advice: 'Give --rows FROM:TO and --columns FROM:TO',
        });
      }
      const rectangle = { rows, columns };
      checkRectangle(rectangle);
      return inEnvironment(options, async (environment, output) => {
        requireSheets(environment.deps.reducer, '--rows');
        const { state, position, badEntry } = await loadShownState(environment, log, at);
        const cells = (await state.view(rectangle)).map((row) => row.map(cellText));
        const { gets: objects, bytesRead: bytes } = environment.blobs.usage();
        output.note(`${count(objects, 'object')} with ${formatBytes(bytes)} fetched.`);
        const document = {
          rows: cells,
          ...(at && { position }),
          ...(badEntry !== undefined && { badEntry }),
          fetched: { objects, bytes },
        };
        output.result(document, stringify(cells).trimEnd());
      });
    });
}
