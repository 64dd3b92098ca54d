import { verifyArchive } from '../archive/compare.ts';
import { openArchive } from '../archive/reader.ts';
import { type WrittenArchive, writeArchive } from '../archive/writer.ts';
import { SegmentStateError } from '../errors.ts';
import type { StoredItem } from '../log/attribute.ts';
import { checkTypes, type ReservedTypes } from '../log/entry.ts';
import { rootAttribute } from '../log/item-codec.ts';
import type { LogStore } from '../log/log-store.ts';
import { MAX_NUMBER } from '../log/position.ts';
import { type RootRef, rootOf } from '../log/root-ref.ts';
import type { Segment } from '../log/segment.ts';
import { lastWithoutRoot } from '../snapshot/snapshots.ts';
import type { BlobStore } from '../store/blob-store.ts';
import { archiveKey, randomHex } from '../store/keys.ts';
import type { ChunkPlatform } from '../tree/chunk.ts';
import { askForCollection } from './collection-record.ts';
import { checkTime, type Deadline } from './deadline.ts';
import type { ArchiveJob } from './job.ts';
import { changedMeanwhile, requireCovered } from './segment-state.ts';

/** How often an archive is written before it is given up, where the segment's last snapshot is replaced meanwhile. */
const ATTEMPTS = 3;

export interface ArchiveDeps extends Deadline {
  /** The tables themselves, without what archives would add to them. */
  readonly tables: LogStore;
  readonly blobs: BlobStore;
  readonly platform: ChunkPlatform;
  readonly types?: ReservedTypes | undefined;
  /** From 0 up to but not including 1. */
  readonly random: () => number;
  /** Told how many entries are done; each is done twice, once written and once compared. */
  readonly onEntries?: ((entries: number) => void) | undefined;
}

/** How an archive job ended. */
export type ArchiveResult =
  | (WrittenArchive & { readonly outcome: 'archived'; readonly segment: number; readonly key: string })
  /** The segment has an archive. */
  | { readonly outcome: 'present'; readonly segment: number; readonly key: string };

/**
 * Writes the archive of a segment that is closed and covered, reads it back, compares it with the table entry by entry and by
 * its hashes, and only then names it on the segment: on the condition that the segment's last snapshot is still the
 * one that is in the archive. Nothing leaves the table. May be done twice or beside its twin; an archive that comes
 * too late is removed, and one whose writer died is the collector's.
 * @throws SegmentNotFoundError, SegmentStateError where the segment is not there, open, or not covered
 * @throws EntryGapError where an entry is missing, ArchiveDiffersError where the table changed meanwhile
 * @throws TimeUpError if the deadline passes first; nothing is left behind
 */
export async function archiveSegment(deps: ArchiveDeps, job: Omit<ArchiveJob, 'kind'>): Promise<ArchiveResult> {
  const { log, segment: number } = job;
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const segment = await requireCovered(deps.tables, job);
    if (segment.archive !== undefined) return { outcome: 'present', segment: number, key: segment.archive };
    requireNoneLeaves(segment);
    const root = await lastRoot(deps, segment);
    const key = archiveKey(log, number, randomHex(deps.random, 32));
    const written = await writeAndCompare(deps, segment, key, (done) => pages(deps, segment, done));
    // Before it is true that roots are no longer kept: whoever dies right behind it asks for no collection.
    await askForCollection(deps.blobs, log);
    if (await deps.tables.setArchive(segment, { key, hash: written.hash, root })) {
      return { outcome: 'archived', segment: number, key, ...written };
    }
    await deps.blobs.delete([key]);
  }
  throw new SegmentStateError('the segment changed each time that its archive was written', {
    log,
    segment: number,
    advice: 'Try again later',
  });
}

/**
 * What an archive of a segment would be; writes nothing.
 * @returns undefined where the segment has one
 * @throws what {@link archiveSegment} would throw, but for what changes meanwhile
 */
export async function planArchive(
  deps: ArchiveDeps,
  job: Omit<ArchiveJob, 'kind'>,
): Promise<WrittenArchive | undefined> {
  const segment = await requireCovered(deps.tables, job);
  if (segment.archive !== undefined) return undefined;
  requireNoneLeaves(segment);
  await lastRoot(deps, segment);
  const bytes = archiveOf(deps, segment, pages(deps, segment));
  for (;;) {
    const next = await bytes.next();
    if (next.done === true) return next.value;
  }
}

function requireNoneLeaves({ log, segment, expires }: Segment): void {
  if (expires === undefined) return;
  throw new SegmentStateError('the entries of the segment are leaving the table already', {
    log,
    segment,
    advice: `Run 'logfold expire LOG ${segment} --undo', which takes that back, then 'logfold archive LOG ${segment}'`,
  });
}

/**
 * Writes the archive of an archived segment again, and names it in the place of the one before: from the tables, if the
 * archive is lost; or with another root on the entry that Last Snapshot names, if the archived one cannot be read.
 * @param source where the entries are read
 * @throws EntryGapError if the source lacks an entry, SegmentStateError if the segment changed meanwhile
 */
export async function rearchiveSegment(
  deps: ArchiveDeps,
  segment: Segment,
  { source, root }: { readonly source: LogStore; readonly root?: { readonly from: RootRef; readonly to: RootRef } },
): Promise<Segment> {
  const key = archiveKey(segment.log, segment.segment, randomHex(deps.random, 32));
  const items = (done?: number) => withRoot(pages({ ...deps, tables: source }, segment, done), segment, root?.to);
  const { hash } = await writeAndCompare(deps, segment, key, items);
  // The old object is the collector's.
  if (await deps.tables.replaceArchive(segment, { key, hash, root })) {
    return { ...segment, archive: key, archiveHash: hash };
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

/** Writes an archive and reads it back. @param items the segment's items; how many entries are done already */
async function writeAndCompare(
  deps: ArchiveDeps,
  segment: Segment,
  key: string,
  items: (done?: number) => Pages,
): Promise<WrittenArchive> {
  let written: WrittenArchive | undefined;
  async function* stream(): AsyncGenerator<Uint8Array> {
    written = yield* archiveOf(deps, segment, items());
  }
  await deps.blobs.putStream(key, stream());
  if (written === undefined) throw new Error('a stream was stored that did not end');
  try {
    const named = { ...segment, archive: key, archiveHash: written.hash };
    const archive = await openArchive(deps, named);
    await verifyArchive(archive, items(archive.entries), { segment: named, types: checkTypes(deps.types) });
  } catch (error) {
    await deps.blobs.delete([key]);
    throw error;
  }
  return written;
}

function archiveOf(deps: ArchiveDeps, segment: Segment, items: Pages): AsyncGenerator<Uint8Array, WrittenArchive> {
  const { endSegment } = checkTypes(deps.types);
  return writeArchive(deps.platform, { log: segment.log, segment: segment.segment, endSegment }, items);
}

async function* pages(deps: ArchiveDeps, { log, segment }: Segment, done = 0): AsyncGenerator<readonly StoredItem[]> {
  let entries = done;
  for await (const page of deps.tables.items(log, { segment, from: 0, to: MAX_NUMBER + 1 }, { consistent: true })) {
    yield page;
    entries += page.length;
    deps.onEntries?.(entries);
    checkTime(deps, log, {
      what: `segment ${segment} was archived; it needs ${2 * entries} entries read and more`,
      advice: `Run 'logfold archive LOG ${segment}' where no time limit holds`,
    });
  }
}

/** The root that the segment's last snapshot has. */
async function lastRoot({ tables }: ArchiveDeps, segment: Segment): Promise<RootRef | undefined> {
  const { log, lastSnapshot } = segment;
  if (lastSnapshot === undefined) return undefined;
  const position = { segment: segment.segment, entry: lastSnapshot };
  const entry = await tables.getEntry(log, position, { consistent: true });
  const root = entry && rootOf(entry);
  if (root !== undefined) return root;
  throw lastWithoutRoot(segment);
}
