/** Adds up the time of several intervals, and the processor time of this process in them. */
export class Stopwatch {
  #total = 0;
  #cpuTotal = 0;
  #since: { readonly ms: number; readonly cpu: NodeJS.CpuUsage } | undefined;

  start(): void {
    this.#since = { cpu: process.cpuUsage(), ms: performance.now() };
  }

  stop(): void {
    if (this.#since === undefined) throw new Error('the stopwatch is not running');
    this.#total += performance.now() - this.#since.ms;
    const { user, system } = process.cpuUsage(this.#since.cpu);
    this.#cpuTotal += user + system;
    this.#since = undefined;
  }

  get seconds(): number {
    return this.#total / 1000;
  }

  /** Processor time of all threads of this process. */
  get cpuSeconds(): number {
    return this.#cpuTotal / 1e6;
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
