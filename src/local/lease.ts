import { connect, type Socket } from 'node:net';
import { EngineError } from '../errors.ts';
import type { EngineState } from './engine-state.ts';

/** How long a supervisor may take to answer, in milliseconds. */
const ANSWER_WITHIN_MS = 10_000;
/** How long a supervisor may take to stop the engine, in milliseconds. */
const STOP_WITHIN_MS = 30_000;

/**
 * The messages of a supervisor, one per line. A command sends `join TOKEN`, and later `leave`. The
 * supervisor answers `joined`, then sends one of two: `left` when other commands use the engine or
 * the engine has stopped, or `lost REASON` when the engine ended by itself.
 */
export type SupervisorMessage = 'joined' | 'left' | `lost ${string}`;

/** Calls back with each line: its first word, and the rest. */
export function onLines(socket: Socket, listener: (word: string, rest: string) => void): void {
  let text = '';
  socket.setEncoding('utf8').on('data', (part) => {
    const lines = (text + part).split('\n');
    text = lines.pop() ?? '';
    for (const line of lines) {
      const [word = '', ...rest] = line.split(' ');
      listener(word, rest.join(' '));
    }
  });
}

/**
 * A command's lease on the engine: a connection to the supervisor. The operating system closes the
 * connection when the command ends or is killed, so the supervisor needs no list of process ids.
 */
export class Lease {
  readonly state: EngineState;
  readonly #socket: Socket;
  readonly #lost = new AbortController();
  readonly #closed = Promise.withResolvers<void>();
  readonly #joined = Promise.withResolvers<boolean>();
  #leaving = false;
  #released = false;
  #reason = 'its supervisor ended';

  private constructor(state: EngineState) {
    this.state = state;
    this.#socket = connect({ host: '127.0.0.1', port: state.port });
    this.#socket.setTimeout(ANSWER_WITHIN_MS, () => this.#socket.destroy());
    this.#socket.on('error', (error) => {
      this.#reason = error.message;
    });
    this.#socket.on('close', () => this.#close());
    onLines(this.#socket, (word, rest) => this.#receive(word, rest));
    this.#socket.write(`join ${state.token}\n`);
  }

  /**
   * Takes a lease from the supervisor in `state`; undefined if that supervisor is gone or is
   * ending.
   */
  static async take(state: EngineState): Promise<Lease | undefined> {
    const lease = new Lease(state);
    if (!(await lease.#joined.promise)) return undefined;
    lease.#socket.setTimeout(0);
    // The connection alone must not keep a command running.
    lease.#socket.unref();
    return lease;
  }

  /** Aborted with an EngineError if the engine ends before `leave`. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  /**
   * Gives the lease back. Waits until the engine has stopped or other commands use it.
   * @returns false if the supervisor died first, so that the engine may still be running
   */
  async leave(): Promise<boolean> {
    this.#leaving = true;
    this.#socket.ref();
    if (this.#socket.writable) {
      this.#socket.setTimeout(STOP_WITHIN_MS, () => this.#socket.destroy());
      this.#socket.write('leave\n');
    }
    await this.#closed.promise;
    return this.#released;
  }

  #receive(word: string, rest: string): void {
    if (word === 'joined') this.#joined.resolve(true);
    if (word === 'left') this.#released = true;
    if (word === 'lost') this.#reason = rest;
  }

  #close(): void {
    this.#joined.resolve(false);
    this.#closed.resolve();
    if (this.#leaving) return;
    this.#lost.abort(
      new EngineError(`the local engine has ended: ${this.#reason}`, {
        advice: 'Run the command again, which starts a new engine. See engine.log in the data directory',
      }),
    );
  }
}
