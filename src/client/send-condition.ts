import { equalBytes } from '../codec/bytes.ts';
import {
  comparePositions,
  givesNumber,
  type Position,
  type PositionOrNumber,
  previousPosition,
} from '../ids/position.ts';
import type { Arrival } from './arrivals.ts';
import type { Unsent } from './branch.ts';

/** The entry is sent only if no application entry follows another one, except those that waited. */
export interface SendCondition {
  readonly after: PositionOrNumber;
  /** Whether it named the newest entry that the author saw. */
  readonly isNewest: boolean;
  /** The moment that the author saw. */
  readonly at: Arrival;
  /** The entries that waited to be sent then. */
  readonly waiting: readonly Unsent[];
}

/** The place that an author sees. */
export interface SeenPlace extends Pick<SendCondition, 'at' | 'waiting'> {
  /** The position of the next entry. */
  readonly position: Position;
  /** The number of the entry before it. */
  readonly number: number | undefined;
}

/** The condition for an entry whose author names another one, and sees a place. */
export function conditionAt(after: PositionOrNumber, { position, number, at, waiting }: SeenPlace): SendCondition {
  const isNewest = givesNumber(after)
    ? after.number === number
    : position.entry > 0 && comparePositions(after, previousPosition(position)) === 0;
  return { after, isNewest, at, waiting };
}

/**
 * The entry after which the new one is appended.
 * @param end the position after the last entry that was read
 */
export function placeUnder({ after, isNewest, at, waiting }: SendCondition, end: Position): PositionOrNumber {
  if (!isNewest) return after;
  for (let moment = at.next; moment !== undefined; moment = moment.next) {
    const { change } = moment;
    const id = change !== undefined && 'entry' in change ? change.id : undefined;
    const isOwn = waiting.some(({ isSent, draft }) => isSent && id !== undefined && isOf(id, draft.id));
    if (!isOwn) return after;
  }
  return previousPosition(end);
}

/** Whether an id is that of an entry, or of one of those that took its place. */
function isOf(id: Uint8Array, own: Uint8Array): boolean {
  return equalBytes(id.subarray(0, own.length), own);
}
