import { constants } from 'node:os';
import { InterruptedError } from '../errors.ts';

/** One Ctrl+C may come twice, from the terminal and through npx; in milliseconds. */
const SAME_SIGNAL_MS = 1_000;
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

let shared: AbortSignal | undefined;

/**
 * Aborted with an InterruptedError by the first SIGINT, SIGTERM or SIGHUP. Another signal, later than a second after the
 * first, ends the process immediately. The whole process shares one.
 */
export function interrupted(): AbortSignal {
  shared ??= watch();
  return shared;
}

/**
 * Runs something until it ends, or until a signal comes. After a signal nobody waits for it any more, although it goes on:
 * the caller cleans up and then ends the process with `process.exit`.
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

/** The exit code by which a shell knows that a signal ended a program. */
export function exitCodeOf(signal: NodeJS.Signals): number {
  return 128 + constants.signals[signal];
}

function watch(): AbortSignal {
  const controller = new AbortController();
  let first: number | undefined;
  const stop = (signal: NodeJS.Signals): void => {
    const now = performance.now();
    if (first !== undefined && now - first > SAME_SIGNAL_MS) process.exit(exitCodeOf(signal));
    first ??= now;
    controller.abort(
      new InterruptedError(signal, `${signal} ended the command`, {
        advice: 'Look at what it has done before you run it again: that stays done',
      }),
    );
  };
  for (const signal of SIGNALS) process.on(signal, stop);
  return controller.signal;
}
