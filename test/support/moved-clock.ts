/**
 * A process's clock, which tests move on so that days pass at once: for everything that asks `Date` for the time, the
 * servers in this process among them. Timers keep theirs.
 */
export class MovedClock {
  /** How far it is ahead of the machine's clock, in milliseconds. */
  movedMs = 0;
  /** The machine's clock, in epoch milliseconds. */
  readonly realNow: () => number;
  readonly #real = Date;

  /** From now on `Date` is this clock's, until `restore`. */
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
