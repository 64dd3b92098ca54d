import type { Mutant } from './mutants.ts';

/**
 * A source file with a fault in it.
 * @throws Error where the place is not there exactly once: the sources have changed, and the mutant has to follow
 */
export function plant(source: string, { file, from, to }: Mutant['edits'][number]): string {
  const parts = source.split(from);
  if (parts.length !== 2) throw new Error(`${file} has ${parts.length - 1} places like '${from.trim()}', not 1`);
  return parts.join(to);
}
