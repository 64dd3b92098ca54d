import { describe, expect, test } from 'vitest';
import { lintProse } from '../../.ci/prose/lint.ts';

const LONG_SENTENCE = `The reader ${'reads and '.repeat(17)}stops.`;
const LONG_LINE = `A line ${'is long '.repeat(12)}here.`;

/** Lints a source. @returns each finding as `line:column rule` */
async function lint(file: string, source: string): Promise<string[]> {
  const findings = await lintProse(file, source);
  return findings.map(({ line, column, rule }) => `${line}:${column} ${rule}`);
}

describe('the prose linter', () => {
  test.each([
    ['a banned phrase', 'The job starts anew.\n', '1:16 terms'],
    ['a phrase over two lines', 'The job starts at\nonce.\n', '1:16 terms'],
    ['a phrase in a heading', '# All but for one\n', '1:7 terms'],
    ['behind as a time', 'The job runs behind the entry.\n', '1:14 terms'],
    ['an own', 'Each job has an own cache.\n', '1:14 terms'],
    ['a started unit', 'One for each started kilobyte.\n', '1:9 terms'],
    ['a banned start', 'The job runs.\nWhat it reads is old.\n', '2:1 sentences'],
    ['a clause as subject', 'That it runs is good.\n', '1:1 sentences'],
    ['a banned start in a table', '| Where |\n| - |\n| Where it is |\n', '3:3 sentences'],
    ['a long sentence', `\`x\` runs. ${LONG_SENTENCE.replaceAll('and reads', 'and\nreads')}\n`, '1:11 sentences'],
    ['a long line', `Short.\n${LONG_LINE}\n`, '2:1 columns'],
  ])('finds %s in Markdown', async (_, source, finding) => {
    expect(await lint('a.md', source)).toEqual([finding]);
  });

  test.each([
    ['a question', 'What does it cost?\n'],
    ['behind as a place', 'The store behind its server runs.\n'],
    ['behind as a lag', 'It is far behind. How far is it behind? It leaves nothing behind.\n'],
    ['a heading', '# What it costs\n'],
    ['the head of a table', '| Where |\n| - |\n| S3 |\n'],
    ['a demonstrative', "That job runs. That's it.\n"],
    ['sentences that begin with a small letter', `logfold runs. ${'logfold runs\n'.repeat(17)}. logfold runs.\n`],
    ['code', 'The option `anew`.\n\n```\nWhat is anew\n```\n'],
    ['sentences that begin with code', `\`x\` runs. ${'read\n'.repeat(20)}end. \`x\` runs ${'too\n'.repeat(20)}\n`],
    ['a long line in a table', `| a |\n| - |\n| ${'x '.repeat(30)}${'y '.repeat(4)}${' '.repeat(60)}|\n`],
    ['a long link', `[this](https://example.com/${'x'.repeat(100)}).\n`],
  ])('passes %s', async (_, source) => {
    expect(await lint('a.md', source)).toEqual([]);
  });

  test.each([
    ['a TSDoc comment', 'f();\n\n  /**\n   * Reads it\n   * anew.\n   */\n', '5:6 terms'],
    ['a TSDoc tag', '/**\n * Reads.\n * @returns what it read\n */\n', '3:13 sentences'],
    ['line comments', '// Reads it at\n// once.\n', '1:13 terms'],
    ['a comment after code', 'f(); // Whether it is anew.\n', '1:23 terms'],
    ['a long comment', `f();\n// ${LONG_LINE}\n`, '2:4 columns'],
    ['a message', "f(\n  'the object is to be deleted');\n", '2:15 terms'],
    ['a template', 'f(`the $' + '{a} is $' + '{b.map((c) => c)} of no use`);\n', '1:35 terms'],
    ['a title', "test('anew', () => {});\n", '1:7 terms'],
    ['a title by parameters', "test.each([])('what is read', () => {});\n", '1:16 sentences'],
    ['a help text', "command().option('--anew', 'do it anew');\n", '1:35 terms'],
  ])('finds %s in TypeScript', async (_, source, finding) => {
    expect(await lint('a.ts', source)).toEqual([finding]);
  });

  test('passes code and short strings in TypeScript', async () => {
    const source =
      "// biome-ignore lint: anew\nconst anew = f('anew', [`$" + "{'x'.repeat(120)}`]);\n/** {@link anew} */\n";
    expect(await lint('a.ts', source)).toEqual([]);
  });

  test.each([
    ['an option', '--force to be of its own'],
    ['an SQL statement', 'DELETE FROM anew WHERE this is anew'],
    ['a style sheet', '\n  text { the font is anew }'],
    ['a module', '\nexport default { run this anew }'],
  ])('passes %s in TypeScript', async (_, code) => {
    expect(await lint('a.ts', `f(\`${code}\`);\n`)).toEqual([]);
  });
});
