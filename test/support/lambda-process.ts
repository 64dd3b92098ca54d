import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const RUNTIME = fileURLToPath(new URL('./lambda-runtime.ts', import.meta.url));

/** The line behind everything that an invocation writes, on each of its two outputs. */
export const END = 'END OF INVOCATION';

/** What the process is told. */
export interface InvocationMessage {
  readonly event: unknown;
  readonly remainingMs: number;
  readonly movedMs: number;
}

/** What it says when an invocation is over: what the handler gave, or why it failed. */
export interface InvocationAnswer {
  readonly answer?: unknown;
  readonly failure?: string;
}

export interface LambdaProcessOptions {
  readonly bundle: string;
  /** `<module>.<export>`, as the template has it. */
  readonly handler: string;
  /** All that there is; nothing of this process's own is added. */
  readonly environment: Readonly<Record<string, string>>;
}

/** A function's bundle in a process of its own, which does one invocation after the other, as a sandbox of Lambda does. */
export class LambdaProcess {
  /** What it has written, line by line, on standard output and standard error alike: Lambda takes both for its log. */
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
   * Invokes the handler once those before are done.
   * @throws Error where it fails, or the process ends
   */
  invoke(message: InvocationMessage): Promise<unknown> {
    const answer = this.#busy.then(() => this.#invoke(message));
    this.#busy = answer.catch(() => undefined);
    return answer;
  }

  /** Ends the process, once what it has written has been read. */
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
