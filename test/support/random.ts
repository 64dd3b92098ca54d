import { Random as Numbers } from '../../bench/random.ts';

/** Random choices that a seed repeats exactly: the benchmark's numbers, and what a history wants besides. */
export class Random extends Numbers {
  /** A whole number from `from` up to and including `to`. */
  integer(from: number, to: number): number {
    return from + Math.floor(this.next() * (to - from + 1));
  }

  /** True in so many of 1 cases. */
  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<T>(items: readonly [T, ...T[]]): T;
  pick<T>(items: readonly T[]): T | undefined;
  pick<T>(items: readonly T[]): T | undefined {
    return items[this.integer(0, items.length - 1)];
  }

  /** Letters and digits that no compressor makes shorter by much. */
  text(length: number): string {
    return Array.from({ length }, () => this.integer(0, 35).toString(36)).join('');
  }
}
