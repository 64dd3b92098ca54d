import type { Entry, ReservedTypes } from './entry.ts';
import { decodeEntry } from './item-codec.ts';
import type { LogId } from './log-id.ts';
import type { Consistency, LogStore, SegmentRange } from './log-store.ts';

/**
 * The Snapshot entries among those of a range, in order. Of the others only the type is looked at, so a malformed one is
 * in nobody's way.
 * @throws ItemInvalidError where a Snapshot entry cannot be read
 */
export async function* snapshotEntries(
  source: { readonly store: Pick<LogStore, 'items'>; readonly types: ReservedTypes },
  log: LogId,
  range: SegmentRange,
  consistency: Consistency,
): AsyncGenerator<Entry> {
  for await (const page of source.store.items(log, range, consistency)) {
    for (const item of page) if (item.T?.S === source.types.snapshot) yield decodeEntry(item);
  }
}
