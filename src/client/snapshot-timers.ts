/** Bounds of the wait between two searches for a newer snapshot, in milliseconds. */
const [MIN_SEARCH_MS, MAX_SEARCH_MS] = [1_000, 30_000];

/** Decides when a client looks for a newer snapshot: less and less often. */
export class SearchTimer {
  #afterMs = 0;
  #waitMs = MIN_SEARCH_MS;

  /** Whether a search starts now. @param nowMs epoch milliseconds */
  starts(nowMs: number): boolean {
    if (nowMs < this.#afterMs) return false;
    this.#afterMs = nowMs + this.#waitMs;
    this.#waitMs = Math.min(this.#waitMs * 2, MAX_SEARCH_MS);
    return true;
  }
}

/** Above this memory of nodes that are in no chunk, a state moves onto the newer snapshot. */
const MOVE_BYTES = 4 * 1024 * 1024;
/**
 * After this time a state moves onto the newer snapshot in any case, in milliseconds. It is far
 * below every sensible grace period, after which the chunks of the older snapshot may go.
 */
const MOVE_MS = 10 * 60_000;

/** Decides when a state moves onto the chunks of the newer snapshot at which its tail forked. */
export class MoveTimer {
  /** Time of the last read at which no newer snapshot could be complete. */
  #newestMs: number;
  /** The earliest time at which a newer snapshot may have completed; undefined before a fork. */
  #forkedMs: number | undefined;

  /**
   * @param nowMs time before the state was loaded, in epoch milliseconds
   * @param isForked whether the tail has forked at a newer snapshot already
   */
  constructor(nowMs: number, isForked: boolean) {
    this.#newestMs = nowMs;
    if (isForked) this.forked(nowMs);
  }

  /** Notes that no newer snapshot could be complete at a time. */
  knewNewest(ms: number): void {
    this.#newestMs = ms;
  }

  /**
   * Notes that the tail forked at the newest complete snapshot. That one may have completed long
   * before, while nobody used the document.
   */
  forked(nowMs: number): void {
    this.#forkedMs ??= this.#newestMs;
    this.#newestMs = nowMs;
  }

  /** Notes that the state has moved. */
  done(): void {
    this.#forkedMs = undefined;
  }

  /** Whether the state moves now. @param unsavedBytes memory of its nodes that are in no chunk */
  isDue(nowMs: number, unsavedBytes: number): boolean {
    if (this.#forkedMs === undefined) return false;
    return unsavedBytes >= MOVE_BYTES || nowMs - this.#forkedMs >= MOVE_MS;
  }
}
