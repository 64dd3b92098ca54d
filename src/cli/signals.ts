/** One Ctrl+C may come twice, from the terminal and through npx; in milliseconds. */
const SAME_SIGNAL_MS = 1_000;

/**
 * Aborted by the first SIGINT or SIGTERM, or when the process that started this one on behalf of a person is gone.
 * Another signal, later than a second after the first, ends the process at once.
 */
export function interrupted(): AbortSignal {
  const controller = new AbortController();
  const stop = (): void => {
    if (!controller.signal.aborted) setTimeout(release, SAME_SIGNAL_MS).unref();
    controller.abort();
  };
  const release = (): void => {
    process.off('SIGINT', stop);
    process.off('SIGTERM', stop);
  };
  process.on('SIGINT', stop);
  process.on('SIGTERM', stop);
  const { npm_command, LOGFOLD_HANDED_OVER } = process.env;
  if (npm_command === 'exec' || LOGFOLD_HANDED_OVER !== undefined) watchParent(controller);
  return controller.signal;
}

/** What stands between a person and this process, npx or an older Node, may be killed hard: then nobody knows of it. */
function watchParent(controller: AbortController): void {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid !== parent) controller.abort();
  }, 500);
  timer.unref();
  controller.signal.addEventListener('abort', () => clearInterval(timer));
}
