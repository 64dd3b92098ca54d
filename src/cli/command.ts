import { Command, type CommandUnknownOpts } from '@commander-js/extra-typings';
import type { Moment } from '../client/past-state.ts';
import { InterruptedError, UsageError } from '../errors.ts';
import { parseLogId } from '../ids/log-id.ts';
import { MAX_NUMBER, parsePosition } from '../ids/position.ts';
import { RESERVED_TYPES } from '../log/entry.ts';
import { type ForeignPart, foreignNotice } from '../log/foreign.ts';
import { isoSeconds } from '../mapping/item-time.ts';
import { spreadsheet } from '../state/spreadsheet/reducer.ts';
import type { Span } from '../state/spreadsheet/sheet.ts';
import { type Environment, openEnvironment, type Place } from './environment.ts';
import { mappingIn, mappingOption, parseTypedLog } from './mapping.ts';
import { Output } from './output.ts';
import { interrupted, untilInterrupted } from './signals.ts';

/** A command with the options that every command has. */
export function command(name: string, description: string) {
  return new Command(name)
    .description(description)
    .option('--local <dir>', 'use the embedded engine, with all data in this directory')
    .option('--entry-table <name>', 'the Entry table', process.env.LOGFOLD_ENTRY_TABLE)
    .option('--segment-table <name>', 'the Segment table', process.env.LOGFOLD_SEGMENT_TABLE)
    .option('--bucket <name>', 'the S3 bucket for snapshots and large bodies', process.env.LOGFOLD_BUCKET)
    .option(
      '--reducer <file>',
      `the ES module of the deployed reducer; default: the built-in reducer ${spreadsheet.name}`,
      process.env.LOGFOLD_REDUCER,
    )
    .option('--snapshot-type <type>', 'the type of Snapshot entries', RESERVED_TYPES.snapshot)
    .option('--end-segment-type <type>', 'the type of End Segment entries', RESERVED_TYPES.endSegment)
    .addOption(mappingOption())
    .option('--json', 'print one JSON document on standard output and nothing else', false)
    .showHelpAfterError('(add --help for the options)');
}

/**
 * Names the option in each error of its parser, because parsers do not know the option. Also
 * refuses an option as the value of another option: commander accepts it. If there is a mapping, it
 * decides which ids logs have.
 */
export function nameOptions<T extends CommandUnknownOpts>(command: T): T {
  const names = new Set(command.options.map(({ long }) => long));
  for (const option of command.options) {
    const { parseArg, long } = option;
    if (!option.required) continue;
    option.argParser((word: string, previous: unknown): unknown => {
      try {
        if (names.has(word)) throw new UsageError(`needs a value, but '${word}' is an option`);
        return parseArg === undefined ? word : parseArg(word, previous);
      } catch (error) {
        if (error instanceof UsageError) error.message = `${long ?? option.name()}: ${error.message}`;
        throw error;
      }
    });
  }
  // Options are parsed before arguments, and the mapping says which ids logs have.
  for (const argument of command.registeredArguments) {
    if (argument.name() === 'log') argument.argParser((text: string) => parseTypedLog(mappingIn(command), text));
  }
  return command;
}

export interface CommonOptions extends Place {
  readonly json: boolean;
  /** Whether the command ends by itself soon after a signal. Otherwise, a signal abandons it. */
  readonly endsItself?: boolean;
}

/**
 * Opens the place that the options name, runs a command there, and always closes the place.
 * @param run receives an abort signal, which the first signal to the process aborts
 * @throws InterruptedError if a signal came; the caller must end the process, because the command
 * may still be running
 */
export async function inEnvironment(
  options: CommonOptions,
  run: (environment: Environment, output: Output, stop: AbortSignal) => Promise<void>,
): Promise<void> {
  const notices: string[] = [];
  const onForeign = (part: ForeignPart): void => void notices.push(foreignNotice(part));
  const environment = await untilInterrupted(() => openEnvironment(options, onForeign));
  const output = new Output(options.json, () => requestsOf(environment));
  const command = (): Promise<void> => run(environment, output, interrupted());
  try {
    await (options.endsItself === true ? command() : untilInterrupted(command));
  } catch (error) {
    if (error instanceof InterruptedError) {
      output.close();
      throw error;
    }
    // A lost engine explains the error better than the refused connection does.
    throw environment.lost.aborted ? environment.lost.reason : error;
  } finally {
    for (const notice of notices) output.note(notice);
    await environment.close();
  }
}

/** The number of requests to tables and bucket so far. */
function requestsOf({ tables, blobs }: Environment): number {
  const { gets, puts, lists, deletes } = blobs.usage();
  return tables.requests + gets + puts + lists + deletes;
}

/** Parsers for arguments. Commander prints their errors unchanged. */
export const parse = {
  log: parseLogId,
  position: parsePosition,
  /**
   * Parses a position or a time. Without an offset, a time is UTC, and a date is its midnight.
   * @throws UsageError
   */
  moment: (text: string): Moment => {
    if (text.includes('/')) return parsePosition(text);
    const seconds = isoSeconds(text);
    if (seconds !== undefined) return new Date(seconds * 1000);
    throw new UsageError(`'${text}' is neither a position nor a time`, {
      advice: "Write SEGMENT/ENTRY, such as '0/17', or a time, such as '2024-01-31' or '2024-01-31T08:00:00Z'",
    });
  },
  /** @throws UsageError */
  count: (text: string): number => {
    const count = Number(text);
    if (!/^\d+$/.test(text) || count < 1 || !Number.isSafeInteger(count)) {
      throw new UsageError(`'${text}' is not a whole number above 0`);
    }
    return count;
  },
  /**
   * Parses the number of a segment.
   * @throws UsageError
   */
  number: (text: string): number => {
    const number = Number(text);
    if (!/^\d{1,10}$/.test(text) || number > MAX_NUMBER)
      throw new UsageError(`'${text}' is not the number of a segment`);
    return number;
  },
  /** @throws UsageError */
  span: (text: string): Span => {
    const match = /^(\d{1,10}):(\d{1,10})$/.exec(text);
    const [from, to] = [Number(match?.[1]), Number(match?.[2])];
    if (match === null || from > to) {
      throw new UsageError(`'${text}' is not a range`, { advice: "Write FROM:TO, such as '0:50' for the first fifty" });
    }
    return { from, to };
  },
};
