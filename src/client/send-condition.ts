import {
  comparePositions,
  givesNumber,
  type Position,
  type PositionOrNumber,
  previousPosition,
} from '../ids/position.ts';
import type { Unsent } from './branch.ts';

/** The entry is sent only if no application entry follows another one, except those before it. */
export interface SendCondition {
  readonly after: PositionOrNumber;
  /** Whether it named the newest entry that the author saw. */
  readonly isNewest: boolean;
}

/**
 * The condition for an entry whose author names another one.
 * @param seen the position and the number of the entries that the author sees
 */
export function conditionAt(
  after: PositionOrNumber,
  seen: { readonly position: Position; readonly number: number | undefined },
): SendCondition {
  const { position, number } = seen;
  const isNewest = givesNumber(after)
    ? after.number === number
    : position.entry > 0 && comparePositions(after, previousPosition(position)) === 0;
  return { after, isNewest };
}

/**
 * The entry after which the new one is appended.
 * @param end the position after the last entry that was read, which the new one has met
 */
export function placeUnder(
  { after, isNewest }: SendCondition,
  { followsOthers = false }: Unsent,
  end: Position,
): PositionOrNumber {
  return isNewest && !followsOthers ? previousPosition(end) : after;
}
