import { execFile } from 'node:child_process';
import { readdir, readFile } from 'node:fs/promises';
import { setTimeout } from 'node:timers/promises';
import { promisify } from 'node:util';
import { EngineError } from '../errors.ts';

const POLL_MS = 20;

/**
 * Ids of the running processes whose command line ends with these words. The words prove which
 * process it is. A saved id does not, since the system reuses ids. Finds nothing on Windows.
 */
export async function findProcesses(lastWords: readonly string[]): Promise<number[]> {
  if (process.platform === 'linux') return await findInProc(lastWords);
  if (process.platform === 'win32') return [];
  const { stdout } = await promisify(execFile)('ps', ['-A', '-ww', '-o', 'pid=,args=']);
  const end = ` ${lastWords.join(' ')}`;
  const lines = stdout.split('\n').filter((line) => line.trimEnd().endsWith(end));
  return lines.map((line) => Number.parseInt(line, 10));
}

async function findInProc(lastWords: readonly string[]): Promise<number[]> {
  const end = `\0${lastWords.join('\0')}\0`;
  const ids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(ids.map(async (id) => ((await commandLine(id)).endsWith(end) ? [Number(id)] : [])));
  return found.flat();
}

/** NUL ends each word. Empty for a zombie, an ended process, and a process that we may not read. */
async function commandLine(id: string): Promise<string> {
  try {
    return await readFile(`/proc/${id}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}

/**
 * Waits until no process with these last words runs.
 * @returns false if a process still runs after `ms` milliseconds
 */
export async function waitForEnd(lastWords: readonly string[], ms: number): Promise<boolean> {
  for (const deadline = Date.now() + ms; ; await setTimeout(POLL_MS)) {
    if ((await findProcesses(lastWords)).length === 0) return true;
    if (Date.now() > deadline) return false;
  }
}

/**
 * Ends every process with these last words. Kills processes that still run after `graceMs`
 * milliseconds.
 * @throws EngineError if a killed process still runs after `graceMs` milliseconds
 */
export async function endProcesses(lastWords: readonly string[], graceMs: number): Promise<void> {
  await signalAll(lastWords, 'SIGTERM');
  if (await waitForEnd(lastWords, graceMs)) return;
  await signalAll(lastWords, 'SIGKILL');
  if (await waitForEnd(lastWords, graceMs)) return;
  throw new EngineError(`processes ${(await findProcesses(lastWords)).join(', ')} cannot be ended`);
}

async function signalAll(lastWords: readonly string[], signal: NodeJS.Signals): Promise<void> {
  for (const id of await findProcesses(lastWords)) {
    try {
      process.kill(id, signal);
    } catch (error) {
      const ended = error instanceof Error && 'code' in error && error.code === 'ESRCH';
      if (!ended) throw error;
    }
  }
}
