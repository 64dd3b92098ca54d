import { once } from 'node:events';
import { constants, createWriteStream, fstatSync, writeFileSync } from 'node:fs';
import { access, realpath, rename, rm, stat } from 'node:fs/promises';
import type { Transform, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setImmediate as pause } from 'node:timers/promises';
import { SingleBar } from 'cli-progress';
import { removeAtExit } from '../adapters/filesystem/temporary-paths.ts';
import { LogfoldError, OutputFailedError, textOf, UsageError, type Where } from '../errors.ts';
import { count } from '../workers/jobs/report.ts';
import { formatDuration, forTerminal } from './format.ts';

/** Whether the process has written its only answer to standard output. */
let answered = false;

/** A command's output: text for people, or one JSON document for programs. */
export class Output {
  readonly json: boolean;
  readonly #requests: (() => number) | undefined;
  #closed = false;

  /** @param requests the number of requests so far, for progress bars */
  constructor(json: boolean, requests?: () => number) {
    this.json = json;
    this.#requests = requests;
  }

  /**
   * Writes the command's answer. Commands call it once, at the end.
   * @throws OutputFailedError if standard output is a file that cannot take it
   */
  result(document: unknown, text: string): void {
    const answer = this.json ? JSON.stringify(document) : forTerminal(text);
    if (answer === '' || this.#closed) return;
    answered = true;
    ProgressBar.shown?.stop();
    if (isStream(STANDARD_OUTPUT)) process.stdout.write(`${answer}\n`);
    else writeWhole(`${answer}\n`);
  }

  /** Writes a remark to standard error, for people only. */
  note(text: string): void {
    if (this.json || this.#closed) return;
    const { shown } = ProgressBar;
    shown?.stop();
    process.stderr.write(`${forTerminal(text)}\n`);
    shown?.start();
  }

  /** Writes an error to standard error, and for programs also as the JSON document. */
  error(error: unknown): void {
    ProgressBar.shown?.stop();
    const { code, message } = describeError(error);
    this.errorDocument(error);
    process.stderr.write(forTerminal(`logfold: ${code}: ${message}\n`));
    if (process.env.LOGFOLD_DEBUG !== undefined && error instanceof Error) {
      process.stderr.write(forTerminal(`${error.stack}\n`));
    }
  }

  /** Writes an error as the JSON document, for programs only. */
  errorDocument(error: unknown): void {
    // Programs expect one document. An error of standard output itself cannot go there.
    if (answered) return;
    new Output(this.json).result({ error: errorDocument(error) }, '');
  }

  /** Shows progress on standard error, for people only. */
  progress(label: string, total?: number): ProgressBar {
    return new ProgressBar(this.json || this.#closed ? undefined : label, total, { requests: this.#requests });
  }

  /** Shows progress while `run` runs. */
  async during<T>(label: string, run: (progress: ProgressBar) => Promise<T>): Promise<T> {
    const progress = this.progress(label);
    try {
      return await run(progress);
    } finally {
      progress.stop();
    }
  }

  /** Suppresses all further output, although the command may still be running. */
  close(): void {
    this.#closed = true;
    ProgressBar.shown?.stop();
  }
}

const STANDARD_OUTPUT = 1;
const STANDARD_OUTPUT_NAME = 'standard output';

/**
 * Writes a command's answer to standard output in parts, because the whole may not fit in memory.
 * @param transform encodes the parts, for example rows as CSV
 * @throws OutputFailedError if standard output cannot take it
 */
export async function writeStandardOutput(parts: AsyncIterable<unknown>, transform?: Transform): Promise<void> {
  answered = true;
  if (isStream(STANDARD_OUTPUT)) return pour(parts, { transform, target: process.stdout, name: STANDARD_OUTPUT_NAME });
  const target = createWriteStream('', { fd: STANDARD_OUTPUT, autoClose: false });
  await pour(parts, { transform, target, name: STANDARD_OUTPUT_NAME });
}

/**
 * Writes a part of a command's answer to standard output, and waits until the system has it.
 * @throws OutputFailedError if standard output is a file that cannot take it
 * @throws an error of the stream, such as that of a closed pipe
 */
export async function writePart(text: string): Promise<void> {
  answered = true;
  if (!isStream(STANDARD_OUTPUT)) return writeWhole(text);
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

/** Milliseconds between two lines of progress, if there is no terminal. */
const LINE_MS = 2000;

export interface ProgressOptions {
  /** Standard error by default. */
  readonly stream?: NodeJS.WriteStream;
  /** The number of requests so far, shown if the total is unknown. */
  readonly requests?: (() => number) | undefined;
}

/**
 * Progress of a command: a bar on a terminal, elsewhere a line every two seconds. Without a
 * terminal, a short command shows nothing. The bar changes no mode of the terminal, neither cursor
 * nor line wrap, so no end of the process leaves a mode to restore.
 */
export class ProgressBar {
  /** The bar on the terminal, if any. Other output to the terminal stops it first. */
  static shown: ProgressBar | undefined;
  readonly #label: string | undefined;
  readonly #total: number;
  readonly #stream: NodeJS.WriteStream;
  readonly #requests: (() => number) | undefined;
  #bar: SingleBar | undefined;
  #timer: NodeJS.Timeout | undefined;
  #value = 0;
  #detail = '';

  /** @param label without it, nothing is shown */
  constructor(label: string | undefined, total = 0, { stream = process.stderr, requests }: ProgressOptions = {}) {
    this.#label = label;
    this.#total = total;
    this.#stream = stream;
    this.#requests = requests;
    this.start();
  }

  /** Shows the progress again after `stop`. */
  start(): void {
    const [label, total, stream] = [this.#label, this.#total, this.#stream];
    if (label === undefined) return;
    if (stream.isTTY) {
      ProgressBar.shown?.stop();
      ProgressBar.shown = this;
      const format =
        total === 0
          ? () => `${label}: ${this.#value}${this.#suffix()}`
          : `${label} [{bar}] {value}/{total}, {eta_formatted} left`;
      // The number of requests is useless afterwards.
      const clearOnComplete = total === 0;
      this.#bar = new SingleBar({ format, stream, clearOnComplete, hideCursor: false, linewrap: true });
      this.#bar.start(total, this.#value);
      // The shell's prompt starts on a new line.
      process.on('exit', this.stop);
      return;
    }
    const started = performance.now();
    const writeLine = (): void => {
      const seconds = (performance.now() - started) / 1000;
      const rest = total === 0 ? this.#suffix() : `/${total}${this.#left(total, seconds)}`;
      stream.write(`${label.trimEnd()}: ${this.#value}${rest}\n`);
    };
    this.#timer = setInterval(writeLine, LINE_MS).unref();
  }

  /** @param detail another count, shown after the value */
  update(value: number, detail = ''): void {
    this.#value = value;
    this.#detail = detail === '' ? '' : `, ${detail}`;
    this.#bar?.update(value);
  }

  readonly stop = (): void => {
    process.off('exit', this.stop);
    this.#bar?.stop();
    if (ProgressBar.shown === this) ProgressBar.shown = undefined;
    clearInterval(this.#timer);
  };

  #suffix(): string {
    return this.#requests === undefined ? this.#detail : `${this.#detail}, ${count(this.#requests(), 'request')}`;
  }

  #left(total: number, seconds: number): string {
    if (this.#value === 0) return '';
    return `, ${formatDuration(Math.ceil((seconds / this.#value) * (total - this.#value)))} left`;
  }
}

function describeError(error: unknown): { readonly code: string; readonly message: string } {
  if (error instanceof LogfoldError) return error;
  if (isSystemError(error)) {
    const { code = error.name, message } = error;
    // Node's messages begin with the code.
    return { code, message: message.startsWith(`${code}: `) ? message.slice(code.length + 2) : message };
  }
  if (error instanceof Error) return { code: error.name, message: error.message };
  return { code: 'ERROR', message: textOf(error) };
}

function errorDocument(error: unknown): unknown {
  const where: Where & { readonly advice?: string | undefined } = error instanceof LogfoldError ? error : {};
  const { log = null, segment = null, entry = null, type = null, advice = null } = where;
  const { code, message } = describeError(error);
  return { code, message, log, segment, entry, type, advice };
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
