interface Event {
  readonly atMs: number;
  readonly order: number;
  readonly happen: () => Promise<void> | void;
}

/**
 * Virtual time. Events happen one after the other, each once everything that the one before set off has come to wait
 * for another event: so a history depends on nothing but the moments that its events were given.
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

  /** Lets something happen in so many milliseconds. */
  after(ms: number, happen: () => Promise<void> | void): void {
    this.#events.push({ atMs: this.#nowMs + ms, order: this.#scheduled++, happen });
  }

  readonly sleep = (ms: number): Promise<void> => new Promise((resolve) => this.after(ms, resolve));

  /** Lets the next event happen; false where there is none. */
  async step(): Promise<boolean> {
    const next = this.#events.reduce<Event | undefined>(earlier, undefined);
    if (next === undefined) return false;
    this.#events.splice(this.#events.indexOf(next), 1);
    this.#nowMs = next.atMs;
    await next.happen();
    // All promise reactions come before it, however many set off others: nothing in a history waits for anything else.
    await new Promise((resolve) => setImmediate(resolve));
    return true;
  }
}

function earlier(a: Event | undefined, b: Event): Event {
  return a === undefined || b.atMs < a.atMs ? b : a;
}
