#!/usr/bin/env node
// Plain JavaScript: an old Node can run this file, and then starts the newer Node of node_modules
// or prints an error.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import module from 'node:module';
import { fileURLToPath } from 'node:url';

const NEEDED = 24;
const main = new URL('./main.ts', import.meta.url);

endWithStarter();

if (Number(process.versions.node.split('.')[0]) >= NEEDED) {
  // The cache in the system's temporary directory halves the time until a command starts.
  module.enableCompileCache?.();
  const { run } = await import(main.href);
  process.exitCode = await run(process.argv.slice(2));
} else {
  const pinned = fileURLToPath(new URL('../../node_modules/.bin/node', import.meta.url));
  if (!existsSync(pinned)) {
    console.error(`logfold needs Node ${NEEDED} or newer, but this is ${process.version}. Run 'npm ci' here first.`);
    process.exit(1);
  }
  const child = spawn(pinned, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], {
    // The channel closes whenever this process ends, even if it is killed.
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
 * Sends this process a SIGHUP when its starter has ended: an older Node, or npx. If the starter is
 * killed, it passes on no signal, and people believe that the command has ended too.
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
