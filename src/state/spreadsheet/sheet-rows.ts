import type { Value } from '../../codec/value.ts';
import type { Sheet, Span } from './sheet.ts';

/** The text of a cell: '' if it is empty, otherwise the value as text. */
export function cellText(value: Value | undefined): string {
  if (value === undefined || value === null) return '';
  if (typeof value === 'string') return value;
  if (typeof value !== 'object') return String(value);
  if (value instanceof Date) return value.toISOString();
  return JSON.stringify(value, (_, part: unknown) => (typeof part === 'bigint' ? String(part) : part));
}

/**
 * The rows of a sheet from the start of a span to the last row with a cell, each as texts without
 * the empty cells at its end. Makes rows on demand, so it streams sheets of any size.
 */
export async function* sheetRows(sheet: Sheet, rows?: Span, columns?: Span): AsyncGenerator<string[]> {
  let position = rows?.from ?? 0;
  let current: string[] = [];
  for await (const { row, column, value } of sheet.cells(rows, columns)) {
    for (; position < row; position++) {
      yield current;
      current = [];
    }
    const index = column - (columns?.from ?? 0);
    while (current.length < index) current.push('');
    current[index] = cellText(value);
  }
  if (current.length > 0) yield current;
}
