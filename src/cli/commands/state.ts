import type { DocumentState } from '../../client/document-state.ts';
import { printable, shellWord, UsageError } from '../../errors.ts';
import { formatPosition } from '../../ids/position.ts';
import type { FrozenMap } from '../../state/frozen-state.ts';
import type { Key } from '../../tree/key.ts';
import { examples, inEnvironment, parse, readingCommand } from '../command.ts';
import { describeFetched, fittedTable, type TableRow } from '../format.ts';
import { jsonFromValue, jsonFromValues } from '../json-value.ts';
import { atOption, loadShownState, MOMENT_HELP, onBadEntryOption, type ShownState } from '../moment.ts';

/** Maps with up to this many items and edits are counted, although this reads them. */
const COUNTED = 1_000;

/** A part of a state, as a document for programs and as text. */
interface Shown {
  readonly document: object;
  readonly text: string;
  /** A remark for people. */
  readonly note?: string;
}

interface MapRange {
  readonly map: string;
  readonly prefix?: string | undefined;
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  readonly limit: number;
  readonly reverse: boolean;
}

const HELP = `
Buffered edits wait in the snapshot until a flush writes them into the tree of their map. They are part of the state.`;

export function stateCommand() {
  return readingCommand(
    'state',
    'Show the state of a log, for any reducer: its metadata and maps, or the items of a map.',
  )
    .argument('<log>', 'the log', parse.log)
    .option('--map <name>', 'the items of this map, one JSON object per line')
    .option('--prefix <text>', 'only items whose keys start with this text')
    .option('--from <key>', 'the first key of the range; by default the first of the map')
    .option('--to <key>', 'the key at which the range ends, without this key; by default the end of the map')
    .option('--limit <n>', 'the most items', parse.count, 1_000)
    .option('--reverse', 'from the last item to the first', false)
    .addOption(atOption())
    .addOption(onBadEntryOption())
    .addHelpText('after', HELP)
    .addHelpText('after', MOMENT_HELP)
    .addHelpText(
      'after',
      examples(
        'state budget',
        'state budget --map cells --limit 10',
        'state budget --map notes --reverse --limit 1',
        'state budget --at 2026-01-31',
      ),
    )
    .action((log, { map, prefix, from, to, limit, reverse, at, ...options }) => {
      if (map === undefined && ((prefix ?? from ?? to) !== undefined || reverse)) {
        throw new UsageError('--prefix, --from, --to and --reverse select items of a map, which is not named', {
          advice: 'Give --map NAME',
        });
      }
      if (prefix !== undefined && (from ?? to) !== undefined) {
        throw new UsageError('--prefix excludes --from and --to', { advice: 'Give --prefix, or --from and --to' });
      }
      return inEnvironment(options, async (environment, output) => {
        const { blobs } = environment;
        const { state, ...head } = await output.during('Snapshots loaded', () => loadShownState(environment, log, at));
        const range = map === undefined ? undefined : { map, prefix, from, to, limit, reverse };
        const shown = await output.during('Maps read', () =>
          range === undefined ? describeState(state, head) : describeItems(state, range),
        );
        const { gets: objects, bytesRead: bytes } = blobs.usage();
        output.note(`${describeFetched(blobs.usage())}.`);
        if (shown.note !== undefined) output.note(shown.note);
        output.result({ log, ...head, ...shown.document, fetched: { objects, bytes } }, shown.text);
      });
    });
}

async function describeState(state: DocumentState, { position, snapshot }: Omit<ShownState, 'state'>): Promise<Shown> {
  const meta = jsonFromValues(state.meta);
  const maps: MapSummary[] = [];
  for (const name of state.mapNames) maps.push(await summarize(state.map(name)));
  const from = snapshot === null ? 'the beginning of the log' : `the snapshot at ${formatPosition(snapshot)}`;
  const lines = [`The state before ${formatPosition(position)}, from ${from}`];
  for (const [name, value] of Object.entries(meta)) lines.push(`${printable(name)}: ${JSON.stringify(value)}`);
  if (maps.length > 0) {
    const rows: TableRow[] = [];
    for (const { map, keys, items, isExact, buffered } of maps) {
      rows.push([printable(map), keys, isExact ? items : `about ${items}`, buffered]);
    }
    lines.push(fittedTable(['map', 'keys', 'items', 'buffered'], rows, { long: { map: 0 } }).text);
  }
  return { document: { meta, maps }, text: lines.join('\n') };
}

interface MapSummary {
  readonly map: string;
  readonly keys: string;
  readonly items: number;
  /** Whether the map has exactly this many items. If not, buffered edits may add or remove some. */
  readonly isExact: boolean;
  /** Edits in the write buffer. */
  readonly buffered: number;
}

async function summarize(map: FrozenMap): Promise<MapSummary> {
  const { items: stored, edits: buffered } = map.counts;
  const isExact = buffered === 0 || stored + buffered <= COUNTED;
  let items = stored;
  if (isExact && buffered > 0) {
    items = 0;
    for await (const _ of map.range()) items++;
  }
  return { map: map.name, keys: map.kind ?? '-', items, isExact, buffered };
}

async function describeItems(
  state: DocumentState,
  { map: name, prefix, from, to, limit, reverse }: MapRange,
): Promise<Shown> {
  const map = state.map(name);
  if (prefix !== undefined && map.kind === 'number') {
    throw new UsageError(`the keys of map '${name}' are numbers, which have no prefix`, {
      advice: 'Give --from and --to instead of --prefix',
    });
  }
  const range = {
    from: parseMapKey(map, '--from', prefix ?? from),
    to: prefix === undefined ? parseMapKey(map, '--to', to) : afterPrefix(prefix),
    limit: limit + 1,
    reverse,
  };
  const found = await Array.fromAsync(map.range(range));
  // The range of `--to` ends before its key.
  const next = found.length > limit ? found[reverse ? limit - 1 : limit]?.key : undefined;
  const items = found.slice(0, limit).map(({ key, value }) => ({ key, value: jsonFromValue(value) }));
  return {
    document: { map: name, items, next: next ?? null },
    text: items.map((item) => JSON.stringify(item)).join('\n'),
    ...noted(
      next === undefined
        ? describeMissing(state, name)
        : `There are more items: ${describeNext(next, { prefix, reverse })}.`,
    ),
  };
}

function noted(note: string | undefined): Pick<Shown, 'note'> {
  return note === undefined ? {} : { note };
}

/** Tells that a state has no map of a name, which is the same as an empty map. */
function describeMissing({ mapNames }: DocumentState, name: string): string | undefined {
  const names = [...mapNames];
  if (names.includes(name)) return undefined;
  const present = names.length === 0 ? 'none' : names.map(printable).join(', ');
  return `The state has no map '${printable(name)}'. Its maps: ${present}.`;
}

function describeNext(next: Key, { prefix, reverse }: Pick<MapRange, 'prefix' | 'reverse'>): string {
  const key = shellWord(String(next));
  const how = reverse ? `continue with --to ${key}` : `continue with --from ${key}`;
  return prefix === undefined ? how : `raise --limit, or ${how}`;
}

/** The first text after all that start with a prefix, by code units; undefined if there is none. */
function afterPrefix(prefix: string): string | undefined {
  const start = prefix.replace(/\uffff+$/, '');
  if (start === '') return undefined;
  return start.slice(0, -1) + String.fromCharCode(start.charCodeAt(start.length - 1) + 1);
}

/** Reads a key as the keys of the map are: as a number or as text. */
function parseMapKey({ kind, name }: FrozenMap, option: string, text: string | undefined): Key | undefined {
  if (text === undefined || kind !== 'number') return text;
  if (/^-?\d+(?:\.\d+)?$/.test(text)) return Number(text);
  throw new UsageError(`${option}: '${text}' is not a number, but the keys of map '${name}' are`);
}
