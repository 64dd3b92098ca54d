import { CommanderError } from '@commander-js/extra-typings';
import { repairJsonParse } from '../adapters/platform/json-parse.ts';
import { InterruptedError, UsageError } from '../errors.ts';
import { Output } from './output.ts';
import { makeProgram } from './program.ts';
import { exitCodeOf, interrupted, untilInterrupted } from './signals.ts';
import { isBrokenPipe, outputFailed } from './write.ts';

/** The exit code of a program that SIGPIPE ended, as a shell reports it. */
const BROKEN_PIPE = 141;

/**
 * Runs the command line. If a signal ends the command, `run` ends the process.
 * @returns the exit code:
 * - 0 only on success
 * - 1 if the command failed
 * - 2 if arguments or input files are invalid
 * - 129, 130 or 143 if SIGHUP, SIGINT or SIGTERM ended the command
 * - 141 if the reader of its output has gone away
 */
export async function run(words: readonly string[]): Promise<number> {
  repairJsonParse();
  const program = makeProgram();
  const failures = watchPipes();
  let code: number;
  try {
    await program.parseAsync([...words], { from: 'user' }).catch((error: unknown) => {
      // Commander throws after it has printed help, too.
      if (!(error instanceof CommanderError) || error.exitCode !== 0) throw error;
    });
    // A command that ended by itself after a signal has reported the signal.
    await (interrupted().aborted ? drainOutput() : untilInterrupted(drainOutput));
    const [failure] = failures;
    if (failure !== undefined) throw failure;
    code = process.exitCode === undefined ? 0 : Number(process.exitCode);
  } catch (error) {
    code = isBrokenPipe(error) ? BROKEN_PIPE : fail(error, new Output(words.includes('--json')));
    // The command may still be running.
    if (error instanceof InterruptedError) process.exit(code);
  }
  return code;
}

/** Resolves when standard output has taken everything, or has failed. */
function drainOutput(): Promise<void> {
  return new Promise((resolve) => process.stdout.write('', () => setImmediate(resolve)));
}

/** Reports an error. @returns the exit code */
function fail(error: unknown, output: Output): number {
  if (error instanceof CommanderError) {
    // Commander has already printed the message for people.
    const reason = error.message.replace(/^error: /, '');
    output.errorDocument(new UsageError(reason, { advice: 'Add --help for the commands and options' }));
    return 2;
  }
  output.error(error);
  if (error instanceof InterruptedError) return exitCodeOf(error.signal);
  return error instanceof UsageError ? 2 : 1;
}

/**
 * Collects errors of standard output. A reader that has seen enough, such as `head`, ends the
 * command silently, as it ends other programs. Errors of standard error are ignored,
 * because no stream is left to report them.
 * @returns the errors so far, which grow
 */
function watchPipes(): readonly unknown[] {
  const failures: unknown[] = [];
  process.stderr.on('error', () => {});
  process.stdout.on('error', (error) => {
    failures.push(outputFailed('standard output', error));
  });
  return failures;
}
