import { Command, type CommandUnknownOpts } from '@commander-js/extra-typings';
import { InterruptedError, UsageError } from '../errors.ts';
import { parseLogId } from '../ids/log-id.ts';
import { MAX_NUMBER, parsePosition } from '../ids/position.ts';
import { RESERVED_TYPES } from '../log/entry.ts';
import { spreadsheet } from '../state/spreadsheet/reducer.ts';
import type { Span } from '../state/spreadsheet/sheet.ts';
import { type Environment, openEnvironment, type Place } from './environment.ts';
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
      `the ES module of the reducer that is deployed; ${spreadsheet.name}, or nothing, for the one that comes with logfold`,
      process.env.LOGFOLD_REDUCER,
    )
    .option('--snapshot-type <type>', 'the type of Snapshot entries', RESERVED_TYPES.snapshot)
    .option('--end-segment-type <type>', 'the type of End Segment entries', RESERVED_TYPES.endSegment)
    .option('--json', 'print one JSON document on standard output and nothing else', false)
    .showHelpAfterError('(add --help for the options)');
}

/**
 * Lets the errors of a command's options name the option, which parsers do not know, and refuses an option as the value
 * of another one: commander would take it.
 */
export function nameOptions<T extends CommandUnknownOpts>(command: T): T {
  const names = new Set(command.options.map(({ long }) => long));
  for (const option of command.options) {
    const { parseArg, long } = option;
    if (!option.required) continue;
    option.argParser((word: string, previous: unknown): unknown => {
      try {
        if (names.has(word)) throw new UsageError(`needs a value, and '${word}' is an option`);
        return parseArg === undefined ? word : parseArg(word, previous);
      } catch (error) {
        if (error instanceof UsageError) error.message = `${long ?? option.name()}: ${error.message}`;
        throw error;
      }
    });
  }
  return command;
}

export interface CommonOptions extends Place {
  readonly json: boolean;
  /** Whether the command ends by itself soon after its signal is aborted. Any other one is left where it is. */
  readonly endsItself?: boolean | undefined;
}

/**
 * Opens the place that the options name, runs a command there, and closes it however that ends.
 * @param run told what the first signal to the process aborts
 * @throws InterruptedError if a signal came: the caller has to end the process, since the command may still go on
 */
export async function inEnvironment(
  options: CommonOptions,
  run: (environment: Environment, output: Output, stop: AbortSignal) => Promise<void>,
): Promise<void> {
  const environment = await untilInterrupted(() => openEnvironment(options));
  const output = new Output(options.json, () => requestsOf(environment));
  const command = (): Promise<void> => run(environment, output, interrupted());
  try {
    await (options.endsItself === true ? command() : untilInterrupted(command));
  } catch (error) {
    if (error instanceof InterruptedError) {
      output.close();
      throw error;
    }
    // What fails because the engine went away is explained by that, not by the refused connection.
    throw environment.lost.aborted ? environment.lost.reason : error;
  } finally {
    await environment.close();
  }
}

/** Requests to tables and bucket so far. */
function requestsOf({ tables, blobs }: Environment): number {
  const { gets, puts, lists, deletes } = blobs.usage();
  return tables.requests + gets + puts + lists + deletes;
}

/** Parsers for arguments; commander shows their errors as they are. */
export const parse = {
  log: parseLogId,
  position: parsePosition,
  /** @throws UsageError */
  count: (text: string): number => {
    const count = Number(text);
    if (!/^\d+$/.test(text) || count < 1 || !Number.isSafeInteger(count)) {
      throw new UsageError(`'${text}' is not a whole number from 1`);
    }
    return count;
  },
  /**
   * The number of a segment or entry.
   * @throws UsageError
   */
  number: (text: string): number => {
    const number = Number(text);
    if (!/^\d{1,10}$/.test(text) || number > MAX_NUMBER) throw new UsageError(`'${text}' is not a number of a segment`);
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
