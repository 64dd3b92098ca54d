import type { StateChange } from '../../client/document-state.ts';
import type { Value } from '../../codec/value.ts';
import { printable, UsageError } from '../../errors.ts';
import { formatPosition } from '../../ids/position.ts';
import type { AxisChange } from '../../state/spreadsheet/sheet-diff.ts';
import { NodeCache } from '../../tree/node-cache.ts';
import { count } from '../../workers/jobs/report.ts';
import { examples, inEnvironment, parse, readingCommand } from '../command.ts';
import { describeFetched } from '../format.ts';
import { jsonFromValue } from '../json-value.ts';
import { loadShownState, onBadEntryOption } from '../moment.ts';
import { documentParts, lineParts, writeStandardOutput } from '../write.ts';

/** The longest value in the text for people, in UTF-16 code units. */
const MAX_SHOWN = 200;

const HELP = `
A moment is the state before an entry, such as 0/17 or its number 12, or after all entries up to a time, such as
2026-01-31T08:00:00Z. Without an offset, a time is UTC, and a date is its midnight.

Rows and columns of a sheet keep their identity when others are inserted or deleted. So rows and columns come first, and
a cell that only moved with its row is not a change. The cells of a removed row or column are part of it, and are not
listed. A row that was deleted and inserted again has moved, without its cells. Positions count from 0. Removed rows,
columns and cells have their position before, all others afterwards. Cells come in no particular order.

With --json, the changes of a sheet are {"kind":"rows","change":"inserted","to":…,"count":…}, "removed" with "from", or
"moved" with both, the same with "columns", and {"kind":"cell","before":{"row":…,"column":…,"value":…},"after":{…}}.
The changes of other states are {"kind":"meta","name":…,"before":…,"after":…} and
{"kind":"item","map":…,"key":…,"before":…,"after":…}. Without "before" it was added, without "after" removed. "more" says
whether --limit left out changes. With --stat, "counts" has {"kind":…,"change":…,"count":…} instead of the changes.`;

export function diffCommand() {
  return readingCommand('diff', 'Show what changed in a log between two moments.')
    .argument('<log>', 'the log', parse.log)
    .argument(
      '<before>',
      'the first moment: the state before this entry, as SEGMENT/ENTRY or its number, or at this time',
      parse.moment,
    )
    .argument('[after]', 'the second moment; by default the newest state', parse.moment)
    .option('--stat', 'only count the changes by their kind', false)
    .option('--limit <n>', 'the most changes', parse.count)
    .addOption(onBadEntryOption())
    .addHelpText('after', HELP)
    .addHelpText(
      'after',
      examples(
        'diff budget 0/17',
        'diff budget 12 --stat',
        'diff budget 2026-01-31 2026-02-28',
        'diff budget 2026-01-31T08:00:00Z --json',
      ),
    )
    .action((log, from, to, { stat, limit, ...options }) => {
      if (stat && limit !== undefined) throw new UsageError('--stat counts all changes, so it excludes --limit');
      return inEnvironment(options, async (environment, output) => {
        const { deps, blobs } = environment;
        // The states share most chunks.
        const sharing = { ...environment, deps: { ...deps, nodes: { cache: new NodeCache() } } };
        const [before, after] = await output.during(
          'Snapshots loaded',
          async () => [await loadShownState(sharing, log, from), await loadShownState(sharing, log, to)] as const,
        );
        let changes = 0;
        let more = false;
        async function* counted(): AsyncGenerator<StateChange> {
          const found = withoutRemovedCells(before.state.diff(after.state));
          let step = await output.during('States compared', () => found.next());
          // On a terminal, the changes themselves show the progress.
          const progress = process.stdout.isTTY ? undefined : output.progress('Changes');
          try {
            for (; step.done !== true; step = await found.next()) {
              more = changes === limit;
              if (more) break;
              changes++;
              progress?.update(changes);
              yield step.value;
            }
          } finally {
            progress?.stop();
            await found.return(undefined);
          }
        }
        const badEntry = after.badEntry ?? before.badEntry;
        const head = {
          log,
          before: before.position,
          after: after.position,
          ...(badEntry !== undefined && { badEntry }),
        };
        if (stat) {
          const counts = await countsOf(counted());
          output.result({ ...head, counts }, statText(counts));
        } else if (output.json) {
          await writeStandardOutput(documentParts(head, 'changes', jsonOf(counted()), () => ({ more })));
        } else await writeStandardOutput(lineParts(counted(), changeText));
        const between = `between ${formatPosition(before.position)} and ${formatPosition(after.position)}`;
        const left = more ? 'Left out: further changes. Raise --limit to show more, or give --stat.\n' : '';
        output.note(`${left}${count(changes, 'change')} ${between}; ${describeFetched(blobs.usage())}.`);
      });
    });
}

/** Leaves out the cells of removed rows and columns. Rows and columns come before cells. */
async function* withoutRemovedCells(changes: AsyncIterable<StateChange>): AsyncGenerator<StateChange, undefined> {
  const removed = { rows: new Spans(), columns: new Spans() };
  for await (const change of changes) {
    const isAxis = change.kind === 'rows' || change.kind === 'columns';
    if (isAxis && change.change === 'removed') removed[change.kind].add(change);
    if (change.kind === 'cell' && change.before !== undefined && change.after === undefined) {
      const { row, column } = change.before;
      if (removed.rows.has(row) || removed.columns.has(column)) continue;
    }
    yield change;
  }
}

/** Positions in ascending spans. */
class Spans {
  readonly #spans: { readonly from: number; readonly count: number }[] = [];

  add(span: { readonly from: number; readonly count: number }): void {
    this.#spans.push(span);
  }

  has(position: number): boolean {
    let [low, high] = [0, this.#spans.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#spans[middle]?.from ?? 0) <= position) low = middle + 1;
      else high = middle;
    }
    const span = this.#spans[low - 1];
    return span !== undefined && position < span.from + span.count;
  }
}

/** How many rows, columns, cells, names of the metadata or items of a map changed in one way. */
interface ChangeCount {
  readonly kind: StateChange['kind'];
  /** For items only. */
  readonly map?: string;
  readonly change: string;
  readonly count: number;
}

async function countsOf(changes: AsyncIterable<StateChange>): Promise<ChangeCount[]> {
  const counts = new Map<string, ChangeCount>();
  for await (const change of changes) {
    const place = { kind: change.kind, ...(change.kind === 'item' && { map: change.map }) };
    const way = 'change' in change ? change.change : wayOf(change);
    const key = JSON.stringify([place, way]);
    const before = counts.get(key)?.count ?? 0;
    counts.set(key, { ...place, change: way, count: before + ('change' in change ? change.count : 1) });
  }
  return [...counts.values()];
}

function wayOf({ before, after }: { readonly before?: unknown; readonly after?: unknown }): string {
  return before === undefined ? 'added' : after === undefined ? 'removed' : 'changed';
}

function statText(counts: readonly ChangeCount[]): string {
  const noun = ({ kind, map }: ChangeCount): string =>
    kind === 'meta' ? 'name of the metadata' : map === undefined ? kind.replace(/s$/, '') : `item of ${printable(map)}`;
  const nouns = (each: ChangeCount): string => noun(each).replace(/^\w+/, '$&s');
  return counts.map((each) => `${count(each.count, noun(each), nouns(each))} ${each.change}`).join('\n');
}

async function* jsonOf(changes: AsyncIterable<StateChange>): AsyncGenerator<object> {
  for await (const change of changes) {
    if (change.kind === 'rows' || change.kind === 'columns') yield change;
    else if (change.kind === 'cell') {
      const { before, after } = change;
      yield {
        kind: change.kind,
        ...(before && { before: { ...before, value: jsonFromValue(before.value) } }),
        ...(after && { after: { ...after, value: jsonFromValue(after.value) } }),
      };
    } else {
      const { before, after, ...place } = change;
      yield {
        ...place,
        ...(before !== undefined && { before: jsonFromValue(before) }),
        ...(after !== undefined && { after: jsonFromValue(after) }),
      };
    }
  }
}

/** A change for people. */
function changeText(change: StateChange): string {
  switch (change.kind) {
    case 'rows':
    case 'columns':
      return axisText(change);
    case 'cell': {
      const { before, after } = change;
      const place = after ?? before;
      const name = `cell ${place?.row}:${place?.column}`;
      const isShifted = before && after && (before.row !== after.row || before.column !== after.column);
      return valuesText(
        isShifted ? `${name}, before ${before.row}:${before.column}` : name,
        before?.value,
        after?.value,
      );
    }
    case 'meta':
      return valuesText(`metadata[${JSON.stringify(change.name)}]`, change.before, change.after);
    case 'item':
      return valuesText(`${change.map}[${JSON.stringify(change.key)}]`, change.before, change.after);
  }
}

function axisText(change: AxisChange): string {
  const range = (first: number): string =>
    change.count === 1
      ? `${change.kind.slice(0, -1)} ${first}`
      : `${change.kind} ${first} to ${first + change.count - 1}`;
  if (change.change === 'moved') return `${range(change.from)} moved to ${range(change.to)}`;
  return `${range(change.change === 'removed' ? change.from : change.to)} ${change.change}`;
}

function valuesText(place: string, before: Value | undefined, after: Value | undefined): string {
  if (after === undefined) return printable(`${place} removed: ${short(before)}`);
  return printable(
    before === undefined ? `${place} added: ${short(after)}` : `${place}: ${short(before)} -> ${short(after)}`,
  );
}

function short(value: Value | undefined): string {
  const text = value === undefined ? '' : JSON.stringify(jsonFromValue(value));
  return text.length <= MAX_SHOWN ? text : `${text.slice(0, MAX_SHOWN)}…`;
}
