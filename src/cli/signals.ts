/** Aborted by the first SIGINT or SIGTERM, or when the process that started this one through npx is gone. */
export function interrupted(): AbortSignal {
  const controller = new AbortController();
  const stop = (): void => controller.abort();
  process.once('SIGINT', stop);
  process.once('SIGTERM', stop);
  if (process.env.npm_command === 'exec') watchParent(controller);
  return controller.signal;
}

/** npx runs a command as a grandchild: killed hard, it would leave that running with nobody who knows of it. */
function watchParent(controller: AbortController): void {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid !== parent) controller.abort();
  }, 500);
  timer.unref();
  controller.signal.addEventListener('abort', () => clearInterval(timer));
}
