import { constants } from 'node:os';
import { InterruptedError } from '../errors.ts';

/** In milliseconds. One Ctrl+C may arrive twice: from the terminal and through npx. */
const SAME_SIGNAL_MS = 1_000;
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

let shared: AbortSignal | undefined;
let onlyReads = false;

/** Says that the command changes nothing, so that after a signal there is nothing to check. */
export function changesNothing(): void {
  onlyReads = true;
}

/**
 * The abort signal of the whole process. The first SIGINT, SIGTERM or SIGHUP aborts it with an
 * InterruptedError. A signal that comes more than a second after the first ends the process
 * immediately.
 */
export function interrupted(): AbortSignal {
  shared ??= watchSignals();
  return shared;
}

/**
 * Waits for `run` or for a signal. After a signal `run` may continue: the caller cleans up and then
 * ends the process with `process.exit`.
 * @throws InterruptedError if a signal came first
 */
export async function untilInterrupted<T>(run: () => Promise<T>): Promise<T> {
  const signal = interrupted();
  signal.throwIfAborted();
  const { promise, reject } = Promise.withResolvers<never>();
  const stop = (): void => reject(signal.reason);
  signal.addEventListener('abort', stop);
  try {
    return await Promise.race([run(), promise]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

/** The exit code that tells a shell which signal ended a program. */
export function exitCodeOf(signal: string): number {
  const numbers: Readonly<Record<string, number>> = constants.signals;
  return 128 + (numbers[signal] ?? 0);
}

/** Sets the exit code of a command that ends by itself, if a signal has come. */
export function endAfterSignal({ reason }: AbortSignal): void {
  if (reason instanceof InterruptedError) process.exitCode = exitCodeOf(reason.signal);
}

function watchSignals(): AbortSignal {
  const controller = new AbortController();
  let first: number | undefined;
  const stop = (signal: NodeJS.Signals): void => {
    const now = performance.now();
    if (first !== undefined && now - first > SAME_SIGNAL_MS) process.exit(exitCodeOf(signal));
    first ??= now;
    controller.abort(
      new InterruptedError(signal, `${signal} ended the command`, {
        advice: onlyReads
          ? 'Run the command again'
          : 'Check what the command has changed before you run it again: its changes stay',
      }),
    );
  };
  for (const signal of SIGNALS) process.on(signal, stop);
  return controller.signal;
}
