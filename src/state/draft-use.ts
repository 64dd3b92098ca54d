import {
  ChunkCorruptError,
  ChunkMissingError,
  FoldFailedError,
  isLogfoldError,
  type LogfoldError,
  type Where,
} from '../errors.ts';

/** Never settles: work that a reducer left behind waits here, and does no more harm. */
const FOR_EVER = new Promise<never>(() => undefined);

/** Indexes of {@link DraftUse.marks}. */
export const MARK = { folds: 0, working: 1, operations: 2 } as const;

/**
 * Says who may use a draft. At first everybody may. While a log is folded, only the reducer may, and only until its
 * `fold` returns. The draft counts its operations that are under way, so that a reducer cannot leave any behind.
 */
export class DraftUse {
  /**
   * Numbers that another thread may read: how many folds have begun, and how many folds and operations are under way.
   * A watch shares one array among all drafts.
   */
  marks: Int32Array = new Int32Array(Object.keys(MARK).length);
  /** Told if somebody uses the draft after its log was folded. The late edit has no effect. */
  onLate: ((error: FoldFailedError) => void) | undefined;
  #state: 'free' | 'folding' | 'closed' | 'over' = 'free';
  #fold = 0;
  #operations = 0;
  #where: Where = {};
  #usedLate = false;
  #failure: LogfoldError | undefined;

  /** How many folds have begun. */
  get folds(): number {
    return this.#fold;
  }

  get isFolding(): boolean {
    return this.#state === 'folding';
  }

  /** How many operations are under way that the present fold began. */
  get operations(): number {
    return this.#operations;
  }

  /** The entry that is folded, or was last. */
  get where(): Where {
    return this.#where;
  }

  /**
   * Begins the fold of an entry.
   * @throws FoldFailedError if the fold before left work behind
   */
  open(where: Where): void {
    this.check();
    this.#where = where;
    this.#state = 'folding';
    this.#fold++;
    this.#mark(MARK.folds, 1);
    this.#mark(MARK.working, 1);
  }

  /**
   * Ends the fold of an entry.
   * @throws FoldFailedError if the reducer left work behind
   * @throws the first error of the store that the reducer met, also if the reducer caught it: the state depends on it
   */
  close(): void {
    const operations = this.#operations;
    this.shut();
    if (this.#failure !== undefined) throw this.#failure;
    if (operations > 0) {
      throw leftBehind(this.#where, `it returned while ${operations} of its operations on the draft were under way`);
    }
    this.check();
  }

  /** Ends the fold without a look at what it left behind. What was left behind has no effect from now on. */
  shut(): void {
    if (this.#state === 'folding') this.#mark(MARK.working, -1);
    this.#mark(MARK.operations, -this.#operations);
    this.#operations = 0;
    this.#state = 'closed';
  }

  /** @throws FoldFailedError if somebody used the draft between two folds, or after the last one */
  check(): void {
    if (this.#usedLate) throw this.#lateError();
  }

  /** The first error of the store that the present fold met. */
  get failure(): LogfoldError | undefined {
    return this.#failure;
  }

  /** The log is folded and nobody needs the draft any more. */
  finish(): void {
    this.#state = 'over';
  }

  /** The log is folded, and everybody may use the draft. */
  release(): void {
    this.#state = 'free';
  }

  /** Whether an edit counts. */
  allowsEdit(): boolean {
    return this.#state === 'free' || this.#state === 'folding' || this.#late();
  }

  /** Does an operation on the draft. An operation whose fold is over never settles. */
  run<T>(operation: () => Promise<T>): Promise<T> {
    return this.#state === 'free' ? operation() : this.#runInFold(operation);
  }

  async #runInFold<T>(operation: () => Promise<T>): Promise<T> {
    if (this.#state !== 'folding') {
      this.#late();
      return FOR_EVER;
    }
    const fold = this.#fold;
    this.#operations++;
    this.#mark(MARK.operations, 1);
    try {
      return await operation();
    } catch (error) {
      this.#remember(error);
      throw error;
    } finally {
      if (this.#state !== 'folding' || fold !== this.#fold) await FOR_EVER;
      this.#operations--;
      this.#mark(MARK.operations, -1);
    }
  }

  #late(): false {
    const isFirst = !this.#usedLate;
    this.#usedLate = true;
    // The build has ended, so its check cannot find this any more.
    if (this.#state === 'over' && isFirst) this.onLate?.(this.#lateError());
    return false;
  }

  #lateError(): FoldFailedError {
    return leftBehind(this.#where, 'the draft was used after fold had returned');
  }

  #remember(error: unknown): void {
    if (!isLogfoldError(error)) return;
    const isDamage = error instanceof ChunkMissingError || error instanceof ChunkCorruptError;
    if (isDamage || !error.stopsLog) this.#failure ??= error;
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
