#!/usr/bin/env node
// Plain JavaScript, so that a Node too old for the rest can still say so, or hand over to the one that is installed here.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import module from 'node:module';
import { fileURLToPath } from 'node:url';

const NEEDED = 24;
const main = new URL('./main.ts', import.meta.url);

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
    stdio: 'inherit',
    env: { ...process.env, LOGFOLD_HANDED_OVER: 'yes' },
  });
  const signals = ['SIGINT', 'SIGTERM'];
  for (const signal of signals) process.on(signal, () => child.kill(signal));
  child.on('exit', (code, signal) => {
    for (const each of signals) process.removeAllListeners(each);
    if (signal) process.kill(process.pid, signal);
    process.exitCode = code ?? 1;
  });
}
