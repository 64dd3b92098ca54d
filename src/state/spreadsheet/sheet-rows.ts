import type { Value } from '../../codec/value.ts';
import type { Sheet, Span } from './sheet.ts';

/** What a person reads in a cell: '' where it is empty, otherwise the value as text. */
export function cellText(value: Value | undefined): string {
  if (value === undefined || value === null) return '';
  if (typeof value === 'string') return value;
  if (typeof value !== 'object') return String(value);
  if (value instanceof Date) return value.toISOString();
  return JSON.stringify(value, (_, part: unknown) => (typeof part === 'bigint' ? String(part) : part));
}

/**
 * The rows of a sheet from the first position of a span to the last one with a cell in it, each as texts without the
 * empty cells at its end. Rows are made as they are asked for, so a sheet of any size streams through.
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
