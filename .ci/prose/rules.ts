import type { TextlintRuleContext, TextlintRuleModule } from '@textlint/types';

type Node = Parameters<TextlintRuleContext['getSource']>[0] & object;

interface TermsOptions {
  /** Suggestions by regular expression. */
  readonly terms?: Readonly<Record<string, string>>;
}

/** Reports phrases that have a plainer form. Ignores code. */
export const terms: TextlintRuleModule<TermsOptions> = (context, { terms = {} } = {}) => {
  const { Syntax, RuleError, report, getSource, locator } = context;
  const patterns = Object.entries(terms).map(
    ([source, suggestion]) => [new RegExp(`\\b(?:${source.replaceAll(' ', '\\s+')})\\b`, 'gi'), suggestion] as const,
  );
  return {
    [Syntax.Str]: (node) => {
      for (const [pattern, suggestion] of patterns) {
        for (const { 0: found, index } of getSource(node).matchAll(pattern)) {
          const padding = locator.at(index);
          report(node, new RuleError(`'${found.replace(/\s+/, ' ')}': write ${suggestion}`, { padding }));
        }
      }
    },
  };
};

interface SentencesOptions {
  /** Words in the longest sentence that passes. */
  readonly maxWords?: number;
  /** Regular expressions for words that begin no sentence, except a question. */
  readonly bannedStarts?: readonly string[];
}

const splitter = new Intl.Segmenter('en', { granularity: 'sentence' });

/** Reports long sentences and bad beginnings. Ignores headings and the first row of a table. */
export const sentences: TextlintRuleModule<SentencesOptions> = (context, options = {}) => {
  const { Syntax, RuleError, report, getSource, locator } = context;
  const { maxWords = 35, bannedStarts = [] } = options;
  const banned = new RegExp(`^\\P{L}*(${bannedStarts.join('|') || '(?!)'})(?!['’\\p{L}])`, 'iu');

  const check = (node: Node): void => {
    for (const { segment, index } of splitter.segment(segmentable(getSource(node)))) {
      const padding = locator.at(index + segment.search(/[^\s|]|$/));
      const first = banned.exec(segment)?.[1];
      if (first !== undefined && !/\?\W*$/.test(segment)) {
        report(node, new RuleError(`the sentence starts with '${first}': put subject and verb first`, { padding }));
      }
      const words = segment.match(/\S*[\p{L}\p{N}]\S*/gu)?.length ?? 0;
      if (words > maxWords) {
        report(node, new RuleError(`the sentence has ${words} words: split it (limit: ${maxWords})`, { padding }));
      }
    }
  };

  return {
    [Syntax.Paragraph]: check,
    [Syntax.Table]: (table) => {
      for (const row of table.children.slice(1)) {
        for (const cell of row.children) check(cell);
      }
    },
  };
};

interface ColumnsOptions {
  /** Columns in the longest line that passes. */
  readonly max?: number;
  /** Columns of each line in the file, if they differ from the text's. A line with 0 passes. */
  readonly lengths?: readonly number[] | undefined;
}

/** Reports long lines of paragraphs. Ignores lines of a single link or code span. */
export const columns: TextlintRuleModule<ColumnsOptions> = (context, { max = 100, lengths } = {}) => {
  const { Syntax, RuleError, report, getSource, locator } = context;
  return {
    [Syntax.Paragraph]: (node) => {
      let index = 0;
      for (const [i, line] of getSource(node).split('\n').entries()) {
        const start = i === 0 ? node.loc.start.column : 0;
        const length = lengths?.[node.loc.start.line - 1 + i] ?? start + line.length;
        if (length > max && /\s/.test(line.trim().replace(/`[^`]*`|\[[^\]]*\]\([^)]*\)/g, 'x'))) {
          const padding = locator.at(index);
          report(node, new RuleError(`the line has ${length} columns: wrap it (limit: ${max})`, { padding }));
        }
        index += line.length + 1;
      }
    },
  };
};

/**
 * The text as the segmenter needs it, with the same length: without line breaks, which end a
 * sentence, and with a capital letter at each beginning. A code span becomes one word.
 */
function segmentable(text: string): string {
  return text
    .replaceAll('\n', ' ')
    .replaceAll(/`[^`]*`/g, (code) => 'X'.repeat(code.length))
    .replaceAll(/(?<!\b(?:e\.g|i\.e|etc|vs))([.!?]\s+)(\p{Ll})/gu, (_, end, letter) => `${end}${letter.toUpperCase()}`);
}
