import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { EngineError } from '../errors.ts';
import { dataPath, type EngineProgram } from './engine-program.ts';

/** How long an engine may take until it serves, in milliseconds. Java is slow on a busy machine. */
const SERVE_WITHIN_MS = 60_000;
const SERVE_POLL_MS = 10;
/** How long an engine may take to stop before it is killed, in milliseconds. */
const STOP_GRACE_MS = 5_000;
/** Another process may take a free port first. */
const MAX_PORTS = 3;

/** An engine as a child process of this one. */
export class RunningEngine {
  readonly endpoint: string;
  readonly pid: number;
  /** Resolves with the reason when the process has ended. */
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
   * Starts the engine on a free port and waits until it serves. Its output goes to the standard
   * error of this process.
   * @throws EngineError if it does not run, ends before it serves, or does not serve within a
   *   minute, on each of three ports
   */
  static async start(program: EngineProgram, dir: string): Promise<RunningEngine> {
    if (program.name === 'dynamodb-local') await mkdir(dataPath(program.name, dir), { recursive: true });
    for (let ports = 1; ; ports++) {
      const engine = await RunningEngine.#spawn(program, await freePort());
      const failure = await engine.#waitUntilServing();
      if (failure === undefined) return engine;
      if (ports < MAX_PORTS) continue;
      throw new EngineError(`${program.name} did not serve (${failure})`, { advice: `See ${dir}/engine.log` });
    }
  }

  static async #spawn(program: EngineProgram, port: number): Promise<RunningEngine> {
    const child = spawn(program.file, program.args(port), { stdio: ['ignore', 2, 2] });
    try {
      await once(child, 'spawn');
    } catch (cause) {
      throw new EngineError(`'${program.file}' cannot be run`, { cause });
    }
    if (child.pid === undefined) throw new EngineError(`'${program.file}' has no process id`);
    return new RunningEngine(child, child.pid, port);
  }

  /** Stops the engine. Kills it if it still runs after 5 seconds. */
  async stop(): Promise<void> {
    this.#child.kill('SIGTERM');
    const kill = globalThis.setTimeout(() => this.#child.kill('SIGKILL'), STOP_GRACE_MS);
    await this.ended;
    clearTimeout(kill);
  }

  /** Returns undefined when the engine serves, or the reason why it does not. */
  async #waitUntilServing(): Promise<string | undefined> {
    let end: string | undefined;
    void this.ended.then((reason) => {
      end = reason;
    });
    for (const deadline = Date.now() + SERVE_WITHIN_MS; Date.now() < deadline; await setTimeout(SERVE_POLL_MS)) {
      // If the engine has ended, another process answers on its port.
      if (end !== undefined || (await answers(this.endpoint))) return end;
    }
    await this.stop();
    return `no answer within ${SERVE_WITHIN_MS} ms`;
  }
}

async function answers(endpoint: string): Promise<boolean> {
  try {
    // Any answer proves that the engine serves. Some engines refuse an unsigned request.
    await fetch(endpoint, { signal: AbortSignal.timeout(1_000) });
    return true;
  } catch {
    return false;
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  const port = await listenLocally(server);
  server.close();
  return port;
}

/** Lets a server listen on a free port of 127.0.0.1. Returns the port. */
export async function listenLocally(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  if (address === null || typeof address === 'string') throw new EngineError('the server has no port');
  return address.port;
}
