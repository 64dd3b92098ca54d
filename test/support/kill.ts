import { setTimeout as sleep } from 'node:timers/promises';
import { end, startCli } from './cli.ts';
import type { Random } from './random.ts';

/** How long a command takes where it finds nothing to do, and where it does all of its work, in milliseconds. */
export interface Duration {
  readonly idle: number;
  readonly whole: number;
}

/** Moments at which a command is most likely in the middle of its work. */
export class Moments {
  readonly #random: Random;
  #from: number;
  #to: number;

  constructor({ idle, whole }: Duration, random: Random) {
    this.#random = random;
    // A machine that was busy when the one was measured may have been at rest when the other was.
    this.#from = Math.min(idle, whole * 0.8) * 0.95;
    this.#to = whole;
  }

  /** Milliseconds after its start. */
  next(): number {
    return this.#from + (this.#to - this.#from) * this.#random.next();
  }

  /** The command had ended by then: it is to be killed sooner. */
  wasLate(): void {
    this.#to = Math.max(this.#from, this.#to * 0.9);
    this.#from *= 0.95;
  }
}

/** Milliseconds until something is done. */
export async function timed(what: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await what();
  return performance.now() - start;
}

/**
 * Starts a command and kills it after so many milliseconds, unless it has ended by then.
 * @returns whether it was killed
 * @throws Error where it failed by itself
 */
export async function runAndKill(words: readonly string[], afterMs: number): Promise<boolean> {
  const child = startCli(words);
  let stderr = '';
  child.stdout?.resume();
  child.stderr?.on('data', (data: Buffer) => {
    stderr += data.toString();
  });
  await sleep(afterMs);
  await end(child, 'SIGKILL');
  if (child.signalCode === 'SIGKILL') return true;
  if (child.exitCode !== 0) throw new Error(`logfold ${words.join(' ')} ended with ${child.exitCode}: ${stderr}`);
  return false;
}
