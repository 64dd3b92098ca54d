import type { LogId } from '../ids/log-id.ts';
import type { Position } from '../ids/position.ts';
import { encodeBody } from '../log/body.ts';
import type { AddedEntries, NewEntry } from '../log/client.ts';
import { type Entry, epochSeconds, newEntryId } from '../log/entry.ts';
import { storableMetadata } from '../log/metadata.ts';

/** A new entry with everything that its fold depends on, except its position. */
export type DraftedEntry = NewEntry & { readonly id: Uint8Array; readonly created: number };

/**
 * Gives a new entry its id and its time, unless the caller did.
 * @throws ClockInvalidError if the clock shows a time before 1970
 */
export function draftEntry(
  entry: NewEntry,
  { now, random }: { readonly now: () => number; readonly random: () => number },
): DraftedEntry {
  return { ...entry, id: entry.id ?? newEntryId(random), created: entry.created ?? epochSeconds(now()) };
}

/**
 * New entries as readers will see them, if no other entry comes in between.
 * @param end the position of the first of them
 * @throws ValueUnsupportedError, TooLargeError, UsageError if a body or metadata cannot be stored
 */
export function entriesAt(log: LogId, end: Position, entries: readonly DraftedEntry[]): Entry[] {
  return entries.map(({ body = null, metadata, ...rest }, i) => ({
    ...rest,
    log,
    position: { segment: end.segment, entry: end.entry + i },
    metadata: storableMetadata(log, metadata),
    ...(body !== null && { body: { format: 'bytes' as const, bytes: encodeBody(body) } }),
  }));
}

/** The last of the entries that were just appended, with the number that it has in the log. */
export function lastOf(drafts: readonly Entry[], { firstNumber }: AddedEntries): Entry | undefined {
  const last = drafts.at(-1);
  return last && { ...last, number: firstNumber === undefined ? undefined : firstNumber + drafts.length - 1 };
}
