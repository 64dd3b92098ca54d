import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const RUNTIME = fileURLToPath(new URL('./lambda-runtime.ts', import.meta.url));

/** The last line of an invocation's output, on each of its two streams. */
export const END = 'END OF INVOCATION';

/** The message that starts an invocation. */
export interface InvocationMessage {
  readonly event: unknown;
  readonly remainingMs: number;
  readonly movedMs: number;
}

/** The message that ends an invocation, with the handler's result or error. */
export interface InvocationAnswer {
  readonly answer?: unknown;
  readonly failure?: string;
}

export interface LambdaProcessOptions {
  readonly bundle: string;
  /** `<module>.<export>`, as in the template. */
  readonly handler: string;
  /** The whole environment of the process; no variable of this process is added. */
  readonly environment: Readonly<Record<string, string>>;
}

/**
 * A function's bundle in a separate process. Like a Lambda sandbox, it runs one invocation after
 * the other.
 */
export class LambdaProcess {
  /** Lines of standard output and standard error. Lambda logs both. */
  readonly lines: string[] = [];
  readonly #child: ChildProcess;
  readonly #closed: Promise<unknown>;
  #unread = 0;
  #allRead = Promise.withResolvers<void>();
  #busy: Promise<unknown> = Promise.resolve();

  constructor({ bundle, handler, environment }: LambdaProcessOptions) {
    const name = handler.slice(handler.lastIndexOf('.') + 1);
    this.#child = fork(RUNTIME, [bundle, name], { env: environment, stdio: ['ignore', 'pipe', 'pipe', 'ipc'] });
    this.#closed = once(this.#child, 'close');
    const { stdout, stderr } = this.#child;
    for (const input of [stdout, stderr]) {
      if (input !== null) createInterface({ input }).on('line', (line) => this.#read(line));
    }
  }

  /**
   * Invokes the handler when all earlier invocations are done.
   * @throws Error if the invocation fails or the process ends
   */
  invoke(message: InvocationMessage): Promise<unknown> {
    const answer = this.#busy.then(() => this.#invoke(message));
    this.#busy = answer.catch(() => undefined);
    return answer;
  }

  /** Stops the process after its output has been read. */
  async stop(): Promise<void> {
    this.#child.kill();
    await this.#closed;
  }

  #read(line: string): void {
    if (line !== END) this.lines.push(line);
    else if (--this.#unread === 0) this.#allRead.resolve();
  }

  async #invoke(message: InvocationMessage): Promise<unknown> {
    const answer = Promise.withResolvers<InvocationAnswer>();
    const onMessage = (said: InvocationAnswer): void => answer.resolve(said);
    const onClose = (): void =>
      answer.reject(new Error(`the function's process ended: ${this.lines.slice(-20).join('\n')}`));
    this.#child.once('message', onMessage).once('close', onClose);
    this.#unread = 2;
    this.#allRead = Promise.withResolvers();
    try {
      this.#child.send(message, (error) => error === null || answer.reject(error));
      const { answer: given, failure } = await answer.promise;
      await this.#allRead.promise;
      if (failure !== undefined) throw new Error(failure);
      return given;
    } finally {
      this.#child.off('message', onMessage).off('close', onClose);
    }
  }
}
