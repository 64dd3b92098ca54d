import type { BlobInfo, BlobStore } from '../../store/blob-store.ts';
import type { CollectionRecord } from './collection-record.ts';

/** Objects that one collection condemns; what is left over, the next one finds. */
const MAX_CONDEMNED = 200_000;
const REMOVE_AT_ONCE = 1000;

/** A number of objects, and their size in bytes. */
export interface Tally {
  readonly objects: number;
  readonly bytes: number;
}

export interface ReaperOptions {
  /** The bucket's own time, in epoch milliseconds. */
  readonly now: number;
  readonly graceMs: number;
  /** What the collection before this one left. */
  readonly before: Pick<CollectionRecord, 'condemned'>;
  /** How many objects earlier turns of this collection condemned; none by default. */
  readonly condemnedEarlier?: number | undefined;
  /** Removes nothing, and remembers what it would. */
  readonly dry: boolean;
}

/** Decides what becomes of objects that nothing reaches, and removes those whose time has come. */
export class Reaper {
  readonly #blobs: BlobStore;
  readonly #options: ReaperOptions;
  readonly #since: ReadonlyMap<string, number>;
  readonly #removing: BlobInfo[] = [];
  readonly #removedKeys: string[] = [];
  readonly #condemnedSince = new Map<string, number>();
  /** How many objects may be condemned. */
  readonly #room: number;
  #overflowed: boolean;
  #foundYoung = false;
  #kept: Tally = { objects: 0, bytes: 0 };
  #condemned: Tally = { objects: 0, bytes: 0 };
  #removed: Tally = { objects: 0, bytes: 0 };

  constructor(blobs: BlobStore, options: ReaperOptions) {
    this.#blobs = blobs;
    this.#options = options;
    this.#since = new Map(options.before.condemned);
    this.#room = MAX_CONDEMNED - (options.condemnedEarlier ?? 0);
    this.#overflowed = this.#room <= 0;
  }

  /** What was kept, condemned and removed so far. */
  get tallies(): { readonly kept: Tally; readonly condemned: Tally; readonly removed: Tally } {
    return { kept: this.#kept, condemned: this.#condemned, removed: this.#removed };
  }

  /** Keys that the next collection is to be told of, and since when they are condemned. */
  get condemned(): ReadonlyMap<string, number> {
    return this.#condemnedSince;
  }

  /** Whether there was more to condemn than one collection does. */
  get overflowed(): boolean {
    return this.#overflowed;
  }

  /** Whether there was something that nothing reaches, and that was too young to be condemned. */
  get foundYoung(): boolean {
    return this.#foundYoung;
  }

  /** Keys that were removed, or would be; remembered in a dry run only. */
  get removedKeys(): readonly string[] {
    return this.#removedKeys;
  }

  /** Whether what nothing reaches is old enough to be condemned. What is not, is remembered: see {@link foundYoung}. */
  isOld({ modified }: Pick<BlobInfo, 'modified'>): boolean {
    const isOld = modified <= this.#options.now - this.#options.graceMs;
    this.#foundYoung ||= !isOld;
    return isOld;
  }

  /** Whether the collection before this one condemned it. */
  wasCondemned({ key }: Pick<BlobInfo, 'key'>): boolean {
    return this.#since.has(key);
  }

  /** An object that is needed. */
  keep(blob: BlobInfo): void {
    this.#kept = plus(this.#kept, blob);
  }

  /** An object that nothing reaches: it goes, is condemned, or is too young for either. */
  async judge(blob: BlobInfo): Promise<void> {
    if (!this.isOld(blob)) return this.keep(blob);
    const { graceMs, now } = this.#options;
    const before = this.#since.get(blob.key);
    // Written again since, it may be needed by whoever wrote it.
    const since = before !== undefined && blob.modified < before ? before : now;
    if (graceMs === 0 || now - since >= graceMs) {
      this.#removing.push(blob);
      if (this.#removing.length >= REMOVE_AT_ONCE) await this.flush();
    } else if (this.#condemnedSince.size < this.#room) {
      this.#condemned = plus(this.#condemned, blob);
      this.#condemnedSince.set(blob.key, since);
    } else {
      this.#overflowed = true;
      this.keep(blob);
    }
  }

  /** Removes what is still to be removed. */
  async flush(): Promise<void> {
    const blobs = this.#removing.splice(0);
    if (blobs.length === 0) return;
    const gone = this.#options.dry ? blobs.length : await this.#blobs.deleteUnchanged(blobs);
    if (this.#options.dry) this.#removedKeys.push(...blobs.map(({ key }) => key));
    // What was written anew since it was listed stays; how large it was, is not worth a request.
    const bytes = blobs.reduce((sum, blob) => sum + blob.bytes, 0);
    this.#removed = { objects: this.#removed.objects + gone, bytes: this.#removed.bytes + bytes };
  }
}

function plus(tally: Tally, { bytes }: BlobInfo): Tally {
  return { objects: tally.objects + 1, bytes: tally.bytes + bytes };
}
