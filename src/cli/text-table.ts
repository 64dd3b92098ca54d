import stringWidth from 'string-width';
import { forTerminal } from './format.ts';

/** The cells of a row, one for each column. */
export type TableRow = readonly (string | number)[];

/**
 * A table for people, as wide as its widest cells. It takes time in proportion to its rows.
 * @param head the names of the columns
 * @param rows escapes replace control characters
 */
export function textTable(head: readonly string[], rows: readonly TableRow[]): string {
  const texts = rows.map((row) => row.map((cell) => forTerminal(`${cell}`)));
  const widths = head.map((name) => stringWidth(name));
  for (const row of texts) {
    for (const [i, cell] of row.entries()) widths[i] = Math.max(widths[i] ?? 0, stringWidth(cell));
  }
  const line = (row: readonly string[]): string =>
    `│${row.map((cell, i) => ` ${cell}${' '.repeat((widths[i] ?? 0) - stringWidth(cell))} `).join('│')}│`;
  const rule = (left: string, middle: string, right: string): string =>
    `${left}${widths.map((width) => '─'.repeat(width + 2)).join(middle)}${right}`;
  const lines = [rule('┌', '┬', '┐'), line(head)];
  if (texts.length > 0) lines.push(rule('├', '┼', '┤'), ...texts.map(line));
  lines.push(rule('└', '┴', '┘'));
  return lines.join('\n');
}
