/**
 * The item at an index that must exist.
 * @throws RangeError if the index is out of range
 */
export function at<T>(items: ArrayLike<T>, index: number): T {
  const item = items[index];
  if (item === undefined) throw outside(items, index);
  return item;
}

// One function per kind of array. A JavaScript engine compiles a function for all kinds of arrays
// that it was called with. A single function for all kinds is several times slower, which shows in
// loops over all cells.

/** Like {@link at}, for keys of trees. */
export function keyAt(keys: readonly (string | number)[], index: number): string | number {
  const key = keys[index];
  if (key === undefined) throw outside(keys, index);
  return key;
}

/** Like {@link at}, for whole numbers below 2^32. */
export function uint32At(numbers: Uint32Array, index: number): number {
  const number = numbers[index];
  if (number === undefined) throw outside(numbers, index);
  return number;
}

/** Like {@link at}, for doubles. */
export function float64At(numbers: Float64Array, index: number): number {
  const number = numbers[index];
  if (number === undefined) throw outside(numbers, index);
  return number;
}

function outside(items: ArrayLike<unknown>, index: number): RangeError {
  return new RangeError(`index ${index} is out of range for ${items.length} items`);
}

/** A growing column of whole numbers below 2^53. It doubles its capacity when it is full. */
export class NumberColumn {
  #numbers: Float64Array;
  length = 0;

  constructor(capacity = 1024) {
    this.#numbers = new Float64Array(capacity);
  }

  push(value: number): void {
    if (this.length === this.#numbers.length) {
      const wider = new Float64Array(this.length * 2);
      wider.set(this.#numbers);
      this.#numbers = wider;
    }
    this.#numbers[this.length++] = value;
  }

  /** The number at an index below `length`. */
  at(index: number): number {
    return float64At(this.#numbers, index);
  }

  /** All numbers so far, as a view. Later pushes may not show in it. */
  view(): Float64Array {
    return this.#numbers.subarray(0, this.length);
  }
}
