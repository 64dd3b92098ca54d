import type { WrittenArchive } from '../../archive/writer.ts';
import { toHex } from '../../codec/bytes.ts';
import { SegmentStateError, TimeUpError } from '../../errors.ts';
import type { StoredItem } from '../../log/attribute.ts';
import type { RootRef } from '../../log/entry.ts';
import {
  guardArchive,
  type PassedOver,
  passOver,
  readLastSnapshot,
  removePart,
  withoutForeignArchive,
} from '../../log/guard.ts';
import { encodeSegment, rootAttribute } from '../../log/item-codec.ts';
import { lastWithoutRoot } from '../../log/last-snapshot.ts';
import type { EntryReader } from '../../log/log-store.ts';
import { changedMeanwhile, type Segment } from '../../log/segment.ts';
import { archiveKey, randomHex } from '../../store/keys.ts';
import { requestCollection } from '../gc/collection-record.ts';
import { checkTime, type Deadline, isTimeUp } from '../jobs/deadline.ts';
import { type ArchiveJob, type ArchivePart, MAX_ARCHIVE_PARTS } from '../jobs/job.ts';
import {
  bytesMetric,
  countEntries,
  formatBytes,
  IN_PART,
  type Metric,
  type Report,
  reportUndone,
} from '../jobs/report.ts';
import {
  archiveTooLong,
  joinParts,
  type MadeArchive,
  removeParts,
  type UsableParts,
  usableParts,
} from './archive-parts.ts';
import { requireCovered } from './segment-state.ts';
import {
  type ArchiveDeps,
  archiveOf,
  type ItemPages,
  type PageRange,
  segmentPages,
  writeAndCompare,
} from './write-archive.ts';

/** Attempts to write an archive while other processes replace the segment's last snapshot. */
const ATTEMPTS = 3;

/** How an archive job ended. */
export type ArchiveResult =
  | (WrittenArchive & { readonly outcome: 'archived'; readonly segment: number; readonly key: string })
  /** The segment already has an archive. */
  | { readonly outcome: 'present'; readonly segment: number; readonly key: string }
  | NotArchived
  | Archiving;

/** Another program archived the segment, or wrote its Last Snapshot. */
type NotArchived = PassedOver<{ readonly segment: number }>;

/** How an archive job would end. */
export type ArchivePlan =
  | (WrittenArchive & { readonly outcome: 'would archive'; readonly segment: number })
  | { readonly outcome: 'present'; readonly segment: number }
  | NotArchived;

/**
 * The time was up. Parts hold the entries before `reached`. A continuation writes the others or
 * joins the parts.
 */
interface Archiving {
  readonly outcome: 'archiving';
  readonly segment: number;
  readonly reached: number;
  /** Size of the part that this run wrote, in bytes; 0 if it wrote none. */
  readonly stored: number;
  readonly parts: readonly ArchivePart[];
}

export function reportArchive(result: ArchiveResult | ArchivePlan): Report {
  switch (result.outcome) {
    case 'archived':
      return { text: archivedText(result), level: 'info', metrics: storedMetrics(result), makesDue: true };
    case 'would archive':
      return { text: archivedText(result), level: 'info' };
    case 'archiving':
      return { ...IN_PART, metrics: storedMetrics(result) };
    case 'present':
      return { text: 'already archived', level: 'quiet' };
    default:
      return reportUndone(result);
  }
}

/** `12 entries, 3.4 kB as 1.2 kB`. */
function archivedText({ entries, bytes, stored }: WrittenArchive): string {
  return `${countEntries(entries)}, ${formatBytes(bytes)} as ${formatBytes(stored)}`;
}

function storedMetrics({ stored }: { readonly stored: number }): readonly Metric[] {
  return [bytesMetric('BytesWritten', stored)];
}

/**
 * Archives a segment that is closed and covered. Writes the archive, reads it back, and compares it
 * with the table entry by entry and by its hashes. Then names it on the segment, if the segment's
 * last snapshot is still the archived one. No entry leaves the table. Duplicates of the job do no
 * harm: a job removes an archive that comes too late, and garbage collection removes one whose
 * writer died.
 *
 * A run whose time is up keeps the compared frames, at least one, as a part. The run that writes
 * the last part, or its continuation, joins the parts. If a part no longer equals the table, the
 * job writes it again.
 *
 * It passes over a segment that another program archived, unless `replaceForeign` is set, and over
 * one of which another program wrote Last Snapshot.
 * @throws SegmentNotFoundError, SegmentStateError if the segment does not exist, is open, or is not
 * covered
 * @throws EntryGapError if an entry is missing, ArchiveDiffersError if the table changed at the
 * same time
 * @throws SegmentStateError if a duplicate removed the parts; the next run writes them again
 * @throws TimeUpError if a run is too short to join the parts, or there are too many parts; the job
 * removes them
 */
export async function archiveSegment(deps: ArchiveDeps, job: Omit<ArchiveJob, 'kind'>): Promise<ArchiveResult> {
  const { log, segment: number } = job;
  let parts = job.parts ?? [];
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const segment = await requireCovered(deps.tables, job);
    if (segment.archive !== undefined) {
      await removeParts(deps, job, parts);
      return { outcome: 'present', segment: number, key: segment.archive.key };
    }
    const last = await rootToArchive(deps, segment);
    if ('outcome' in last) {
      await removeParts(deps, job, parts);
      return last;
    }
    const { root } = last;
    const usable = await usableParts(deps, segment, { parts, root });
    await removeParts(deps, job, parts.slice(usable.parts.length));
    const made = await make(deps, segment, usable);
    if ('outcome' in made) return made;
    const { key, written } = made;
    // Before the archive is named, which drops roots: if the process died directly after that,
    // no other code would request the collection.
    await requestCollection(deps.blobs, log);
    // The new archive was compared with the table, so the other program's name is not needed.
    const other = guardArchive(segment);
    if (other !== undefined) await removePart(deps.tables, other, encodeSegment(segment));
    if (await deps.tables.setArchive(withoutForeignArchive(segment), { key, hash: written.hash, root })) {
      await removeParts(deps, job, made.parts);
      return { outcome: 'archived', segment: number, key, ...written };
    }
    await deps.blobs.delete([key]);
    parts = made.parts;
  }
  throw new SegmentStateError('the segment changed each time that its archive was written', {
    log,
    segment: number,
    advice: 'Try again later',
  });
}

/** Writes the missing entries, and joins the parts if there are any. */
async function make(deps: ArchiveDeps, segment: Segment, usable: UsableParts): Promise<MadeArchive | Archiving> {
  let { parts, ended } = usable;
  let stored = 0;
  const from = parts.at(-1)?.to ?? 0;
  const archiving = (): Archiving => {
    const reached = parts.at(-1)?.to ?? 0;
    return { outcome: 'archiving', segment: segment.segment, reached, stored, parts };
  };
  if (!ended) {
    if (parts.length >= MAX_ARCHIVE_PARTS) {
      await removeParts(deps, segment, parts);
      throw archiveTooLong(segment, `all of the segment was in ${MAX_ARCHIVE_PARTS} parts`);
    }
    const upload = randomHex(deps.random, 32);
    const key = archiveKey(segment.log, segment.segment, upload);
    const piece = await writeAndCompare(deps, { segment, key, from }, (range) => segmentPages(deps, segment, range));
    if (piece.ended && from === 0) return { key, written: piece.written, parts: [] };
    parts = [...parts, { upload, hash: toHex(piece.written.hash), to: piece.to }];
    ended = piece.ended;
    stored = piece.written.stored;
    if (!ended || isTimeUp(deps)) return archiving();
  }
  try {
    return await joinParts(deps, segment, parts);
  } catch (error) {
    if (error instanceof TimeUpError && stored > 0) return archiving();
    // The next delivery of the job writes them again.
    if (error instanceof TimeUpError || error instanceof SegmentStateError) await removeParts(deps, segment, parts);
    throw error;
  }
}

/**
 * Plans the archive of a segment and writes nothing.
 * @throws the errors of {@link archiveSegment}, except those of concurrent changes
 */
export async function planArchive(deps: ArchiveDeps, job: Omit<ArchiveJob, 'kind'>): Promise<ArchivePlan> {
  const segment = await requireCovered(deps.tables, job);
  if (segment.archive !== undefined) return { outcome: 'present', segment: job.segment };
  const last = await rootToArchive(deps, segment);
  if ('outcome' in last) return last;
  const bytes = archiveOf(deps, segment, segmentPages(deps, segment, {}));
  for (;;) {
    const next = await bytes.next();
    if (next.done === true) return { outcome: 'would archive', segment: job.segment, ...next.value };
  }
}

function requireNotExpiring({ log, segment, expiry }: Segment): void {
  if (expiry === undefined) return;
  throw new SegmentStateError('the segment is already expiring', {
    log,
    segment,
    advice: `Run 'logfold expire LOG ${segment} --undo', then 'logfold archive LOG ${segment}'`,
  });
}

/**
 * Writes the archive of an archived segment again, and names it instead of the old one. Restores a
 * lost archive from the tables, or replaces the root of Last Snapshot in the archive if its
 * snapshot cannot be read.
 * @param source reads the entries
 * @throws EntryGapError if the source lacks an entry, SegmentStateError if the segment changed at
 * the same time
 */
export async function rearchiveSegment(
  deps: ArchiveDeps,
  segment: Segment,
  { source, root }: { readonly source: EntryReader; readonly root?: { readonly from: RootRef; readonly to: RootRef } },
): Promise<Segment> {
  const key = archiveKey(segment.log, segment.segment, randomHex(deps.random, 32));
  const whole = { ...deps, deadline: undefined };
  const items = (range: PageRange) =>
    withRoot(inTime(deps, segment, segmentPages(deps, segment, range, source)), segment, root?.to);
  const { hash } = (await writeAndCompare(whole, { segment, key, from: 0 }, items)).written;
  // Garbage collection removes the old object.
  if (await deps.tables.replaceArchive(segment, { key, hash, root })) {
    return { ...segment, archive: { key, hash } };
  }
  await deps.blobs.delete([key]);
  throw changedMeanwhile(segment);
}

async function* withRoot(
  items: ItemPages,
  { lastSnapshot }: Segment,
  root: RootRef | undefined,
): AsyncGenerator<readonly StoredItem[]> {
  const attribute = root && rootAttribute(root);
  for await (const page of items) {
    yield page.map((item) => {
      if (attribute === undefined || item.N?.N !== String(lastSnapshot?.position.entry)) return item;
      const { B: _, E: __, ...bare } = item;
      return { ...bare, [attribute.name]: attribute.value };
    });
  }
}

async function* inTime(deps: Deadline, { log, segment }: Segment, items: ItemPages): ItemPages {
  for await (const page of items) {
    yield page;
    checkTime(deps, log, {
      what: `the archive of segment ${segment} was written again`,
      advice: "Run 'logfold sweep --rebuild --log LOG' on your own machine, where there is no time limit",
    });
  }
}

/**
 * The root of the segment's last snapshot, if the segment has one and can be archived.
 * @throws SegmentStateError if the segment is expiring
 */
async function rootToArchive(
  { tables, replaceForeign = false }: ArchiveDeps,
  segment: Segment,
): Promise<{ readonly root: RootRef | undefined } | NotArchived> {
  const { log, segment: number, lastSnapshot } = segment;
  const archive = guardArchive(segment);
  if (archive !== undefined && !replaceForeign) return passOver({ segment: number }, archive);
  requireNotExpiring(segment);
  const found = await readLastSnapshot(tables, segment);
  if (found === 'gone') throw lastWithoutRoot(segment);
  if (typeof found !== 'string') return { root: found?.root };
  return passOver({ segment: number }, { kind: 'pointer', log, segment: number, entry: lastSnapshot?.position.entry });
}
