import { parseJson } from '../codec/json.ts';
import { CredentialsError, isLogfoldError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { comparePositions, formatPosition, type Position } from '../ids/position.ts';
import { type CompletedSnapshot, completedSnapshot, type Entry, type ReservedTypes } from '../log/entry.ts';
import { encodeEntry } from '../log/item-codec.ts';
import { itemBytes } from '../log/item-size.ts';
import { readEntries } from '../log/read-entries.ts';
import { isFrozen, type Segment } from '../log/segment.ts';
import type { Reducer } from '../state/reducer.ts';
import type { BlobStore } from '../store/blob-store.ts';
import { collectedKey } from '../store/keys.ts';
import { otherReducer, type Root } from './root.ts';
import { loadRoot, type SnapshotStores } from './snapshots.ts';

/** Entries of the first range. Each further range has twice as many. */
const FIRST_ENTRIES = 64;
/** Memory for entries that the fold needs later, in bytes. */
const HELD_BYTES = 16_000_000;
/** Memory of an entry beside its item, in bytes. */
const ENTRY_BYTES = 500;

export interface LookBackDeps extends SnapshotStores {
  readonly reducer: Reducer;
  readonly types: ReservedTypes;
}

/**
 * Looks for a snapshot before a position if Last Snapshot of the segment is after it. Reads
 * backward in growing ranges: at most about twice the entries that the fold needs. Holds them for
 * the fold.
 */
export class LookBack {
  readonly #deps: LookBackDeps;
  readonly #log: LogId;
  readonly #at: Position;
  /** Ranges of entries that end at the position, in order. */
  readonly #held: (readonly Entry[])[] = [];
  /** The position of the first held entry. */
  #heldFrom: Position;
  /** Memory that is left for entries, in bytes. If it is negative, no more are held. */
  #room = HELD_BYTES;
  #root: Root | undefined;

  constructor(deps: LookBackDeps, log: LogId, at: Position) {
    this.#deps = deps;
    this.#log = log;
    this.#at = at;
    this.#heldFrom = at;
  }

  /** The root of the snapshot that {@link search} found. */
  get root(): Root | undefined {
    return this.#root;
  }

  /**
   * Searches the newest complete snapshot of a segment at the position or before it, without those
   * that garbage collection dropped.
   * @param segment the position's segment; its Last Snapshot is after the position
   * @returns undefined if there is none, if another reducer made it, or if it cannot be reached. An
   * older snapshot then is the better base; the fold throws if it needs what cannot be read
   */
  async search(segment: Segment): Promise<CompletedSnapshot | undefined> {
    // An archived segment keeps only Last Snapshot, and one that expires may lack entries.
    if (isFrozen(segment)) return undefined;
    try {
      return await this.#search();
    } catch (error) {
      if (isLogfoldError(error) && error.stopsLog) return undefined;
      throw error;
    }
  }

  /** The entries from a position up to the one of the constructor. They can be read once. */
  async *pages(from: Position): AsyncGenerator<Entry[]> {
    if (comparePositions(from, this.#heldFrom) < 0) {
      yield* readEntries(this.#deps, this.#log, { from, to: this.#heldFrom });
    }
    for (let range = this.#held.shift(); range !== undefined; range = this.#held.shift()) {
      const page = range.filter(
        ({ position }) => comparePositions(position, from) >= 0 && comparePositions(position, this.#at) < 0,
      );
      if (page.length > 0) yield page;
    }
  }

  async #search(): Promise<CompletedSnapshot | undefined> {
    const { blobs, reducer } = this.#deps;
    let dropped: DroppedSnapshots | undefined;
    let to = this.#at.entry + 1;
    for (let entries = FIRST_ENTRIES; to > 0; entries *= 2) {
      const from = Math.max(0, to - entries);
      for (const snapshot of await this.#readRange(from, to)) {
        dropped ??= await DroppedSnapshots.read(blobs, this.#log);
        if (dropped === undefined) return undefined;
        if (dropped.has(snapshot)) continue;
        const root = await loadRoot(this.#deps, { log: this.#log, position: snapshot.position }, snapshot.root);
        if (otherReducer(root, reducer) !== undefined) return undefined;
        this.#root = root;
        return snapshot;
      }
      to = from;
    }
    return undefined;
  }

  /** Reads entries of the segment. @returns the complete snapshots among them, newest first */
  async #readRange(from: number, to: number): Promise<CompletedSnapshot[]> {
    const { types } = this.#deps;
    const { segment } = this.#at;
    const range = { from: { segment, entry: from }, to: { segment, entry: to } };
    const snapshots: CompletedSnapshot[] = [];
    const held: Entry[] = [];
    for await (const page of readEntries(this.#deps, this.#log, range)) {
      for (const entry of page) {
        const snapshot = entry.type === types.snapshot ? completedSnapshot(entry) : undefined;
        if (snapshot !== undefined) snapshots.unshift(snapshot);
        if (this.#room >= 0) {
          this.#room -= ENTRY_BYTES + itemBytes(encodeEntry(entry));
          held.push(entry);
        }
      }
    }
    if (this.#room >= 0) {
      this.#held.unshift(held);
      this.#heldFrom = range.from;
    }
    return snapshots;
  }
}

/**
 * The snapshots of a log that garbage collection dropped: some of their chunks may be gone. A
 * collection names a snapshot at least a grace period before it removes a chunk.
 */
export class DroppedSnapshots {
  readonly #names: ReadonlySet<string>;

  private constructor(names: ReadonlySet<string>) {
    this.#names = names;
  }

  /**
   * Reads the note on the collections of a log, in one request.
   * @returns undefined if the note is damaged or this reader must not see it. Then only the
   * snapshots that are always kept are safe to read
   */
  static async read(blobs: BlobStore, log: LogId): Promise<DroppedSnapshots | undefined> {
    try {
      const bytes = await blobs.get(collectedKey(log));
      return new DroppedSnapshots(new Set(bytes && namesIn(parseJson(new TextDecoder().decode(bytes)))));
    } catch (error) {
      if (error instanceof CredentialsError || error instanceof SyntaxError) return undefined;
      throw error;
    }
  }

  /** Whether garbage collection dropped a snapshot. */
  has({ position, root }: CompletedSnapshot): boolean {
    return this.#names.has(formatPosition(position)) || ('key' in root && this.#names.has(root.key));
  }
}

// Pages do not load the library that checks the note for collections.
function namesIn(note: unknown): string[] {
  if (typeof note !== 'object' || note === null || !('dropped' in note) || !Array.isArray(note.dropped)) {
    throw new SyntaxError('the note names no dropped snapshots');
  }
  return note.dropped.map((each: unknown) => String(Array.isArray(each) ? each[0] : each));
}
