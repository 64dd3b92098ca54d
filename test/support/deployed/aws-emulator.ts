import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, open, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../stores/engine.ts';

/** The root user of the emulator's account. Every request of the root user is allowed. */
export const EMULATOR_CREDENTIALS = { accessKeyId: 'test', secretAccessKey: 'test' };
export const EMULATOR_REGION = 'us-east-1';

/** AWS emulated by MiniStack in a separate process on 127.0.0.1. */
export interface AwsEmulator {
  /** One address for all services. */
  readonly endpoint: string;
  /** A directory that is deleted when the emulator stops. */
  readonly directory: string;
  /** The output of the emulator and of the functions so far. */
  log(): Promise<string>;
  stop(): Promise<void>;
}

/**
 * Starts an empty MiniStack on a free port. It enforces the policies of roles and buckets.
 * @param program path of the installed program
 * @throws Error with the emulator's output if it ends before it answers
 */
export async function startAwsEmulator(program: string): Promise<AwsEmulator> {
  const directory = await mkdtemp(join(tmpdir(), 'logfold-stack-'));
  const port = await freePort();
  const endpoint = `http://127.0.0.1:${port}`;
  const logFile = join(directory, 'emulator.log');
  const output = await open(logFile, 'w');
  const child = spawn(program, [], {
    stdio: ['ignore', output.fd, output.fd],
    cwd: directory,
    // Functions inherit the emulator's environment, so pass nothing of this process's environment.
    env: {
      // The emulator runs functions with the first `node` in PATH.
      PATH: [dirname(process.execPath), process.env.PATH ?? ''].join(delimiter),
      TMPDIR: directory,
      BIND_HOST: '127.0.0.1',
      MINISTACK_HOST: '127.0.0.1',
      GATEWAY_PORT: String(port),
      MINISTACK_REGION: EMULATOR_REGION,
      AUTH: 'true',
      AWS_ACCESS_KEY_ID: EMULATOR_CREDENTIALS.accessKeyId,
      AWS_SECRET_ACCESS_KEY: EMULATOR_CREDENTIALS.secretAccessKey,
    },
  });
  await once(child, 'spawn');
  const ended = once(child, 'exit');
  const log = () => readFile(logFile, 'utf8');
  const stop = async () => {
    child.kill();
    await ended;
    await output.close();
    await rm(directory, { recursive: true, force: true });
  };
  try {
    await answering(endpoint, child);
  } catch (cause) {
    const said = await log();
    await stop();
    throw new Error(`the emulator did not start:\n${said}`, { cause });
  }
  return { endpoint, directory, log, stop };
}

async function answering(endpoint: string, child: ChildProcess): Promise<void> {
  for (;;) {
    if (child.exitCode !== null) throw new Error(`the emulator ended with code ${child.exitCode}`);
    const answer = await fetch(`${endpoint}/_ministack/health`).catch(() => undefined);
    if (answer?.ok === true) return;
    await sleep(100);
  }
}
