import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { mkdtemp, readFile, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { DynamoDBClient } from '@aws-sdk/client-dynamodb';
import { DynamoDBStreamsClient } from '@aws-sdk/client-dynamodb-streams';
import { onTestFinished } from 'vitest';
import { joinEngine } from '../../../src/local/engine.ts';
import { ENGINE_NAMES, engineArguments } from '../../../src/local/engine-program.ts';
import { readEngineState } from '../../../src/local/engine-state.ts';
import { endProcesses } from '../../../src/local/processes.ts';

const MEMBER = fileURLToPath(new URL('./engine-member.ts', import.meta.url));

/** The SDK configuration for a local engine, which accepts any region and key. */
export function clientConfig(endpoint: string) {
  return { endpoint, region: 'us-east-1', credentials: { accessKeyId: 'local', secretAccessKey: 'local' } };
}

/** A new data directory for this test. The test's end kills its engine. */
export async function temporaryDirectory(): Promise<string> {
  const dir = await realpath(await mkdtemp(join(tmpdir(), 'logfold-')));
  onTestFinished(async () => {
    for (const name of ENGINE_NAMES) await endProcesses(engineArguments(name, dir), 5_000);
    await rm(dir, { recursive: true, force: true });
  });
  return dir;
}

export interface SharedEngine {
  readonly db: DynamoDBClient;
  readonly streams: DynamoDBStreamsClient;
  leave(): Promise<void>;
}

/**
 * Clients of a directory's engine. This process leaves the engine at the end of the test or
 * earlier.
 */
export async function startEngine(dir: string): Promise<SharedEngine> {
  const engine = await joinEngine(dir);
  const db = new DynamoDBClient(clientConfig(engine.endpoint));
  const streams = new DynamoDBStreamsClient(clientConfig(engine.endpoint));
  const leave = async () => {
    db.destroy();
    streams.destroy();
    await engine.leave();
  };
  onTestFinished(leave);
  return { db, streams, leave };
}

/** Whether a process runs. A zombie does not run. */
export async function isAlive(pid: number): Promise<boolean> {
  try {
    process.kill(pid, 0);
    if (process.platform !== 'linux') return true;
    return !/^State:\s+Z/m.test(await readFile(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

/** Process ids of supervisor and engine, from the directory's state file. */
export async function enginePids(dir: string): Promise<{ supervisor: number; engine: number }> {
  const state = await readEngineState(dir);
  if (state === undefined) throw new Error(`no engine runs for ${dir}`);
  return { supervisor: state.supervisorPid, engine: state.enginePid };
}

export interface MemberWord {
  readonly endpoint?: string;
  readonly left?: boolean;
  readonly lost?: { readonly code: string; readonly message: string };
  readonly failed?: { readonly code: string; readonly message: string };
}

/** Another process that uses a directory's engine. It is killed at the end of the test. */
export class Member {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #words: AsyncIterator<string>;
  readonly #ended: Promise<number | null>;

  constructor(dir: string, env: NodeJS.ProcessEnv = {}) {
    this.#child = spawn(process.execPath, [MEMBER, dir], { env: { ...process.env, ...env } });
    this.#child.stderr.pipe(process.stderr);
    this.#words = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
    this.#ended = new Promise((resolve) => this.#child.on('exit', resolve));
    onTestFinished(() => {
      this.#child.kill('SIGKILL');
    });
  }

  /** The next message of the process. */
  async hear(): Promise<MemberWord> {
    const { value, done } = await this.#words.next();
    if (done === true) throw new Error('the process ended without a message');
    return JSON.parse(value);
  }

  /**
   * Tells the process to leave.
   * @returns the exit code of a process that ends normally
   */
  async leave(): Promise<number | null> {
    this.#child.stdin.write('leave\n');
    return await this.#ended;
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#ended;
  }
}
