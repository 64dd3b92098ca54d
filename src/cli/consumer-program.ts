import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { ProgramFailedError } from '../errors.ts';

/**
 * Runs a command of the shell with a text on its standard input. It shares standard output and
 * standard error with this process. It need not read the whole text.
 * @throws ProgramFailedError unless it ends with exit code 0
 */
export async function runProgram(command: string, input: string): Promise<void> {
  const child = spawn(command, { shell: true, stdio: ['pipe', 'inherit', 'inherit'] });
  // The exit code says whether the program needed what it did not read.
  child.stdin.on('error', () => undefined);
  child.stdin.end(input);
  await once(child, 'close').catch((cause: unknown) => {
    throw programFailed('could not be started', cause);
  });
  const { exitCode, signalCode } = child;
  if (exitCode === 0) return;
  throw programFailed(signalCode === null ? `ended with exit code ${exitCode}` : `was ended by ${signalCode}`);
}

function programFailed(how: string, cause?: unknown): ProgramFailedError {
  return new ProgramFailedError(`the program of --exec ${how}, so its entries are not done`, {
    advice: 'Find the cause in the output of the program, then run the command again: the same entries come again',
    cause,
  });
}
