import { type BigIntStats, createReadStream, createWriteStream, fstatSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { makeTemporaryDirectory } from '../adapters/filesystem/temporary-paths.ts';
import { UsageError } from '../errors.ts';
import { isSystemError, outputFailed } from './write.ts';

const STANDARD_INPUT = 0;
const ADVICE = 'Name a file, or - for standard input';

/** A file that can be read any number of times until it is closed. */
export interface InputFile {
  readonly path: string;
  readonly close: () => void;
}

/**
 * Makes a file readable more than once. A source that can be read only once, such as a pipe, is
 * copied to a temporary file until it is closed.
 * @param file `-` for standard input
 * @throws UsageError if there is no such file
 */
export async function readableTwice(file: string): Promise<InputFile> {
  // `/dev/stdin` cannot be opened if it is a socket.
  if (file === '-' || file === '/dev/stdin') return spool(standardInput(), file);
  const stats = await look(file, file);
  return stats.isFile() || stats.isDirectory() ? { path: file, close: () => {} } : spool(createReadStream(file), file);
}

/** @throws UsageError if standard input is a directory, which Node reads as an empty stream */
function standardInput(): NodeJS.ReadableStream {
  if (!fstatSync(STANDARD_INPUT).isDirectory()) return process.stdin;
  throw new UsageError('standard input cannot be read: it is a directory', { advice: ADVICE });
}

async function spool(input: NodeJS.ReadableStream, file: string): Promise<InputFile> {
  const { path: directory, remove } = makeTemporaryDirectory('logfold-input-');
  try {
    const path = join(directory, 'input');
    await pipeline(input, createWriteStream(path));
    return { path, close: remove };
  } catch (error) {
    remove();
    const isWrite = isSystemError(error) && error.syscall === 'write';
    throw isWrite ? outputFailed(`a copy of '${file}' in '${directory}'`, error) : cannotBeRead(file, error);
  }
}

async function look(path: string, file: string): Promise<BigIntStats> {
  try {
    return await stat(path, { bigint: true });
  } catch (cause) {
    throw cannotBeRead(file, cause);
  }
}

/**
 * Remembers a file as it is now.
 * @param file its name in error messages
 * @returns a function that throws UsageError if something has written to the file since
 */
export async function watchChanges(path: string, file: string, advice: string): Promise<() => Promise<void>> {
  const before = await look(path, file);
  return async () => {
    const now = await look(path, file);
    if (now.ino === before.ino && now.size === before.size && now.mtimeNs === before.mtimeNs) return;
    throw new UsageError(`'${file}' changed while it was read`, { advice });
  };
}

/** The error for a file that the operating system cannot read; any other error unchanged. */
export function cannotBeRead(file: string, cause: unknown): unknown {
  if (!isSystemError(cause)) return cause;
  return new UsageError(`${file === '-' ? 'standard input' : `'${file}'`} cannot be read: ${cause.message}`, {
    advice: ADVICE,
    cause,
  });
}
