import { SegmentWithoutSnapshotError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { type Position, START } from '../ids/position.ts';
import type { Entry, ReservedTypes } from './entry.ts';
import type { LogReader } from './log-store.ts';
import { queryNewestSegments } from './newest.ts';
import { readEntries } from './read-entries.ts';
import type { Segment } from './segment.ts';
import { lastSnapshotOf, newerSnapshot } from './segment.ts';

export interface QueryRange {
  /** `snapshot` starts at the newest completed snapshot's own entry, `start` at the log's first. */
  readonly from: Position | 'snapshot' | 'start';
  /** Exclusive; the log's end by default. */
  readonly to?: Position | 'end';
  /** The snapshot that the client stands on: it wants to know of a newer one. */
  readonly snapshot?: Position;
}

export interface QueryAnswer {
  /** Where the entries start. */
  readonly start: Position;
  /** Pages of entries in order. They are fetched while they are read, and can be read once. */
  readonly entries: AsyncIterable<readonly Entry[]>;
  /** The place after the last entry that has been read so far: where the next query goes on. */
  readonly end: Position;
  /** The newest completed snapshot, where `snapshot` was given and there is a newer one. */
  readonly lastSnapshot?: Position;
}

/**
 * Reads a run of entries. A log that has just been created is read from its start: its first Snapshot entry stands
 * for the empty state whether or not anybody has completed it.
 *
 * Reading the entries throws what {@link readEntries} throws.
 * @throws LogNotFoundError where the log does not exist
 * @throws SegmentWithoutSnapshotError where `from` is `snapshot` and neither of the two newest segments has one
 */
export async function query(
  source: { readonly store: LogReader; readonly types: ReservedTypes },
  log: LogId,
  range: QueryRange,
): Promise<QueryAnswer> {
  const segments = await queryNewestSegments(source.store, log);
  const start = await resolveStart(source.store, log, { segments, from: range.from });
  const lastSnapshot = range.snapshot && newerSnapshot(segments, range.snapshot);
  const wanted = { from: start, to: range.to ?? 'end', newestSegment: segments[0].segment };
  let end = start;
  async function* entries() {
    for await (const page of readEntries(source, log, wanted)) {
      const last = page.at(-1);
      if (last !== undefined) end = { segment: last.position.segment, entry: last.position.entry + 1 };
      yield page;
    }
  }
  return {
    start,
    entries: entries(),
    get end() {
      return end;
    },
    ...(lastSnapshot !== undefined && { lastSnapshot }),
  };
}

async function resolveStart(
  store: LogReader,
  log: LogId,
  { segments, from }: { readonly segments: readonly Segment[]; readonly from: QueryRange['from'] },
): Promise<Position> {
  if (from === 'start') return START;
  if (from !== 'snapshot') return from;
  const last = lastSnapshotOf(segments);
  if (last !== undefined) return last;
  const fresh = await queryNewestSegments(store, log, { consistent: true });
  const completed = lastSnapshotOf(fresh);
  if (completed !== undefined) return completed;
  if (fresh[0].segment === START.segment) return START;
  throw new SegmentWithoutSnapshotError('neither of the two newest segments has a completed snapshot', {
    log,
    segment: fresh[0].segment,
    advice: "Run 'logfold sweep --log LOG' to complete one, or read from the start",
  });
}
