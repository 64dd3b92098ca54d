/**
 * A process's clock that tests move forward, so that days pass immediately. It affects all code
 * that asks `Date` for the time, also the servers in this process. Timers are unaffected.
 */
export class MovedClock {
  /** How far this clock is ahead of the machine's clock, in milliseconds. */
  movedMs = 0;
  /** The machine's clock, in epoch milliseconds. */
  readonly realNow: () => number;
  readonly #real = Date;

  /** Replaces the global `Date` until `restore`. */
  constructor() {
    const real = this.#real;
    this.realNow = real.now;
    const now = (): number => real.now() + this.movedMs;
    globalThis.Date = new Proxy(real, {
      construct: (target, args, newTarget) => Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget),
      get: (target, key) => (key === 'now' ? now : Reflect.get(target, key)),
    });
  }

  restore(): void {
    globalThis.Date = this.#real;
  }
}
