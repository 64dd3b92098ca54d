import { type Archive, openArchive } from '../../archive/reader.ts';
import { sameEntry } from '../../archive/verify-archive.ts';
import { FrameList, type StoredFrame, type WrittenArchive } from '../../archive/writer.ts';
import { fromHex } from '../../codec/bytes.ts';
import { ArchiveCorruptError, ArchiveMissingError, SegmentStateError, TimeUpError } from '../../errors.ts';
import type { StoredItem } from '../../log/attribute.ts';
import { type RootRef, rootOf, sameRoot } from '../../log/entry.ts';
import { decodeEntry } from '../../log/item-codec.ts';
import type { SegmentPlace } from '../../log/log-store.ts';
import type { Segment } from '../../log/segment.ts';
import { archiveKey, randomHex } from '../../store/keys.ts';
import { isTimeUp } from '../jobs/deadline.ts';
import type { ArchivePart } from '../jobs/job.ts';
import { type ArchiveDeps, FRAMES } from './write-archive.ts';

/** A verified archive that no segment names yet. */
export interface MadeArchive {
  readonly key: string;
  readonly written: WrittenArchive;
  /** The parts of which it was joined. */
  readonly parts: readonly ArchivePart[];
}

/** The parts that the next run may build on. */
export interface UsableParts {
  readonly parts: readonly ArchivePart[];
  /** Whether the parts hold the whole segment. */
  readonly ended: boolean;
}

/**
 * Finds the first parts that are usable. Each must exist and have its hash, the root of Last
 * Snapshot must be the one in the table, and the last entry must equal the table's. After a
 * divergence of the log, the table has another entry there.
 */
export async function usableParts(
  deps: ArchiveDeps,
  segment: Segment,
  { parts, root }: { readonly parts: readonly ArchivePart[]; readonly root: RootRef | undefined },
): Promise<UsableParts> {
  const last = segment.lastSnapshot?.position.entry;
  const { types } = deps;
  const usable: ArchivePart[] = [];
  const ends: StoredItem[] = [];
  for (const part of parts) {
    const found = await unlessUnreadable(async () => {
      const archive = await openPart(deps, segment, { part, from: usable.at(-1)?.to ?? 0 });
      const isOfMapping = archive.maker === undefined;
      if (!isOfMapping || part.to <= archive.first || archive.framesBefore(part.to) !== part.to) return undefined;
      if (last !== undefined && last >= archive.first && last < part.to) {
        const item = await itemOf(archive, last);
        const archived = item && rootOf(decodeEntry(item));
        if (archived === undefined || root === undefined || !sameRoot(archived, root)) return undefined;
      }
      return itemOf(archive, part.to - 1);
    });
    if (found === undefined) break;
    usable.push(part);
    ends.push(found);
  }
  for (; usable.length > 0; usable.pop(), ends.pop()) {
    const { to } = usable.at(-1) ?? { to: 0 };
    const item = ends.at(-1);
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
export async function joinParts(
  deps: ArchiveDeps,
  segment: Segment,
  parts: readonly ArchivePart[],
): Promise<MadeArchive> {
  const { platform, blobs } = deps;
  const { log, segment: number } = segment;
  const { atLeast } = deps.frames ?? FRAMES;
  const key = archiveKey(log, number, randomHex(deps.random, 32));
  const entries = parts.at(-1)?.to ?? 0;
  let frames = 0;
  const checkFrame = (): void => {
    if (++frames > atLeast && isTimeUp(deps)) throw archiveTooLong(segment, `the ${parts.length} parts were joined`);
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
    const mapping = deps.tables.meaningOf?.(log)?.fingerprint(platform);
    written = yield* list.end(platform, { log, segment: number, mapping, entries });
  }
  await blobs.putStream(key, stream());
  if (written === undefined) throw new Error('the blob store finished before the archive stream ended');
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

/** Deletes parts. A run that still uses them writes them again. */
export async function removeParts(
  { blobs }: ArchiveDeps,
  place: SegmentPlace,
  parts: readonly ArchivePart[],
): Promise<void> {
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

/** The error of a run that is too short; `what` was not done in time. */
export function archiveTooLong({ log, segment }: SegmentPlace, what: string): TimeUpError {
  return new TimeUpError(`time ran out before ${what}`, {
    log,
    segment,
    advice: `Run 'logfold archive LOG ${segment}' on your own machine, where there is no time limit`,
  });
}
