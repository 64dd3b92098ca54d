import { LogfoldError, textOf, type Where } from '../errors.ts';
import { forTerminal } from './format.ts';
import { pastable } from './next-step.ts';
import { ProgressBar } from './progress.ts';
import { hasAnswered, isSystemError, writeAnswer } from './write.ts';

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
    ProgressBar.shown?.stop();
    writeAnswer(`${answer}\n`);
  }

  /** Writes a remark to standard error, for people only. Commands in quotes become pastable. */
  note(text: string): void {
    if (this.json || this.#closed) return;
    const { shown } = ProgressBar;
    shown?.stop();
    process.stderr.write(`${forTerminal(pastable(text))}\n`);
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
    if (hasAnswered()) return;
    new Output(this.json).result({ error: errorDocument(error) }, '');
  }

  /** Shows progress on standard error, for people only. */
  progress(label: string, total?: number): ProgressBar {
    return new ProgressBar(this.json || this.#closed ? undefined : label, total, { requests: this.#requests });
  }

  /** Shows progress while `run` runs. */
  async during<T>(label: string, run: (progress: ProgressBar) => Promise<T>, total?: number): Promise<T> {
    const progress = this.progress(label, total);
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

function describeError(error: unknown): { readonly code: string; readonly message: string } {
  if (error instanceof LogfoldError) return { code: error.code, message: pastable(error.message) };
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
  return { code, message, log, segment, entry, type, advice: advice && pastable(advice) };
}
