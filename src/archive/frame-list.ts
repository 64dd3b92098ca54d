import { ByteWriter } from '../codec/bytes.ts';
import type { ChunkPlatform } from '../codec/chunk.ts';
import { HASH_BYTES } from '../log/item-codec.ts';
import { type ArchiveIndex, encodeArchiveIndex, skippableFrame } from './archive-index.ts';
import { encodeSeekTable, type SeekEntry } from './seek-table.ts';

/** A compressed frame of lines. */
export interface StoredFrame {
  /** The number of its first entry. */
  readonly first: number;
  /** Its bytes as the object holds them. */
  readonly stored: Uint8Array;
  /** Length before compression, in bytes. */
  readonly content: number;
  /** SHA-256 of the bytes before compression. */
  readonly hash: Uint8Array;
}

/** Facts about a written archive. */
export interface WrittenArchive {
  /** SHA-256 of the index, which verifies every byte of every line. */
  readonly hash: Uint8Array;
  readonly entries: number;
  /** Uncompressed size of all lines. */
  readonly bytes: number;
  /** Size of the object, in bytes. */
  readonly stored: number;
  readonly frames: number;
}

/** Collects the facts about frames that the end of an archive states. */
export class FrameList {
  readonly #table: SeekEntry[] = [];
  readonly #hashes = new ByteWriter(HASH_BYTES);
  readonly #firsts: number[] = [];

  /** Appends a frame; call in the order of the object's frames. */
  add({ first, stored, content, hash }: StoredFrame): void {
    this.#table.push({ stored: stored.length, content });
    this.#hashes.append(hash);
    this.#firsts.push(first);
  }

  /** The end of the object: the index, then the seek table. Called once, after the last frame. */
  *end(
    platform: ChunkPlatform,
    of: Pick<ArchiveIndex, 'log' | 'segment' | 'entries' | 'mapping'>,
  ): Generator<Uint8Array, WrittenArchive> {
    const bytes = this.#table.reduce((sum, { content }) => sum + content, 0);
    const index = encodeArchiveIndex({ ...of, bytes, firsts: this.#firsts, hashes: this.#hashes.take() });
    const indexFrame = skippableFrame(index);
    yield indexFrame;
    const table = [...this.#table, { stored: indexFrame.length, content: 0 }];
    const seekTable = encodeSeekTable(table);
    yield seekTable;
    const stored = table.reduce((sum, frame) => sum + frame.stored, seekTable.length);
    return { hash: platform.sha256(index), entries: of.entries, bytes, stored, frames: this.#firsts.length };
  }
}
