import { readdir, readFile } from 'node:fs/promises';

const ROOT = new URL('../../', import.meta.url);

/** Where an advice begins: a property of an error, or a constant that becomes one. */
const BEGINS = /\badvice:\s|\badvice =\s|\b(?:const|let) (?:\w*ADVICE|LIMITS|INSTALL|lost) =\s/g;

/** Every advice text in the sources, as it stands there; `…` is what a template puts in. */
export async function advices(): Promise<string[]> {
  const found = new Set<string>();
  for (const folder of ['src', 'handlers', 'examples']) {
    const files = await readdir(new URL(`${folder}/`, ROOT), { recursive: true });
    for (const file of files.filter((name) => name.endsWith('.ts'))) {
      const text = await readFile(new URL(`${folder}/${file}`, ROOT), 'utf8');
      for (const begin of text.matchAll(BEGINS)) {
        for (const advice of textsOf(text, begin.index + begin[0].length)) found.add(advice);
      }
    }
  }
  return [...found].sort();
}

/** The texts of the expression that begins at a place in a source; a text that something is compared with is none. */
function* textsOf(source: string, start: number): Generator<string> {
  let depth = 0;
  let joined = '';
  for (let at = start; at < source.length; at++) {
    const c = source.charAt(at);
    if (c === "'" || c === '"' || c === '`') {
      const end = endOfText(source, at);
      const isCompared = source.slice(start, at).trimEnd().endsWith('===');
      const text = source.slice(at + 1, end);
      at = end;
      if (isCompared) continue;
      joined += text.replaceAll(/\$\{(?:[^{}]|\{[^{}]*\})*\}/g, '…').replaceAll(/\\(.)/g, '$1');
      if (/^\s*\+/.test(source.slice(end + 1))) continue;
      yield joined;
      joined = '';
    } else if ('([{'.includes(c)) depth++;
    else if (')]}'.includes(c) && --depth < 0) return;
    else if (depth === 0 && (c === ',' || c === ';')) return;
  }
}

function endOfText(source: string, start: number): number {
  for (let at = start + 1; at < source.length; at++) {
    if (source[at] === '\\') at++;
    else if (source[at] === source[start]) return at;
  }
  return source.length;
}
