/** Adds up time, in seconds, with pauses for what must not count. */
export class Stopwatch {
  #total = 0;
  #since: number | undefined;

  start(): void {
    this.#since = performance.now();
  }

  stop(): void {
    if (this.#since === undefined) throw new Error('the stopwatch does not run');
    this.#total += performance.now() - this.#since;
    this.#since = undefined;
  }

  get seconds(): number {
    return this.#total / 1000;
  }

  /** Adds the time of one step. */
  async time<T>(step: () => T | Promise<T>): Promise<T> {
    this.start();
    const result = await step();
    this.stop();
    return result;
  }

  /** Hands items on, paused while each is made. */
  *pausedBy<T>(items: Iterable<T>): Generator<T> {
    this.stop();
    for (const item of items) {
      this.start();
      yield item;
      this.stop();
    }
    this.start();
  }
}
