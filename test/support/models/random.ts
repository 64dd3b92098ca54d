import { Random as Numbers } from '../../../bench/random.ts';

/**
 * Random choices that a seed repeats exactly. Extends the benchmark's generator by choices for
 * histories.
 */
export class Random extends Numbers {
  /** An integer from `from` to `to`, both inclusive. */
  integer(from: number, to: number): number {
    return from + Math.floor(this.next() * (to - from + 1));
  }

  /** True with this probability. */
  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<T>(items: readonly [T, ...T[]]): T;
  pick<T>(items: readonly T[]): T | undefined;
  pick<T>(items: readonly T[]): T | undefined {
    return items[this.integer(0, items.length - 1)];
  }

  /** Letters and digits that compress badly. */
  text(length: number): string {
    return Array.from({ length }, () => this.integer(0, 35).toString(36)).join('');
  }
}
