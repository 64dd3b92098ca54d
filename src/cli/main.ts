import { Command, CommanderError } from '@commander-js/extra-typings';
import { UsageError } from '../errors.ts';
import { nameOptions } from './command.ts';
import { appendCommand } from './commands/append.ts';
import { archiveCommand } from './commands/archive.ts';
import { collectCommand } from './commands/collect.ts';
import { compactCommand } from './commands/compact.ts';
import { createCommand } from './commands/create.ts';
import { engineCommand } from './commands/engine.ts';
import { expireCommand } from './commands/expire.ts';
import { exportCommand } from './commands/export.ts';
import { policyCommandOfLogs } from './commands/policy.ts';
import { replayCommand } from './commands/replay.ts';
import { restoreCommand } from './commands/restore.ts';
import { resumeCommand } from './commands/resume.ts';
import { segmentCommand } from './commands/segment.ts';
import { snapshotCommand } from './commands/snapshot.ts';
import { statusCommand } from './commands/status.ts';
import { sweepCommand } from './commands/sweep.ts';
import { verifyCommand } from './commands/verify.ts';
import { viewCommand } from './commands/view.ts';
import { workCommand } from './commands/work.ts';
import { Output } from './output.ts';
import { isBrokenPipe } from './system-error.ts';

/** What a shell gives for a program that SIGPIPE ended. */
const BROKEN_PIPE = 141;

/**
 * Runs the command line.
 * @returns the exit code: 0 only on success, 1 where the command failed, 2 where words or files given to it make no
 * sense, 141 where nobody reads its output any more
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
    compactCommand(),
    archiveCommand(),
    expireCommand(),
    restoreCommand(),
    collectCommand(),
    sweepCommand(),
    policyCommandOfLogs(),
    engineCommand(),
  ];
  for (const each of commands) program.addCommand(nameOptions(each).exitOverride());
  watchPipes();
  try {
    await program.parseAsync([...words], { from: 'user' });
    return process.exitCode === undefined ? 0 : Number(process.exitCode);
  } catch (error) {
    if (isBrokenPipe(error)) return BROKEN_PIPE;
    return fail(error, new Output(words.includes('--json')));
  }
}

/** Says what went wrong. @returns the exit code */
function fail(error: unknown, output: Output): number {
  if (error instanceof CommanderError) {
    // Asking for help is no failure. What is wrong with the words, commander has told a person already.
    if (error.exitCode === 0) return 0;
    const reason = error.message.replace(/^error: /, '');
    output.errorDocument(new UsageError(reason, { advice: 'Add --help for the commands and options' }));
    return 2;
  }
  output.error(error);
  return error instanceof UsageError ? 2 : 1;
}

/** A reader that has seen enough, such as `head`, ends the command without a word, as it ends other programs. */
function watchPipes(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error) => {
      if (!isBrokenPipe(error)) throw error;
      if (stream === process.stdout) process.exitCode = BROKEN_PIPE;
    });
  }
}
