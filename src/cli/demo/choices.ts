/** Choices that look random and are the same in every run (Lehmer's generator with the multiplier 48271). */
export class Choices {
  #state: number;

  /** @param seed from 1 to 2^31 - 2 */
  constructor(seed: number) {
    this.#state = seed;
  }

  /** A whole number from 0 up to but not including `end`. */
  below(end: number): number {
    this.#state = (this.#state * 48271) % 0x7fffffff;
    return Math.floor((this.#state / 0x7fffffff) * end);
  }
}
