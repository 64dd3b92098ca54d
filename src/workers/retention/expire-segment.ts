import pLimit from 'p-limit';
import { type Archive, openArchive } from '../../archive/reader.ts';
import { compareWithArchive } from '../../archive/verify-archive.ts';
import type { ChunkPlatform } from '../../codec/chunk.ts';
import { ArchiveDiffersError, SegmentStateError } from '../../errors.ts';
import { MAX_NUMBER } from '../../ids/position.ts';
import type { StoredItem } from '../../log/attribute.ts';
import { epochSeconds, type ReservedTypes } from '../../log/entry.ts';
import { writeUnits } from '../../log/item-size.ts';
import { type ExpiringSegment, MAX_BATCH_ITEMS, type SegmentLifecycle, type TableReader } from '../../log/log-store.ts';
import { type Expiring, expiresAt, type Segment } from '../../log/segment.ts';
import { planRetention, type RetentionPolicy } from '../../retention/retention-policy.ts';
import type { BlobStore } from '../../store/blob-store.ts';
import { requestCollection } from '../gc/collection-record.ts';
import type { ExpireJob } from '../jobs/job.ts';
import type { RateLimiter } from './rate-limiter.ts';
import { changedMeanwhile, requireCovered, requireSegment } from './segment-state.ts';

export interface ExpireDeps {
  readonly tables: TableReader & SegmentLifecycle;
  readonly blobs: BlobStore;
  readonly platform: ChunkPlatform;
  readonly types: ReservedTypes;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** How many write units a second may be spent; as many as it takes where it is left out. */
  readonly pace?: Pick<RateLimiter, 'take'>;
  /** From then on the rest is left to another turn. Epoch milliseconds; none by default. */
  readonly deadline?: number | undefined;
  /** Told how many entries are done. */
  readonly onEntries?: (entries: number) => void;
}

export interface ExpireOptions {
  /** True where a person asks for this segment: it need not be due by the policy. */
  readonly byHand?: boolean;
  /** Changes nothing, and says what would be done. */
  readonly dryRun?: boolean;
}

/** How an expire job ended. */
export type ExpireResult =
  /** All entries were deleted or have their expiry. */
  | { readonly outcome: 'expired'; readonly segment: number; readonly entries: number; readonly expires: number }
  /** The time is set, in epoch seconds, at which the entries are to be deleted. Until then nothing happens. */
  | { readonly outcome: 'waiting'; readonly segment: number; readonly expires: number }
  /** Its time was up: the job is to have another turn, from entry `reached` on, if the entries go at this time still. */
  | { readonly outcome: 'progress'; readonly segment: number; readonly reached: number; readonly expires: number }
  /** Nothing is to be done: it was done before, or the policy keeps the segment. */
  | { readonly outcome: 'present' | 'kept'; readonly segment: number };

/**
 * Lets the entries of a segment leave the table: gives each its expiry, or deletes them, as the policy says. First the
 * time is written onto the segment, a grace period from now; deleting waits for it. Where the segment is archived,
 * each page is compared with the archive right before its entries go, so nothing leaves the table that the archive does
 * not hold. May be done twice, or beside its twin, and goes on where it died.
 * @throws SegmentStateError where the segment is not covered or, where the policy archives, not archived
 * @throws ArchiveMissingError, ArchiveCorruptError, ArchiveDiffersError where the archive is not what it should be
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
  if (policy.archive && segment.archive === undefined) {
    throw new SegmentStateError('the segment has no archive, and the policy archives', {
      ...place,
      advice: `Run 'logfold archive LOG ${number}' first; nothing was changed`,
    });
  }
  const leaving = await announce(deps, segment, policy, options);
  const expires = leaving.expiry.at;
  if (policy.expire === 'delete' && deps.now() < expires * 1000)
    return { outcome: 'waiting', segment: number, expires };
  const archive = segment.archive === undefined ? undefined : await openArchive(deps, segment);
  const letting = { how: policy.expire, archived: archive !== undefined };
  // Restoring, or taking back that it expires, may have brought back what earlier turns let go: then it goes at another time.
  const start = announced === expires ? from : 0;
  let reached = start;
  const range = { segment: number, from: start, to: MAX_NUMBER + 1 };
  let lastType: string | undefined;
  for await (const found of deps.tables.items(log, range, { consistent: true })) {
    await checkPage(deps, { segment: leaving, archive, lastType }, found);
    lastType = found.at(-1)?.T?.S ?? lastType;
    const page = options.dryRun === true ? found : await expirePage(deps, leaving, found, letting);
    reached = Number(page.at(-1)?.N?.N ?? reached) + 1;
    deps.onEntries?.(reached);
    if (options.dryRun !== true && archive !== undefined) await requireStillExpiring(deps, leaving, page);
    if (page.length < found.length) return { outcome: 'progress', segment: number, reached, expires };
    // Not right behind the end: another turn could not tell that what follows is behind it.
    const atEnd = lastType === deps.types.endSegment;
    if (deps.deadline !== undefined && deps.now() >= deps.deadline && !atEnd)
      return { outcome: 'progress', segment: number, reached, expires };
  }
  const entries = archive?.entries ?? reached;
  if (options.dryRun !== true) {
    // Without an archive, snapshots leave with the entries that carry them.
    if (archive === undefined) await requestCollection(deps.blobs, log);
    await finish(deps, leaving, entries);
  }
  return { outcome: 'expired', segment: number, entries, expires };
}

type Leaving = Segment & ExpiringSegment;

/** Whether the policy asks for this now: it may have changed since the job was sent, or the segment been restored. */
async function isDue(
  { tables, now }: ExpireDeps,
  { log, segment }: Segment,
  policy: RetentionPolicy,
): Promise<boolean> {
  const segments = await Array.fromAsync(tables.segments(log, { consistent: true }));
  const jobs = planRetention(segments, { ...policy, expire: 'ttl' }, now());
  return jobs.some((job) => job.kind === 'expire' && job.segment === segment);
}

/** Writes onto the segment when its entries go, unless that stands there. */
async function announce(
  deps: ExpireDeps,
  segment: Segment,
  { graceSeconds }: RetentionPolicy,
  { dryRun }: ExpireOptions,
): Promise<Leaving> {
  // What somebody held who died while taking it back is not held for ever.
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
  }: { readonly segment: Leaving; readonly archive: Archive | undefined; readonly lastType: string | undefined },
  page: readonly StoredItem[],
): Promise<void> {
  const { types } = deps;
  if (archive !== undefined) return compareWithArchive(archive, page, { segment, types });
  const end = [lastType, ...page.map(({ T }) => T?.S)].indexOf(types.endSegment);
  if (end === -1 || end === page.length) return;
  throw new ArchiveDiffersError('the segment has an entry behind its end', {
    log: segment.log,
    segment: segment.segment,
    entry: Number(page[end]?.N?.N),
    advice: 'A client with a clock that is wrong added it; add it to the log again, then delete it',
  });
}

/**
 * Whoever takes the expiry back, or restores the segment, writes so onto the segment first. They may be through with
 * its entries by now, and another job too, so what was stamped meanwhile is stamped as the segment says now.
 */
async function requireStillExpiring(deps: ExpireDeps, segment: Leaving, page: readonly StoredItem[]): Promise<void> {
  let now = await requireSegment(deps.tables, segment);
  if (expiresAt(now) === segment.expiry.at && now.archive?.key === segment.archive?.key) return;
  let said: number | undefined;
  do {
    said = expiresAt(now);
    for (const { N } of page) {
      await deps.tables.setEntryExpiry(segment.log, { segment: segment.segment, entry: Number(N?.N) }, said);
    }
    now = await requireSegment(deps.tables, segment);
  } while (expiresAt(now) !== said);
  throw changedMeanwhile(segment);
}

async function finish(deps: ExpireDeps, segment: Leaving, entries: number): Promise<void> {
  if (await deps.tables.setExpiration(segment, { state: 'expired', at: segment.expiry.at, entries })) return;
  throw changedMeanwhile(segment);
}

/** Entries that are given their expiry at once. */
const CONCURRENCY = 16;

/**
 * What a batch may take, in write units, so that a slow pace leaves time for it: at 10 a second half a minute, or twice
 * that where there is no archive. One large entry may take more. It also keeps transactions below 4 MB.
 */
const MAX_BATCH_UNITS = 300;

/** In which way entries leave the table, and whether an archive has them. */
export interface LettingGo {
  readonly how: 'delete' | 'ttl';
  readonly archived: boolean;
}

/**
 * Lets the items of a page go, some at a time, until the time is up: a page has thousands of small items, for which a
 * slow pace leaves no time.
 * @returns those that were let go; at least one batch of them
 * @throws SegmentStateError where they have no archive, and are not to go any more
 */
export async function expirePage(
  deps: ExpireDeps,
  segment: ExpiringSegment,
  page: readonly StoredItem[],
  letting: LettingGo,
): Promise<readonly StoredItem[]> {
  const { now, deadline } = deps;
  let done = 0;
  do {
    const batch = batchFrom(page, done);
    await letBatchGo(deps, segment, batch, letting);
    done += batch.length;
  } while (done < page.length && (deadline === undefined || now() < deadline));
  return page.slice(0, done);
}

/** As many items as are let go, or kept, at once, and at least one. */
export function batchFrom(page: readonly StoredItem[], start: number): readonly StoredItem[] {
  const batch = page.slice(start, start + MAX_BATCH_ITEMS);
  let units = 0;
  const end = batch.findIndex((item, i) => {
    units += writeUnits(item);
    return i > 0 && units > MAX_BATCH_UNITS;
  });
  return end === -1 ? batch : batch.slice(0, end);
}

async function letBatchGo(
  deps: ExpireDeps,
  segment: ExpiringSegment,
  batch: readonly StoredItem[],
  { how, archived }: LettingGo,
): Promise<void> {
  const staying = how === 'delete' ? batch : batch.filter(({ X }) => X?.N !== String(segment.expiry.at));
  if (staying.length === 0) return;
  if (!archived) return letGoTogether(deps, segment, staying, how);
  return how === 'delete' ? remove(deps, segment, staying) : stamp(deps, segment, staying);
}

/**
 * Where no archive has the entries, none may go once somebody has taken back that they do: so that they are to go is
 * part of the same transaction, which costs twice as much.
 */
async function letGoTogether(
  { pace, tables }: ExpireDeps,
  segment: ExpiringSegment,
  batch: readonly StoredItem[],
  how: LettingGo['how'],
): Promise<void> {
  await pace?.take(2 * unitsOf(batch));
  if (!(await tables.expireEntries(segment, numbersOf(batch), how))) throw changedMeanwhile(segment);
}

/** Looks first, for one read unit, so that whoever restores the segment meanwhile loses what is on its way at most. */
async function remove(
  { pace, tables }: ExpireDeps,
  { log, segment, expiry }: ExpiringSegment,
  batch: readonly StoredItem[],
): Promise<void> {
  await pace?.take(unitsOf(batch));
  const now = await requireSegment(tables, { log, segment });
  if (expiresAt(now) !== expiry.at) throw changedMeanwhile(now);
  await tables.deleteEntries(log, segment, numbersOf(batch));
}

async function stamp(
  { pace, tables }: ExpireDeps,
  { log, segment, expiry }: ExpiringSegment,
  batch: readonly StoredItem[],
): Promise<void> {
  const limit = pLimit(CONCURRENCY);
  const stampOne = async (item: StoredItem): Promise<void> => {
    await pace?.take(writeUnits(item));
    await tables.setEntryExpiry(log, { segment, entry: Number(item.N?.N) }, expiry.at);
  };
  await Promise.all(batch.map((item) => limit(stampOne, item)));
}

/** What it costs to write items, in units. */
export function unitsOf(batch: readonly StoredItem[]): number {
  return batch.reduce((sum, item) => sum + writeUnits(item), 0);
}

/** The numbers of entries in their segment. */
export function numbersOf(batch: readonly StoredItem[]): number[] {
  return batch.map(({ N }) => Number(N?.N));
}
