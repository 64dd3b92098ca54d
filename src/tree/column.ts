import { float64At } from './array.ts';

/** A growing column of whole numbers below 2^53 without the cost of an array that grows item by item. */
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

  /** What has been pushed, as a view that later pushes may not reach. */
  view(): Float64Array {
    return this.#numbers.subarray(0, this.length);
  }
}
