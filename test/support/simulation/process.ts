import type { Random } from '../models/random.ts';
import type { Interceptor } from '../stores/interceptor.ts';
import type { Scheduler } from './scheduler.ts';

/** Probability of each fault at each operation. */
export interface FaultRates {
  /** The process dies, and the operation never takes effect. */
  readonly crashBefore: number;
  /** The operation takes effect, and the process dies before it gets the answer. */
  readonly crashAfter: number;
  /** The operation is refused and certainly has no effect. */
  readonly throttle: number;
  /** The operation takes effect, and its answer is lost. */
  readonly timeout: number;
  /** The operation or its answer takes up to two minutes. */
  readonly delay: number;
  /**
   * The operation takes effect, its answer is lost, and the SDK sends it again. Only writes are
   * sent again.
   */
  readonly resend: number;
}

export const NO_FAULTS: FaultRates = { crashBefore: 0, crashAfter: 0, throttle: 0, timeout: 0, delay: 0, resend: 0 };

/** Writes of one request each, which an SDK sends again. */
const RESENT = new Set([
  'putEntries',
  'startSegment',
  'putAhead',
  'updateAttributes',
  'completeSnapshot',
  'replaceRoot',
  'advanceLastSnapshot',
  'setArchive',
  'setExpiration',
  'setEntryExpiry',
  'deleteEntries',
  'expireEntries',
  'unexpireEntries',
  'putItems',
  'putSegment',
  'putMappedSegment',
  'putMappedItems',
  'beginSegment',
  'expireItems',
  'unexpireItems',
  'setItemExpiry',
  'applicationPut',
  'takeGroup',
  'saveGroup',
  'releaseGroup',
  'put',
  'delete',
]);

/** Longest time before the SDK sends a request again, in milliseconds. */
const RESEND_MS = 30_000;

/** A fault that a history injects. */
export class InjectedFault extends Error {
  /** True if the operation certainly changed nothing. */
  readonly harmless: boolean;
  constructor(operation: string, harmless: boolean) {
    super(`${operation} ${harmless ? 'was throttled' : 'timed out'}`);
    this.harmless = harmless;
  }
}

export interface ProcessOptions {
  readonly name: string;
  readonly scheduler: Scheduler;
  readonly random: Random;
  /** Called at each operation, because faults may end during the life of a process. */
  readonly faults: () => FaultRates;
  readonly trace: (line: string) => void;
  /** Largest error of its clock in either direction, in milliseconds. */
  readonly clockErrorMs: number;
}

/** Probability that an operation sets the clock to another error. */
const CLOCK_JUMPS = 0.002;

/**
 * A simulated process. Every operation of a port takes time and may fail. After a crash, no
 * operation ever returns, so that no code of the process runs, not even a `finally`.
 */
export class Process {
  readonly name: string;
  /** Resolves when the process crashes. */
  readonly crashed: Promise<void>;
  readonly #options: ProcessOptions;
  #dead = false;
  #clockOffMs = 0;
  #die: () => void = () => undefined;

  constructor(options: ProcessOptions) {
    this.name = options.name;
    this.#options = options;
    this.crashed = new Promise((resolve) => {
      this.#die = resolve;
    });
    this.#setClock();
  }

  /** This process's view of the time, in epoch milliseconds. */
  readonly now = (): number => this.#options.scheduler.now() + this.#clockOffMs;

  #setClock(): void {
    const { clockErrorMs, random } = this.#options;
    this.#clockOffMs = clockErrorMs === 0 || random.chance(0.5) ? 0 : random.integer(-clockErrorMs, clockErrorMs);
  }

  /** Runs before each request of the process, without delay. */
  beside: ((operation: string) => Promise<void>) | undefined;

  readonly intercept: Interceptor = <T>(operation: string, effect: () => Promise<T>): Promise<T> => {
    const { beside } = this;
    return beside === undefined
      ? this.#request(operation, effect)
      : beside(operation).then(() => this.#request(operation, effect));
  };

  #request<T>(operation: string, effect: () => Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const { scheduler, clockErrorMs, random } = this.#options;
      if (clockErrorMs > 0 && random.chance(CLOCK_JUMPS)) this.#setClock();
      const alive = (complete: () => void) => () => {
        if (!this.#dead) complete();
      };
      const drawn = this.#fault();
      const fault = drawn === 'resend' && !RESENT.has(operation) ? undefined : drawn;
      const answer = async (): Promise<void> => {
        if (this.#dead) return;
        if (fault !== undefined) this.#note(`${operation}: ${fault}`);
        if (fault === 'crashBefore') return this.#crash();
        if (fault === 'throttle') return reject(new InjectedFault(operation, true));
        const complete = await effect().then(
          (value) => () => resolve(value),
          (error: unknown) => () => reject(error),
        );
        this.#note(operation);
        if (fault === 'crashAfter') return this.#crash();
        if (fault === 'timeout') return reject(new InjectedFault(operation, false));
        scheduler.after(this.#latency(fault === 'delay'), alive(complete));
      };
      const send = async (): Promise<void> => {
        if (fault !== 'resend' || this.#dead) return answer();
        await effect().catch(() => undefined);
        scheduler.after(random.integer(1, RESEND_MS), answer);
      };
      scheduler.after(this.#latency(fault === 'delay'), send);
    });
  }

  #fault(): keyof FaultRates | undefined {
    const { faults, random } = this.#options;
    let rest = random.next();
    for (const name of ['crashBefore', 'crashAfter', 'throttle', 'timeout', 'delay', 'resend'] as const) {
      rest -= faults()[name];
      if (rest < 0) return name;
    }
    return undefined;
  }

  #latency(delayed: boolean): number {
    return this.#options.random.integer(1, delayed ? 120_000 : 50);
  }

  #note(what: string): void {
    this.#options.trace(`${this.#options.scheduler.now()} ${this.name} ${what}`);
  }

  #crash(): void {
    this.#dead = true;
    this.#die();
  }
}
