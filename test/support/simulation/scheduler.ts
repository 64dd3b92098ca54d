interface Event {
  readonly atMs: number;
  readonly order: number;
  readonly happen: () => Promise<void> | void;
}

/**
 * Virtual time. Events happen one after the other. Each one happens after all code that the
 * previous event started waits for another event. A history therefore depends only on the times of
 * its events.
 */
export class Scheduler {
  #nowMs: number;
  #scheduled = 0;
  readonly #events: Event[] = [];

  /** @param startMs epoch milliseconds */
  constructor(startMs: number) {
    this.#nowMs = startMs;
  }

  /** Epoch milliseconds. */
  readonly now = (): number => this.#nowMs;

  /** Schedules an event in so many milliseconds. */
  after(ms: number, happen: () => Promise<void> | void): void {
    this.#events.push({ atMs: this.#nowMs + ms, order: this.#scheduled++, happen });
  }

  readonly sleep = (ms: number): Promise<void> => new Promise((resolve) => this.after(ms, resolve));

  /** Runs the next event; false if there is none. */
  async step(): Promise<boolean> {
    const next = this.#events.reduce<Event | undefined>(earlier, undefined);
    if (next === undefined) return false;
    this.#events.splice(this.#events.indexOf(next), 1);
    this.#nowMs = next.atMs;
    await next.happen();
    // `setImmediate` runs after all pending promise reactions, and histories await nothing else.
    await new Promise((resolve) => setImmediate(resolve));
    return true;
  }
}

function earlier(a: Event | undefined, b: Event): Event {
  return a === undefined || b.atMs < a.atMs ? b : a;
}
