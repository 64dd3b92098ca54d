import { resolve } from 'node:path';
import { Command, type CommandUnknownOpts } from '@commander-js/extra-typings';
import { BUILT_IN_REDUCERS, builtInReducer } from '../adapters/platform/reducer-module.ts';
import { InterruptedError, UsageError, unprintable } from '../errors.ts';
import { FEED_LOG } from '../feed/feed-log.ts';
import { type LogId, parseLogId } from '../ids/log-id.ts';
import { MAX_NUMBER, parsePosition } from '../ids/position.ts';
import { RESERVED_TYPES } from '../log/entry.ts';
import { MAX_COLUMNS, MAX_ROWS } from '../state/spreadsheet/cell-key.ts';
import type { AxisRange } from '../state/spreadsheet/sheet.ts';
import { type Environment, openEnvironment } from './environment.ts';
import { mappingIn, mappingOption, parseTypedLog } from './mapping.ts';
import { parseMoment } from './moment.ts';
import { noteTyped } from './next-step.ts';
import { Output } from './output.ts';
import type { Place } from './place.ts';
import { applySettings, Setting, type Settings } from './settings.ts';
import { changesNothing, interrupted, untilInterrupted } from './signals.ts';

/**
 * A command with the options that every command has.
 *
 * Add its examples with `.addHelpText('after', examples(…))`: every command needs them.
 */
export function command(name: string, description: string) {
  return new Command(name)
    .description(description)
    .optionsGroup(GENERAL_OPTIONS)
    .addOption(
      new Setting('--local <dir>', 'use the embedded engine, with all data in this directory', {
        resolve: fromDirectory,
        instead: 'bucket',
      }),
    )
    .addOption(new Setting('--entry-table <name>', 'the Entry table'))
    .addOption(new Setting('--segment-table <name>', 'the Segment table'))
    .addOption(new Setting('--feed-table <name>', 'the table of the feed, if there is one; its log is named feed'))
    .addOption(new Setting('--bucket <name>', 'the S3 bucket for snapshots and large bodies', { instead: 'local' }))
    .addOption(
      new Setting(
        '--reducer <file>',
        `the deployed reducer: an ES module, or ${BUILT_IN_REDUCERS.map(({ name }) => name).join(', ')}; default: ${BUILT_IN_REDUCERS[0].name}, and none for mapped logs`,
        { resolve: (value, directory) => builtInReducer(value)?.name ?? fromDirectory(value, directory) },
      ),
    )
    .addOption(new Setting('--snapshot-type <type>', 'the type of Snapshot entries').default(RESERVED_TYPES.snapshot))
    .addOption(
      new Setting('--end-segment-type <type>', 'the type of End Segment entries').default(RESERVED_TYPES.endSegment),
    )
    .addOption(mappingOption())
    .option('--json', 'print one JSON document on standard output and nothing else', false)
    .optionsGroup(OWN_OPTIONS)
    .configureHelp({ groupItems: (_, items, groupOf) => ownFirst(Map.groupBy(items, groupOf)) })
    .hook('preAction', (_, running) => {
      const { dryRun } = running.opts();
      if (dryRun === true) changesNothing();
    })
    .showHelpAfterError('(add --help for the options)');
}

const OWN_OPTIONS = 'Options:';
const GENERAL_OPTIONS = 'Options of every command:';

/** Groups for a help text. The options of every command come last. */
function ownFirst<T>(groups: Map<string, T[]>): Map<string, T[]> {
  const general = groups.get(GENERAL_OPTIONS);
  if (general !== undefined && groups.delete(GENERAL_OPTIONS)) groups.set(GENERAL_OPTIONS, general);
  return groups;
}

/** A {@link command} that changes nothing: after a signal, there is nothing to check. */
export function readingCommand(name: string, description: string) {
  return command(name, description).hook('preAction', changesNothing);
}

function fromDirectory(path: string, directory: string): string {
  return resolve(directory, path);
}

/**
 * Examples for the end of a command's help. A test runs the parser on each.
 * @param lines commands without the word `logfold`; `#` and a remark may follow
 */
export function examples(...lines: readonly string[]): string {
  return `\nExamples:\n${lines.map((line) => `  logfold ${line}`).join('\n')}`;
}

/**
 * Prepares a command for its run. Names the option in each error of its parser, because parsers do
 * not know the option. Refuses an option as the value of another option: commander accepts it.
 * Options that the command line leaves out get their values from variables and the settings file.
 * If there is a mapping, it decides which ids logs have.
 * @param settings reads the settings file, if there is one
 */
export function prepareCommand<T extends CommandUnknownOpts>(command: T, settings: () => Settings | undefined): T {
  const names = new Set(command.options.map(({ long }) => long));
  const typed = new Map<string, string>();
  for (const option of command.options) {
    const { parseArg, long } = option;
    if (!option.required) continue;
    option.argParser((word: string, previous: unknown): unknown => {
      try {
        if (names.has(word)) throw new UsageError(`needs a value, but '${word}' is an option`);
        if (long) typed.set(long, word);
        return parseArg === undefined ? word : parseArg(word, previous);
      } catch (error) {
        if (error instanceof UsageError) error.message = `${long ?? option.name()}: ${error.message}`;
        throw error;
      }
    });
  }
  const parseOptions = command.parseOptions.bind(command);
  command.parseOptions = (words) => {
    const parsed = parseOptions(words);
    // Help must not depend on a valid file.
    if (parsed.unknown.some((word) => HELP_WORDS.includes(word))) return parsed;
    noteTyped(command, typed);
    applySettings(command, settings());
    const { log } = command.opts();
    if (typeof log === 'string') command.setOptionValue('log', idOfName(command, log, settings()) ?? unprintable(log));
    return parsed;
  };
  // Options are parsed before arguments, and the mapping says which ids logs have.
  for (const argument of command.registeredArguments) {
    if (argument.name() === 'log') argument.argParser((text: string) => parseNamedLog(command, text, settings()));
  }
  return command;
}

const HELP_WORDS = ['--help', '-h'];

/** Parses a log as people type it: a name, or an id. */
function parseNamedLog(command: CommandUnknownOpts, text: string, settings: Settings | undefined): LogId {
  const log = parseTypedLog(mappingIn(command), idOfName(command, text, settings) ?? unprintable(text));
  // The environment of the command then folds logs as the feed.
  if (log === FEED_LOG) command.setOptionValue('isFeed', true);
  return log;
}

/** The id of a log that has a name; undefined if it has none. */
function idOfName(command: CommandUnknownOpts, text: string, settings: Settings | undefined): string | undefined {
  const id = settings?.names.get(text);
  const { feedTable } = command.opts();
  return id ?? (text === 'feed' && feedTable !== undefined ? FEED_LOG : undefined);
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
  const environment = await untilInterrupted(() => openEnvironment(options, (text) => void notices.push(text)));
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
function requestsOf({ requests, blobs }: Environment): number {
  const { gets, puts, lists, deletes } = blobs.usage();
  return requests.requests + gets + puts + lists + deletes;
}

const MAX_CONCURRENCY = 1000;

/** Parsers for arguments. Commander prints their errors unchanged. */
export const parse = {
  log: parseLogId,
  /** Parses the id of a new log, or of one that need not exist. @throws LogIdInvalidError */
  id: (text: string): LogId => parseLogId(unprintable(text)),
  position: parsePosition,
  moment: parseMoment,
  /** @throws UsageError */
  count: (text: string): number => {
    const count = Number(text);
    if (!/^\d+$/.test(text) || count < 1 || !Number.isSafeInteger(count)) {
      throw new UsageError(`'${text}' is not a whole number above 0`);
    }
    return count;
  },
  /**
   * Parses how many of something run at the same time. A million waiting workers would keep the
   * process from everything else, also from its end.
   * @throws UsageError
   */
  concurrency: (text: string): number => {
    const count = parse.count(text);
    if (count > MAX_CONCURRENCY) throw new UsageError(`'${text}' is above ${MAX_CONCURRENCY}`);
    return count;
  },
  /** @throws UsageError */
  index: (text: string): number => {
    const index = Number(text);
    if (!/^\d+$/.test(text) || !Number.isSafeInteger(index)) {
      throw new UsageError(`'${text}' is not a whole number of at least 0`);
    }
    return index;
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
  /**
   * Parses the number of a row, from 0.
   * @throws UsageError
   */
  row: (text: string): number => {
    if (/^\d{1,10}$/.test(text) && Number(text) < MAX_ROWS) return Number(text);
    throw new UsageError(`'${text}' is not the number of a row`);
  },
  /**
   * Parses ROW:COLUMN, each from 0.
   * @throws UsageError
   */
  cell: (text: string): { readonly row: number; readonly column: number } => {
    const match = /^(\d{1,10}):(\d{1,10})$/.exec(text);
    const [row, column] = [Number(match?.[1]), Number(match?.[2])];
    if (match !== null && row < MAX_ROWS && column < MAX_COLUMNS) return { row, column };
    throw new UsageError(`'${text}' is not a cell`, { advice: "Write ROW:COLUMN, such as '3:1'" });
  },
  /** @throws UsageError */
  span: (text: string): AxisRange => {
    const match = /^(\d{1,10}):(\d{1,10})$/.exec(text);
    const [from, to] = [Number(match?.[1]), Number(match?.[2])];
    if (match === null || from > to) {
      throw new UsageError(`'${text}' is not a range`, { advice: "Write FROM:TO, such as '0:50' for the first fifty" });
    }
    return { from, to };
  },
};
