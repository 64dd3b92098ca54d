import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * Returns the code blocks of a document in a language, such as `ts`.
 * @param document a path in the repository, such as `docs/library.md`
 * @param heading only those under this heading; of the whole document by default
 */
export function codeBlocks(document: string, language: string, heading?: string): string[] {
  const text = readFileSync(join(import.meta.dirname, '../..', document), 'utf8');
  const sections = text.split('\n## ').filter((each) => heading === undefined || each.startsWith(`${heading}\n`));
  const fence = new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms');
  return sections.flatMap((section) => Array.from(section.matchAll(fence), ([, code = '']) => code));
}
