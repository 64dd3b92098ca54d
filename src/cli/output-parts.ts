import { withPauses } from './output.ts';

/** Length of the parts that are written together, in UTF-16 code units. */
const PART_LENGTH = 64 * 1024;

/**
 * Yields a JSON document in parts, because the whole may be too long for a string.
 * @param head the first properties of the document, at least one
 * @param name the last property, an array of the items
 */
export function documentParts(head: object, name: string, items: AsyncIterable<object>): AsyncGenerator<string> {
  const start = `${JSON.stringify(head).slice(0, -1)},"${name}":[`;
  return joined(items, { start, separator: ',', end: ']}\n' }, (item) => JSON.stringify(item));
}

/** Yields a line for each item, several of them at a time. */
export function lineParts<T>(items: AsyncIterable<T>, lineOf: (item: T) => string): AsyncGenerator<string> {
  return joined(items, { start: '', separator: '', end: '' }, (item) => `${lineOf(item)}\n`);
}

interface Around {
  readonly start: string;
  readonly separator: string;
  readonly end: string;
}

async function* joined<T>(
  items: AsyncIterable<T>,
  { start, separator, end }: Around,
  textOf: (item: T) => string,
): AsyncGenerator<string> {
  let text = start;
  let between = '';
  for await (const item of withPauses(items)) {
    text += between + textOf(item);
    between = separator;
    if (text.length < PART_LENGTH) continue;
    yield text;
    text = '';
  }
  yield text + end;
}
