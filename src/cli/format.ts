import stringWidth from 'string-width';
import { printable, UsageError } from '../errors.ts';
import { count, formatBytes } from '../workers/jobs/report.ts';

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

/** Names the objects that a command fetched. A request for a missing object fetches nothing. */
export function describeFetched({ gets, bytesRead }: { readonly gets: number; readonly bytesRead: number }): string {
  return bytesRead === 0 ? 'no object fetched' : `${count(gets, 'object')} with ${formatBytes(bytesRead)} fetched`;
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
export function cutLine(text: string, width: number): string {
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
function columnWidths(head: readonly string[], rows: readonly TableRow[]): number[] {
  const widths = head.map((name) => stringWidth(name));
  for (const row of rows) {
    for (const [i, cell] of row.entries()) widths[i] = Math.max(widths[i] ?? 0, stringWidth(`${cell}`));
  }
  return widths;
}

/** The columns of the screen for a table whose columns have these widths. */
function tableWidth(widths: readonly number[]): number {
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
  const texts = rows.map((row) => row.map((cell) => cutLine(`${cell}`, cellWidth)));
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

/** Rows with aligned columns and without borders. Columns without a text are left out. */
export function alignedLines(rows: readonly (readonly string[])[]): string[] {
  const widths = columnWidths([], rows);
  const padded = (cell: string, i: number): string => cell + ' '.repeat((widths[i] ?? 0) - stringWidth(cell));
  return rows.map((row) =>
    row
      .map(padded)
      .filter((cell) => cell !== '')
      .join('  ')
      .trimEnd(),
  );
}

/** How a table may change so that it fits a terminal. */
export interface TableFit {
  /** Columns that may go if they are empty or do not fit, the least important first. */
  readonly spare?: readonly string[];
  /** Columns that may go after them, if they do not fit. */
  readonly last?: readonly string[];
  /**
   * Columns with long cells, which `…` shortens. Other columns go only after these are this narrow,
   * in columns of the screen.
   */
  readonly long: Readonly<Record<string, number>>;
}

export interface FittedTable {
  /** The table. A last line names the columns that did not fit. */
  readonly text: string;
  /** Whether all cells that tell something are shown in full. */
  readonly isWhole: boolean;
}

/** The fewest columns of the screen for a shortened cell. */
const NARROWEST = 4;

/**
 * A {@link textTable} with all columns, or on a terminal only with those that tell something and
 * that fit.
 * @param screen the columns of the terminal; by default those of standard output
 */
export function fittedTable(
  head: readonly string[],
  rows: readonly TableRow[],
  { spare = [], last = [], long }: TableFit,
  screen = screenColumns(),
): FittedTable {
  if (screen === undefined) return { text: textTable(head, rows), isWhole: true };
  const texts = rows.map((row) => row.map((cell) => cutLine(`${cell}`, WIDEST)));
  const widths = columnWidths(head, texts);
  const shown = new Set(head.keys().filter((i) => !spare.includes(head[i] ?? '') || rows.some((row) => tells(row[i]))));
  const excess = (each: readonly number[]): number => tableWidth(each.filter((_, i) => shown.has(i))) - screen;
  /** The widths after the widest of the long columns gave what is too much. */
  const narrowed = (floorOf: (name: string) => number | undefined): number[] => {
    const found = [...widths];
    const floors = head.map((name) => Math.max(stringWidth(name), NARROWEST, floorOf(name) ?? WIDEST));
    for (let left = excess(found); left > 0; left--) {
      const able = [...shown].filter((i) => (found[i] ?? 0) > (floors[i] ?? 0));
      const widest = able.sort((a, b) => (found[b] ?? 0) - (found[a] ?? 0))[0];
      if (widest === undefined) break;
      found[widest] = (found[widest] ?? 0) - 1;
    }
    return found;
  };
  const wanted = (): number[] => narrowed((name) => long[name]);
  const missing = [...spare, ...last].filter((name) => excess(wanted()) > 0 && shown.delete(head.indexOf(name)));
  const fitted = excess(wanted()) > 0 ? narrowed((name) => (name in long ? 0 : undefined)) : wanted();
  const cellsOf = <T>(row: readonly T[]): T[] => row.filter((_, i) => shown.has(i));
  const table = textTable(
    cellsOf(head),
    texts.map((row) => cellsOf(row.map((cell, i) => cutLine(cell, fitted[i] ?? WIDEST)))),
  );
  const shortened = head.filter((_, i) => shown.has(i) && (fitted[i] ?? 0) < (widths[i] ?? 0));
  const left = [...missing, ...shortened.map((name) => `${name} in full`)];
  if (left.length === 0) return { text: table, isWhole: true };
  return { text: `${table}\nFor ${left.join(', ')}, widen the terminal or give --json.`, isWhole: false };
}

/** Whether a cell tells something. */
function tells(cell: string | number | undefined): boolean {
  return !['', '-', 0, '0 B', undefined].includes(cell);
}

/** The columns of standard output; undefined if it is not a terminal, or does not say. */
export function screenColumns(): number | undefined {
  const { isTTY, columns } = process.stdout;
  return isTTY && columns > 0 ? columns : undefined;
}
