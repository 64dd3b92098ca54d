import { Option } from '@commander-js/extra-typings';
import { type DocumentState, loadPastState, type Moment } from '../client/document-state.ts';
import { PositionInvalidError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { formatPosition, MAX_NUMBER, type Position, parsePosition } from '../ids/position.ts';
import { isoSeconds } from '../mapping/item-time.ts';
import { type BadEntry, ON_BAD_ENTRY } from '../snapshot/bad-entry.ts';
import type { Environment } from './environment.ts';

/** Explains the moments of {@link atOption}, for the help of a command. */
export const MOMENT_HELP = `
With --at 0/17, this is the state before entry 17 of segment 0. With --at 12, it is the state before the entry with this
number, as entries --json numbers the entries of the application. With --at 2024-01-31T08:00:00Z, it is the state after
all entries up to that second. A time without an offset is UTC, and a date is its midnight. If the times of entries go back, because
clocks disagree or the application gave times, the state is from one of the positions at which they pass the time.`;

/** The option for the state at a moment instead of the newest. */
export function atOption() {
  return new Option(
    '--at <moment>',
    'the state before this entry, as SEGMENT/ENTRY or its number, or at this time; by default the newest state',
  ).argParser(parseMoment);
}

/**
 * Parses a position, the number of an entry, or a time. Without an offset, a time is UTC, and a
 * date is its midnight.
 * @throws PositionInvalidError
 */
export function parseMoment(text: string): Moment {
  if (text.includes('/')) return parsePosition(text);
  if (/^\d{1,10}$/.test(text) && Number(text) <= MAX_NUMBER) return { number: Number(text) };
  const seconds = isoSeconds(text);
  if (seconds !== undefined) return new Date(seconds * 1000);
  throw new PositionInvalidError(`'${text}' is neither a position nor a time`, {
    advice:
      "Write SEGMENT/ENTRY, such as '0/17', the number of an entry, such as '12', or a time, such as '2024-01-31' or '2024-01-31T08:00:00Z'",
  });
}

/** A state that a command shows. */
export interface ShownState extends BadEntryPart {
  readonly state: DocumentState;
  readonly position: Position;
  /** The snapshot from which the state was loaded; null for the beginning of the log. */
  readonly snapshot: Position | null;
}

/**
 * Loads the state of a log at a moment, or the newest.
 * @throws the errors of `Document.open` and `Document.at`, and ReducerForeignError
 */
export async function loadShownState(
  environment: Environment,
  log: LogId,
  at: Moment | undefined,
): Promise<ShownState> {
  if (at === undefined) {
    const { state, position, snapshot = null, badEntry } = await environment.open(log);
    return { state, position, snapshot, ...reportBadEntry(environment, log, badEntry) };
  }
  const { requireReducer, deps, onBadEntry } = environment;
  await requireReducer(log);
  const state = await loadPastState(deps, log, at, { onBadEntry });
  const { position, snapshot = null, badEntry } = state;
  return { state, position, snapshot, ...reportBadEntry(environment, log, badEntry) };
}

/** The option of commands that read states. */
export function onBadEntryOption() {
  return new Option(
    '--on-bad-entry <how>',
    'if an entry cannot be folded: throw its error, or stop and show the state before it',
  )
    .choices(ON_BAD_ENTRY)
    .default('throw' as const);
}

/** The part of a command's document that names the entry before which a state ends. */
export interface BadEntryPart {
  /** Null if every entry could be folded. Absent unless the command stops at such entries. */
  readonly badEntry?: BadEntry | null;
}

/** Names the entry before which a state ends, in a notice for people and a part for programs. */
export function reportBadEntry(
  { onBadEntry, notice }: Pick<Environment, 'onBadEntry' | 'notice'>,
  log: LogId,
  badEntry: BadEntry | undefined,
): BadEntryPart {
  if (onBadEntry !== 'stop') return {};
  if (badEntry !== undefined) {
    const { position, error } = badEntry;
    notice(
      `Log ${log}: this is the state before ${formatPosition(position)}, which cannot be folded: ${error.code}: ${error.message}`,
    );
  }
  return { badEntry: badEntry ?? null };
}
