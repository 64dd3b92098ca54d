import { setTimeout as sleep } from 'node:timers/promises';
import { type Moment, positionOfMoment } from '../../client/document-state.ts';
import { InterruptedError, UsageError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import { formatPosition, type Position } from '../../ids/position.ts';
import { BodiesAhead } from '../../log/body.ts';
import type { QueryRange } from '../../log/client.ts';
import type { Entry, ReservedTypes } from '../../log/entry.ts';
import { examples, inEnvironment, parse, readingCommand } from '../command.ts';
import { describeEntry, entryLine } from '../entry-line.ts';
import type { Environment } from '../environment.ts';
import { parseMoment } from '../moment.ts';
import { writeStandardOutput } from '../write.ts';

/** Milliseconds between two reads of the end of the log. */
const FOLLOW_MS = 1_000;

const HELP = `
With --json, each entry is one JSON object in a line, which 'logfold append' takes again. Snapshot and End Segment
entries are {"op":"snapshot"} and {"op":"segment"}. The first entry of a segment is {"op":"start"}, which appends
nothing: every new segment has one. --application leaves these three out. An entry with a file, such as Import, can be
appended only to its own log, because the file belongs to that log. "number" counts the entries of the application.

A time selects the entries of that second and later ones, or those before it for --to. Without an offset it is UTC, and
a date is its midnight. Entries of archived segments come from the archives. An entry whose body cannot be read is shown
with the reason.`;

type From = QueryRange['from'] | Date;

function parseFrom(text: string): From {
  return text === 'start' || text === 'snapshot' ? text : parseMoment(text);
}

function collect(text: string, before: readonly string[]): readonly string[] {
  return [...before, text];
}

const NO_TYPES: readonly string[] = [];

export function entriesCommand() {
  return readingCommand('entries', 'Print the entries of a log, one per line.')
    .argument('<log>', 'the log', parse.log)
    .option(
      '--from <place>',
      'the first entry: SEGMENT/ENTRY, its number, a time, start, or snapshot for the newest complete snapshot',
      parseFrom,
      'start',
    )
    .option(
      '--to <place>',
      'print only entries before this one, SEGMENT/ENTRY or its number, or before this time',
      parseMoment,
    )
    .option('--type <type>', 'only entries of this type; may be repeated', collect, NO_TYPES)
    .option('--application', 'leave out Snapshot and End Segment entries', false)
    .option('--limit <n>', 'the most entries', parse.count)
    .option('--follow', 'wait for new entries and print them, until interrupted', false)
    .addHelpText('after', HELP)
    .addHelpText(
      'after',
      examples(
        'entries budget --from snapshot --follow',
        'entries budget --from 2026-01-01 --to 2026-02-01 --type Set --json',
        'entries budget --application --json > edits.ndjson',
      ),
    )
    .action((log, { from, to, type, application, limit, follow, ...options }) => {
      if (follow && to !== undefined) {
        throw new UsageError('--follow waits for new entries, and --to ends before them', {
          advice: 'Leave out --follow or --to',
        });
      }
      const wanted: Wanted = { types: new Set(type), application, limit };
      let next: Position | undefined;
      const run = inEnvironment(options, async (environment, output) => {
        const pages = readPages(environment, log, {
          from: await placeOf(environment, log, from),
          to: to === undefined ? undefined : await positionOf(environment, log, to),
          limit: type.length === 0 && !application ? limit : undefined,
          follow,
        });
        const width = process.stdout.isTTY ? process.stdout.columns : undefined;
        const progress = process.stdout.isTTY || follow ? undefined : output.progress('Entries');
        let read = 0;
        async function* text(): AsyncGenerator<string> {
          for await (const page of selected(pages, wanted, environment.deps.types)) {
            const bodies = new BodiesAhead(
              environment.deps.blobs,
              page.filter(({ external }) => external !== undefined),
            );
            for (const entry of page) {
              const line = await entryLine(entry, environment.deps.types, bodies);
              yield `${output.json ? JSON.stringify(line) : describeEntry(line, width)}\n`;
              next = positionAfter(entry, environment.deps.types);
              progress?.update(++read);
            }
          }
        }
        try {
          await writeStandardOutput(text());
        } finally {
          progress?.stop();
        }
      });
      return run.catch((error: unknown) => {
        throw error instanceof InterruptedError ? describe(error, log, next) : error;
      });
    });
}

/** A signal is the only end of `--follow`. */
function describe({ signal, reason }: InterruptedError, log: LogId, next: Position | undefined): InterruptedError {
  const how = next === undefined ? '' : ` with --from ${formatPosition(next)}`;
  return new InterruptedError(signal, reason, {
    log,
    advice: `To continue, run the command again${how}`,
  });
}

function positionAfter({ type, position: { segment, entry } }: Entry, { endSegment }: ReservedTypes): Position {
  return type === endSegment ? { segment: segment + 1, entry: 0 } : { segment, entry: entry + 1 };
}

function placeOf(environment: Environment, log: LogId, from: From): Promise<Exclude<From, Date>> | Exclude<From, Date> {
  return from instanceof Date ? positionOf(environment, log, from) : from;
}

/** The position of the first entry at or after a time. A position stays as it is. */
function positionOf({ deps }: Environment, log: LogId, place: Moment): Promise<Position> {
  // The position of a moment is after the entries of its second.
  const before = place instanceof Date ? new Date(Math.ceil(place.getTime() / 1000) * 1000 - 1) : place;
  return positionOfMoment(deps, log, before);
}

interface Reading {
  readonly from: Exclude<From, Date>;
  readonly to: Position | undefined;
  readonly limit: number | undefined;
  readonly follow: boolean;
}

async function* readPages(
  { logs }: Environment,
  log: LogId,
  { from, to = 'end', limit, follow }: { readonly to?: Position | 'end' | undefined } & Omit<Reading, 'to'>,
): AsyncGenerator<readonly Entry[]> {
  let left = limit ?? Number.POSITIVE_INFINITY;
  for (let start = from; left > 0; ) {
    const answer = await logs.client.query(log, { from: start, to, limit: left });
    for await (const page of answer.entries) {
      left -= page.length;
      yield page;
    }
    if (!follow) return;
    start = answer.end;
    await sleep(FOLLOW_MS);
  }
}

interface Wanted {
  /** Empty for all. */
  readonly types: ReadonlySet<string>;
  /** Whether to leave out entries of reserved types. */
  readonly application: boolean;
  readonly limit: number | undefined;
}

async function* selected(
  pages: AsyncIterable<readonly Entry[]>,
  { types, application, limit = Number.POSITIVE_INFINITY }: Wanted,
  reserved: ReservedTypes,
): AsyncGenerator<readonly Entry[]> {
  const isWanted = ({ type }: Entry): boolean =>
    (types.size === 0 || types.has(type)) && !(application && reserved.includes(type));
  let left = limit;
  for await (const page of pages) {
    const found = page.filter(isWanted).slice(0, left);
    left -= found.length;
    yield found;
    if (left === 0) return;
  }
}
