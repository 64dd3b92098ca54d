import stringWidth from 'string-width';
import { printable, UsageError } from '../errors.ts';

/**
 * A text for a terminal. Escapes replace control characters, which move a cursor or change colours,
 * except ends of lines and tabs. Values of arguments, files and logs may have any.
 */
export function forTerminal(text: string): string {
  return text.replaceAll(/(?![\n\t])[\p{Cc}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/gu, printable);
}

const SECONDS: Readonly<Record<string, number>> = { '': 1, s: 1, m: 60, h: 3600, d: 24 * 3600 };

/**
 * Parses `90s`, `30m`, `24h` or `7d` to seconds. A number alone is seconds.
 * @throws UsageError
 */
export function parseDuration(text: string): number {
  const match = /^(\d{1,9})([smhd]?)$/.exec(text);
  const unit = SECONDS[match?.[2] ?? '?'];
  if (match === null || unit === undefined) {
    throw new UsageError(`'${text}' is not a duration`, { advice: "Write a number and s, m, h or d, such as '24h'" });
  }
  return Number(match[1]) * unit;
}

/** Seconds for people, in the largest unit that divides them. */
export function formatDuration(seconds: number): string {
  const [unit, size] = Object.entries(SECONDS).findLast(([, size]) => seconds >= size && seconds % size === 0) ?? [
    's',
    1,
  ];
  return `${seconds / size}${unit === '' ? 's' : unit}`;
}

/** The cells of a row, one for each column. */
export type TableRow = readonly (string | number)[];

/** A text of this many UTF-16 code units is never narrower than a column of a screen. */
const WIDEST = 10_000;
const GRAPHEMES = new Intl.Segmenter('en');

/**
 * A text on one line of a terminal, in at most this many columns of the screen: `…` replaces the
 * rest. Escapes replace ends of lines and tabs too.
 */
function oneLine(text: string, width: number): string {
  const line = forTerminal(text.slice(0, WIDEST).toWellFormed()).replaceAll(/[\n\t]/g, printable);
  if (text.length <= WIDEST && stringWidth(line) <= width) return line;
  let shown = '';
  let columns = 1;
  for (const { segment } of GRAPHEMES.segment(line)) {
    columns += stringWidth(segment);
    if (columns > width) break;
    shown += segment;
  }
  return `${shown}…`;
}

/** The columns of the screen that each column of a table takes without its borders. */
export function columnWidths(head: readonly string[], rows: readonly TableRow[]): number[] {
  const widths = head.map((name) => stringWidth(name));
  for (const row of rows) {
    for (const [i, cell] of row.entries()) widths[i] = Math.max(widths[i] ?? 0, stringWidth(`${cell}`));
  }
  return widths;
}

/** The columns of the screen for a table whose columns have these widths. */
export function tableWidth(widths: readonly number[]): number {
  return widths.reduce((sum, width) => sum + width + 3, 1);
}

/**
 * A table for people, as wide as its widest cells. It takes time in proportion to its rows.
 * @param head the names of the columns
 * @param rows escapes replace control characters
 * @param cellWidth the most columns of the screen for a cell; by default so many that nobody cuts
 * an id or a value
 */
export function textTable(head: readonly string[], rows: readonly TableRow[], cellWidth = WIDEST): string {
  const texts = rows.map((row) => row.map((cell) => oneLine(`${cell}`, cellWidth)));
  const widths = columnWidths(head, texts);
  const line = (row: readonly string[]): string =>
    `│${row.map((cell, i) => ` ${cell}${' '.repeat((widths[i] ?? 0) - stringWidth(cell))} `).join('│')}│`;
  const rule = (left: string, middle: string, right: string): string =>
    `${left}${widths.map((width) => '─'.repeat(width + 2)).join(middle)}${right}`;
  const lines = [rule('┌', '┬', '┐'), line(head)];
  if (texts.length > 0) lines.push(rule('├', '┼', '┤'), ...texts.map(line));
  lines.push(rule('└', '┴', '┘'));
  return lines.join('\n');
}
