import pLimit from 'p-limit';
import { type Archive, openArchive } from '../../archive/reader.ts';
import { compareWithArchive } from '../../archive/verify-archive.ts';
import type { ChunkPlatform } from '../../codec/chunk.ts';
import { ArchiveDiffersError, SegmentStateError } from '../../errors.ts';
import { MAX_NUMBER } from '../../ids/position.ts';
import type { StoredItem } from '../../log/attribute.ts';
import { epochSeconds, type ReservedTypes } from '../../log/entry.ts';
import { guardSegment, type PassedOver, passOver } from '../../log/guard.ts';
import { writeUnits } from '../../log/item-size.ts';
import { type ExpiringSegment, MAX_BATCH_ITEMS, type SegmentLifecycle, type TableReader } from '../../log/log-store.ts';
import { changedMeanwhile, type Expiring, expiresAt, type Segment } from '../../log/segment.ts';
import { planRetention, type RetentionPolicy } from '../../retention/retention-policy.ts';
import type { BlobStore } from '../../store/blob-store.ts';
import { requestCollection } from '../gc/collection-record.ts';
import { isTimeUp } from '../jobs/deadline.ts';
import type { ExpireJob } from '../jobs/job.ts';
import { countEntries, formatDate, type Report, reportUndone } from '../jobs/report.ts';
import type { RateLimiter } from './rate-limiter.ts';
import { requireCovered, requireItemsAfter, requireSegment } from './segment-state.ts';

export interface ExpireDeps {
  readonly tables: TableReader & SegmentLifecycle;
  readonly blobs: BlobStore;
  readonly platform: ChunkPlatform;
  readonly types: ReservedTypes;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Limits write units per second; no limit by default. */
  readonly rateLimiter?: Pick<RateLimiter, 'take'>;
  /** When the job leaves the rest to a continuation, in epoch milliseconds; never by default. */
  readonly deadline?: number | undefined;
  /** Called with the number of finished entries. */
  readonly onEntries?: (entries: number) => void;
}

export interface ExpireOptions {
  /** True if a person asks for this segment, even if it is not due by the policy. */
  readonly byHand?: boolean;
  /** Changes nothing and returns what the job would do. */
  readonly dryRun?: boolean;
}

/** How an expire job ended. */
export type ExpireResult =
  /** All entries are deleted or stamped with their expiry. */
  | { readonly outcome: 'expired'; readonly segment: number; readonly entries: number; readonly expires: number }
  /** The job announced when the entries will be deleted, in epoch seconds. */
  | { readonly outcome: 'waiting'; readonly segment: number; readonly expires: number }
  /**
   * The time was up. A continuation starts at entry `reached`, if the entries still expire at this
   * time.
   */
  | { readonly outcome: 'progress'; readonly segment: number; readonly reached: number; readonly expires: number }
  /** Nothing to do: the segment has expired already, or the policy keeps it. */
  | { readonly outcome: 'present' | 'kept'; readonly segment: number }
  | PassedOver<{ readonly segment: number }>;

export function reportExpiry(result: ExpireResult): Report {
  switch (result.outcome) {
    case 'expired': {
      const { entries, expires } = result;
      const text = `${countEntries(entries)} ${entries === 1 ? 'leaves' : 'leave'} the table from ${formatDate(expires)} on`;
      return { text, level: 'info', makesDue: true };
    }
    case 'waiting':
      return { text: `the entries may be deleted after ${formatDate(result.expires)}`, level: 'info' };
    case 'progress':
      return { text: `done up to entry ${result.reached}`, level: 'quiet' };
    case 'present':
      return { text: 'already expired', level: 'quiet' };
    case 'kept':
      return { text: 'kept by the policy', level: 'quiet' };
    default:
      return reportUndone(result);
  }
}

/**
 * Expires the entries of a segment: stamps or deletes them, as the policy requires. First writes
 * the expiry onto the segment, a grace period from now; deletion waits for that time. If the
 * segment is archived, compares each page with the archive immediately before it expires, so that
 * no entry leaves the table unless the archive has it. Duplicates of the job do no harm, and a
 * second run continues after a crash.
 *
 * It passes over a segment that another program archived, or of which it wrote Last Snapshot.
 * @throws SegmentStateError if the segment is not covered, or not archived although the policy
 * archives
 * @throws ArchiveMissingError, ArchiveCorruptError, ArchiveDiffersError if the archive is missing,
 * damaged or differs from the table
 */
export async function expireSegment(
  deps: ExpireDeps,
  { log, segment: number, from = 0, announced }: Omit<ExpireJob, 'kind'>,
  policy: RetentionPolicy,
  options: ExpireOptions = {},
): Promise<ExpireResult> {
  const place = { log, segment: number };
  const segment = await requireCovered(deps.tables, place);
  if (segment.expiry?.state === 'expired') return { outcome: 'present', segment: number };
  if (policy.expire === 'never' || (options.byHand !== true && !(await isDue(deps, segment, policy)))) {
    return { outcome: 'kept', segment: number };
  }
  const part = segment.archive === undefined ? await guardSegment(deps.tables, segment) : undefined;
  if (part !== undefined) return passOver({ segment: number }, part);
  if (policy.archive && segment.archive === undefined) {
    throw new SegmentStateError('the segment has no archive, and the policy archives', {
      ...place,
      advice: `Run 'logfold archive LOG ${number}' first; nothing was changed`,
    });
  }
  await requireItemsAfter(deps.tables, segment);
  const expiring = await announce(deps, segment, policy, options);
  const expires = expiring.expiry.at;
  if (policy.expire === 'delete' && deps.now() < expires * 1000)
    return { outcome: 'waiting', segment: number, expires };
  const archive = segment.archive === undefined ? undefined : await openArchive(deps, segment);
  const mode = { how: policy.expire, archived: archive !== undefined };
  // A restore or an undo may have brought back entries of earlier runs. Both change the time of the
  // expiry.
  const start = announced === expires ? from : 0;
  let reached = start;
  const range = { segment: number, from: start, to: MAX_NUMBER + 1 };
  let lastType: string | undefined;
  for await (const found of deps.tables.items(log, range, { consistent: true, isChecked: true })) {
    await checkPage(deps, { segment: expiring, archive, lastType }, found);
    lastType = found.at(-1)?.T?.S ?? lastType;
    const page = options.dryRun === true ? found : await expirePage(deps, expiring, found, mode);
    reached = Number(page.at(-1)?.N?.N ?? reached) + 1;
    deps.onEntries?.(reached);
    if (options.dryRun !== true && archive !== undefined) await requireStillExpiring(deps, expiring, page);
    if (page.length < found.length) return { outcome: 'progress', segment: number, reached, expires };
    // Does not stop directly after the end, since a continuation could not know that further
    // entries are after it.
    const atEnd = lastType === deps.types.endSegment;
    if (!atEnd && isTimeUp(deps)) return { outcome: 'progress', segment: number, reached, expires };
  }
  const entries = archive?.end ?? reached;
  if (options.dryRun !== true) {
    // Without an archive, snapshots expire together with their entries.
    if (archive === undefined) await requestCollection(deps.blobs, log);
    await finish(deps, expiring, entries);
  }
  return { outcome: 'expired', segment: number, entries, expires };
}

type AnnouncedSegment = Segment & ExpiringSegment;

/**
 * Whether the segment is due now. The policy or the segment may have changed since the job was
 * sent.
 */
async function isDue(
  { tables, now }: ExpireDeps,
  { log, segment }: Segment,
  policy: RetentionPolicy,
): Promise<boolean> {
  const segments = await Array.fromAsync(tables.segments(log, { consistent: true }));
  const jobs = planRetention(segments, { ...policy, expire: 'ttl' }, now());
  return jobs.some((job) => job.kind === 'expire' && job.segment === segment);
}

/** Writes the time of the expiry onto the segment, unless it has one. */
async function announce(
  deps: ExpireDeps,
  segment: Segment,
  { graceSeconds }: RetentionPolicy,
  { dryRun }: ExpireOptions,
): Promise<AnnouncedSegment> {
  // Also ends a hold whose process died.
  if (segment.expiry?.state === 'expiring') return { ...segment, expiry: segment.expiry };
  const expiry: Expiring = { state: 'expiring', at: epochSeconds(deps.now()) + graceSeconds };
  if (dryRun === true || (await deps.tables.setExpiration(segment, expiry))) return { ...segment, expiry };
  throw changedMeanwhile(segment);
}

async function checkPage(
  deps: ExpireDeps,
  {
    segment,
    archive,
    lastType,
  }: {
    readonly segment: AnnouncedSegment;
    readonly archive: Archive | undefined;
    readonly lastType: string | undefined;
  },
  page: readonly StoredItem[],
): Promise<void> {
  const { types } = deps;
  if (archive !== undefined) return compareWithArchive(archive, page, { segment, types });
  const end = [lastType, ...page.map(({ T }) => T?.S)].indexOf(types.endSegment);
  if (end === -1 || end === page.length) return;
  throw new ArchiveDiffersError('the segment has an entry after its End Segment entry', {
    log: segment.log,
    segment: segment.segment,
    entry: Number(page[end]?.N?.N),
    advice:
      'A client with a wrong clock appended this entry. Append its content to the log again, then delete the misplaced entry',
  });
}

/**
 * Checks after each page that the segment still expires at the same time. A process that undoes the
 * expiry or restores the segment changes the segment first. It may have finished with the entries
 * of this page by now, so this function stamps them again with the time that is now on the segment.
 */
async function requireStillExpiring(
  deps: ExpireDeps,
  segment: AnnouncedSegment,
  page: readonly StoredItem[],
): Promise<void> {
  let now = await requireSegment(deps.tables, segment);
  if (expiresAt(now) === segment.expiry.at && now.archive?.key === segment.archive?.key) return;
  let lastSeen: number | undefined;
  do {
    lastSeen = expiresAt(now);
    for (const { N } of page) {
      await deps.tables.setEntryExpiry(segment.log, { segment: segment.segment, entry: Number(N?.N) }, lastSeen);
    }
    now = await requireSegment(deps.tables, segment);
  } while (expiresAt(now) !== lastSeen);
  throw changedMeanwhile(segment);
}

async function finish(deps: ExpireDeps, segment: AnnouncedSegment, entries: number): Promise<void> {
  if (await deps.tables.setExpiration(segment, { state: 'expired', at: segment.expiry.at, entries })) return;
  throw changedMeanwhile(segment);
}

/** Entries that are stamped concurrently. */
const CONCURRENCY = 16;

/**
 * The most write units of a batch, so that a batch finishes even at a low rate: at 10 units per
 * second, one takes half a minute, or a minute without an archive. One large entry may take more.
 * The limit also keeps transactions below 4 MB.
 */
const MAX_BATCH_UNITS = 300;

/** How entries expire, and whether an archive has them. */
export interface ExpiryMode {
  readonly how: 'delete' | 'ttl';
  readonly archived: boolean;
}

/**
 * Expires the items of a page in batches until the time is up. A page may have thousands of small
 * items, too many for one run at a low rate.
 * @returns the expired items, at least one batch
 * @throws SegmentStateError if they have no archive and the segment no longer expires at this time
 */
async function expirePage(
  deps: ExpireDeps,
  segment: ExpiringSegment,
  page: readonly StoredItem[],
  mode: ExpiryMode,
): Promise<readonly StoredItem[]> {
  const { now, deadline } = deps;
  let done = 0;
  do {
    const batch = batchFrom(page, done);
    await expireBatch(deps, segment, batch, mode);
    done += batch.length;
  } while (done < page.length && (deadline === undefined || now() < deadline));
  return page.slice(0, done);
}

/** The next batch of items of a page, at least one item. */
export function batchFrom(page: readonly StoredItem[], start: number): readonly StoredItem[] {
  const batch = page.slice(start, start + MAX_BATCH_ITEMS);
  let units = 0;
  const end = batch.findIndex((item, i) => {
    units += writeUnits(item);
    return i > 0 && units > MAX_BATCH_UNITS;
  });
  return end === -1 ? batch : batch.slice(0, end);
}

async function expireBatch(
  deps: ExpireDeps,
  segment: ExpiringSegment,
  batch: readonly StoredItem[],
  { how, archived }: ExpiryMode,
): Promise<void> {
  const staying = how === 'delete' ? batch : batch.filter(({ X }) => X?.N !== String(segment.expiry.at));
  if (staying.length === 0) return;
  if (!archived) return expireInTransaction(deps, segment, staying, how);
  return how === 'delete' ? remove(deps, segment, staying) : stamp(deps, segment, staying);
}

/**
 * Expires entries without an archive. None of them may expire after an undo, so each batch is a
 * transaction that checks the segment. It costs twice as much.
 */
async function expireInTransaction(
  { rateLimiter, tables }: ExpireDeps,
  segment: ExpiringSegment,
  batch: readonly StoredItem[],
  how: ExpiryMode['how'],
): Promise<void> {
  await rateLimiter?.take(2 * unitsOf(batch));
  if (!(await tables.expireEntries(segment, numbersOf(batch), how))) throw changedMeanwhile(segment);
}

/**
 * Checks the segment first, for one read unit, so that a concurrent restore loses at most one
 * batch.
 */
async function remove(
  { rateLimiter, tables }: ExpireDeps,
  { log, segment, expiry }: ExpiringSegment,
  batch: readonly StoredItem[],
): Promise<void> {
  await rateLimiter?.take(unitsOf(batch));
  const now = await requireSegment(tables, { log, segment });
  if (expiresAt(now) !== expiry.at) throw changedMeanwhile(now);
  await tables.deleteEntries(log, segment, numbersOf(batch));
}

async function stamp(
  { rateLimiter, tables }: ExpireDeps,
  { log, segment, expiry }: ExpiringSegment,
  batch: readonly StoredItem[],
): Promise<void> {
  const limit = pLimit(CONCURRENCY);
  const stampOne = async (item: StoredItem): Promise<void> => {
    await rateLimiter?.take(writeUnits(item));
    await tables.setEntryExpiry(log, { segment, entry: Number(item.N?.N) }, expiry.at);
  };
  await Promise.all(batch.map((item) => limit(stampOne, item)));
}

/** Write units for writing or deleting items. */
export function unitsOf(batch: readonly StoredItem[]): number {
  return batch.reduce((sum, item) => sum + writeUnits(item), 0);
}

/** The entry numbers of items. */
export function numbersOf(batch: readonly StoredItem[]): number[] {
  return batch.map(({ N }) => Number(N?.N));
}
