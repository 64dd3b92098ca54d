import {
  ArchiveCorruptError,
  ArchiveMissingError,
  ChunkCorruptError,
  ChunkMissingError,
  EntryGapError,
  HistoryGoneError,
  isLogfoldError,
  type LogfoldError,
  RootInvalidError,
  SegmentGapError,
  SnapshotMismatchError,
  SourceChangedError,
  UsageError,
} from '../errors.ts';
import { comparePositions, type Position } from '../ids/position.ts';

/** A reader that meets a bad entry throws its error, or shows the state before it. */
export type OnBadEntry = (typeof ON_BAD_ENTRY)[number];

export const ON_BAD_ENTRY = ['throw', 'stop'] as const;

/** An entry that cannot be decoded or folded. */
export interface BadEntry {
  readonly position: Position;
  readonly error: LogfoldError;
}

/** Errors of stored data that concern more than the one entry that they may name. */
const NOT_OF_ENTRIES = [
  ArchiveCorruptError,
  ArchiveMissingError,
  ChunkCorruptError,
  ChunkMissingError,
  EntryGapError,
  HistoryGoneError,
  RootInvalidError,
  SegmentGapError,
  SnapshotMismatchError,
  SourceChangedError,
];

/** The bad entry that a read or a fold met; undefined if the error is about something else. */
function badEntryOf(error: unknown): BadEntry | undefined {
  if (!isLogfoldError(error) || !error.stopsLog || NOT_OF_ENTRIES.some((type) => error instanceof type)) {
    return undefined;
  }
  const { segment, entry } = error;
  if (segment === undefined || entry === undefined) return undefined;
  return Object.freeze({ position: Object.freeze({ segment, entry }), error });
}

/**
 * Runs a load of the entries up to a position. If one of them is bad and readers stop there, runs
 * the load again up to that entry.
 * @returns the result of the last run, and the bad entry at which it ended
 * @throws the error of the load, if no entry is bad or readers throw
 */
export async function untilBadEntry<T>(
  onBadEntry: OnBadEntry | undefined,
  end: Position | 'end',
  load: (to: Position | 'end') => Promise<T>,
): Promise<{ readonly loaded: T; readonly badEntry: BadEntry | undefined }> {
  let to = end;
  let badEntry: BadEntry | undefined;
  for (;;) {
    try {
      return { loaded: await load(to), badEntry };
    } catch (error) {
      const found = onBadEntry === 'stop' ? badEntryOf(error) : undefined;
      // An entry after the end was not loaded, so the error is about something else.
      if (found === undefined || (to !== 'end' && comparePositions(found.position, to) >= 0)) throw error;
      badEntry = found;
      to = found.position;
    }
  }
}

/** Whether two reads found the same entry to be bad, for the same reason. */
export function isSameBadEntry(one: BadEntry | undefined, other: BadEntry | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  return comparePositions(one.position, other.position) === 0 && one.error.message === other.error.message;
}

/** @throws UsageError if a value is not a {@link OnBadEntry} */
export function checkOnBadEntry(value: unknown): void {
  if (value === undefined || ON_BAD_ENTRY.some((known) => known === value)) return;
  throw new UsageError(
    `'onBadEntry' is ${String(value)}, not ${ON_BAD_ENTRY.map((known) => `'${known}'`).join(' or ')}`,
  );
}
