/** Random numbers. The same seed gives the same numbers on every machine. */
export class Random {
  #state: number;

  /** @param seed a whole number of at most 32 bits */
  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** A number from 0 to below 1, by SplitMix32: a counter through a mixing function. */
  next(): number {
    this.#state = (this.#state + 0x9e3779b9) >>> 0;
    return mix(this.#state) / 2 ** 32;
  }

  /** A whole number from 0 to below `end`. */
  below(end: number): number {
    return Math.floor(this.next() * end);
  }
}

/** A 32-bit hash: every bit of the input affects every bit of the result. */
export function mix(value: number): number {
  let mixed = value;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x21f0aaad);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
  return (mixed ^ (mixed >>> 15)) >>> 0;
}
