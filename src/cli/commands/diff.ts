import type { StateChange } from '../../client/document-state.ts';
import type { Value } from '../../codec/value.ts';
import { printable } from '../../errors.ts';
import { formatPosition } from '../../ids/position.ts';
import type { AxisChange } from '../../state/spreadsheet/sheet-diff.ts';
import { NodeCache } from '../../tree/node-cache.ts';
import { count, formatBytes } from '../../workers/jobs/report.ts';
import { command, examples, inEnvironment, parse } from '../command.ts';
import { jsonFromValue } from '../json-value.ts';
import { loadShownState, onBadEntryOption } from '../moment.ts';
import { documentParts, lineParts, writeStandardOutput } from '../write.ts';

/** The longest value in the text for people, in UTF-16 code units. */
const MAX_SHOWN = 200;

const HELP = `
A moment is the state before an entry, such as 0/17, or after all entries up to a time, such as 2026-01-31T08:00:00Z.
Without an offset, a time is UTC, and a date is its midnight.

Rows and columns of a sheet keep their identity when others are inserted or deleted. So rows and columns come first, and
a cell that only moved with its row is not a change. A row that was deleted and inserted again has moved, without its
cells. Positions count from 0. Removed rows, columns and cells have their position before, all others afterwards.
Cells come in no particular order.

With --json, the changes of a sheet are {"kind":"rows","change":"inserted","to":…,"count":…}, "removed" with "from", or
"moved" with both, the same with "columns", and {"kind":"cell","before":{"row":…,"column":…,"value":…},"after":{…}}.
The changes of other states are {"kind":"meta","name":…,"before":…,"after":…} and
{"kind":"item","map":…,"key":…,"before":…,"after":…}. Without "before" it was added, without "after" removed.`;

export function diffCommand() {
  return command('diff', 'Show what changed in a log between two moments.')
    .argument('<log>', 'the log', parse.log)
    .argument(
      '<before>',
      'the first moment: the state before this entry, as SEGMENT/ENTRY, or at this time',
      parse.moment,
    )
    .argument('[after]', 'the second moment; by default the newest state', parse.moment)
    .addOption(onBadEntryOption())
    .addHelpText('after', HELP)
    .addHelpText(
      'after',
      examples('diff budget 0/17', 'diff budget 2026-01-31 2026-02-28', 'diff budget 2026-01-31T08:00:00Z --json'),
    )
    .action((log, from, to, options) =>
      inEnvironment(options, async (environment, output) => {
        const { deps, blobs } = environment;
        // The states share most chunks.
        const sharing = { ...environment, deps: { ...deps, nodes: { cache: new NodeCache() } } };
        const [before, after] = await output.during(
          'Snapshots loaded',
          async () => [await loadShownState(sharing, log, from), await loadShownState(sharing, log, to)] as const,
        );
        let changes = 0;
        async function* counted(): AsyncGenerator<StateChange> {
          const found = before.state.diff(after.state);
          let step = await output.during('States compared', () => found.next());
          // On a terminal, the changes themselves show the progress.
          const progress = process.stdout.isTTY ? undefined : output.progress('Changes');
          try {
            for (; step.done !== true; step = await found.next()) {
              changes++;
              progress?.update(changes);
              yield step.value;
            }
          } finally {
            progress?.stop();
          }
        }
        const badEntry = after.badEntry ?? before.badEntry;
        const head = {
          log,
          before: before.position,
          after: after.position,
          ...(badEntry !== undefined && { badEntry }),
        };
        await writeStandardOutput(
          output.json ? documentParts(head, 'changes', jsonOf(counted())) : lineParts(counted(), changeText),
        );
        const { gets: objects, bytesRead: bytes } = blobs.usage();
        const between = `between ${formatPosition(before.position)} and ${formatPosition(after.position)}`;
        output.note(
          `${count(changes, 'change')} ${between}; ${count(objects, 'object')} with ${formatBytes(bytes)} fetched.`,
        );
      }),
    );
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
