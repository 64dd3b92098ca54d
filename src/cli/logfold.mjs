#!/usr/bin/env node
// Plain JavaScript, so that a Node too old for the rest can still say so, or hand over to the one that is installed here.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import module from 'node:module';
import { fileURLToPath } from 'node:url';

const NEEDED = 24;
const main = new URL('./main.ts', import.meta.url);

endWithStarter();

if (Number(process.versions.node.split('.')[0]) >= NEEDED) {
  // Kept in the temporary directory of the system, it halves the time until a command begins.
  module.enableCompileCache?.();
  const { run } = await import(main.href);
  process.exitCode = await run(process.argv.slice(2));
} else {
  const pinned = fileURLToPath(new URL('../../node_modules/.bin/node', import.meta.url));
  if (!existsSync(pinned)) {
    console.error(`logfold needs Node ${NEEDED} or newer, and this is ${process.version}. Run 'npm ci' here first.`);
    process.exit(1);
  }
  const child = spawn(pinned, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], {
    // The channel closes when this process ends, however it ends.
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    env: { ...process.env, LOGFOLD_HANDED_OVER: 'yes' },
  });
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'];
  for (const signal of signals) process.on(signal, () => child.kill(signal));
  child.on('exit', (code, signal) => {
    for (const each of signals) process.removeAllListeners(each);
    if (signal) process.kill(process.pid, signal);
    process.exitCode = code ?? 1;
  });
}

/**
 * Sends this process a SIGHUP when the process that started it for a person has ended: an older Node, or npx. Either may be
 * killed without passing on a signal, and the person then believes that the command has ended.
 */
function endWithStarter() {
  const hangUp = () => process.kill(process.pid, 'SIGHUP');
  if (process.env.LOGFOLD_HANDED_OVER !== undefined) {
    process.once('disconnect', hangUp);
    process.channel?.unref();
    if (process.connected === false) hangUp();
  } else if (process.env.npm_command === 'exec') {
    const starter = process.ppid;
    const timer = setInterval(() => {
      if (process.ppid === starter) return;
      clearInterval(timer);
      hangUp();
    }, 500).unref();
  }
}
