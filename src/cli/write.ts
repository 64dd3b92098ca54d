import { once } from 'node:events';
import { constants, createWriteStream, fstatSync, writeFileSync } from 'node:fs';
import { access, realpath, rename, rm, stat } from 'node:fs/promises';
import type { Transform, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setImmediate as pause } from 'node:timers/promises';
import { removeAtExit } from '../adapters/filesystem/temporary-paths.ts';
import { OutputFailedError, UsageError } from '../errors.ts';
import { ProgressBar } from './progress.ts';

const STANDARD_OUTPUT = 1;
const STANDARD_OUTPUT_NAME = 'standard output';

let answered = false;

/** Whether the process has written its only answer to standard output, or a part of it. */
export function hasAnswered(): boolean {
  return answered;
}

/**
 * Writes a whole answer to standard output.
 * @throws OutputFailedError if standard output is a file that cannot take it
 */
export function writeAnswer(text: string): void {
  answered = true;
  if (isStream(STANDARD_OUTPUT)) process.stdout.write(text);
  else writeWhole(text);
}

/**
 * Writes a command's answer to standard output in parts, because the whole may not fit in memory.
 * @param transform encodes the parts, for example rows as CSV
 * @throws OutputFailedError if standard output cannot take it
 */
export async function writeStandardOutput(parts: AsyncIterable<unknown>, transform?: Transform): Promise<void> {
  answered = true;
  if (isStream(STANDARD_OUTPUT)) {
    return pour(clearing(parts), { transform, target: process.stdout, name: STANDARD_OUTPUT_NAME });
  }
  const target = createWriteStream('', { fd: STANDARD_OUTPUT, autoClose: false });
  await pour(parts, { transform, target, name: STANDARD_OUTPUT_NAME });
}

/** The same parts. A progress bar disappears before each part that goes to the same terminal. */
async function* clearing(parts: AsyncIterable<unknown>): AsyncGenerator<unknown> {
  for await (const part of parts) {
    if (process.stdout.isTTY) ProgressBar.shown?.stop();
    yield part;
  }
}

/**
 * Writes a part of a command's answer to standard output, and waits until the system has it.
 * @throws OutputFailedError if standard output is a file that cannot take it
 * @throws an error of the stream, such as that of a closed pipe
 */
export async function writePart(text: string): Promise<void> {
  answered = true;
  if (!isStream(STANDARD_OUTPUT)) return writeWhole(text);
  if (process.stdout.isTTY) ProgressBar.shown?.stop();
  await new Promise<void>((resolve, reject) => {
    process.stdout.write(text, (error) => (error ? reject(outputFailed(STANDARD_OUTPUT_NAME, error)) : resolve()));
  });
}

/**
 * Writes a file under a temporary name, then renames it: an existing file stays until the new one
 * is whole. Devices and pipes are written directly.
 * @throws UsageError if the file cannot be opened
 * @throws OutputFailedError if the file cannot take everything
 */
export async function writeFile(file: string, parts: AsyncIterable<unknown>, transform?: Transform): Promise<void> {
  const { path, mode, whole } = await lookAt(file);
  const temporary = whole ? `${path}.${process.pid}.part` : path;
  const forget = whole ? removeAtExit(temporary) : undefined;
  try {
    const target = createWriteStream(temporary, { flags: whole ? 'wx' : 'w', mode });
    await once(target, 'open').catch((cause: unknown) => {
      throw cannotBeWritten(file, cause);
    });
    await pour(parts, { transform, target, name: `'${file}'` });
    if (whole) await rename(temporary, path);
  } catch (error) {
    if (whole) await rm(temporary, { force: true });
    throw error;
  } finally {
    forget?.();
  }
}

/** The real path and mode of a file, and whether it is written under a temporary name first. */
async function lookAt(
  file: string,
): Promise<{ readonly path: string; readonly mode: number; readonly whole: boolean }> {
  try {
    const { mode } = await stat(file);
    const path = await realpath(file);
    await access(path, constants.W_OK);
    return { path, mode, whole: (mode & constants.S_IFMT) === constants.S_IFREG };
  } catch (cause) {
    if (isSystemError(cause) && cause.code === 'ENOENT') return { path: file, mode: 0o666, whole: true };
    throw cannotBeWritten(file, cause);
  }
}

function cannotBeWritten(file: string, cause: unknown): unknown {
  if (!isSystemError(cause)) return cause;
  return new UsageError(`'${file}' cannot be written: ${cause.message}`, {
    advice: 'Name a file that can be written',
    cause,
  });
}

interface Target {
  readonly transform?: Transform | undefined;
  readonly target: Writable;
  readonly name: string;
}

async function pour(parts: AsyncIterable<unknown>, { transform, target, name }: Target): Promise<void> {
  let failure: unknown;
  target.once('error', (error) => {
    failure = error;
  });
  try {
    const end = target !== process.stdout;
    await (transform === undefined ? pipeline(parts, target, { end }) : pipeline(parts, transform, target, { end }));
  } catch (error) {
    throw error === failure ? outputFailed(name, error) : error;
  }
}

/** @throws OutputFailedError if the file cannot take everything */
function writeWhole(text: string): void {
  try {
    // Node's stream for files drops the rest without an error if the disk takes only a part.
    writeFileSync(STANDARD_OUTPUT, text);
  } catch (cause) {
    throw outputFailed(STANDARD_OUTPUT_NAME, cause);
  }
}

/**
 * Whether a file descriptor is a terminal, a pipe or a socket, and not a file or another device.
 */
function isStream(fd: number): boolean {
  const stats = fstatSync(fd);
  return stats.isFIFO() || stats.isSocket() || (stats.isCharacterDevice() && process.stdout.isTTY);
}

/**
 * Makes an error for a file or stream that cannot be written.
 * @param name its name in the message
 * @returns the cause itself if it is not a system error, or if the reader closed the stream
 */
export function outputFailed(name: string, cause: unknown): unknown {
  if (!isSystemError(cause) || isBrokenPipe(cause)) return cause;
  return new OutputFailedError(`${name} cannot be written: ${cause.message}`, {
    advice: cause.code === 'ENOSPC' ? 'Make room on that disk, then run the command again' : 'Write somewhere else',
    cause,
  });
}

/** Length of the parts that are written together, in UTF-16 code units. */
const PART_LENGTH = 64 * 1024;

/**
 * Yields a JSON document in parts, because the whole may be too long for a string.
 * @param head the first properties of the document, at least one
 * @param name the property after them, an array of the items
 * @param tail the properties after the items, which it may count
 */
export function documentParts(
  head: object,
  name: string,
  items: AsyncIterable<object>,
  tail: () => object = () => ({}),
): AsyncGenerator<string> {
  const start = `${JSON.stringify(head).slice(0, -1)},"${name}":[`;
  const end = (): string => {
    const rest = JSON.stringify(tail());
    return rest === '{}' ? ']}\n' : `],${rest.slice(1)}\n`;
  };
  return joined(items, { start, separator: ',', end }, (item) => JSON.stringify(item));
}

/** Yields a line for each item, several of them at a time. */
export function lineParts<T>(items: AsyncIterable<T>, lineOf: (item: T) => string): AsyncGenerator<string> {
  return joined(items, { start: '', separator: '', end: () => '' }, (item) => `${lineOf(item)}\n`);
}

interface Around {
  readonly start: string;
  readonly separator: string;
  readonly end: () => string;
}

async function* joined<T>(
  items: AsyncIterable<T>,
  { start, separator, end }: Around,
  textOf: (item: T) => string,
): AsyncGenerator<string> {
  let text = start;
  let between = '';
  for await (const item of withPauses(items)) {
    text += between + textOf(item);
    between = separator;
    if (text.length < PART_LENGTH) continue;
    yield text;
    text = '';
  }
  yield text + end();
}

const ITEMS = 1_000;

/**
 * Yields the same items and pauses after every 1,000 of them, so that signals and timers run.
 * Otherwise items that need no store, such as empty rows, keep them waiting.
 */
export async function* withPauses<T>(items: AsyncIterable<T>): AsyncGenerator<T> {
  let since = 0;
  for await (const item of items) {
    yield item;
    if (++since < ITEMS) continue;
    since = 0;
    await pause();
  }
}

/** Whether the operating system refused an operation, such as opening a missing file. */
export function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'syscall' in error;
}

/** Whether the reader of the output has gone away, as with `logfold export LOG | head -1`. */
export function isBrokenPipe(error: unknown): boolean {
  return isSystemError(error) && error.code === 'EPIPE';
}
