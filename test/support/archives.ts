import { nativePlatform } from '../../src/adapters/platform/native.ts';
import { type ArchiveIndex, encodeArchiveIndex, skippableFrame } from '../../src/archive/archive-index.ts';
import { encodeItemLine } from '../../src/archive/item-line.ts';
import { encodeSeekTable, type SeekEntry } from '../../src/archive/seek-table.ts';
import { type WrittenArchive, writeArchive } from '../../src/archive/writer.ts';
import type { LogId } from '../../src/ids/log-id.ts';
import type { Item, StoredItem } from '../../src/log/attribute.ts';
import { type Entry, RESERVED_TYPES } from '../../src/log/entry.ts';
import { encodeEntry, HASH_BYTES } from '../../src/log/item-codec.ts';
import { MAX_BATCH_ITEMS } from '../../src/log/log-store.ts';
import type { ArchiveRef, Segment } from '../../src/log/segment.ts';
import type { BlobStore } from '../../src/store/blob-store.ts';
import { archiveKey } from '../../src/store/keys.ts';
import { entryAt, LOG, NOON } from './logs.ts';

export interface SegmentOf {
  readonly log: LogId;
  readonly segment: number;
}

export const FIRST_SEGMENT: SegmentOf = { log: LOG, segment: 0 };

/** The key of a test's archive. Each segment has its own key. */
export function keyOf({ log, segment }: SegmentOf): string {
  return archiveKey(log, segment, 'a'.repeat(32));
}

/**
 * The items of a closed segment: small entries and, last, the End Segment entry.
 * @param count includes the End Segment entry
 */
export function segmentItems(count: number, of: SegmentOf = FIRST_SEGMENT, change: Partial<Entry> = {}): Item[] {
  return Array.from({ length: count }, (_, entry) => {
    const overrides = entry === count - 1 ? { type: RESERVED_TYPES.endSegment, body: undefined } : change;
    return encodeEntry(entryAt(of.log, { segment: of.segment, entry }, overrides));
  });
}

/**
 * The archive that the writer makes of these items. `pieces` has the frames, the index frame and
 * the seek table.
 */
export async function written(
  items: readonly StoredItem[],
  { log, segment }: SegmentOf = FIRST_SEGMENT,
  pageItems = 1000,
): Promise<{ readonly pieces: readonly Uint8Array[]; readonly archive: WrittenArchive }> {
  async function* pages(): AsyncGenerator<readonly StoredItem[]> {
    for (let at = 0; at < items.length; at += pageItems) yield items.slice(at, at + pageItems);
  }
  const pieces: Uint8Array[] = [];
  const writing = writeArchive(nativePlatform, { log, segment, endSegment: RESERVED_TYPES.endSegment }, pages());
  for (;;) {
    const next = await writing.next();
    if (next.done === true) return { pieces, archive: next.value };
    pieces.push(next.value);
  }
}

/** An archive in parts, so that a test can replace each part. */
export interface ArchiveParts {
  /** Compressed. */
  readonly frames: readonly Uint8Array[];
  readonly index: ArchiveIndex;
  /** The entries of the seek table, including the entry of the index frame. */
  readonly sizes: readonly SeekEntry[];
}

/**
 * An archive with one frame for each text. The writer's own frames have a megabyte each, which is
 * too large for most tests.
 */
export function partsOf(
  frames: readonly { readonly content: Uint8Array; readonly entries: number }[],
  of: SegmentOf = FIRST_SEGMENT,
): ArchiveParts {
  const firsts: number[] = [];
  const hashes = new Uint8Array(frames.length * HASH_BYTES);
  let entries = 0;
  for (const [i, frame] of frames.entries()) {
    firsts.push(entries);
    hashes.set(nativePlatform.sha256(frame.content), i * HASH_BYTES);
    entries += frame.entries;
  }
  const bytes = frames.reduce((sum, { content }) => sum + content.length, 0);
  const index = { log: of.log, segment: of.segment, entries, bytes, firsts, hashes };
  const compressed = frames.map(({ content }) => nativePlatform.compress(content));
  const sizes = compressed.map((frame, i) => ({ stored: frame.length, content: frames[i]?.content.length ?? 0 }));
  sizes.push({ stored: skippableFrame(encodeArchiveIndex(index)).length, content: 0 });
  return { frames: compressed, index, sizes };
}

/** Like {@link partsOf}, with `each` items in each frame. */
export function partsOfItems(items: readonly StoredItem[], each: number, of: SegmentOf = FIRST_SEGMENT): ArchiveParts {
  const frames = Array.from({ length: Math.ceil(items.length / each) }, (_, i) => {
    const own = items.slice(i * each, (i + 1) * each);
    return { content: linesOf(own), entries: own.length };
  });
  return partsOf(frames, of);
}

/** The bytes of a frame before compression. */
export function linesOf(items: readonly StoredItem[]): Uint8Array {
  return new TextEncoder().encode(items.map((item) => `${encodeItemLine(item)}\n`).join(''));
}

/** The object made of these parts, and the hash that its segment must hold. */
export function joined({ frames, index, sizes }: ArchiveParts): {
  readonly bytes: Uint8Array;
  readonly hash: Uint8Array;
} {
  const encoded = encodeArchiveIndex(index);
  const bytes = Buffer.concat([...frames, skippableFrame(encoded), encodeSeekTable(sizes)]);
  return { bytes: Uint8Array.from(bytes), hash: nativePlatform.sha256(encoded) };
}

/** Puts an archive under the key of its segment, and returns the segment. */
export async function storeArchive(
  blobs: BlobStore,
  { bytes, hash }: { readonly bytes: Uint8Array; readonly hash: Uint8Array },
  of: SegmentOf = FIRST_SEGMENT,
): Promise<Segment & { readonly archive: ArchiveRef }> {
  const key = keyOf(of);
  await blobs.put(key, bytes);
  return { ...of, created: NOON, archive: { key, hash: Uint8Array.from(hash) } };
}

/** Splits items into batches of the largest size that a store accepts. */
export function batches<T>(items: readonly T[]): T[][] {
  return Array.from({ length: Math.ceil(items.length / MAX_BATCH_ITEMS) }, (_, i) =>
    items.slice(i * MAX_BATCH_ITEMS, (i + 1) * MAX_BATCH_ITEMS),
  );
}

/** All items of all pages. */
export async function allItems<T>(pages: AsyncIterable<readonly T[]>): Promise<T[]> {
  const all: T[] = [];
  for await (const page of pages) all.push(...page);
  return all;
}
