import { once } from 'node:events';
import { constants, createWriteStream, fstatSync, writeFileSync } from 'node:fs';
import { access, realpath, rename, rm, stat } from 'node:fs/promises';
import type { Transform, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setImmediate as pause } from 'node:timers/promises';
import { SingleBar } from 'cli-progress';
import { removeAtExit } from '../adapters/filesystem/temporary-paths.ts';
import { LogfoldError, OutputFailedError, textOf, UsageError, type Where } from '../errors.ts';
import { count, formatDuration } from './format.ts';

/** Whether standard output has the one answer that a process gives. */
let answered = false;

/** Where a command's answer goes: as text for a person, or as one JSON document for a machine. */
export class Output {
  readonly json: boolean;
  readonly #requests: (() => number) | undefined;
  #closed = false;

  /** @param requests how many were sent so far: progress shows them, since they go on whatever a command counts */
  constructor(json: boolean, requests?: () => number) {
    this.json = json;
    this.#requests = requests;
  }

  /**
   * The command's answer. Called once, at the end.
   * @throws OutputFailedError if standard output is a file that takes nothing more
   */
  result(document: unknown, text: string): void {
    const answer = this.json ? JSON.stringify(document) : text;
    if (answer === '' || this.#closed) return;
    answered = true;
    Progress.shown?.stop();
    if (isStream(STANDARD_OUTPUT)) process.stdout.write(`${answer}\n`);
    else writeWhole(`${answer}\n`);
  }

  /** Something worth knowing on the way, for a person only. */
  note(text: string): void {
    if (this.json || this.#closed) return;
    const { shown } = Progress;
    shown?.stop();
    process.stderr.write(`${text}\n`);
    shown?.start();
  }

  /** An error, on standard error; for a machine also as the one document. */
  error(error: unknown): void {
    Progress.shown?.stop();
    const { code, message } = describeError(error);
    this.errorDocument(error);
    process.stderr.write(`logfold: ${code}: ${message}\n`);
    if (process.env.LOGFOLD_DEBUG !== undefined && error instanceof Error) process.stderr.write(`${error.stack}\n`);
  }

  /** An error that a person knows of already, for a machine only. */
  errorDocument(error: unknown): void {
    // A second document would be none of a machine's, and what standard output does not take cannot be said there.
    if (answered) return;
    new Output(this.json).result({ error: errorDocument(error) }, '');
  }

  /** A progress bar on standard error; nothing for a machine. */
  progress(what: string, total?: number): Progress {
    return new Progress(this.json || this.#closed ? undefined : what, total, { requests: this.#requests });
  }

  /** Shows how far something is while it is done. */
  async during<T>(what: string, run: (progress: Progress) => Promise<T>): Promise<T> {
    const progress = this.progress(what);
    try {
      return await run(progress);
    } finally {
      progress.stop();
    }
  }

  /** Says nothing more, although what it was made for goes on. */
  close(): void {
    this.#closed = true;
    Progress.shown?.stop();
  }
}

const STANDARD_OUTPUT = 1;
const STANDARD_OUTPUT_NAME = 'standard output';

/**
 * Writes to standard output what is more than is held in memory: the answer of the command.
 * @param transform between the parts and what is written, such as one that makes CSV of rows
 * @throws OutputFailedError if it takes nothing more
 */
export async function writeStandardOutput(parts: AsyncIterable<unknown>, transform?: Transform): Promise<void> {
  answered = true;
  if (isStream(STANDARD_OUTPUT)) return pour(parts, { transform, target: process.stdout, name: STANDARD_OUTPUT_NAME });
  const target = createWriteStream('', { fd: STANDARD_OUTPUT, autoClose: false });
  await pour(parts, { transform, target, name: STANDARD_OUTPUT_NAME });
}

/**
 * Writes a file. It gets its name once it is whole, so that a file of this name that was there before stays until then. A
 * device or pipe is written directly.
 * @throws UsageError if it cannot be opened, OutputFailedError if it takes nothing more
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

/** Where a file is to be written, and whether in one step, once it is whole. */
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

/** @throws OutputFailedError if the file takes nothing more */
function writeWhole(text: string): void {
  try {
    // Node's own stream for files leaves out the rest, without an error, if the disk takes only a part.
    writeFileSync(STANDARD_OUTPUT, text);
  } catch (cause) {
    throw outputFailed(STANDARD_OUTPUT_NAME, cause);
  }
}

/** Whether a file descriptor is a terminal, a pipe or a socket; otherwise a file or a device. */
function isStream(fd: number): boolean {
  const stats = fstatSync(fd);
  return stats.isFIFO() || stats.isSocket() || (stats.isCharacterDevice() && process.stdout.isTTY);
}

/**
 * The error for a file or stream that cannot be written.
 * @param what its name, for a person
 * @returns the cause itself if the operating system has no part in it, or nobody reads the stream any more
 */
export function outputFailed(what: string, cause: unknown): unknown {
  if (!isSystemError(cause) || isBrokenPipe(cause)) return cause;
  return new OutputFailedError(`${what} cannot be written: ${cause.message}`, {
    advice: cause.code === 'ENOSPC' ? 'Make room on that disk, then run the command again' : 'Write somewhere else',
    cause,
  });
}

/** How often a line says how far a command is, where there is no terminal, in milliseconds. */
const LINE_MS = 2000;

export interface ProgressOptions {
  /** Standard error by default. */
  readonly stream?: NodeJS.WriteStream | undefined;
  /** How many requests were sent so far. They are shown where nobody knows how much there is to do. */
  readonly requests?: (() => number) | undefined;
}

/**
 * How far a command is. On a terminal a bar, elsewhere a line every two seconds: a short command says nothing there. The
 * bar changes no mode of the terminal, neither cursor nor line wrap, so that nothing is left to restore however the process
 * ends.
 */
export class Progress {
  /** The bar on the terminal, if there is one. Whatever else is written there stops it first. */
  static shown: Progress | undefined;
  readonly #what: string | undefined;
  readonly #total: number;
  readonly #stream: NodeJS.WriteStream;
  readonly #requests: (() => number) | undefined;
  #bar: SingleBar | undefined;
  #timer: NodeJS.Timeout | undefined;
  #value = 0;
  #detail = '';

  /** @param what is counted; nothing is said where it is left out */
  constructor(what: string | undefined, total = 0, { stream = process.stderr, requests }: ProgressOptions = {}) {
    this.#what = what;
    this.#total = total;
    this.#stream = stream;
    this.#requests = requests;
    this.start();
  }

  /** Shows it again after `stop`. */
  start(): void {
    const [what, total, stream] = [this.#what, this.#total, this.#stream];
    if (what === undefined) return;
    if (stream.isTTY) {
      Progress.shown?.stop();
      Progress.shown = this;
      const format =
        total === 0
          ? () => `${what}: ${this.#value}${this.#beside()}`
          : `${what} [{bar}] {value}/{total}, {eta_formatted} left`;
      // How many requests it took matters to nobody once it is done.
      const clearOnComplete = total === 0;
      this.#bar = new SingleBar({ format, stream, clearOnComplete, hideCursor: false, linewrap: true });
      this.#bar.start(total, this.#value);
      // The shell's prompt begins on a line of its own.
      process.on('exit', this.stop);
      return;
    }
    const started = performance.now();
    const say = (): void => {
      const seconds = (performance.now() - started) / 1000;
      const rest = total === 0 ? this.#beside() : `/${total}${this.#left(total, seconds)}`;
      stream.write(`${what.trimEnd()}: ${this.#value}${rest}\n`);
    };
    this.#timer = setInterval(say, LINE_MS).unref();
  }

  /** @param detail what is done beside it, for a person */
  update(value: number, detail = ''): void {
    this.#value = value;
    this.#detail = detail === '' ? '' : `, ${detail}`;
    this.#bar?.update(value);
  }

  readonly stop = (): void => {
    process.off('exit', this.stop);
    this.#bar?.stop();
    if (Progress.shown === this) Progress.shown = undefined;
    clearInterval(this.#timer);
  };

  #beside(): string {
    return this.#requests === undefined ? this.#detail : `${this.#detail}, ${count(this.#requests(), 'request')}`;
  }

  #left(total: number, seconds: number): string {
    if (this.#value === 0) return '';
    return `, ${formatDuration(Math.ceil((seconds / this.#value) * (total - this.#value)))} left`;
  }
}

function describeError(error: unknown): { readonly code: string; readonly message: string } {
  if (error instanceof LogfoldError) return error;
  if (isSystemError(error)) return { code: error.code ?? error.name, message: error.message };
  if (error instanceof Error) return { code: error.name, message: error.message };
  return { code: 'ERROR', message: textOf(error) };
}

function errorDocument(error: unknown): unknown {
  const where: Where & { readonly advice?: string | undefined } = error instanceof LogfoldError ? error : {};
  const { log = null, segment = null, entry = null, type = null, advice = null } = where;
  const { code, message } = describeError(error);
  return { code, message, log, segment, entry, type, advice };
}

/** A number of bytes for a person. */
export function formatBytes(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 1e6) return `${(bytes / 1e3).toFixed(1)} kB`;
  return bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(2)} GB`;
}

const ITEMS = 1_000;

/**
 * The same items, with a pause now and then in which signals and timers have their turn: without one they wait while items
 * come that need nothing from a store, such as empty rows.
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

/** Whether the operating system refused something, such as a file that is not there: it is no fault of the program. */
export function isSystemError(error: unknown): error is NodeJS.ErrnoException {
  return error instanceof Error && 'syscall' in error;
}

/** Whether nobody reads any more what this process writes, as with `logfold export LOG | head -1`. */
export function isBrokenPipe(error: unknown): boolean {
  return isSystemError(error) && error.code === 'EPIPE';
}
