import { readFileSync } from 'node:fs';

const README = readFileSync(new URL('../../README.md', import.meta.url), 'utf8');

/**
 * Returns the code blocks of the README in a language, such as `ts`.
 * @param heading only those under this heading; of the whole README by default
 */
export function codeBlocks(language: string, heading?: string): string[] {
  const sections = README.split('\n## ').filter((each) => heading === undefined || each.startsWith(`${heading}\n`));
  const fence = new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'gms');
  return sections.flatMap((section) => Array.from(section.matchAll(fence), ([, code = '']) => code));
}
