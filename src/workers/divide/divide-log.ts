import { EntryExistsError, EntryNotFoundError, ItemInvalidError, SourceChangedError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import { formatPosition, MAX_NUMBER, type Position } from '../../ids/position.ts';
import { checkRoom } from '../../log/append.ts';
import { wholeNumber } from '../../log/attribute.ts';
import { type DivisionPolicy, isSegmentDue, isSnapshotDue, type MeasuredTail } from '../../log/division-policy.ts';
import { type EntryHead, epochSeconds, newEntryId, type ReservedTypes } from '../../log/entry.ts';
import { decodeEntryHead } from '../../log/item-codec.ts';
import type { AheadAppender, EntryAppender, TableReader } from '../../log/log-store.ts';
import { snapshotEntry } from '../../log/new-entry.ts';
import { nextSegment } from '../../log/new-segment.ts';
import { endAfter, queryNewestSegments } from '../../log/newest.ts';
import type { Scheduler } from '../../log/schedule.ts';
import { coveredEntries, type Segment, shownAttributes } from '../../log/segment.ts';
import { TailCount } from '../../log/tail-count.ts';
import { hasStop, type Stopped, writeStop } from '../../snapshot/stop.ts';
import { foldsItems } from '../../state/items/reducer.ts';
import type { Reducer } from '../../state/reducer.ts';
import type { BlobStore } from '../../store/blob-store.ts';
import type { DivideJob } from '../jobs/job.ts';
import { count, NOTHING_TO_DO, type Report, reportUndone } from '../jobs/report.ts';

/**
 * Tries to write while an application appends. They do not wait, because an application that never
 * pauses leaves no better moment. A job must end soon: snapshot jobs of the log wait for it.
 */
const ATTEMPTS = 20;
/**
 * The most unread entries after which a job writes. A partition of DynamoDB
 * takes 1,000 writes per second, so more rarely arrive within the milliseconds of a request.
 */
const MAX_UNREAD = 8;

export interface DivideDeps {
  readonly tables: TableReader & EntryAppender & AheadAppender;
  /** Finds what is due in logs that are not in logfold's own schema. */
  readonly scheduler?: Scheduler | undefined;
  readonly blobs: BlobStore;
  /** The reducer that a stop note names. */
  readonly reducer: Pick<Reducer, 'name' | 'version'>;
  readonly types: ReservedTypes;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** From 0 up to but not including 1. */
  readonly random: () => number;
  readonly division: DivisionPolicy;
}

export type DivideResult =
  /**
   * A Snapshot entry was appended, alone or as the first entry of a new segment. In a scheduled log
   * it exists anyway, and only its snapshot is due.
   */
  | { readonly outcome: 'divided'; readonly position: Position; readonly startsSegment: boolean }
  /** Segments of a scheduled log were registered, and nothing else was due. */
  | { readonly outcome: 'registered'; readonly segments: number }
  | {
      readonly outcome: 'undivided';
      /**
       * `stopped`: a stopped log gets no Snapshot entries, which would all stay pending.
       * `uncovered`: a segment is due, but the newest one has no complete snapshot yet. `busy`: in
       * every try others were faster; one of the next entries asks again.
       */
      readonly reason: 'not due' | 'stopped' | 'uncovered' | 'busy';
    }
  /** An item of a scheduled log does not fit the mapping. */
  | Stopped;

export function reportDivision(result: DivideResult): Report {
  switch (result.outcome) {
    case 'divided': {
      const at = formatPosition(result.position);
      const text = result.startsSegment ? `started a segment at ${at}` : `Snapshot entry at ${at}`;
      return { text, level: 'info', makesDue: true };
    }
    case 'registered':
      return { text: `${count(result.segments, 'segment')} registered`, level: 'info' };
    case 'undivided':
      return NOTHING_TO_DO;
    default:
      return reportUndone(result);
  }
}

/**
 * Appends the Snapshot entry or starts the segment that is due. It counts exactly what the log has,
 * and writes directly after the newest entry. So it changes nothing if nothing is due: a
 * duplicate, a late job, or a job after the application's own Snapshot entry.
 *
 * If an application is faster, the job counts only the entries that came since, and tries again. It
 * then also tries after entries that are still to come, so that an application which appends
 * between each two of its requests does not starve it.
 *
 * The entry has the current time. In a log of revisions, whose entries have the times of a stream's
 * records, it has the time of the newest entry, so that times do not go back.
 *
 * It registers the begun segments of a scheduled log, and finds out whether the newest Snapshot
 * entry gets its snapshot.
 *
 * Takes two queries, and one request each for the stop note and the entry if something is due. Each
 * further try takes a query and a write. A scheduled log takes about two more queries, and a write
 * for each new segment. An item that does not fit its mapping stops the log: otherwise every job
 * would fail, and none could report the item.
 * @throws LogNotFoundError if the log has no segment
 * @throws ItemInvalidError if the keys of an entry in logfold's own schema are malformed
 * @throws EntryExistsError if the newest segment has ended, but no segment follows
 * @throws any transient error; the caller retries the job
 */
export async function divideLog(deps: DivideDeps, { log }: DivideJob): Promise<DivideResult> {
  if (deps.scheduler === undefined) return divideOwn(deps, log);
  return divideScheduled(deps, log, deps.scheduler).catch((error: unknown) => stopIfUnfit(deps, log, error));
}

async function divideOwn(deps: DivideDeps, log: LogId): Promise<DivideResult> {
  const id = newEntryId(deps.random);
  let isStopped: boolean | undefined;
  // The time of an entry that was not read is unknown, and times must not go back.
  const mayGuess = !foldsItems(deps.reducer);
  let unread = 0;
  let end = await countEnd(deps, log);
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    if (end.isEnded) end = await countEnd(deps, log);
    if (end.isEnded) throw new EntryExistsError('the segment ended just now', { log });
    const due = dueEntry(deps, end);
    if ('reason' in due) return { outcome: 'undivided', reason: due.reason };
    isStopped ??= await hasStop(deps.blobs, log);
    if (isStopped) return { outcome: 'undivided', reason: 'stopped' };
    try {
      const position = await writeDue(deps, due, { log, id, unread });
      return { outcome: 'divided', position, startsSegment: due.startsSegment };
    } catch (error) {
      if (error instanceof EntryExistsError) unread = mayGuess ? (unread + 1) % (MAX_UNREAD + 1) : 0;
      else if (error instanceof EntryNotFoundError) unread--;
      else if (!deps.tables.isRetryable(error)) throw error;
      // Somebody may have changed the attributes of the log, which the new segment carries.
      if (due.startsSegment && shownAttributes(end.segments) !== undefined) end = await countEnd(deps, log);
      else await end.read(deps);
    }
  }
  return { outcome: 'undivided', reason: 'busy' };
}

/** The entry or the segment that is due at the end of a log. */
interface DueEntry {
  readonly startsSegment: boolean;
  /** The two newest segments, newest first. */
  readonly segments: readonly Segment[];
  readonly newest: EntryHead;
  /** Time of what is due, in epoch seconds. */
  readonly created: number;
}

/** Finds the entry or the segment that is due, or the reason why there is none. */
function dueEntry(
  { division, reducer, ...deps }: DivideDeps,
  { tail, newest, segment, segments, created }: CountedEnd,
): DueEntry | { readonly reason: 'not due' | 'uncovered' } {
  if (newest === undefined) return { reason: 'not due' };
  const now = epochSeconds(deps.now());
  const isDue = isSnapshotDue(division, tail, now);
  const endsSegment = isSegmentDue(division, tail);
  if (!isDue && !endsSegment) return { reason: 'not due' };
  const startsSegment = endsSegment && segment.lastSnapshot !== undefined;
  if (!isDue && !startsSegment) return { reason: 'uncovered' };
  // Records of a stream come late. Their revisions must not seem older than this entry.
  return { startsSegment, segments, newest, created: foldsItems(reducer) ? (created ?? now) : now };
}

/**
 * Writes what is due directly after the newest entry, or after this many more entries of the
 * application.
 * @param place `id` is that of the Snapshot entry or of the End Segment entry
 * @returns the position of the Snapshot entry
 * @throws EntryExistsError if another entry is there
 * @throws EntryNotFoundError if fewer entries, or others, are before it
 */
async function writeDue(
  deps: DivideDeps,
  { startsSegment, segments, newest, created }: DueEntry,
  { log, id, unread }: { readonly log: LogId; readonly id: Uint8Array; readonly unread: number },
): Promise<Position> {
  const { tables, types } = deps;
  const expected = { log, after: newest, count: unread, types };
  const { position: last, number } = endAfter(newest, unread);
  const numbered = number !== undefined && { number };
  if (startsSegment) {
    const items = nextSegment(deps, { log, newest: { position: last, ...numbered }, id, created, segments });
    const { end, first, ...started } = items;
    if (unread === 0) await tables.startSegment(items);
    else await tables.putAhead({ entries: [end, first], ...started }, expected);
    return first.position;
  }
  const position = { segment: last.segment, entry: last.entry + 1 };
  checkRoom(log, position);
  const entries = [{ ...snapshotEntry(deps, { log, position, created, ...numbered }), id }];
  if (unread === 0) await tables.putEntries(entries);
  else await tables.putAhead({ entries }, expected);
  return position;
}

/** Finds the Snapshot entry that is due in a scheduled log, where nobody appends them. */
async function divideScheduled(
  { blobs, division, now }: DivideDeps,
  log: LogId,
  scheduler: Scheduler,
): Promise<DivideResult> {
  const { segments, position } = await scheduler.due(log, division, now() / 1000);
  if (position === undefined) {
    return segments > 0 ? { outcome: 'registered', segments } : { outcome: 'undivided', reason: 'not due' };
  }
  if (await hasStop(blobs, log)) return { outcome: 'undivided', reason: 'stopped' };
  return { outcome: 'divided', position, startsSegment: position.entry === 0 };
}

/**
 * Stops a scheduled log whose item does not fit, or which ends before its Last Snapshot. Throws all
 * other errors.
 */
async function stopIfUnfit({ blobs, reducer, now }: DivideDeps, log: LogId, error: unknown): Promise<DivideResult> {
  if (!(error instanceof ItemInvalidError || error instanceof SourceChangedError)) throw error;
  if (await hasStop(blobs, log)) return { outcome: 'undivided', reason: 'stopped' };
  const stop = await writeStop(blobs, log, { error: error.at({ log }), reducer, since: now() });
  return { outcome: 'stopped', position: { segment: stop.segment ?? 0, entry: stop.entry ?? 0 }, stop };
}

/** Counts the newest segment of a log up to its end. */
async function countEnd(deps: DivideDeps, log: LogId): Promise<CountedEnd> {
  const end = new CountedEnd(deps, await queryNewestSegments(deps.tables, log, { consistent: true }));
  await end.read(deps);
  return end;
}

/**
 * The entries of a log's newest segment after Last Snapshot, counted since the newest Snapshot
 * entry.
 */
class CountedEnd {
  readonly segment: Segment;
  /** The two newest segments, newest first. */
  readonly segments: readonly Segment[];
  readonly #types: ReservedTypes;
  readonly #count: TailCount;
  /** Number of the last entry that was counted, or that is not counted. */
  #last: number;
  /** The last entry; undefined if none was counted. */
  newest: EntryHead | undefined;
  /** Creation time of the last entry, in epoch seconds; undefined if it has none. */
  created: number | undefined;

  constructor({ types, division }: Pick<DivideDeps, 'types' | 'division'>, segments: readonly [Segment, ...Segment[]]) {
    const [segment] = segments;
    this.segment = segment;
    this.segments = segments;
    this.#types = types;
    this.#last = division.segmentEvery.bytes === undefined ? coveredEntries(segment) - 1 : -1;
    this.#count = new TailCount(types, this.#last);
  }

  get tail(): MeasuredTail {
    return this.#count.tail;
  }

  /** Whether the segment ended after its item was read. */
  get isEnded(): boolean {
    return this.newest?.type === this.#types.endSegment;
  }

  /** Counts the entries that came since the last call. */
  async read({ tables }: Pick<DivideDeps, 'tables'>): Promise<void> {
    const { log, segment } = this.segment;
    const range = { segment, from: this.#last + 1, to: MAX_NUMBER + 1 };
    for await (const page of tables.items(log, range, { consistent: true })) {
      for (const item of page) this.#count.add(item);
      const last = page.at(-1);
      if (last === undefined) continue;
      this.newest = decodeEntryHead(last);
      this.#last = this.newest.position.entry;
      this.created = wholeNumber(last.C?.N ?? '');
    }
  }
}
