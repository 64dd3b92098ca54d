import { connect, type Socket } from 'node:net';
import { EngineError } from '../errors.ts';
import type { EngineState } from './engine-state.ts';

/** How long a keeper may take to answer, in milliseconds: it sits on this machine and does nothing else. */
const ANSWER_WITHIN_MS = 10_000;
/** How long the engine may take to stop, in milliseconds. */
const STOP_WITHIN_MS = 30_000;

/**
 * What commands and keeper say to each other, a line each. A command says `join TOKEN` and, when it is done, `leave`.
 * The keeper answers `joined`, and then once: `left` where others still need the engine, `stopped` where it has
 * stopped, or unasked `lost REASON` where the engine ended by itself.
 */
export type SupervisorMessage = 'joined' | 'left' | 'stopped' | 'lost';

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
 * A command's hold on the engine: a connection to the keeper. The operating system closes it when the command ends,
 * however it ends, so the keeper needs no list of process ids.
 */
export class Lease {
  readonly state: EngineState;
  readonly #socket: Socket;
  readonly #lost = new AbortController();
  readonly #closed = Promise.withResolvers<void>();
  readonly #joined = Promise.withResolvers<boolean>();
  #leaving = false;
  #released = false;
  #reason = 'its keeper ended';

  private constructor(state: EngineState) {
    this.state = state;
    this.#socket = connect({ host: '127.0.0.1', port: state.port });
    this.#socket.setTimeout(ANSWER_WITHIN_MS, () => this.#socket.destroy());
    this.#socket.on('error', (error) => {
      this.#reason = error.message;
    });
    this.#socket.on('close', () => this.#close());
    onLines(this.#socket, (word, rest) => this.#hear(word, rest));
    this.#socket.write(`join ${state.token}\n`);
  }

  /** Takes a lease from the keeper that the state describes; undefined where it is gone, going, or another's. */
  static async take(state: EngineState): Promise<Lease | undefined> {
    const lease = new Lease(state);
    if (!(await lease.#joined.promise)) return undefined;
    lease.#socket.setTimeout(0);
    // The connection alone keeps no command from ending.
    lease.#socket.unref();
    return lease;
  }

  /** Aborted with an EngineError once the engine is gone though this command still holds its lease. */
  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  /**
   * Gives the lease back and waits until the engine is in others' hands or has stopped.
   * @returns false where the keeper died before it could say so: something may be left running
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

  #hear(word: string, rest: string): void {
    if (word === 'joined') this.#joined.resolve(true);
    if (word === 'left' || word === 'stopped') this.#released = true;
    if (word === 'lost') this.#reason = rest;
  }

  #close(): void {
    this.#joined.resolve(false);
    this.#closed.resolve();
    if (this.#leaving) return;
    this.#lost.abort(
      new EngineError(`the local engine is gone: ${this.#reason}`, {
        advice: "Run the command again: it starts the engine afresh. The data directory's engine.log says more",
      }),
    );
  }
}
