import type { Value } from '../codec/value.ts';
import {
  ChunkCorruptError,
  ChunkMissingError,
  ExternalCorruptError,
  ExternalMissingError,
  FoldFailedError,
  isLogfoldError,
  type LogfoldError,
  UsageError,
  type Where,
} from '../errors.ts';
import type { LateWrite } from '../tree/batch.ts';
import { foldFailure } from './fold-failure.ts';

/** Errors of the store that stop a log. */
const DAMAGE = [ChunkMissingError, ChunkCorruptError, ExternalMissingError, ExternalCorruptError];

/** Never resolves. Work that a reducer left behind waits here, so it has no effect. */
const FOR_EVER = new Promise<never>(() => undefined);

/** Indexes of {@link DraftUse.marks}. */
export const USE_MARK = { steps: 0, working: 1, operations: 2 } as const;

/**
 * Controls who may use a draft. At first everyone may. During a fold only the reducer may, until
 * its `fold` returns. The draft counts its running operations, so that a reducer cannot leave any
 * behind. A frozen draft is read by everyone and edited by nobody.
 */
export class DraftUse {
  /**
   * Counters that another thread may read: {@link steps}, folds running, operations running. A
   * watch shares one array among all drafts.
   */
  marks: Int32Array = new Int32Array(Object.keys(USE_MARK).length);
  /** Called if the draft is used after the end of the build. The late edit has no effect. */
  onLate: ((error: FoldFailedError) => void) | undefined;
  #state: 'free' | 'folding' | 'evaluating' | 'closed' | 'over' | 'frozen' = 'free';
  #fold = 0;
  #steps = 0;
  #operations = 0;
  #where: Where = {};
  #usedLate = false;
  #failure: LogfoldError | undefined;

  /** Number of folds begun, and of slices of files that they read. */
  get steps(): number {
    return this.#steps;
  }

  /** Whether code of the reducer may be running. */
  get isFolding(): boolean {
    return this.#state === 'folding' || this.#state === 'evaluating';
  }

  /** Number of running operations that the current fold began. */
  get operations(): number {
    return this.#operations;
  }

  /** The entry of the current fold, or of the last one. */
  get where(): Where {
    return this.#where;
  }

  /**
   * Begins the fold of an entry.
   * @throws FoldFailedError if the previous fold left work behind
   */
  open(where: Where): void {
    this.check();
    this.#where = where;
    this.#state = 'folding';
    this.#fold++;
    this.step();
    this.#mark(USE_MARK.working, 1);
  }

  /** Counts progress of the current fold. */
  step(): void {
    this.#steps++;
    this.#mark(USE_MARK.steps, 1);
  }

  /**
   * Ends the fold of an entry.
   * @throws FoldFailedError if the reducer left work behind
   * @throws the first error of the store that the reducer met, even if the reducer caught it: the
   * state depends on it
   */
  close(): void {
    const operations = this.#operations;
    this.shut();
    if (this.#failure !== undefined) throw this.#failure.at(this.#where);
    if (operations > 0) {
      throw leftBehind(this.#where, `it returned while ${operations} of its operations on the draft were running`);
    }
    this.check();
  }

  /** Ends the fold without checks. Work that it left behind has no effect from now on. */
  shut(): void {
    if (this.isFolding) this.#mark(USE_MARK.working, -1);
    this.#mark(USE_MARK.operations, -this.#operations);
    this.#operations = 0;
    this.#state = 'closed';
  }

  /** @throws FoldFailedError if the draft was used between two folds, or after the last one */
  check(): void {
    if (this.#usedLate) throw this.#lateError();
  }

  /** The first error of the store in the current fold. */
  get failure(): LogfoldError | undefined {
    return this.#failure;
  }

  /** Ends the use of the draft after the log is folded. */
  finish(): void {
    this.#state = 'over';
  }

  /** Opens the draft for everyone after the log is folded. */
  release(): void {
    this.#state = 'free';
  }

  /** Forbids edits from now on. Everyone may read. */
  freeze(): void {
    this.#state = 'frozen';
  }

  /**
   * Whether an edit takes effect.
   * @throws UsageError if the draft is frozen
   */
  allowsEdit(): boolean {
    if (this.#state === 'frozen') {
      throw new UsageError('a loaded state is read-only', { advice: 'Append an entry that makes the change' });
    }
    if (this.#state === 'evaluating') this.#refuse();
    return this.#state === 'free' || this.#state === 'folding' || this.#late();
  }

  /**
   * A late value that the reducer puts now. If its function throws or uses the draft, or if the
   * value cannot be written, the log stops at the entry of the put. It does so even if the reducer
   * catches the error of a read, because another fold may evaluate the value elsewhere.
   * @param nameOf names the value for a message
   */
  late(give: () => Value, nameOf: () => string): LateWrite {
    const where = this.#where;
    return (write) => {
      if (this.#state === 'evaluating') this.#refuse();
      const [state, current] = [this.#state, this.#where];
      // A watch finds a function that never returns, and names the entry of the put.
      if (state !== 'folding') {
        this.step();
        this.#mark(USE_MARK.working, 1);
      }
      this.#state = 'evaluating';
      this.#where = where;
      try {
        write(give());
      } catch (error) {
        this.#failure ??= foldFailure(nameOf(), where, error);
      } finally {
        this.#state = state;
        this.#where = current;
        if (state !== 'folding') this.#mark(USE_MARK.working, -1);
      }
      if (this.#failure !== undefined) throw this.#failure;
    };
  }

  /** @throws FoldFailedError if the function of a late value reads the draft */
  checkRead(): void {
    if (this.#state === 'evaluating') this.#refuse();
  }

  /** @throws FoldFailedError because the function of a late value uses the draft */
  #refuse(): never {
    this.#failure ??= new FoldFailedError('the function of a late value uses the draft', {
      ...this.#where,
      advice: 'Correct the reducer so that the function only reads what it captured, raise its version, and deploy it',
    });
    throw this.#failure;
  }

  /**
   * Runs an operation on the draft. The operation never resolves if its fold ends before it does.
   */
  run<T>(operation: () => Promise<T>): Promise<T> {
    this.checkRead();
    return this.#state === 'free' || this.#state === 'frozen' ? operation() : this.#runInFold(operation);
  }

  async #runInFold<T>(operation: () => Promise<T>): Promise<T> {
    if (this.#state !== 'folding') {
      this.#late();
      return FOR_EVER;
    }
    const fold = this.#fold;
    this.#operations++;
    this.#mark(USE_MARK.operations, 1);
    try {
      return await operation();
    } catch (error) {
      this.#remember(error);
      throw error;
    } finally {
      if (this.#state !== 'folding' || fold !== this.#fold) await FOR_EVER;
      this.#operations--;
      this.#mark(USE_MARK.operations, -1);
    }
  }

  #late(): false {
    const isFirst = !this.#usedLate;
    this.#usedLate = true;
    // The build has ended, so its check cannot find the late use any more.
    if (this.#state === 'over' && isFirst) this.onLate?.(this.#lateError());
    return false;
  }

  #lateError(): FoldFailedError {
    return leftBehind(this.#where, 'the draft was used after fold had returned');
  }

  #remember(error: unknown): void {
    if (!isLogfoldError(error)) return;
    if (DAMAGE.some((Class) => error instanceof Class) || !error.stopsLog) this.#failure ??= error;
  }

  #mark(index: number, change: number): void {
    this.marks[index] = (this.marks[index] ?? 0) + change;
  }
}

function leftBehind(where: Where, what: string): FoldFailedError {
  return new FoldFailedError(`the reducer left work behind: ${what}`, {
    ...where,
    advice: "Await everything in fold, raise the reducer's version, and deploy it",
  });
}
