import { PositionInvalidError } from '../errors.ts';

/** The largest segment or entry number. Segment numbers are stored in 4 bytes. */
export const MAX_NUMBER = 2 ** 32 - 1;

/** A place in a log. Positions order by segment, then by entry. */
export interface Position {
  readonly segment: number;
  readonly entry: number;
}

/** The position of the first entry of every log. */
export const START: Position = { segment: 0, entry: 0 };

/** Negative if `a` comes before `b`, positive if it comes after, 0 if they are equal. */
export function comparePositions(a: Position, b: Position): number {
  return a.segment - b.segment || a.entry - b.entry;
}

/** The position directly behind another one in its segment. */
export function nextPosition({ segment, entry }: Position): Position {
  return { segment, entry: entry + 1 };
}

/** The inverse of {@link nextPosition}. */
export function previousPosition({ segment, entry }: Position): Position {
  return { segment, entry: entry - 1 };
}

/** `segment/entry`, as `parsePosition` reads it. */
export function formatPosition(position: Position): string {
  return `${position.segment}/${position.entry}`;
}

/**
 * Parses `segment/entry`.
 * @throws PositionInvalidError if the text has another form or a number is out of range
 */
export function parsePosition(text: string): Position {
  const match = /^(\d{1,10})\/(\d{1,10})$/.exec(text);
  const segment = Number(match?.[1]);
  const entry = Number(match?.[2]);
  if (match === null || segment > MAX_NUMBER || entry > MAX_NUMBER) {
    throw new PositionInvalidError(`'${text}' is not a position`, {
      advice: "Write SEGMENT/ENTRY with numbers from 0 to 4294967295, such as '0/17'",
    });
  }
  return { segment, entry };
}
