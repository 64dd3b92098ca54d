import { type ParseResult, parse } from '@babel/parser';

/** A line of prose, and its place in the source. */
export interface ProseLine {
  readonly text: string;
  /** From 1. */
  readonly line: number;
  /** Column of the first character of `text`, from 0. */
  readonly column: number;
  /** Columns of the source's line if the line is a comment and nothing else, otherwise 0. */
  readonly length: number;
}

interface Located {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly loc: { readonly start: { readonly line: number; readonly column: number } };
}

/** Calls with strings that are always prose: titles of tests and help texts of the command line. */
const PROSE_CALL =
  /^(?:test|it|describe)\b(?!.*\.(?:each|for)$)|\.(?:description|summary|option|argument|addHelpText)$|^new Option$/s;

/** Any other string is prose if it has this many words. */
const PROSE_WORDS = 4;
/** A string is not prose if it is an option, an SQL statement, a style sheet or a module. */
const CODE = /^-|^\s*(?:[A-Z]+ [A-Z]+|[.\w]+ \{|export default) /;

/**
 * Extracts the prose of a TypeScript source: comments, titles of tests, help texts, and strings
 * that read like a sentence, such as error messages. Each becomes a paragraph of Markdown.
 *
 * @throws SyntaxError if the source cannot be parsed
 */
export function extractProse(source: string): ProseLine[] {
  const ast = parse(source, { sourceType: 'module', plugins: ['typescript'] });
  return [...commentLines(source, ast), ...stringLines(source, ast)];
}

function commentLines(source: string, ast: ParseResult): ProseLine[] {
  const sourceLines = source.split('\n');
  const found: ProseLine[] = [];
  let previous: Located | undefined;
  for (const comment of ast.comments ?? []) {
    if (!isLocated(comment) || /^\s*biome-ignore/.test(comment.value)) continue;
    if (!continues(source, comment, previous)) found.push(emptyLine(comment));
    previous = comment;
    const { line, column } = comment.loc.start;
    for (const [i, raw] of source.slice(comment.start, comment.end).split('\n').entries()) {
      const [before = '', tag] = /^\s*(?:\/\/+|\/\*+|\*\/|\*)?\s?(@\w+\s*)?/.exec(raw) ?? [];
      // Each tag of TSDoc begins a paragraph.
      if (tag !== undefined) found.push(emptyLine(comment));
      const full = sourceLines[line - 1 + i] ?? '';
      found.push({
        text: raw
          .slice(before.length)
          .replace(/\s*\*\/$/, '')
          .replaceAll(/\{@\w+ ([^}]*)\}/g, (link, target: string) => `\`${target}\``.padEnd(link.length)),
        line: line + i,
        column: before.length + (i === 0 ? column : 0),
        length: /^\s*(?:\/[/*]|\*)/.test(full) ? full.length : 0,
      });
    }
  }
  return found;
}

/** True if the comment is the next of several lines with `//`. */
function continues(source: string, comment: Located, previous: Located | undefined): boolean {
  return (
    previous !== undefined &&
    source.startsWith('//', previous.start) &&
    source.startsWith('//', comment.start) &&
    comment.loc.start.line === previous.loc.start.line + 1 &&
    comment.loc.start.column === previous.loc.start.column
  );
}

function stringLines(source: string, ast: ParseResult): ProseLine[] {
  const found: ProseLine[] = [];
  const add = (node: Located, text: string): void => {
    const { line, column } = node.loc.start;
    found.push(emptyLine(node));
    for (const [i, part] of text.split('\n').entries()) {
      found.push({ text: part, line: line + i, column: i === 0 ? column + 1 : 0, length: 0 });
    }
  };
  const visit = (node: unknown, inProse: boolean): void => {
    if (Array.isArray(node)) for (const each of node) visit(each, inProse);
    if (!isLocated(node)) return;
    if (node.type === 'StringLiteral' || node.type === 'TemplateLiteral') {
      const text = textOf(source, node);
      const words = text.match(/(?<![^\s('"])[a-z]+(?=[\s,.;:!?')]|$)/gi)?.length ?? 0;
      if (words >= (inProse ? 1 : PROSE_WORDS) && !CODE.test(text)) add(node, text);
    }
    const callee = 'callee' in node && isLocated(node.callee) ? source.slice(node.start, node.callee.end) : undefined;
    const isProse = callee !== undefined && PROSE_CALL.test(callee);
    for (const [key, child] of Object.entries(node)) {
      if (!key.endsWith('omments')) visit(child, isProse && key === 'arguments');
    }
  };
  visit(ast.program, false);
  return found;
}

/** The text of a string, in which each inserted value is a code span. */
function textOf(source: string, { start, end }: Located): string {
  return source.slice(start + 1, end - 1).replaceAll(/\$\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}/g, (hole) => {
    return `\`${'x'.repeat(hole.length - 2)}\``;
  });
}

function emptyLine({ loc: { start } }: Located): ProseLine {
  return { text: '', line: start.line, column: start.column, length: 0 };
}

function isLocated(value: unknown): value is Located {
  return typeof value === 'object' && value !== null && 'type' in value && 'loc' in value && value.loc != null;
}
