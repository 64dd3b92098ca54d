import type { LogId } from '../../ids/log-id.ts';
import type { ScanPlace } from '../../log/log-store.ts';

/**
 * The point at which to continue each part of the Segment table: at its beginning, after a segment,
 * or not at all. If all parts are at their end, only gc candidates remain.
 */
export type SweepRest = readonly ('beginning' | 'end' | ScanPlace)[];

export interface SweepResult {
  readonly logs: number;
  /** Jobs that were sent. */
  readonly jobs: number;
  /** Due jobs that were held back. */
  readonly waiting: number;
  /** Failures that `onFailure` was called with: logs, and segments or names of unknown logs. */
  readonly failed: number;
  /** Stopped logs with pending snapshots. */
  readonly stopped: number;
  /**
   * Snapshot jobs that the stream should have sent: their entries are older than `youngSeconds` and
   * less than a day old. 0 if `youngSeconds` is 0, because the stream may still send them.
   */
  readonly missed: number;
  /**
   * Creation time of the oldest pending snapshot, however young, in epoch seconds by the client's
   * clock; undefined if there is none. That of a mapped log counts from the time at which the
   * policy's minutes are over, and not at all if its items have no time.
   */
  readonly oldest?: number | undefined;
  /**
   * When the oldest archive, expire or collect job became due, sent or not, in epoch seconds;
   * undefined if none is.
   */
  readonly oldestDue?: number | undefined;
  /**
   * The most entries of a log since its newest complete snapshot; undefined without a division
   * policy.
   */
  readonly longestTail?: number | undefined;
  /**
   * Logs that are not stopped and whose newest complete snapshot is more than twice as old as the
   * division policy allows, in entries or bytes that are not young; undefined without a policy.
   */
  readonly undivided?: number | undefined;
  /**
   * Parts that other programs wrote, and the sweep passed over; undefined if there is none. Counts
   * only those that the sweep meets without reading whole logs.
   */
  readonly foreign?: number | undefined;
  /**
   * Logs that end before the last of their entries that the feed has; undefined without a feed, or
   * if it could not be written.
   */
  readonly feedAhead?: number | undefined;
  /** The part of the work that the sweep had no time for; undefined if it is complete. */
  readonly rest?: SweepRest | undefined;
}

/** Counts what a sweep finds and sends. */
export class SweepTotals {
  logs = 0;
  jobs = 0;
  waiting = 0;
  stopped = 0;
  missed = 0;
  foreign = 0;
  readonly #failed = new Set<LogId>();
  /** Segments and names whose log is unknown. */
  #unknown = 0;
  #oldest: number | undefined;
  #oldestDue: number | undefined;
  #longestTail: number | undefined;
  #undivided: number | undefined;

  /** @returns whether it is the first failure of its log */
  fail(log: LogId | undefined): boolean {
    if (log === undefined) {
      this.#unknown++;
      return true;
    }
    const known = this.#failed.size;
    return this.#failed.add(log).size > known;
  }

  /** @param since when a pending snapshot was asked for, in epoch seconds; undefined if unknown */
  pending(since: number | undefined): void {
    if (since !== undefined) this.#oldest = Math.min(since, this.#oldest ?? since);
  }

  /** @param ms when a job became due, in epoch milliseconds */
  dueSince(ms: number): void {
    this.#oldestDue = Math.min(ms / 1000, this.#oldestDue ?? Number.POSITIVE_INFINITY);
  }

  /** @param entries entries of a log since its newest complete snapshot */
  tail(entries: number, isUndivided: boolean): void {
    this.#longestTail = Math.max(entries, this.#longestTail ?? 0);
    this.#undivided = (this.#undivided ?? 0) + (isUndivided ? 1 : 0);
  }

  result(rest: SweepRest | undefined): SweepResult {
    return {
      logs: this.logs,
      jobs: this.jobs,
      waiting: this.waiting,
      failed: this.#failed.size + this.#unknown,
      stopped: this.stopped,
      missed: this.missed,
      oldest: this.#oldest,
      oldestDue: this.#oldestDue,
      longestTail: this.#longestTail,
      undivided: this.#undivided,
      ...(this.foreign > 0 && { foreign: this.foreign }),
      rest,
    };
  }
}
