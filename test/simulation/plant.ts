import type { Mutant } from './mutants.ts';

/**
 * Plants a fault into a source file.
 * @throws Error if the file does not contain the text exactly once; then the mutant must be updated
 */
export function plant(source: string, { file, from, to }: Mutant['edits'][number]): string {
  const parts = source.split(from);
  if (parts.length !== 2) throw new Error(`${file} has ${parts.length - 1} places like '${from.trim()}', not 1`);
  return parts.join(to);
}
