import { stringify } from 'csv-stringify/sync';
import type { DocumentState } from '../../client/document-state.ts';
import { UsageError } from '../../errors.ts';
import type { FrozenMap } from '../../state/frozen-state.ts';
import type { Rectangle } from '../../state/spreadsheet/sheet-rows.ts';
import { cellText, checkRectangle } from '../../state/spreadsheet/sheet-rows.ts';
import type { Key } from '../../tree/key.ts';
import type { Item } from '../../tree/read.ts';
import { command, inEnvironment, parse } from '../command.ts';
import { count, formatBytes } from '../format.ts';
import { jsonFromValue } from '../json-value.ts';
import { atOption, loadShownState, MOMENT_HELP } from '../moment.ts';
import { requireSheets } from '../reducer.ts';

/** A part of a state, as a document for programs and as text. */
interface View {
  readonly document: object;
  readonly text: string;
  /** A remark for people. */
  readonly note?: string;
}

interface MapRange {
  readonly map: string;
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  readonly limit: number;
}

export function viewCommand() {
  return command('view', 'Show a part of a state, and the number of objects and bytes fetched for it.')
    .argument('<log>', 'the log', parse.log)
    .option('--rows <from:to>', 'for sheets: rows FROM up to, but not including, TO, counted from 0', parse.span)
    .option('--columns <from:to>', 'for sheets: columns FROM up to, but not including, TO, counted from 0', parse.span)
    .addOption(atOption())
    .option('--map <name>', 'items of this map, one JSON object per line; for any reducer')
    .option('--from <key>', 'the first key of the range; by default the first of the map')
    .option('--to <key>', 'the key at which the range ends, without this key; by default the end of the map')
    .option('--limit <n>', 'the most items', parse.count, 1_000)
    .addHelpText('after', MOMENT_HELP)
    .action((log, { at, rows, columns, map, from, to, limit, ...options }) => {
      const rectangle = rows && columns && { rows, columns };
      const isClear = map === undefined ? rectangle && (from ?? to) === undefined : (rows ?? columns) === undefined;
      if (isClear !== true) {
        throw new UsageError('the options do not name one part of the state', {
          advice: 'Give --rows and --columns of a sheet, or --map NAME with --from, --to and --limit',
        });
      }
      if (rectangle !== undefined) checkRectangle(rectangle);
      return inEnvironment(options, async (environment, output) => {
        if (rectangle !== undefined) requireSheets(environment.deps.reducer, '--rows');
        const { state, position } = await loadShownState(environment, log, at);
        const view = rectangle
          ? await viewSheet(state, rectangle)
          : await viewMap(state.map(map ?? ''), { map: map ?? '', from, to, limit });
        const { gets: objects, bytesRead: bytes } = environment.blobs.usage();
        output.note(`${count(objects, 'object')} with ${formatBytes(bytes)} fetched.`);
        if (view.note !== undefined) output.note(view.note);
        output.result({ ...view.document, ...(at && { position }), fetched: { objects, bytes } }, view.text);
      });
    });
}

async function viewSheet(state: DocumentState, rectangle: Rectangle): Promise<View> {
  const rows = (await state.view(rectangle)).map((row) => row.map(cellText));
  return { document: { rows }, text: stringify(rows).trimEnd() };
}

async function viewMap(map: FrozenMap, { map: name, from, to, limit }: MapRange): Promise<View> {
  const range = { from: parseKey(map, '--from', from), to: parseKey(map, '--to', to), limit: limit + 1 };
  const found: Item[] = await Array.fromAsync(map.range(range));
  const next = found[limit]?.key;
  const items = found.slice(0, limit).map(({ key, value }) => ({ key, value: jsonFromValue(value) }));
  return {
    document: { map: name, items, next: next ?? null },
    text: items.map((item) => JSON.stringify(item)).join('\n'),
    ...(next !== undefined && { note: `There are more items: continue with --from '${next}'.` }),
  };
}

/** Reads a key as the keys of the map are: as a number or as text. */
function parseKey({ kind, name }: FrozenMap, option: string, text: string | undefined): Key | undefined {
  if (text === undefined || kind !== 'number') return text;
  const number = Number(text);
  if (text.trim() !== '' && !Number.isNaN(number)) return number;
  throw new UsageError(`${option}: '${text}' is not a number, but the keys of map '${name}' are`);
}
