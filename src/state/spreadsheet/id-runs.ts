import { at } from '../../tree/array.ts';
import type { PositionedRun } from './axis.ts';

/** Runs of an axis in order of id, for lookups by id. */
export class IdRuns {
  readonly runs: readonly PositionedRun[];
  #latest: PositionedRun | undefined;

  constructor(runs: readonly PositionedRun[]) {
    this.runs = runs.toSorted((a, b) => a.id - b.id);
  }

  /** The position of an id; undefined if no run contains it. */
  position(id: number): number | undefined {
    const latest = this.#latest;
    if (latest !== undefined && id >= latest.id && id < latest.id + latest.length) return latest.start + id - latest.id;
    const run = this.endingAfter(id);
    if (run === undefined || run.id > id) return undefined;
    this.#latest = run;
    return run.start + id - run.id;
  }

  /** The run that contains an id, otherwise the first run after it. */
  endingAfter(id: number): PositionedRun | undefined {
    return this.runs[firstIndex(this.runs, ({ id: start, length }) => start + length > id)];
  }
}

/**
 * The index of the first item for which a test holds. The test must hold for all later items too.
 */
export function firstIndex<T>(items: readonly T[], holds: (item: T) => boolean): number {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (holds(at(items, middle))) high = middle;
    else low = middle + 1;
  }
  return low;
}
