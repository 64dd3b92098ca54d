import { readdir, readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Cases, Follow } from './advice/case.ts';
import { CLIENT } from './advice/client.ts';
import { COMMANDS, closePlace, openPlace } from './advice/commands.ts';
import { DAMAGE } from './advice/damage.ts';
import { closeDeployment, DEPLOYMENT, openDeployment } from './advice/deployment.ts';
import { FEED } from './advice/feed.ts';
import { FILES } from './advice/files.ts';
import { MAPPED_TABLES } from './advice/mapped-tables.ts';
import { MAPPINGS } from './advice/mappings.ts';
import { NOT_FOLLOWED } from './advice/not-followed.ts';
import { PAGES } from './advice/pages.ts';
import { PLAIN_TABLES } from './advice/plain-tables.ts';
import { REDUCERS } from './advice/reducers.ts';
import { REVISIONS } from './advice/revisions.ts';
import { VALUES } from './advice/values.ts';
import { WORKBOOKS } from './advice/workbooks.ts';

const ROOT = new URL('../../', import.meta.url);

/** Matches the start of advice: a property of an error, or a constant for it. */
const BEGINS = /\badvice:\s|\badvice =\s|\b(?:const|let) (?:\w*ADVICE|LIMITS|INSTALL|lost) =\s/g;

/** Reads all advice from the sources; `…` replaces the values of a template. */
async function advices(): Promise<string[]> {
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

/** Yields the strings of the expression that starts at `start`, without operands of `===`. */
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

const FOLLOWED: Cases = {
  ...VALUES,
  ...DAMAGE,
  ...REDUCERS,
  ...REVISIONS,
  ...MAPPED_TABLES,
  ...PLAIN_TABLES,
  ...MAPPINGS,
  ...CLIENT,
  ...FEED,
  ...FILES,
  ...COMMANDS,
  ...DEPLOYMENT,
  ...PAGES,
  ...WORKBOOKS,
};

/** Finds advice text, with its values, in the advice of an error; undefined if it is absent. */
function saidOf(advice: string, text: string): string | undefined {
  const parts = text.split(/(…|\bLOG\b)/).map((part, i, all) => {
    if (part === 'LOG') return "(?:LOG|'[^']*'|[\\w@%+=:,./#-]+)";
    if (part === '…') return i === all.length - 2 && all.at(-1) === '' ? '.+' : '.+?';
    return RegExp.escape(part);
  });
  return new RegExp(parts.join(''), 's').exec(advice)?.[0];
}

async function follow(text: string, steps: Follow): Promise<void> {
  let refusals = 0;
  await steps(async (run) => {
    const error: unknown = await Promise.try(run).then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    if (!(error instanceof Error && 'advice' in error)) throw error ?? new Error('the refused step succeeded');
    const said = saidOf(String(error.advice), text);
    if (said === undefined) throw new Error(`the advice is '${error.advice}' instead of '${text}'`, { cause: error });
    refusals++;
    return said;
  });
  expect(refusals).toBeGreaterThan(0);
}

beforeAll(async () => openDeployment(await openPlace()));
afterAll(async () => {
  await closeDeployment();
  await closePlace();
});

describe('following the advice removes the cause:', () => {
  test.each(Object.entries(FOLLOWED))('%s', follow);
});

test('a test follows each piece of advice, or NOT_FOLLOWED states why no test can', async () => {
  const all = await advices();
  const known = [...Object.keys(FOLLOWED), ...Object.values(NOT_FOLLOWED).flat()];
  expect(all.filter((advice) => !known.includes(advice))).toEqual([]);
  expect(known.filter((advice) => !all.includes(advice))).toEqual([]);
  expect(known.filter((advice, i) => known.indexOf(advice) !== i)).toEqual([]);
});
