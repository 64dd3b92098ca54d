import { FrameList, type StoredFrame, type WrittenArchive } from '../../archive/frame-list.ts';
import { type Archive, openArchive } from '../../archive/reader.ts';
import { sameEntry, verifyArchive } from '../../archive/verify-archive.ts';
import { FRAME_BYTES, type PartOptions, writeArchive } from '../../archive/writer.ts';
import { fromHex, toHex } from '../../codec/bytes.ts';
import type { ChunkPlatform } from '../../codec/chunk.ts';
import { ArchiveCorruptError, ArchiveMissingError, SegmentStateError, TimeUpError } from '../../errors.ts';
import { MAX_NUMBER } from '../../ids/position.ts';
import type { StoredItem } from '../../log/attribute.ts';
import { type ReservedTypes, type RootRef, rootOf, sameRoot } from '../../log/entry.ts';
import { decodeEntry, rootAttribute } from '../../log/item-codec.ts';
import type { EntryReader, SegmentLifecycle, SegmentPlace, TableReader } from '../../log/log-store.ts';
import type { Segment } from '../../log/segment.ts';
import { lastWithoutRoot } from '../../snapshot/snapshots.ts';
import type { BlobStore } from '../../store/blob-store.ts';
import { archiveKey, randomHex } from '../../store/keys.ts';
import { requestCollection } from '../gc/collection-record.ts';
import { checkTime, type Deadline, isTimeUp } from '../jobs/deadline.ts';
import { type ArchiveJob, type ArchivePart, MAX_ARCHIVE_PARTS } from '../jobs/job.ts';
import { changedMeanwhile, requireCovered } from './segment-state.ts';

/** Attempts to write an archive while other processes replace the segment's last snapshot. */
const ATTEMPTS = 3;

/**
 * The share of a run's time for writing. Comparing takes the rest, since it reads the table and the
 * object.
 */
const WRITING_SHARE = 0.4;

/** The default of {@link ArchiveDeps.frames}. Joining so many frames takes some seconds. */
const FRAMES = { bytes: FRAME_BYTES, atLeast: 64 };

export interface ArchiveDeps extends Deadline {
  readonly tables: TableReader & SegmentLifecycle;
  readonly blobs: BlobStore;
  readonly platform: ChunkPlatform;
  readonly types: ReservedTypes;
  /** From 0 up to but not including 1. */
  readonly random: () => number;
  /** Called with the number of finished entries. Each counts twice: written, then compared. */
  readonly onEntries?: (entries: number) => void;
  /**
   * Bytes of a frame before compression, and frames that a run joins even if its time is up; 1
   * million and 64 by default.
   */
  readonly frames?: { readonly bytes: number; readonly atLeast: number } | undefined;
}

/** How an archive job ended. */
export type ArchiveResult =
  | (WrittenArchive & { readonly outcome: 'archived'; readonly segment: number; readonly key: string })
  /** The segment already has an archive. */
  | { readonly outcome: 'present'; readonly segment: number; readonly key: string }
  | Archiving;

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
    requireNotExpiring(segment);
    const root = await lastRoot(deps, segment);
    const usable = await usableParts(deps, segment, { parts, root });
    await removeParts(deps, job, parts.slice(usable.parts.length));
    const made = await make(deps, segment, usable);
    if ('outcome' in made) return made;
    const { key, written } = made;
    // Before the archive is named, which drops roots: if the process died directly after that,
    // nobody would request the collection.
    await requestCollection(deps.blobs, log);
    if (await deps.tables.setArchive(segment, { key, hash: written.hash, root })) {
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

/** A verified archive that no segment names yet. */
interface Made {
  readonly key: string;
  readonly written: WrittenArchive;
  /** The parts of which it was joined. */
  readonly parts: readonly ArchivePart[];
}

/** Writes the missing entries, and joins the parts if there are any. */
async function make(deps: ArchiveDeps, segment: Segment, usable: UsableParts): Promise<Made | Archiving> {
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
      throw tooLong(segment, `all of the segment was in ${MAX_ARCHIVE_PARTS} parts`);
    }
    const upload = randomHex(deps.random, 32);
    const key = archiveKey(segment.log, segment.segment, upload);
    const piece = await writeAndCompare(deps, { segment, key, from }, (range) => pages(deps, segment, range));
    if (piece.ended && from === 0) return { key, written: piece.written, parts: [] };
    parts = [...parts, { upload, hash: toHex(piece.written.hash), to: piece.to }];
    ended = piece.ended;
    stored = piece.written.stored;
    if (!ended || isTimeUp(deps)) return archiving();
  }
  try {
    return await join(deps, segment, parts);
  } catch (error) {
    if (error instanceof TimeUpError && stored > 0) return archiving();
    // The next delivery of the job writes them again.
    if (error instanceof TimeUpError || error instanceof SegmentStateError) await removeParts(deps, segment, parts);
    throw error;
  }
}

interface UsableParts {
  readonly parts: readonly ArchivePart[];
  /** Whether the parts hold the whole segment. */
  readonly ended: boolean;
}

/**
 * Finds the first parts that are usable. Each must exist and have its hash, the root of Last
 * Snapshot must be the one in the table, and the last entry must equal the table's. After a
 * divergence of the log, the table has another entry there.
 */
async function usableParts(
  deps: ArchiveDeps,
  segment: Segment,
  { parts, root }: { readonly parts: readonly ArchivePart[]; readonly root: RootRef | undefined },
): Promise<UsableParts> {
  const { lastSnapshot } = segment;
  const { types } = deps;
  const usable: ArchivePart[] = [];
  const last: StoredItem[] = [];
  for (const part of parts) {
    const found = await unlessUnreadable(async () => {
      const archive = await openPart(deps, segment, { part, from: usable.at(-1)?.to ?? 0 });
      if (part.to <= archive.first || archive.framesBefore(part.to) !== part.to) return undefined;
      if (lastSnapshot !== undefined && lastSnapshot >= archive.first && lastSnapshot < part.to) {
        const item = await itemOf(archive, lastSnapshot);
        const archived = item && rootOf(decodeEntry(item));
        if (archived === undefined || root === undefined || !sameRoot(archived, root)) return undefined;
      }
      return itemOf(archive, part.to - 1);
    });
    if (found === undefined) break;
    usable.push(part);
    last.push(found);
  }
  for (; usable.length > 0; usable.pop(), last.pop()) {
    const { to } = usable.at(-1) ?? { to: 0 };
    const item = last.at(-1);
    const range = { segment: segment.segment, from: to - 1, to };
    const [stored] = (await Array.fromAsync(deps.tables.items(segment.log, range, { consistent: true }))).flat();
    if (item === undefined || stored === undefined || !sameEntry(item, stored, { segment, types })) continue;
    return { parts: usable, ended: item.T?.S === types.endSegment };
  }
  return { parts: [], ended: false };
}

/**
 * Writes the frames of the parts into one archive and reads it back. Each part was compared when it
 * was written.
 */
async function join(deps: ArchiveDeps, segment: Segment, parts: readonly ArchivePart[]): Promise<Made> {
  const { platform, blobs } = deps;
  const { log, segment: number } = segment;
  const { atLeast } = deps.frames ?? FRAMES;
  const key = archiveKey(log, number, randomHex(deps.random, 32));
  const entries = parts.at(-1)?.to ?? 0;
  let frames = 0;
  const checkFrame = (): void => {
    if (++frames > atLeast && isTimeUp(deps)) throw tooLong(segment, `the ${parts.length} parts were joined`);
  };
  let written: WrittenArchive | undefined;
  async function* stream(): AsyncGenerator<Uint8Array> {
    const list = new FrameList();
    let from = 0;
    for (const part of parts) {
      for await (const frame of framesOfPart(deps, segment, { part, from })) {
        checkFrame();
        list.add(frame);
        yield frame.stored;
      }
      from = part.to;
    }
    written = yield* list.end(platform, { log, segment: number, entries });
  }
  await blobs.putStream(key, stream());
  if (written === undefined) throw new Error('a stream was stored that did not end');
  try {
    const archive = await openArchive(deps, { ...segment, archive: { key, hash: written.hash } });
    for await (const _ of archive.storedFrames()) checkFrame();
  } catch (error) {
    await blobs.delete([key]);
    throw error;
  }
  return { key, written, parts };
}

async function* framesOfPart(
  deps: ArchiveDeps,
  segment: Segment,
  { part, from }: { readonly part: ArchivePart; readonly from: number },
): AsyncGenerator<StoredFrame> {
  try {
    yield* (await openPart(deps, segment, { part, from })).storedFrames(part.to);
  } catch (cause) {
    if (!isUnreadable(cause)) throw cause;
    throw new SegmentStateError('a part of the archive was removed or damaged before all parts were joined', {
      log: segment.log,
      segment: segment.segment,
      advice: 'Try again',
      cause,
    });
  }
}

function openPart(
  deps: ArchiveDeps,
  segment: Segment,
  { part, from }: { readonly part: ArchivePart; readonly from: number },
): Promise<Archive> {
  const named = { ...segment, archive: { key: partKey(segment, part), hash: fromHex(part.hash) } };
  return openArchive(deps, named, from);
}

async function itemOf(archive: Archive, entry: number): Promise<StoredItem | undefined> {
  for await (const [item] of archive.items(entry, entry + 1)) return item;
  return undefined;
}

function partKey({ log, segment }: SegmentPlace, { upload }: ArchivePart): string {
  return archiveKey(log, segment, upload);
}

/** A run that still uses the parts writes them again. */
async function removeParts({ blobs }: ArchiveDeps, place: SegmentPlace, parts: readonly ArchivePart[]): Promise<void> {
  if (parts.length > 0) await blobs.delete(parts.map((part) => partKey(place, part)));
}

async function unlessUnreadable<T>(read: () => Promise<T>): Promise<T | undefined> {
  try {
    return await read();
  } catch (error) {
    if (isUnreadable(error)) return undefined;
    throw error;
  }
}

function isUnreadable(error: unknown): boolean {
  return error instanceof ArchiveMissingError || error instanceof ArchiveCorruptError;
}

function tooLong({ log, segment }: SegmentPlace, what: string): TimeUpError {
  return new TimeUpError(`the time was up before ${what}`, {
    log,
    segment,
    advice: `Run 'logfold archive LOG ${segment}' on a machine, without a time limit`,
  });
}

/**
 * Plans the archive of a segment and writes nothing.
 * @returns undefined if the segment already has an archive
 * @throws the errors of {@link archiveSegment}, except those of concurrent changes
 */
export async function planArchive(
  deps: ArchiveDeps,
  job: Omit<ArchiveJob, 'kind'>,
): Promise<WrittenArchive | undefined> {
  const segment = await requireCovered(deps.tables, job);
  if (segment.archive !== undefined) return undefined;
  requireNotExpiring(segment);
  await lastRoot(deps, segment);
  const bytes = archiveOf(deps, segment, pages(deps, segment, {}));
  for (;;) {
    const next = await bytes.next();
    if (next.done === true) return next.value;
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
    withRoot(inTime(deps, segment, pages(deps, segment, range, source)), segment, root?.to);
  const { hash } = (await writeAndCompare(whole, { segment, key, from: 0 }, items)).written;
  // Garbage collection removes the old object.
  if (await deps.tables.replaceArchive(segment, { key, hash, root })) {
    return { ...segment, archive: { key, hash } };
  }
  await deps.blobs.delete([key]);
  throw changedMeanwhile(segment);
}

async function* withRoot(
  items: Pages,
  { lastSnapshot }: Segment,
  root: RootRef | undefined,
): AsyncGenerator<readonly StoredItem[]> {
  const attribute = root && rootAttribute(root);
  for await (const page of items) {
    yield page.map((item) => {
      if (attribute === undefined || item.N?.N !== String(lastSnapshot)) return item;
      const { B: _, E: __, ...bare } = item;
      return { ...bare, [attribute.name]: attribute.value };
    });
  }
}

type Pages = AsyncIterable<readonly StoredItem[]>;

/** A verified archive, or a verified part of one. */
interface Piece {
  readonly written: WrittenArchive;
  /** The number after the last compared entry. */
  readonly to: number;
  /** Whether the comparison reached the segment's last entry. */
  readonly ended: boolean;
}

interface PageRange {
  readonly from?: number;
  /** By default all following entries, even behind the segment's end. */
  readonly to?: number | undefined;
  /** The number of written entries; absent while entries are written. */
  readonly written?: number;
}

/**
 * Writes an archive, reads it back and compares it. If the time is short, does so with a part of
 * the segment.
 * @param items reads the segment's items
 */
async function writeAndCompare(
  deps: ArchiveDeps,
  { segment, key, from }: { readonly segment: Segment; readonly key: string; readonly from: number },
  items: (range: PageRange) => Pages,
): Promise<Piece> {
  let written: WrittenArchive | undefined;
  let stopped = false;
  const writing = writingTime(deps);
  const shouldStop = (): boolean => {
    stopped = isTimeUp(writing);
    return stopped;
  };
  async function* stream(): AsyncGenerator<Uint8Array> {
    written = yield* archiveOf(deps, segment, items({ from }), { from, shouldStop });
  }
  await deps.blobs.putStream(key, stream());
  if (written === undefined) throw new Error('a stream was stored that did not end');
  try {
    const named = { ...segment, archive: { key, hash: written.hash } };
    const archive = await openArchive(deps, named, from);
    const range = { from, to: stopped ? archive.entries : undefined, written: archive.entries - from };
    const of = { segment: named, types: deps.types };
    const to = await verifyArchive(archive, items(range), of, () => isTimeUp(deps));
    return { written, to, ended: !stopped && to === archive.entries };
  } catch (error) {
    await deps.blobs.delete([key]);
    throw error;
  }
}

/** The deadline for writing of a run that starts now. */
function writingTime({ now, deadline }: ArchiveDeps): Deadline {
  if (now === undefined || deadline === undefined) return {};
  const started = now();
  return { now, deadline: started + Math.max(0, deadline - started) * WRITING_SHARE };
}

function archiveOf(
  deps: ArchiveDeps,
  { log, segment }: Segment,
  items: Pages,
  part: Omit<PartOptions, 'frameBytes'> = {},
): AsyncGenerator<Uint8Array, WrittenArchive> {
  const { endSegment } = deps.types;
  const { bytes: frameBytes } = deps.frames ?? FRAMES;
  return writeArchive(deps.platform, { log, segment, endSegment }, items, { ...part, frameBytes });
}

async function* pages(
  deps: ArchiveDeps,
  { log, segment }: Segment,
  { from = 0, to = MAX_NUMBER + 1, written = 0 }: PageRange,
  source: EntryReader = deps.tables,
): AsyncGenerator<readonly StoredItem[]> {
  let entries = written;
  for await (const page of source.items(log, { segment, from, to }, { consistent: true })) {
    yield page;
    entries += page.length;
    deps.onEntries?.(entries);
  }
}

async function* inTime(deps: Deadline, { log, segment }: Segment, items: Pages): Pages {
  for await (const page of items) {
    yield page;
    checkTime(deps, log, {
      what: `the archive of segment ${segment} was written again`,
      advice: "Run 'logfold sweep --rebuild --log LOG' on a machine, without a time limit",
    });
  }
}

/** The root of the segment's last snapshot. */
async function lastRoot({ tables }: ArchiveDeps, segment: Segment): Promise<RootRef | undefined> {
  const { log, lastSnapshot } = segment;
  if (lastSnapshot === undefined) return undefined;
  const position = { segment: segment.segment, entry: lastSnapshot };
  const entry = await tables.getEntry(log, position, { consistent: true });
  const root = entry && rootOf(entry);
  if (root !== undefined) return root;
  throw lastWithoutRoot(segment);
}
