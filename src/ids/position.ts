import { PositionInvalidError, printable } from '../errors.ts';

/** The largest segment or entry number. Segment numbers are stored in 4 bytes. */
export const MAX_NUMBER = 2 ** 32 - 1;

/** A place in a log. Positions order by segment, then by entry. */
export interface Position {
  readonly segment: number;
  readonly entry: number;
}

/**
 * An entry of the application by its number: the count of these entries up to and including it.
 * Logs whose entries have no numbers know positions only.
 */
export interface EntryNumber {
  readonly number: number;
}

/** A place in a log, as a caller gives it: a position, or the number of the entry there. */
export type PositionOrNumber = Position | EntryNumber;

/** The position of the first entry of every log. */
export const START: Position = { segment: 0, entry: 0 };

/** Negative if `a` comes before `b`, positive if it comes after, 0 if they are equal. */
export function comparePositions(a: Position, b: Position): number {
  return a.segment - b.segment || a.entry - b.entry;
}

/** The position directly after another one in its segment. */
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

/**
 * Checks a position that a caller gave.
 * @param parameter its name, and the log for the error
 * @throws PositionInvalidError if it is not a position
 */
export function checkPosition(
  given: unknown,
  parameter: { readonly log: string; readonly name: string },
): asserts given is Position {
  if (isPosition(given)) return;
  throw new PositionInvalidError(`\`${parameter.name}\` is not a position`, {
    log: parameter.log,
    advice: `Give { segment, entry } with whole numbers from 0 to ${MAX_NUMBER}; parsePosition reads text such as '0/17'`,
  });
}

/** Whether a caller gave a number instead of a position. An object that has both is a position. */
export function givesNumber(given: unknown): given is EntryNumber {
  return typeof given === 'object' && given !== null && 'number' in given && !('segment' in given);
}

/**
 * Checks a place that a caller gave. The range of its number is left to those who look it up.
 * @param parameter its name, the words that it takes too, and the log for the error
 * @throws PositionInvalidError if it is neither a position nor a number of an entry
 */
export function checkPositionOrNumber(
  given: unknown,
  { log, name, words = [] }: { readonly log: string; readonly name: string; readonly words?: readonly string[] },
): asserts given is PositionOrNumber {
  if (givesNumber(given) || isPosition(given)) return;
  const number = isNumber(given) ? given : EXAMPLE_NUMBER;
  const others = ['{ segment, entry }', ...words.map((word) => `'${word}'`)].join(' or ');
  throw new PositionInvalidError(`\`${name}\` is not a position${butIs(given)}`, {
    log,
    advice: `Give { number: ${number} } for an entry by its number, or ${others}; parsePosition reads text such as '0/17'`,
  });
}

/** UTF-16 code units of a wrong position in an error. */
const MAX_SHOWN = 40;
const EXAMPLE_NUMBER = 12;

function butIs(given: unknown): string {
  if (typeof given === 'object' && given !== null) return '';
  const shown = printable(String(given).slice(0, MAX_SHOWN));
  return `, but ${typeof given === 'string' ? `'${shown}'` : shown}`;
}

function isPosition(given: unknown): given is Position {
  if (typeof given !== 'object' || given === null || !('segment' in given && 'entry' in given)) return false;
  return isNumber(given.segment) && isNumber(given.entry);
}

function isNumber(given: unknown): given is number {
  return typeof given === 'number' && Number.isSafeInteger(given) && given >= 0 && given <= MAX_NUMBER;
}
