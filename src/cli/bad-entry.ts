import { Option } from '@commander-js/extra-typings';
import type { LogId } from '../ids/log-id.ts';
import { formatPosition } from '../ids/position.ts';
import { type BadEntry, ON_BAD_ENTRY } from '../snapshot/bad-entry.ts';
import type { Environment } from './environment.ts';

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
