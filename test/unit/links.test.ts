import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '../..');
const DOCUMENTS = ['*.md', '.github/**/*.md', 'docs/**/*.md', 'examples/**/*.md', 'test/**/*.md'].flatMap((pattern) =>
  globSync(pattern, { cwd: ROOT }),
);

/** The text of a document without blocks of code, where `#` begins no heading. */
function proseOf(document: string): string {
  const text = readFileSync(join(ROOT, document), 'utf8');
  return text.replaceAll(/^( *)```.*?^\1```$/gms, '');
}

/** The anchors that GitHub gives to the headings of a document. */
function anchorsOf(document: string): ReadonlySet<string> {
  const anchors = new Set<string>();
  for (const [, heading = ''] of proseOf(document).matchAll(/^#+ (.*)$/gm)) {
    const words = heading.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase();
    const anchor = words.replaceAll(/[^\p{L}\p{N}\p{M}_ -]/gu, '').replaceAll(' ', '-');
    let unique = anchor;
    for (let i = 1; anchors.has(unique); i++) unique = `${anchor}-${i}`;
    anchors.add(unique);
  }
  return anchors;
}

/**
 * The links in a text to files of the repository that lead nowhere.
 * @param document the text's document, to which its links are relative
 */
function brokenLinks(document: string, text: string): string[] {
  const prose = text.replaceAll(/`[^`]*`/g, '');
  const links = [...prose.matchAll(/\]\(([^)\s]+)\)/g), ...prose.matchAll(/^\[[^\]]+\]: (\S+)$/gm)];
  return links.flatMap(([, link = '']) => {
    if (/^[a-z]+:/.test(link)) return [];
    const [path = '', anchor] = link.split('#');
    const target = path === '' ? document : relative(ROOT, join(ROOT, dirname(document), path));
    if (!existsSync(join(ROOT, target))) return [link];
    return anchor === undefined || anchorsOf(target).has(anchor) ? [] : [link];
  });
}

test.each(DOCUMENTS)('each link of %s leads to a file and a heading', (document) => {
  expect(brokenLinks(document, proseOf(document))).toEqual([]);
});

test('a link to a missing file or heading is broken', () => {
  const text = 'See [a](missing.md), [b](#nowhere), [c](format.md#12-progress) and [d](../README.md#no-heading).';
  expect(brokenLinks('docs/operations.md', text)).toEqual(['missing.md', '#nowhere', '../README.md#no-heading']);
});
