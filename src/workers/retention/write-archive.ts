import { openArchive } from '../../archive/reader.ts';
import { verifyArchive } from '../../archive/verify-archive.ts';
import { FRAME_BYTES, type PartOptions, type WrittenArchive, writeArchive } from '../../archive/writer.ts';
import type { ChunkPlatform } from '../../codec/chunk.ts';
import { MAX_NUMBER } from '../../ids/position.ts';
import type { StoredItem } from '../../log/attribute.ts';
import type { ReservedTypes } from '../../log/entry.ts';
import type { EntryReader, SegmentLifecycle, TableReader } from '../../log/log-store.ts';
import type { Segment } from '../../log/segment.ts';
import type { BlobStore } from '../../store/blob-store.ts';
import { type Deadline, isTimeUp } from '../jobs/deadline.ts';

/**
 * The share of a run's time for writing. Comparing takes the rest, since it reads the table and the
 * object.
 */
const WRITING_SHARE = 0.4;

/** The default of {@link ArchiveDeps.frames}. Joining so many frames takes a few seconds. */
export const FRAMES = { bytes: FRAME_BYTES, atLeast: 64 };

export interface ArchiveDeps extends Deadline {
  readonly tables: TableReader & SegmentLifecycle;
  readonly blobs: BlobStore;
  readonly platform: ChunkPlatform;
  readonly types: ReservedTypes;
  /** From 0 up to but not including 1. */
  readonly random: () => number;
  /**
   * Whether to replace the archive that another program named, after the new one was compared with
   * the table. False by default.
   */
  readonly replaceForeign?: boolean | undefined;
  /** Called with the number of finished entries. Each counts twice: written, then compared. */
  readonly onEntries?: (entries: number) => void;
  /**
   * Bytes of a frame before compression, and frames that a run joins even if its time is up; 1
   * million and 64 by default.
   */
  readonly frames?: { readonly bytes: number; readonly atLeast: number } | undefined;
}

/** Items of a segment, in ascending order, page by page. */
export type ItemPages = AsyncIterable<readonly StoredItem[]>;

/** A verified archive, or a verified part of one. */
export interface VerifiedPiece {
  readonly written: WrittenArchive;
  /** The number after the last compared entry. */
  readonly to: number;
  /** Whether the comparison reached the segment's last entry. */
  readonly ended: boolean;
}

/** Entry numbers of a segment to read. */
export interface PageRange {
  readonly from?: number;
  /** By default all following entries, even after the segment's end. */
  readonly to?: number | undefined;
  /**
   * The number of written entries; absent while entries are written. If it is present, a general
   * parser reads the items: see `isChecked` of `RangeOptions`.
   */
  readonly written?: number;
}

/**
 * Writes an archive, reads it back and compares it. If time is short, covers only a part of the
 * segment.
 * @param items reads the segment's items
 */
export async function writeAndCompare(
  deps: ArchiveDeps,
  { segment, key, from }: { readonly segment: Segment; readonly key: string; readonly from: number },
  items: (range: PageRange) => ItemPages,
): Promise<VerifiedPiece> {
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
  if (written === undefined) throw new Error('the blob store finished before the archive stream ended');
  try {
    const named = { ...segment, archive: { key, hash: written.hash } };
    const archive = await openArchive(deps, named, from);
    const range = { from, to: stopped ? archive.end : undefined, written: archive.end - from };
    const of = { segment: named, types: deps.types };
    const to = await verifyArchive(archive, items(range), of, () => isTimeUp(deps));
    return { written, to, ended: !stopped && to === archive.end };
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

/** The bytes of an archive, or of a part of one, that holds these items. */
export function archiveOf(
  deps: ArchiveDeps,
  { log, segment }: Segment,
  items: ItemPages,
  part: Omit<PartOptions, 'frameBytes'> = {},
): AsyncGenerator<Uint8Array, WrittenArchive> {
  const { endSegment } = deps.types;
  const { bytes: frameBytes } = deps.frames ?? FRAMES;
  const mapping = deps.tables.meaningOf?.(log)?.fingerprint(deps.platform);
  return writeArchive(deps.platform, { log, segment, mapping, endSegment }, items, { ...part, frameBytes });
}

/** Reads the items of a segment consistently, and reports how many have been read. */
export async function* segmentPages(
  deps: ArchiveDeps,
  { log, segment }: Segment,
  { from = 0, to = MAX_NUMBER + 1, written }: PageRange,
  source: EntryReader = deps.tables,
): AsyncGenerator<readonly StoredItem[]> {
  let entries = written ?? 0;
  // Items to compare are not read as those to write were.
  const options = { consistent: true, isChecked: written !== undefined };
  for await (const page of source.items(log, { segment, from, to }, options)) {
    yield page;
    entries += page.length;
    deps.onEntries?.(entries);
  }
}
