import { Command, CommanderError } from '@commander-js/extra-typings';
import { appendCommand } from './commands/append.ts';
import { createCommand } from './commands/create.ts';
import { engineCommand } from './commands/engine.ts';
import { exportCommand } from './commands/export.ts';
import { replayCommand } from './commands/replay.ts';
import { resumeCommand } from './commands/resume.ts';
import { segmentCommand } from './commands/segment.ts';
import { snapshotCommand } from './commands/snapshot.ts';
import { statusCommand } from './commands/status.ts';
import { verifyCommand } from './commands/verify.ts';
import { viewCommand } from './commands/view.ts';
import { workCommand } from './commands/work.ts';
import { Output } from './output.ts';

/**
 * Runs the command line.
 * @returns the exit code: 0 only on success, 1 where the command failed, 2 where the words make no sense
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
    engineCommand(),
  ];
  for (const each of commands) program.addCommand(each.exitOverride());
  try {
    await program.parseAsync([...words], { from: 'user' });
    return process.exitCode === undefined ? 0 : Number(process.exitCode);
  } catch (error) {
    // Commander has said already what is wrong with the words; asking for help is no failure.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    new Output(words.includes('--json')).error(error);
    return 1;
  }
}
