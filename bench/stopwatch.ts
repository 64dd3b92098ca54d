/** Adds up the time of several intervals. */
export class Stopwatch {
  #total = 0;
  #since: number | undefined;

  start(): void {
    this.#since = performance.now();
  }

  stop(): void {
    if (this.#since === undefined) throw new Error('the stopwatch is not running');
    this.#total += performance.now() - this.#since;
    this.#since = undefined;
  }

  get seconds(): number {
    return this.#total / 1000;
  }

  /** Adds the time of a step. */
  async time<T>(step: () => T | Promise<T>): Promise<T> {
    this.start();
    const result = await step();
    this.stop();
    return result;
  }

  /** Yields the items. The clock pauses while each item is generated. */
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
