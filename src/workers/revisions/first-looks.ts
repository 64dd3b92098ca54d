/** Differences that were seen first at a time. */
export interface NotedLooks {
  /** Epoch seconds. */
  readonly at: number;
  /** Whether the current comparison has seen them again. */
  readonly again: boolean;
  /** A short hash of each. */
  readonly differences: readonly string[];
}

/** The most differences in a note: their hashes take 15 MB. Later comparisons find the others. */
const MOST = 1_000_000;

/**
 * Remembers when comparisons first saw the differences that they still see. A difference that a
 * whole comparison did not see again is forgotten.
 */
export class FirstLooks {
  /** Differences that the current comparison has not seen yet, and those that it has seen. */
  readonly #before = new Map<string, number>();
  readonly #again = new Map<string, number>();

  constructor(noted: readonly NotedLooks[]) {
    for (const { at, again, differences } of noted) {
      for (const id of differences) (again ? this.#again : this.#before).set(id, at);
    }
  }

  /**
   * Sees a difference.
   * @param now epoch seconds
   * @returns the time at which it was seen first. A time in the future does not count: it is from a
   * wrong clock
   */
  see(id: string, now: number): number {
    const known = this.#again.get(id) ?? this.#before.get(id);
    const at = known === undefined || known > now ? now : known;
    this.forget(id);
    if (this.#before.size + this.#again.size < MOST) this.#again.set(id, at);
    return at;
  }

  /** Differences that the current comparison has seen. */
  get count(): number {
    return this.#again.size;
  }

  forget(id: string): void {
    this.#before.delete(id);
    this.#again.delete(id);
  }

  /** @param isOver whether the current comparison is complete, so that another one begins */
  note(isOver: boolean): NotedLooks[] {
    const seen = grouped(this.#again, !isOver);
    return isOver ? seen : [...grouped(this.#before, false), ...seen];
  }
}

function grouped(differences: ReadonlyMap<string, number>, again: boolean): NotedLooks[] {
  const groups = Map.groupBy(differences, ([, at]) => at);
  return Array.from(groups, ([at, all]) => ({ at, again, differences: all.map(([id]) => id) }));
}
