import { readFileSync } from 'node:fs';
import { Command, type CommandUnknownOpts, Help } from '@commander-js/extra-typings';
import * as z from 'zod';
import { parseJson } from '../codec/json.ts';
import { UsageError } from '../errors.ts';
import { prepareCommand } from './command.ts';
import { adoptCommand } from './commands/adopt.ts';
import { appendCommand, createCommand, segmentCommand } from './commands/append.ts';
import { archiveCommand } from './commands/archive.ts';
import { attributesCommand } from './commands/attributes.ts';
import { collectCommand } from './commands/collect.ts';
import { completionCommand } from './commands/completion.ts';
import { diffCommand } from './commands/diff.ts';
import { entriesCommand } from './commands/entries.ts';
import { expireCommand } from './commands/expire.ts';
import { exportCommand } from './commands/export.ts';
import { feedCommand } from './commands/feed.ts';
import { historyCommand } from './commands/history.ts';
import { importCommand } from './commands/import.ts';
import { inspectCommand } from './commands/inspect.ts';
import { listCommand } from './commands/list.ts';
import { policyCommandOfLogs } from './commands/policy.ts';
import { replayCommand } from './commands/replay.ts';
import { restoreCommand } from './commands/restore.ts';
import { flushCommand, resumeCommand, snapshotCommand } from './commands/snapshot.ts';
import { snapshotsCommand } from './commands/snapshots.ts';
import { stateCommand } from './commands/state.ts';
import { statusCommand } from './commands/status.ts';
import { sweepCommand } from './commands/sweep.ts';
import { tableCommand } from './commands/table.ts';
import { verifyCommand } from './commands/verify.ts';
import { viewCommand } from './commands/view.ts';
import { engineCommand, workCommand } from './commands/work.ts';
import { forTerminal, screenColumns } from './format.ts';
import { noteCommands } from './next-step.ts';
import { readSettings, type Settings, settingsOf } from './settings.ts';

/** The columns of a help text without a terminal, and the most columns on one. */
const HELP_WIDTH = { usual: 80, most: 100 };

/** The command line with all its commands. */
export function makeProgram(): Command {
  const program = new Command('logfold')
    .description('Snapshots for event logs in DynamoDB.')
    .addHelpText(
      'after',
      '\nTo try it on this machine, run logfold create --local data, then logfold work --local data alongside other commands.',
    )
    .version(packageVersion(), '--version', 'print the version')
    .exitOverride();
  let settings: { readonly read: Settings | undefined } | undefined;
  const readOnce = (): Settings | undefined => {
    const known = commands.flatMap((each) => settingsOf(each).map((setting) => setting.attributeName()));
    settings ??= { read: readSettings(workingDirectory(), new Set(known)) };
    return settings.read;
  };
  const commands: readonly CommandUnknownOpts[] = [
    createCommand(readOnce),
    appendCommand(),
    importCommand(),
    snapshotCommand(),
    segmentCommand(),
    attributesCommand(),
    workCommand(),
    listCommand(readOnce),
    statusCommand(readOnce),
    exportCommand(),
    viewCommand(),
    stateCommand(),
    entriesCommand(),
    feedCommand(),
    snapshotsCommand(),
    diffCommand(),
    historyCommand(),
    replayCommand(),
    verifyCommand(),
    resumeCommand(),
    flushCommand(),
    archiveCommand(),
    expireCommand(),
    restoreCommand(),
    collectCommand(),
    sweepCommand(),
    policyCommandOfLogs(),
    inspectCommand(),
    adoptCommand(),
    tableCommand(),
    engineCommand(),
    completionCommand(readOnce),
  ];
  noteCommands(commands);
  const width = Math.min(screenColumns() ?? HELP_WIDTH.usual, HELP_WIDTH.most);
  const output = {
    outputError: (text: string, write: (text: string) => void) => write(forTerminal(text)),
    getOutHelpWidth: () => width,
    writeOut: (text: string) => void process.stdout.write(wrapParagraphs(text, width)),
  };
  for (const each of commands) {
    for (const part of [each, ...each.commands]) {
      prepareCommand(part, readOnce).exitOverride().configureOutput(output);
    }
    program.addCommand(each);
  }
  return program.configureOutput(output);
}

/** Wraps each paragraph at a width. Indented lines, such as examples, stay as they are. */
function wrapParagraphs(text: string, width: number): string {
  const lines = new Help();
  return text.replaceAll(/^\S.*(?:\n\S.*)*/gm, (each) => lines.boxWrap(each.replaceAll('\n', ' '), width));
}

/** @throws UsageError if the working directory was removed */
function workingDirectory(): string {
  try {
    return process.cwd();
  } catch (cause) {
    throw new UsageError('the working directory was removed', {
      advice: 'Change to another directory, for example with cd ~, then run the command again',
      cause,
    });
  }
}

/** The version of the package, which is beside the sources and beside the built code. */
function packageVersion(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8');
  return z.object({ version: z.string() }).parse(parseJson(text)).version;
}
