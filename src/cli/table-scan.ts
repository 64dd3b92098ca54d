import type { TableMeter } from '../adapters/dynamodb/requests.ts';
import { sleep } from '../adapters/platform/node-logs.ts';
import type { LogfoldError } from '../errors.ts';
import { RateLimiter } from '../workers/retention/rate-limiter.ts';
import { endAfterSignal } from './signals.ts';

/** Read units per second that a scan of an application's table uses by default. */
export const READ_UNITS = 100;
/** So many failures are printed. */
const SHOWN_FAILURES = 20;

export interface TableScanOptions {
  /** The most read units per second. */
  readonly readUnits: number;
  /** Aborted by a signal, which must not wait for the read units of a whole page. */
  readonly stop: AbortSignal;
}

/** The pace and the failures of a scan of an application's whole table, which a signal may end. */
export class TableScan {
  readonly #stop: AbortSignal;
  readonly #failures: LogfoldError[] = [];
  /** Waits until the rate has covered the read units of the page. */
  readonly onPage: () => Promise<void>;

  /** @param meter counts the requests of the scan */
  constructor(meter: TableMeter, { readUnits, stop }: TableScanOptions) {
    this.#stop = stop;
    const limiter = new RateLimiter({ perSecond: readUnits, sleep: (ms) => sleep(ms, stop) });
    this.onPage = limiter.covering(() => meter.readUnits);
  }

  /** The failures that are printed. */
  get failures(): readonly LogfoldError[] {
    return this.#failures;
  }

  fail(error: LogfoldError): void {
    if (this.#failures.length < SHOWN_FAILURES) this.#failures.push(error);
  }

  /** Sets the exit code of the process. */
  end({ failed, complete }: { readonly failed: number; readonly complete: boolean }): void {
    if (failed > 0) process.exitCode = 1;
    if (!complete) endAfterSignal(this.#stop);
  }
}
