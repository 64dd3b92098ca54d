/**
 * The process that runs the engine of one data directory, its only argument. It grants leases to
 * commands, and stops the engine when the last command ends. The command that starts it holds its
 * standard input open until that command has a lease. The supervisor prints one line of JSON, which
 * says whether the engine runs.
 */
import { randomBytes } from 'node:crypto';
import { createServer, type Socket } from 'node:net';
import { translateDiskFull } from '../adapters/filesystem/disk-full.ts';
import { LogfoldError, textOf } from '../errors.ts';
import { readCheckpoint } from './checkpoint-store.ts';
import { chooseEngine, dataPath } from './engine-program.ts';
import { removeEngineState, writeEngineState } from './engine-state.ts';
import { onLines, type SupervisorMessage } from './lease.ts';
import { listenLocally, RunningEngine } from './running-engine.ts';
import { indexStreamRecords, shrinkDatabase, trimStreamRecords } from './stream-records.ts';

class Supervisor {
  readonly #dir: string;
  readonly #token = randomBytes(16).toString('hex');
  readonly #leases = new Set<Socket>();
  readonly #server = createServer((socket) => this.#accept(socket));
  #engine: Promise<RunningEngine> | undefined;
  #started = false;
  /** The command that started this process waits for its lease. */
  #awaited = true;
  #ending = false;

  constructor(dir: string) {
    this.#dir = dir;
  }

  async start(): Promise<void> {
    process.stdin.resume().on('close', () => {
      this.#awaited = false;
      this.#endUnlessNeeded();
    });
    process.on('SIGTERM', () => void this.#end('its supervisor got SIGTERM'));
    const program = await chooseEngine(this.#dir, process.env.LOGFOLD_ENGINE);
    if (program.name === 'dynoxide') this.#shrink();
    this.#engine = RunningEngine.start(program, this.#dir);
    const engine = await this.#engine;
    if (program.name === 'dynoxide') await this.#maintainStreamRecords();
    void engine.ended.then((reason) => this.#end(`the engine ended (${reason})`));
    const port = await listenLocally(this.#server);
    await writeEngineState(this.#dir, {
      supervisorPid: process.pid,
      port,
      token: this.#token,
      enginePid: engine.pid,
      endpoint: engine.endpoint,
    });
    this.#started = true;
    await print({ started: true });
    this.#endUnlessNeeded();
  }

  /** Only makes the file smaller, so a failure is just logged. */
  #shrink(): void {
    try {
      const bytes = shrinkDatabase(dataPath('dynoxide', this.#dir));
      if (bytes > 0) console.error(`supervisor ${process.pid}: the database is ${bytes} bytes smaller`);
    } catch (error) {
      console.error(`supervisor ${process.pid}: cannot shrink the database:`, error);
    }
  }

  /** Only makes the engine faster, so a failure is just logged. */
  async #maintainStreamRecords(): Promise<void> {
    const path = dataPath('dynoxide', this.#dir);
    try {
      indexStreamRecords(path);
      for (const stream of ['stream', 'revisions'] as const) {
        const checkpoint = await readCheckpoint(this.#dir, stream);
        if (checkpoint !== undefined) trimStreamRecords(path, checkpoint, Date.now());
      }
    } catch (error) {
      console.error(`supervisor ${process.pid}: cannot index or trim stream records:`, error);
    }
  }

  async stopEngine(): Promise<void> {
    const engine = await this.#engine;
    await engine?.stop();
  }

  #accept(socket: Socket): void {
    // A killed command resets its connection. 'close' follows.
    socket.on('error', () => {});
    socket.on('close', () => {
      if (this.#leases.delete(socket)) this.#endUnlessNeeded();
    });
    onLines(socket, (word, rest) => {
      if (word === 'join' && rest === this.#token && !this.#ending) {
        this.#leases.add(socket);
        void send(socket, 'joined');
      } else if (word === 'leave' && this.#leases.delete(socket)) {
        if (this.#isNeeded()) void send(socket, 'left').then(() => socket.end());
        else void this.#end(undefined, socket);
      } else {
        socket.destroy();
      }
    });
  }

  #isNeeded(): boolean {
    return this.#awaited || this.#leases.size > 0;
  }

  #endUnlessNeeded(): void {
    if (this.#started && !this.#isNeeded()) void this.#end();
  }

  /**
   * Stops the engine, tells all commands, and ends this process, which closes all connections.
   * @param lost the reason why commands lose the engine
   * @param leaving the command that left last
   */
  async #end(lost?: string, leaving?: Socket): Promise<void> {
    if (this.#ending) return;
    this.#ending = true;
    this.#server.close();
    if (lost !== undefined) console.error(`supervisor ${process.pid}: ${lost}`);
    await this.stopEngine();
    await removeEngineState(this.#dir);
    await Promise.all([...this.#leases].map((socket) => send(socket, `lost ${lost}`)));
    if (leaving !== undefined) await send(leaving, 'left');
    process.exit(0);
  }
}

function send(socket: Socket, message: SupervisorMessage): Promise<void> {
  return new Promise((resolve) => socket.write(`${message}\n`, () => resolve()));
}

function print(answer: unknown): Promise<void> {
  return new Promise((resolve) => process.stdout.write(`${JSON.stringify(answer)}\n`, () => resolve()));
}

const [, , dir = '.'] = process.argv;
const supervisor = new Supervisor(dir);
// The command that started this process may be killed. Its end also closes standard input.
process.stdout.on('error', () => {});
try {
  await supervisor.start();
} catch (thrown) {
  const error = translateDiskFull(thrown, dir);
  console.error(error);
  const { code, reason, advice } =
    error instanceof LogfoldError ? error : { code: undefined, reason: textOf(error), advice: undefined };
  await print({ started: false, code, reason, advice });
  await supervisor.stopEngine().finally(() => process.exit(1));
}
