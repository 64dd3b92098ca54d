import { SingleBar } from 'cli-progress';
import { count } from '../workers/jobs/report.ts';
import { formatDuration } from './format.ts';

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
 * terminal, a short command shows nothing. The bar disappears when it stops. It changes no mode of
 * the terminal, neither cursor nor line wrap, so no end of the process leaves a mode to restore.
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
      this.#bar = new SingleBar({ format, stream, clearOnComplete: true, hideCursor: false, linewrap: true });
      this.#bar.start(total, this.#value);
      // The shell's prompt starts on an empty line.
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
  readonly update = (value: number, detail = ''): void => {
    this.#value = value;
    this.#detail = detail === '' ? '' : `, ${detail}`;
    this.#bar?.update(value);
  };

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
