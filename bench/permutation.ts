import { mix } from './random.ts';

const ROUNDS = 4;

/**
 * A random permutation of the numbers below `size`. It is computed, so that millions of entries in
 * random order need no list. The permutation is a Feistel network over the next even number of
 * bits. It is applied again to a result that is too large (Black and Rogaway, Ciphers with
 * Arbitrary Finite Domains, 2002).
 * @param size at most 2^30
 */
export function permutation(size: number, seed: number): (index: number) => number {
  const halfBits = Math.max(1, Math.ceil(Math.log2(size) / 2));
  const mask = 2 ** halfBits - 1;
  const shuffleOnce = (value: number): number => {
    let left = value >>> halfBits;
    let right = value & mask;
    for (let round = 0; round < ROUNDS; round++) {
      const next = left ^ (mix(right ^ mix(seed + round)) & mask);
      left = right;
      right = next;
    }
    return ((left << halfBits) | right) >>> 0;
  };
  return (index) => {
    let value = shuffleOnce(index);
    while (value >= size) value = shuffleOnce(value);
    return value;
  };
}
