import { CheckpointInvalidError } from '../errors.ts';
import { MAX_NUMBER, type Position } from '../ids/position.ts';

/** Entries of an epoch that the feed can use: a checkpoint has 20 bits for the entry number. */
export const MAX_EPOCH_ENTRIES = 2 ** 20;

/** The checkpoint before the first entry of a feed. */
export const FEED_START = 0;

/**
 * The checkpoint of a position of the feed: a reader that continues there reads the entry at the
 * position first. So the checkpoint of the position after the last entry is the end of the feed.
 * Checkpoints order as positions do. The number is exact in JavaScript and fits 64 bits.
 */
export function checkpointOf({ segment, entry }: Position): number {
  // After the last number, the next epoch begins.
  return segment * MAX_EPOCH_ENTRIES + Math.min(entry, MAX_EPOCH_ENTRIES);
}

/**
 * The inverse of {@link checkpointOf}.
 * @throws CheckpointInvalidError if it is not the number of a position
 */
export function positionOfCheckpoint(checkpoint: number): Position {
  const given: unknown = checkpoint;
  if (typeof given === 'number' && Number.isSafeInteger(given) && given >= 0) {
    const segment = Math.floor(given / MAX_EPOCH_ENTRIES);
    if (segment <= MAX_NUMBER) return { segment, entry: given % MAX_EPOCH_ENTRIES };
  }
  throw new CheckpointInvalidError(`${typeof given === 'number' ? given : 'the given value'} is not a checkpoint`, {
    advice: 'Give a checkpoint that the feed returned, or 0 to begin with its first entry',
  });
}
