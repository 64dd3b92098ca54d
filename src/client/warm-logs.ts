import pLimit from 'p-limit';
import type { LogId } from '../ids/log-id.ts';
import type { Reducer } from '../state/reducer.ts';
import type { FollowerDeps } from './follower.ts';
import { WarmLog } from './warm-log.ts';

/** Memory of a log beside its state and its entries, about. */
const LOG_BYTES = 20_000;
/** The most logs that are loaded at the same time. */
const MAX_LOADS = 16;

interface Held {
  readonly reducer: Reducer;
  readonly log: Promise<WarmLog>;
  bytes: number;
}

/**
 * The logs that a server keeps in memory, with one reducer each. Those that were not used for
 * longest make room for others.
 */
export class WarmLogs {
  readonly #deps: FollowerDeps;
  readonly #maxBytes: number;
  readonly #loads = pLimit(MAX_LOADS);
  /** The log that was used last comes last. */
  readonly #held = new Map<LogId, Held>();
  #bytes = 0;

  /** @param maxBytes memory for the logs, beside the chunks that all of them share */
  constructor(deps: FollowerDeps, maxBytes: number) {
    this.#deps = deps;
    this.#maxBytes = maxBytes;
  }

  /** The memory that the logs take, about. */
  get bytes(): number {
    return this.#bytes;
  }

  /** How many logs are in memory. */
  get size(): number {
    return this.#held.size;
  }

  /**
   * Runs a request that appends to logs, while no other request of this process does so. Loads
   * those that are not in memory.
   * @param logs different ones
   * @throws the errors of {@link WarmLog.load} and {@link WarmLog.exclusive}
   */
  async run<T>(reducer: Reducer, logs: readonly LogId[], work: (warm: readonly WarmLog[]) => Promise<T>): Promise<T> {
    const held = logs.map((log) => this.#hold(reducer, log));
    try {
      const warm = await Promise.all(held.map(({ log }) => log));
      // In one order everywhere, so that two requests cannot wait for each other.
      const ordered = [...warm].sort((one, other) => (one.log < other.log ? -1 : 1));
      const whole = ordered.reduceRight<() => Promise<T>>(
        (next, log) => () => log.exclusive(next),
        () => work(warm),
      );
      return await whole().finally(() => {
        for (const [i, { log, bytes }] of warm.entries()) this.#measure(log, held[i], bytes);
      });
    } finally {
      this.#makeRoom();
    }
  }

  #hold(reducer: Reducer, log: LogId): Held {
    const found = this.#held.get(log);
    if (found?.reducer.name === reducer.name && found.reducer.version === reducer.version) {
      this.#held.delete(log);
      this.#held.set(log, found);
      return found;
    }
    this.#forget(log, found);
    const held: Held = {
      reducer,
      log: this.#loads(() => WarmLog.load({ ...this.#deps, reducer }, log)),
      bytes: LOG_BYTES,
    };
    this.#held.set(log, held);
    this.#bytes += LOG_BYTES;
    held.log.catch(() => this.#forget(log, held));
    return held;
  }

  /** A log that was forgotten in the meantime counts no more. */
  #measure(log: LogId, held: Held | undefined, bytes: number): void {
    if (held === undefined || this.#held.get(log) !== held) return;
    this.#bytes += LOG_BYTES + bytes - held.bytes;
    held.bytes = LOG_BYTES + bytes;
  }

  #makeRoom(): void {
    for (const [log, held] of this.#held) {
      if (this.#bytes <= this.#maxBytes) return;
      this.#forget(log, held);
    }
  }

  #forget(log: LogId, held: Held | undefined): void {
    if (held === undefined || this.#held.get(log) !== held) return;
    this.#held.delete(log);
    this.#bytes -= held.bytes;
  }
}
