import { Command, CommanderError } from '@commander-js/extra-typings';
import { InterruptedError, UsageError } from '../errors.ts';
import { nameOptions } from './command.ts';
import { appendCommand, createCommand, segmentCommand, snapshotCommand } from './commands/append.ts';
import { archiveCommand } from './commands/archive.ts';
import { collectCommand } from './commands/collect.ts';
import { expireCommand } from './commands/expire.ts';
import { exportCommand } from './commands/export.ts';
import { flushCommand } from './commands/flush.ts';
import { policyCommandOfLogs } from './commands/policy.ts';
import { replayCommand } from './commands/replay.ts';
import { restoreCommand } from './commands/restore.ts';
import { resumeCommand } from './commands/resume.ts';
import { statusCommand } from './commands/status.ts';
import { sweepCommand } from './commands/sweep.ts';
import { verifyCommand } from './commands/verify.ts';
import { viewCommand } from './commands/view.ts';
import { engineCommand, workCommand } from './commands/work.ts';
import { isBrokenPipe, Output, outputFailed } from './output.ts';
import { exitCodeOf, interrupted, untilInterrupted } from './signals.ts';

/** What a shell gives for a program that SIGPIPE ended. */
const BROKEN_PIPE = 141;

/**
 * Runs the command line. If a signal ends the command, it ends the process.
 * @returns the exit code: 0 only on success, 1 where the command failed, 2 where words or files given to it make no
 * sense, 129, 130 or 143 where SIGHUP, SIGINT or SIGTERM ended it, 141 where nobody reads its output any more
 */
export async function run(words: readonly string[]): Promise<number> {
  const program = new Command('logfold')
    .description('Snapshots for event logs in DynamoDB.')
    .addHelpText('after', '\nTry it here: logfold create --local data, then logfold work --local data beside the rest.')
    .exitOverride();
  const commands = [
    createCommand(),
    appendCommand(),
    snapshotCommand(),
    segmentCommand(),
    workCommand(),
    statusCommand(),
    exportCommand(),
    viewCommand(),
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
    engineCommand(),
  ];
  for (const each of commands) program.addCommand(nameOptions(each).exitOverride());
  const failures = watchPipes();
  let code: number;
  try {
    await program.parseAsync([...words], { from: 'user' }).catch((error: unknown) => {
      // Asking for help is no failure.
      if (!(error instanceof CommanderError) || error.exitCode !== 0) throw error;
    });
    // What ended by itself after a signal has said so in its answer.
    await (interrupted().aborted ? flush() : untilInterrupted(flush));
    const [failure] = failures;
    if (failure !== undefined) throw failure;
    code = process.exitCode === undefined ? 0 : Number(process.exitCode);
  } catch (error) {
    code = isBrokenPipe(error) ? BROKEN_PIPE : fail(error, new Output(words.includes('--json')));
    // Nobody waits for what the command was at, but it goes on.
    if (error instanceof InterruptedError) process.exit(code);
  }
  return code;
}

/** Resolves once everything is out, or lost. */
function flush(): Promise<void> {
  return new Promise((resolve) => process.stdout.write('', () => setImmediate(resolve)));
}

/** Says what went wrong. @returns the exit code */
function fail(error: unknown, output: Output): number {
  if (error instanceof CommanderError) {
    // What is wrong with the words, commander has told a person already.
    const reason = error.message.replace(/^error: /, '');
    output.errorDocument(new UsageError(reason, { advice: 'Add --help for the commands and options' }));
    return 2;
  }
  output.error(error);
  if (error instanceof InterruptedError) return exitCodeOf(error.signal);
  return error instanceof UsageError ? 2 : 1;
}

/**
 * A reader that has seen enough, such as `head`, ends the command without a word, as it ends other programs. If standard
 * error takes nothing, nobody is left to be told.
 * @returns where errors of standard output will be
 */
function watchPipes(): readonly unknown[] {
  const failures: unknown[] = [];
  process.stderr.on('error', () => {});
  process.stdout.on('error', (error) => {
    failures.push(outputFailed('standard output', error));
  });
  return failures;
}
