/**
 * The process that owns the engine of one data directory (its only argument). It gives leases to commands and stops
 * the engine when the last one ends. The command that starts it holds its standard input open until it has a lease
 * itself, and reads from its standard output one line of JSON: whether the engine runs.
 */
import { randomBytes } from 'node:crypto';
import { createServer, type Socket } from 'node:net';
import { LogfoldError, textOf } from '../errors.ts';
import { readCheckpoint } from './checkpoint-store.ts';
import { chooseEngine, dataPath } from './engine-program.ts';
import { removeEngineState, writeEngineState } from './engine-state.ts';
import { onLines, type SupervisorMessage } from './lease.ts';
import { RunningEngine } from './running-engine.ts';
import { indexStreamRecords, trimStreamRecords } from './stream-records.ts';

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
    process.on('SIGTERM', () => void this.#end('lost', 'its keeper was told to end'));
    const program = await chooseEngine(this.#dir, process.env.LOGFOLD_ENGINE);
    this.#engine = RunningEngine.start(program, this.#dir);
    const engine = await this.#engine;
    if (program.name === 'dynoxide') await this.#keepStreamSmall();
    void engine.ended.then((how) => this.#end('lost', `the engine ended (${how})`));
    const port = await this.#listen();
    await writeEngineState(this.#dir, {
      supervisorPid: process.pid,
      port,
      token: this.#token,
      enginePid: engine.pid,
      endpoint: engine.endpoint,
    });
    this.#started = true;
    await say({ started: true });
    this.#endUnlessNeeded();
  }

  /** The engine is as right without an index and with old records, so a failure is for the log alone. */
  async #keepStreamSmall(): Promise<void> {
    const path = dataPath('dynoxide', this.#dir);
    try {
      indexStreamRecords(path);
      const checkpoint = await readCheckpoint(this.#dir);
      if (checkpoint !== undefined) trimStreamRecords(path, checkpoint, Date.now());
    } catch (error) {
      console.error(`keeper ${process.pid}: stream records are not indexed or trimmed:`, error);
    }
  }

  async stopEngine(): Promise<void> {
    const engine = await this.#engine;
    await engine?.stop();
  }

  #listen(): Promise<number> {
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    this.#server.once('error', reject);
    this.#server.listen(0, '127.0.0.1', () => {
      const address = this.#server.address();
      if (address !== null && typeof address === 'object') resolve(address.port);
    });
    return promise;
  }

  #accept(socket: Socket): void {
    // A reset is a command that was killed: 'close' follows.
    socket.on('error', () => {});
    socket.on('close', () => {
      if (this.#leases.delete(socket)) this.#endUnlessNeeded();
    });
    onLines(socket, (word, rest) => {
      if (word === 'join' && rest === this.#token && !this.#ending) {
        this.#leases.add(socket);
        socket.write(line('joined'));
      } else if (word === 'leave' && this.#leases.delete(socket)) {
        if (this.#needed()) socket.end(line('left'));
        else void this.#end('stopped', '', [socket]);
      } else {
        socket.destroy();
      }
    });
  }

  #needed(): boolean {
    return this.#awaited || this.#leases.size > 0;
  }

  #endUnlessNeeded(): void {
    if (this.#started && !this.#needed()) void this.#end('stopped', '');
  }

  /** Stops the engine, tells the others, and ends this process; what is left of the connections closes with it. */
  async #end(word: SupervisorMessage, reason: string, others: readonly Socket[] = []): Promise<void> {
    if (this.#ending) return;
    this.#ending = true;
    this.#server.close();
    if (reason !== '') console.error(`keeper ${process.pid}: ${reason}`);
    await this.stopEngine();
    await removeEngineState(this.#dir);
    const said = [...this.#leases, ...others].map(
      (socket) => new Promise<void>((resolve) => socket.write(line(word, reason), () => resolve())),
    );
    await Promise.all(said);
    process.exit(0);
  }
}

function line(word: SupervisorMessage, reason = ''): string {
  return `${word} ${reason}\n`;
}

function say(answer: unknown): Promise<void> {
  return new Promise((resolve) => process.stdout.write(`${JSON.stringify(answer)}\n`, () => resolve()));
}

const [, , dir = '.'] = process.argv;
const keeper = new Supervisor(dir);
// Whoever started this process may be gone already; its standard input says so.
process.stdout.on('error', () => {});
try {
  await keeper.start();
} catch (error) {
  console.error(error);
  const { code, reason, advice } =
    error instanceof LogfoldError ? error : { code: undefined, reason: textOf(error), advice: undefined };
  await say({ started: false, code, reason, advice });
  await keeper.stopEngine().finally(() => process.exit(1));
}
