import { EntryExistsError, ItemInvalidError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import { MAX_NUMBER, type Position } from '../../ids/position.ts';
import { checkRoom } from '../../log/append.ts';
import { wholeNumber } from '../../log/attribute.ts';
import { retry } from '../../log/backoff.ts';
import {
  type DivisionPolicy,
  isSegmentDue,
  isSnapshotDue,
  isVirtualDue,
  mappedLayout,
  type Tail,
} from '../../log/division-policy.ts';
import { type EntryHead, epochSeconds, newEntryId, type ReservedTypes } from '../../log/entry.ts';
import { decodeEntryHead } from '../../log/item-codec.ts';
import type { EntryAppender, TableReader } from '../../log/log-store.ts';
import { nextSegment, snapshotEntry } from '../../log/new-segment.ts';
import { queryNewestSegments } from '../../log/newest.ts';
import type { Segment } from '../../log/segment.ts';
import { TailCount } from '../../log/tail-count.ts';
import type { MappedLogStore } from '../../mapping/mapped-log-store.ts';
import { hasStop, writeStop } from '../../snapshot/stop.ts';
import { foldsItems } from '../../state/items/reducer.ts';
import type { Reducer } from '../../state/reducer.ts';
import type { BlobStore } from '../../store/blob-store.ts';
import type { DivideJob } from '../jobs/job.ts';
import type { Stopped } from '../snapshot/stop-guard.ts';

/** Enough beside most applications. If all attempts fail, the queue delivers the job again. */
const IMMEDIATELY = { attempts: 8, baseMs: 0, capMs: 0, sleep: async () => undefined };

export interface DivideDeps {
  readonly tables: TableReader & EntryAppender;
  /** Registers mapped logs; undefined for logs in logfold's own schema. */
  readonly mapped?: Pick<MappedLogStore, 'register'> | undefined;
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

/** The result of a divide job. */
export type DivideResult =
  /**
   * A Snapshot entry was appended, alone or as the first entry of a new segment. In a mapped log it
   * exists anyway, and only its snapshot is due.
   */
  | { readonly outcome: 'divided'; readonly position: Position; readonly startsSegment: boolean }
  /** Segments of a mapped log were registered, and nothing else was due. */
  | { readonly outcome: 'registered'; readonly segments: number }
  | {
      readonly outcome: 'undivided';
      /**
       * `stopped`: a stopped log gets no Snapshot entries, which would all stay pending.
       * `uncovered`: a segment is due, but the newest one has no complete snapshot yet.
       */
      readonly reason: 'not due' | 'stopped' | 'uncovered';
    }
  /** An item of a mapped log does not fit the mapping. */
  | Stopped;

/**
 * Appends the Snapshot entry or starts the segment that is due. It counts exactly what the log has,
 * and writes directly behind the entry that it counted last. So it changes nothing if nothing is
 * due: a duplicate, a late job, or a job after the application's own Snapshot entry.
 *
 * The entry has the present time. In a log of revisions, whose entries have the times of a stream's
 * records, it has the time of the newest entry, so that times do not go back.
 *
 * It registers the begun segments of a mapped log, and finds out whether the newest Snapshot entry
 * gets its snapshot.
 *
 * Takes two queries, and one request each for the stop note and the entry if something is due. A
 * mapped log takes about two more queries, and a write for each new segment. An item that does not
 * fit its mapping stops the log: otherwise every job would fail, and none could report the item.
 * @throws LogNotFoundError if the log has no segment
 * @throws ItemInvalidError if the keys of an entry in logfold's own schema are malformed
 * @throws AttemptsExhaustedError if other writers were faster in every attempt
 * @throws any transient error; the caller retries the job
 */
export async function divideLog(deps: DivideDeps, { log }: DivideJob): Promise<DivideResult> {
  if (deps.mapped !== undefined) {
    return divideMapped(deps, log, deps.mapped).catch((error: unknown) => stopIfUnfit(deps, log, error));
  }
  const id = newEntryId(deps.random);
  const retryable = (error: unknown) => error instanceof EntryExistsError;
  const options = {
    ...IMMEDIATELY,
    random: deps.random,
    retryable,
    failure: 'Dividing the log failed',
    where: { log },
  };
  return retry(options, () => divideOnce(deps, log, id));
}

async function divideOnce(deps: DivideDeps, log: LogId, id: Uint8Array): Promise<DivideResult> {
  const { tables, types, division } = deps;
  const [segment] = await queryNewestSegments(tables, log, { consistent: true });
  const counted = await countTail(deps, segment);
  if (counted === undefined) return { outcome: 'undivided', reason: 'not due' };
  const { tail, newest } = counted;
  // The segment ended after its item was read.
  if (newest.type === types.endSegment) throw new EntryExistsError('the segment ended just now', { log });
  const now = epochSeconds(deps.now());
  // Records of a stream come late. Their revisions must not seem older than this entry.
  const created = foldsItems(deps.reducer) ? (counted.created ?? now) : now;
  const endsSegment = isSegmentDue(division, tail);
  const isCovered = segment.lastSnapshot !== undefined;
  const isDue = isSnapshotDue(division, tail, now);
  if (!isDue && !endsSegment) return { outcome: 'undivided', reason: 'not due' };
  if (!isDue && !isCovered) return { outcome: 'undivided', reason: 'uncovered' };
  if (await hasStop(deps.blobs, log)) return { outcome: 'undivided', reason: 'stopped' };
  if (endsSegment && isCovered) {
    const items = nextSegment(deps, { log, newest, id, created });
    await tables.startSegment(items);
    return { outcome: 'divided', position: items.first.position, startsSegment: true };
  }
  const position = { segment: segment.segment, entry: newest.position.entry + 1 };
  checkRoom(log, position);
  const { number } = newest;
  await tables.putEntries([
    { ...snapshotEntry(deps, { log, position, created, ...(number !== undefined && { number }) }), id },
  ]);
  return { outcome: 'divided', position, startsSegment: false };
}

async function divideMapped(
  { tables, blobs, types, division, now }: DivideDeps,
  log: LogId,
  mapped: Pick<MappedLogStore, 'register'>,
): Promise<DivideResult> {
  const segments = await mapped.register(log, mappedLayout(division));
  const nothing: DivideResult =
    segments > 0 ? { outcome: 'registered', segments } : { outcome: 'undivided', reason: 'not due' };
  const [newest] = await tables.newestSegments(log, 1, { consistent: true });
  if (newest === undefined) return nothing;
  const { segment, lastSnapshot: complete = -1 } = newest;
  const count = new TailCount(types, complete);
  const range = { segment, from: complete + 1, to: MAX_NUMBER + 1 };
  for await (const page of tables.items(log, range, { consistent: true })) for (const item of page) count.add(item);
  const { snapshot } = count.tail;
  const tail = { segment, complete, snapshot, bytes: count.allBytes, oldest: count.first };
  if (!isVirtualDue(division, tail, now() / 1000)) return nothing;
  if (await hasStop(blobs, log)) return { outcome: 'undivided', reason: 'stopped' };
  return { outcome: 'divided', position: { segment, entry: snapshot }, startsSegment: snapshot === 0 };
}

/** Stops a mapped log whose item does not fit. Throws all other errors. */
async function stopIfUnfit({ blobs, reducer, now }: DivideDeps, log: LogId, error: unknown): Promise<DivideResult> {
  if (!(error instanceof ItemInvalidError)) throw error;
  if (await hasStop(blobs, log)) return { outcome: 'undivided', reason: 'stopped' };
  const stop = await writeStop(blobs, log, { error: error.at({ log }), reducer, since: now() });
  return { outcome: 'stopped', position: { segment: stop.segment ?? 0, entry: stop.entry ?? 0 }, stop };
}

/**
 * Counts a segment's entries since its newest Snapshot entry, and reads the time of the last one.
 * @returns undefined if no entry follows Last Snapshot
 */
async function countTail(
  { tables, types, division }: DivideDeps,
  { log, segment, lastSnapshot }: Segment,
): Promise<{ readonly tail: Tail; readonly newest: EntryHead; readonly created: number | undefined } | undefined> {
  const before = division.segmentEvery.bytes === undefined ? (lastSnapshot ?? -1) : -1;
  const count = new TailCount(types, before);
  let newest: EntryHead | undefined;
  let created: number | undefined;
  for await (const page of tables.items(log, { segment, from: before + 1, to: MAX_NUMBER + 1 }, { consistent: true })) {
    for (const item of page) count.add(item);
    const last = page.at(-1);
    if (last === undefined) continue;
    newest = decodeEntryHead(last);
    created = wholeNumber(last.C?.N ?? '');
  }
  return newest && { tail: count.tail, newest, created };
}
