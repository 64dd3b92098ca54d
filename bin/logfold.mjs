#!/usr/bin/env node
// Plain JavaScript: an old Node can run this file. In the repository it runs the sources, and an old
// Node starts the newer Node of node_modules. In the installed package it runs the built command line.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import module from 'node:module';
import { fileURLToPath } from 'node:url';

const sources = new URL('../src/cli/main.ts', import.meta.url);
const isPackage = !existsSync(sources);
const main = isPackage ? new URL('../dist/cli/main.js', import.meta.url) : sources;
const installed = new URL(
  isPackage ? '../dist/adapters/platform/installed.js' : '../src/adapters/platform/installed.ts',
  import.meta.url,
);
/** Node runs TypeScript from version 24 on. The built code needs Zstandard in `node:zlib`. */
const needed = isPackage ? '22.15' : '24.0';

endWithStarter();

if (isNewEnough(process.versions.node)) {
  // The cache in the system's temporary directory halves the time until a command starts.
  module.enableCompileCache?.();
  await import(main.href).then(
    async ({ run }) => {
      process.exitCode = await run(process.argv.slice(2));
    },
    async (error) => {
      const { explainMissing } = await import(installed.href);
      const explained = explainMissing(error);
      if (explained === error) throw error;
      console.error(`logfold: ${explained.code}: ${explained.message}`);
      process.exitCode = 1;
    },
  );
} else {
  const pinned = fileURLToPath(new URL('../node_modules/.bin/node', import.meta.url));
  if (isPackage || !existsSync(pinned)) {
    const advice = isPackage ? 'Install a newer Node.' : "Run 'npm ci' here first.";
    console.error(`logfold needs Node ${needed} or newer, but this is ${process.version}. ${advice}`);
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

/** Whether a version such as '22.15.0' is at least the needed one. */
function isNewEnough(version) {
  const [major, minor] = version.split('.').map(Number);
  const [neededMajor, neededMinor] = needed.split('.').map(Number);
  return major > neededMajor || (major === neededMajor && minor >= neededMinor);
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
