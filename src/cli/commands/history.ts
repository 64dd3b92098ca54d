import type { Document } from '../../client/document.ts';
import type { HistoryOptions, HistoryPlace, Revision } from '../../client/history.ts';
import { printable, UsageError } from '../../errors.ts';
import { formatPosition } from '../../ids/position.ts';
import type { Key } from '../../tree/key.ts';
import { count, countEntries, formatDate } from '../../workers/jobs/report.ts';
import { examples, inEnvironment, parse, readingCommand } from '../command.ts';
import { fittedTable, type TableRow } from '../format.ts';
import { jsonFromValue, jsonFromValues } from '../json-value.ts';
import { atOption, MOMENT_HELP, onBadEntryOption, reportBadEntry } from '../moment.ts';

const NOTES = `
Revisions are numbered from 1, the oldest. A revision without a value is a removal. The history of a cell begins when its
row or column was inserted. With a reducer such as spreadsheet+history, which keeps the history in its snapshots, the
command reads little; with others it folds the whole log.`;

/** How the options name a place. Counts rows and columns from 0. */
interface PlaceOptions {
  readonly cell?: { readonly row: number; readonly column: number } | undefined;
  readonly row?: number | undefined;
  readonly map?: string | undefined;
  readonly key?: string | undefined;
  readonly collection?: string | undefined;
  readonly item?: string | undefined;
}

export function historyCommand() {
  return readingCommand(
    'history',
    'List the values that a cell, a row, a key or an item has had, with time and metadata.',
  )
    .argument('<log>', 'the log', parse.log)
    .option('--cell <row:column>', 'for sheets: this cell, counted from 0', parse.cell)
    .option('--row <n>', 'for sheets: this row, counted from 0; a revision has the cells that changed', parse.row)
    .option('--map <name>', 'for any reducer: the map of the key')
    .option('--key <key>', 'for any reducer: this key of the map')
    .option('--collection <name>', 'for collections: the collection of the item')
    .option('--item <id>', 'for collections: this item')
    .option('--limit <n>', 'the most revisions; the newest are shown', parse.count, 1_000)
    .addOption(atOption())
    .addOption(onBadEntryOption())
    .addHelpText('after', NOTES)
    .addHelpText('after', MOMENT_HELP)
    .addHelpText(
      'after',
      examples(
        'history budget --cell 3:1',
        'history budget --row 3 --at 2026-01-31',
        'history budget --map cells --key 7',
      ),
    )
    .action((log, { cell, row, map, key, collection, item, limit, at, ...options }) => {
      const given = { cell, row, map, key, collection, item };
      checkPlace(given);
      return inEnvironment(options, async (environment, output) => {
        const document = await output.during('Snapshots loaded', () => environment.open(log));
        const bad = reportBadEntry(environment, log, document.badEntry);
        let folded = 0;
        const revisions = await output.during('Entries folded', ({ update }) => {
          const onProgress = (entries: number): void => {
            folded = entries;
            update(entries);
          };
          return readRevisions(document, given, { at, limit, onProgress });
        });
        output.note(`${countEntries(folded)} folded.`);
        const [first] = revisions;
        if (first !== undefined && first.number > 1) {
          output.note(`Left out: ${count(first.number - 1, 'older revision')}. Raise --limit to show more.`);
        }
        const text = revisions.length === 0 ? 'This place had no value.' : tableOf(revisions);
        output.result({ log, position: document.position, ...bad, folded, revisions: revisions.map(jsonOf) }, text);
      });
    });
}

/** @throws UsageError if the options do not name exactly one place */
function checkPlace({ cell, row, map, key, collection, item }: PlaceOptions): void {
  const isPair = (map === undefined) === (key === undefined) && (collection === undefined) === (item === undefined);
  const places = [cell, row, map, collection].filter((part) => part !== undefined);
  if (isPair && places.length === 1) return;
  throw new UsageError('the options do not name one place', {
    advice: 'Give --cell ROW:COLUMN, --row N, --map NAME with --key KEY, or --collection NAME with --item ID',
  });
}

async function readRevisions(
  document: Document,
  { cell, row, map = '', key = '', collection, item = '' }: PlaceOptions,
  options: HistoryOptions,
): Promise<Revision[]> {
  const read = (place: HistoryPlace) => Array.fromAsync(document.history(place, options));
  if (cell !== undefined) return read(cell);
  if (row !== undefined) return read({ row });
  if (collection !== undefined) return read({ collection, id: item });
  let revisions: Revision[] = [];
  for (const each of keysOf(document, map, key)) {
    revisions = await read({ map, key: each });
    if (revisions.length > 0) break;
  }
  return revisions;
}

/** The keys that a text may mean. The current keys of a map have one kind. */
function keysOf(document: Document, map: string, text: string): readonly Key[] {
  const { kind } = document.map(map);
  if (kind === 'string') return [text];
  const isNumber = /^\d+$/.test(text) && Number.isSafeInteger(Number(text));
  if (kind === undefined) return isNumber ? [Number(text), text] : [text];
  if (isNumber) return [Number(text)];
  throw new UsageError(`--key: '${printable(text)}' is not a whole number, but the keys of map '${map}' are`);
}

function tableOf(revisions: readonly Revision[]): string {
  const rows: TableRow[] = [];
  for (const revision of revisions) {
    const { number, position, created, value, metadata } = jsonOf(revision);
    rows.push([
      number,
      formatPosition(position),
      formatDate(created),
      value === undefined ? '' : JSON.stringify(value),
      metadata === undefined ? '' : JSON.stringify(metadata),
    ]);
  }
  const head = ['revision', 'position', 'time', 'value', 'metadata'];
  return fittedTable(head, rows, { spare: ['metadata'], long: { value: 0, metadata: 0 } }).text;
}

function jsonOf({ number, position, created, metadata, value }: Revision) {
  return {
    number,
    position,
    created,
    ...(metadata !== undefined && { metadata: jsonFromValues(Object.entries(metadata)) }),
    ...(value !== undefined && { value: jsonFromValue(value) }),
  };
}
