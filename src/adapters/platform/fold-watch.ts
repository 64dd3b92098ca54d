import { setImmediate } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { FoldFailedError, UsageError } from '../../errors.ts';
import type { FoldWatch } from '../../snapshot/fold.ts';
import { type DraftUse, USE_MARK } from '../../state/draft-use.ts';

/**
 * Default time limit for one entry, in milliseconds. A function has a minute left when its time is
 * up.
 */
const FOLD_LIMIT_MS = 30_000;
/** The environment variable that sets another limit, in whole seconds. */
const VARIABLE = 'LOGFOLD_FOLD_SECONDS';
/**
 * The limit is this many times longer while the draft works for the reducer: it reads chunks or
 * edits trees.
 */
const DRAFT_FACTOR = 10;
/** Ticks of the clock within the limit. */
const TICKS = 20;
/** Indexes after those of {@link USE_MARK}. */
const EXTRA = { ticks: 3, interrupted: 4 } as const;

export interface NodeFoldWatchOptions {
  /** In milliseconds; {@link FOLD_LIMIT_MS} by default. */
  readonly limitMs?: number;
  /**
   * Calls `tick` every `ms` milliseconds until the returned function is called; `setInterval` by
   * default.
   */
  readonly every?: (ms: number, tick: () => void) => () => void;
}

/** A draft into which a reducer folds. */
interface Watched {
  readonly use: DraftUse;
  readonly fail: (error: FoldFailedError) => void;
  /** The steps of the draft at the last tick. */
  step: number;
  /** Ticks since the fold, or its current slice of a file, began. */
  ticks: number;
  /** Ticks at which the draft did nothing for the reducer. */
  idleTicks: number;
}

/**
 * Ends folds that take too long. It measures time in ticks, so that a suspended process or a busy
 * thread does not count as a hanging reducer.
 *
 * If the reducer keeps this thread busy, for example in an endless loop, no timer fires. Therefore
 * a second thread watches this one and interrupts it through the inspector. The interrupted call
 * never returns; the next tick fails its fold.
 */
export class NodeFoldWatch implements FoldWatch {
  readonly #limitMs: number;
  readonly #every: (ms: number, tick: () => void) => () => void;
  readonly #marks = new Int32Array(
    new SharedArrayBuffer(4 * (Object.keys(USE_MARK).length + Object.keys(EXTRA).length)),
  );
  readonly #watched = new Set<Watched>();
  #thread: Worker | undefined;
  #stopTicking: (() => void) | undefined;

  constructor({ limitMs = FOLD_LIMIT_MS, every = everyMs }: NodeFoldWatchOptions = {}) {
    this.#limitMs = limitMs;
    this.#every = every;
  }

  async watch<T>(use: DraftUse, work: () => Promise<T>): Promise<T> {
    this.#thread ??= this.#startThread();
    const { promise, reject } = Promise.withResolvers<never>();
    use.marks = this.#marks;
    use.onLate = (error) => process.emitWarning(`${error.code}: ${error.message}`);
    const watched: Watched = { use, fail: reject, step: use.steps, ticks: 0, idleTicks: 0 };
    this.#watched.add(watched);
    this.#stopTicking ??= this.#every(this.#limitMs / TICKS, () => this.#tick());
    try {
      return await Promise.race([work(), promise]);
    } finally {
      // If the work did not end, this removes its running operations from the marks.
      use.shut();
      this.#watched.delete(watched);
      if (this.#watched.size === 0) {
        this.#stopTicking?.();
        this.#stopTicking = undefined;
      }
    }
  }

  pause(): Promise<void> {
    return setImmediate();
  }

  #tick(): void {
    Atomics.add(this.#marks, EXTRA.ticks, 1);
    const interrupted = Atomics.exchange(this.#marks, EXTRA.interrupted, 0) === 1;
    if (interrupted) this.#failInterrupted();
    for (const watched of this.#watched) {
      const { use } = watched;
      if (!use.isFolding || use.steps !== watched.step) {
        Object.assign(watched, { step: use.steps, ticks: 0, idleTicks: 0 });
        continue;
      }
      watched.ticks++;
      if (use.operations === 0) watched.idleTicks++;
      if (watched.idleTicks > TICKS || watched.ticks > TICKS * DRAFT_FACTOR)
        this.#fail(watched, (time) => `did not finish an entry within ${time}`);
    }
  }

  /** It is unknown which reducer was interrupted. A reducer that waits for the draft was not. */
  #failInterrupted(): void {
    const folding = [...this.#watched].filter(({ use }) => use.isFolding);
    const busy = folding.filter(({ use }) => use.operations === 0);
    for (const watched of busy.length === 0 ? folding : busy) {
      this.#fail(watched, (time) => `kept its thread busy for ${time} on one entry`);
    }
  }

  #fail({ use, ticks, fail }: Watched, describe: (time: string) => string): void {
    const limitMs = ticks > TICKS * DRAFT_FACTOR ? this.#limitMs * DRAFT_FACTOR : this.#limitMs;
    const error = new FoldFailedError(`the reducer ${describe(`${limitMs / 1000} seconds`)}`, {
      ...use.where,
      advice: 'Correct the reducer, raise its version, and deploy it',
    });
    use.shut();
    fail(error);
  }

  #startThread(): Worker {
    const workerData = { marks: this.#marks, tickMs: this.#limitMs / TICKS, ticks: TICKS, factor: DRAFT_FACTOR };
    const thread = new Worker(THREAD, { eval: true, workerData, execArgv: [], env: {} });
    thread.unref();
    const forget = (): void => {
      this.#thread = undefined;
    };
    // Without the thread, only endless loops go unnoticed. The next fold starts another thread.
    thread.on('error', forget).on('exit', forget);
    return thread;
  }
}

/**
 * The watch for a process with this environment.
 * @throws UsageError if the limit is not a whole number of seconds from 1 to 600
 */
export function foldWatchOf(environment: Readonly<Record<string, string | undefined>>): NodeFoldWatch {
  const text = environment[VARIABLE];
  if (text === undefined || text === '') return new NodeFoldWatch();
  const seconds = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (seconds < 1 || seconds > 600) {
    throw new UsageError(`${VARIABLE} is '${text}', not a whole number from 1 to 600`, {
      advice: 'Correct it, or unset it to use 30 seconds',
    });
  }
  return new NodeFoldWatch({ limitMs: seconds * 1000 });
}

function everyMs(ms: number, tick: () => void): () => void {
  const timer = setInterval(tick, ms);
  return () => clearInterval(timer);
}

/**
 * The program of the second thread. It is CommonJS in a string, so that a bundle needs no second
 * file. It interrupts the main thread if folds and ticks make no progress for too long while a
 * reducer works.
 */
const THREAD = `
const { workerData } = require('node:worker_threads');
const { Session } = require('node:inspector');
const { marks, tickMs, ticks, factor } = workerData;
let seen;
let still = 0;
setInterval(() => {
  const now = [Atomics.load(marks, ${USE_MARK.steps}), Atomics.load(marks, ${EXTRA.ticks})].join();
  const working = Atomics.load(marks, ${USE_MARK.working}) > 0;
  still = working && now === seen ? still + 1 : 0;
  seen = now;
  if (still <= ticks * (Atomics.load(marks, ${USE_MARK.operations}) > 0 ? factor : 1)) return;
  still = 0;
  Atomics.store(marks, ${EXTRA.interrupted}, 1);
  const session = new Session();
  session.connectToMainThread();
  session.post('Runtime.terminateExecution', () => session.disconnect());
}, tickMs);
`;
