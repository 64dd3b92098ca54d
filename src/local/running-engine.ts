import { type ChildProcess, spawn } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { createServer } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { EngineError } from '../errors.ts';
import { dataPath, type EngineProgram } from './engine-program.ts';

/** How long an engine may take until it serves, in milliseconds: Java on a busy machine takes its time. */
const SERVE_WITHIN_MS = 60_000;
const SERVE_POLL_MS = 10;
/** How long an engine may take to end by itself before it is killed, in milliseconds. */
const STOP_GRACE_MS = 5_000;
/** Somebody else may take the free port first. */
const MAX_PORTS = 3;

/** An engine as a child process of this one. */
export class RunningEngine {
  readonly endpoint: string;
  readonly pid: number;
  /** How it ended; resolves when it has. */
  readonly ended: Promise<string>;
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess, pid: number, port: number) {
    this.#child = child;
    this.pid = pid;
    this.endpoint = `http://127.0.0.1:${port}`;
    this.ended = new Promise((resolve) => {
      child.on('exit', (code, signal) => resolve(signal ?? `exit code ${code}`));
    });
  }

  /**
   * Starts the engine on a free port and waits until it serves. What it prints goes to this process's standard error.
   * @throws EngineError where it ends before it serves, or does not serve within a minute
   */
  static async start(program: EngineProgram, dir: string): Promise<RunningEngine> {
    if (program.name === 'dynamodb-local') await mkdir(dataPath(program.name, dir), { recursive: true });
    for (let ports = 1; ; ports++) {
      const port = await freePort();
      const engine = await RunningEngine.#spawn(program, port);
      const how = await engine.#serves();
      if (how === undefined) return engine;
      if (ports < MAX_PORTS) continue;
      throw new EngineError(`${program.name} did not serve (${how})`, { advice: `See ${dir}/engine.log` });
    }
  }

  static async #spawn(program: EngineProgram, port: number): Promise<RunningEngine> {
    const child = spawn(program.file, program.args(port), { stdio: ['ignore', 2, 2] });
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    child.on('spawn', resolve);
    child.on('error', reject);
    try {
      await promise;
    } catch (cause) {
      throw new EngineError(`${program.file} cannot be run`, { cause });
    }
    if (child.pid === undefined) throw new EngineError(`${program.file} has no process id`);
    return new RunningEngine(child, child.pid, port);
  }

  /** Stops it, by force where it takes longer than 5 seconds. */
  async stop(): Promise<void> {
    this.#child.kill('SIGTERM');
    const kill = globalThis.setTimeout(() => this.#child.kill('SIGKILL'), STOP_GRACE_MS);
    await this.ended;
    clearTimeout(kill);
  }

  /** Undefined as soon as it serves; why not, where it never will. */
  async #serves(): Promise<string | undefined> {
    let how: string | undefined;
    void this.ended.then((end) => {
      how = end;
    });
    for (const deadline = Date.now() + SERVE_WITHIN_MS; how === undefined; await setTimeout(SERVE_POLL_MS)) {
      if (await answers(this.endpoint)) return how;
      if (Date.now() < deadline) continue;
      await this.stop();
      return `no answer within ${SERVE_WITHIN_MS} ms`;
    }
    return how;
  }
}

async function answers(endpoint: string): Promise<boolean> {
  try {
    // Any answer will do: without a signed request some engines refuse, but they serve.
    await fetch(endpoint, { signal: AbortSignal.timeout(1_000) });
    return true;
  } catch {
    return false;
  }
}

function freePort(): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const server = createServer();
  server.once('error', reject);
  server.listen(0, '127.0.0.1', () => {
    const address = server.address();
    server.close(() => {
      if (address !== null && typeof address === 'object') resolve(address.port);
    });
  });
  return promise;
}
