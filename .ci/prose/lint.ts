import { readFileSync } from 'node:fs';
import { extname } from 'node:path';
import { TextlintKernel } from '@textlint/kernel';
import { parse as parseMarkdown } from '@textlint/markdown-to-ast';
import type { TextlintPluginCreator } from '@textlint/types';
import { parse as parseYaml } from 'yaml';
import { z } from 'zod';
import { extractProse } from './extract.ts';
import { columns, sentences, terms } from './rules.ts';

/** A phrase, sentence or line that breaks a rule of style. */
export interface Finding {
  /** From 1. */
  readonly line: number;
  /** From 1. */
  readonly column: number;
  readonly rule: string;
  readonly message: string;
}

const TERMS = z
  .record(z.string(), z.string())
  .parse(parseYaml(readFileSync(`${import.meta.dirname}/terms.yml`, 'utf8')));
const MAX_WORDS = 35;
const BANNED_STARTS = [
  'what',
  'of',
  'whoever',
  'th(?:at|ose) of',
  'where',
  // "That segment is open" is good English, "That a segment is open" is not.
  'that (?:an?|are|can|does|had|has|is|it|makes|may|must|no|takes|the|there|they|was|were|will|would)',
];
const MAX_COLUMNS = 100;

const markdown: TextlintPluginCreator = {
  Processor: class {
    availableExtensions(): string[] {
      return ['.md'];
    }
    processor(): ReturnType<InstanceType<TextlintPluginCreator['Processor']>['processor']> {
      return {
        preProcess: (text) => parseMarkdown(text),
        postProcess: (messages, filePath = '') => ({ messages, filePath }),
      };
    }
  },
};
const kernel = new TextlintKernel();

/**
 * Checks the prose of a Markdown file, or of a TypeScript file if the name ends with `.ts`.
 *
 * @throws SyntaxError if a `.ts` file cannot be parsed
 */
export async function lintProse(file: string, source: string): Promise<Finding[]> {
  const lines = extname(file) === '.ts' ? extractProse(source) : undefined;
  const { messages } = await kernel.lintText(lines?.map(({ text }) => text).join('\n') ?? source, {
    ext: '.md',
    filePath: file,
    plugins: [{ pluginId: 'markdown', plugin: markdown }],
    rules: [
      { ruleId: 'terms', rule: terms, options: { terms: TERMS } },
      { ruleId: 'sentences', rule: sentences, options: { maxWords: MAX_WORDS, bannedStarts: BANNED_STARTS } },
      {
        ruleId: 'columns',
        rule: columns,
        options: { max: MAX_COLUMNS, lengths: lines?.map(({ length }) => length) },
      },
    ],
  });
  const findings = messages.map(({ loc, ruleId, message }) => {
    const { line, column } = loc.start;
    const place = lines?.[line - 1] ?? { line, column: 0 };
    return { line: place.line, column: place.column + column, rule: ruleId, message };
  });
  return findings.sort((a, b) => a.line - b.line || a.column - b.column);
}
