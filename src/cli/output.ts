import { SingleBar } from 'cli-progress';
import { LogfoldError, textOf, type Where } from '../errors.ts';
import { formatDuration } from './duration.ts';

/** Where a command's answer goes: as text for a person, or as one JSON document for a machine. */
export class Output {
  readonly json: boolean;

  constructor(json: boolean) {
    this.json = json;
  }

  /** The command's answer. Called once, at the end. */
  result(document: unknown, text: string): void {
    if (this.json) process.stdout.write(`${JSON.stringify(document)}\n`);
    else if (text !== '') process.stdout.write(`${text}\n`);
  }

  /** Something worth knowing on the way, for a person only. */
  note(text: string): void {
    if (!this.json) process.stderr.write(`${text}\n`);
  }

  /** An error, on standard error; for a machine also as the one document. */
  error(error: unknown): void {
    const { code, message } = describeError(error);
    this.errorDocument(error);
    process.stderr.write(`logfold: ${code}: ${message}\n`);
    if (process.env.LOGFOLD_DEBUG !== undefined && error instanceof Error) process.stderr.write(`${error.stack}\n`);
  }

  /** An error that a person knows of already, for a machine only. */
  errorDocument(error: unknown): void {
    if (this.json) process.stdout.write(`${JSON.stringify({ error: errorDocument(error) })}\n`);
  }

  /** A progress bar on standard error; nothing for a machine. */
  progress(what: string, total?: number): Progress {
    return new Progress(this.json ? undefined : what, total);
  }
}

/** How often a line says how far a command is, where there is no terminal, in milliseconds. */
const LINE_MS = 2000;

/** How far a command is. On a terminal a bar, elsewhere a line every two seconds: a short command says nothing there. */
export class Progress {
  readonly #bar: SingleBar | undefined;
  readonly #timer: NodeJS.Timeout | undefined;
  #value = 0;

  /** @param what is counted; nothing is said where it is left out */
  constructor(what: string | undefined, total = 0, stream: NodeJS.WriteStream = process.stderr) {
    if (what === undefined) return;
    if (stream.isTTY) {
      const format = total === 0 ? `${what}: {value}` : `${what} [{bar}] {value}/{total}, {eta_formatted} left`;
      this.#bar = new SingleBar({ format, stream, hideCursor: true });
      this.#bar.start(total, 0);
      return;
    }
    const started = performance.now();
    const say = (): void => {
      const seconds = (performance.now() - started) / 1000;
      stream.write(`${what.trimEnd()}: ${this.#value}${total === 0 ? '' : `/${total}${this.#left(total, seconds)}`}\n`);
    };
    this.#timer = setInterval(say, LINE_MS).unref();
  }

  update(value: number): void {
    this.#value = value;
    this.#bar?.update(value);
  }

  stop(): void {
    this.#bar?.stop();
    clearInterval(this.#timer);
  }

  #left(total: number, seconds: number): string {
    if (this.#value === 0) return '';
    return `, ${formatDuration(Math.ceil((seconds / this.#value) * (total - this.#value)))} left`;
  }
}

function describeError(error: unknown): { readonly code: string; readonly message: string } {
  if (error instanceof LogfoldError) return error;
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
