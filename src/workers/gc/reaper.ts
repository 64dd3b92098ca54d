import { BlobLockedError } from '../../errors.ts';
import type { BlobInfo, BlobStore } from '../../store/blob-store.ts';
import type { CollectionRecord } from './collection-record.ts';

/** The most objects that one collection condemns. The next one finds the others. */
const MAX_CONDEMNED = 200_000;
const REMOVE_BATCH = 1000;

/** A number of objects, and their size in bytes. */
export interface Tally {
  readonly objects: number;
  readonly bytes: number;
}

export interface ReaperTallies {
  readonly kept: Tally;
  /** Unreachable objects that a collection removes a grace period later. */
  readonly condemned: Tally;
  /** Removed objects; in a dry run, objects that would be removed. */
  readonly removed: Tally;
  /**
   * Unreachable objects that the bucket keeps until their retention ends; absent if there are none.
   * Later collections try to remove them again.
   */
  readonly locked?: Tally | undefined;
}

export interface ReaperOptions {
  /** The bucket's own time, in epoch milliseconds. */
  readonly now: number;
  readonly graceMs: number;
  /** The record of the previous collection. */
  readonly before: Pick<CollectionRecord, 'condemned'>;
  /** Objects that earlier runs of this collection condemned; 0 by default. */
  readonly condemnedEarlier?: number | undefined;
  /** Removes nothing, but remembers which objects it would remove. */
  readonly dry: boolean;
}

/** Condemns unreachable objects, and removes them a grace period later. */
export class Reaper {
  readonly #blobs: BlobStore;
  readonly #options: ReaperOptions;
  readonly #since: ReadonlyMap<string, number>;
  /** Each with the time since which it is condemned. */
  readonly #removing: { readonly blob: BlobInfo; readonly since: number }[] = [];
  readonly #removedKeys: string[] = [];
  readonly #condemnedSince = new Map<string, number>();
  /** The number of objects that may still be condemned at the start. */
  readonly #room: number;
  #overflowed: boolean;
  #foundYoung = false;
  #kept: Tally = { objects: 0, bytes: 0 };
  #condemned: Tally = { objects: 0, bytes: 0 };
  #removed: Tally = { objects: 0, bytes: 0 };
  #locked: Tally = { objects: 0, bytes: 0 };

  constructor(blobs: BlobStore, options: ReaperOptions) {
    this.#blobs = blobs;
    this.#options = options;
    this.#since = new Map(options.before.condemned);
    this.#room = MAX_CONDEMNED - (options.condemnedEarlier ?? 0);
    this.#overflowed = this.#room <= 0;
  }

  /** The outcomes of the judged objects so far. */
  get tallies(): ReaperTallies {
    const tallies = { kept: this.#kept, condemned: this.#condemned, removed: this.#removed };
    return this.#locked.objects === 0 ? tallies : { ...tallies, locked: this.#locked };
  }

  /** Condemned keys with the times when they were condemned, for the next collection. */
  get condemned(): ReadonlyMap<string, number> {
    return this.#condemnedSince;
  }

  /** Whether there were too many objects to condemn. */
  get overflowed(): boolean {
    return this.#overflowed;
  }

  /** Whether there was an unreachable object that was too young to be condemned. */
  get foundYoung(): boolean {
    return this.#foundYoung;
  }

  /** In a dry run, the keys that would be removed. */
  get removedKeys(): readonly string[] {
    return this.#removedKeys;
  }

  /**
   * Whether an unreachable object is old enough to be condemned. Sets {@link foundYoung} if it is
   * not.
   */
  isOld({ modified }: Pick<BlobInfo, 'modified'>): boolean {
    const isOld = modified <= this.#options.now - this.#options.graceMs;
    this.#foundYoung ||= !isOld;
    return isOld;
  }

  /** Whether the collection before this one condemned the object. */
  wasCondemned({ key }: Pick<BlobInfo, 'key'>): boolean {
    return this.#since.has(key);
  }

  /** Counts a reachable object. */
  keep(blob: BlobInfo): void {
    this.#kept = plus(this.#kept, blob);
  }

  /** Removes or condemns an unreachable object, or keeps it if it is too young. */
  async judge(blob: BlobInfo): Promise<void> {
    if (!this.isOld(blob)) return this.keep(blob);
    const { graceMs, now } = this.#options;
    const before = this.#since.get(blob.key);
    // If the object was written again since, its writer may need it.
    const since = before !== undefined && blob.modified < before ? before : now;
    if (graceMs === 0 || now - since >= graceMs) {
      this.#removing.push({ blob, since });
      if (this.#removing.length >= REMOVE_BATCH) await this.flush();
    } else if (this.#condemnedSince.size < this.#room) {
      this.#condemned = plus(this.#condemned, blob);
      this.#condemnedSince.set(blob.key, since);
    } else {
      this.#overflowed = true;
      this.keep(blob);
    }
  }

  /** Removes the objects that are still pending. */
  async flush(): Promise<void> {
    const removing = this.#removing.splice(0);
    const blobs = removing.map(({ blob }) => blob);
    if (blobs.length === 0) return;
    try {
      const gone = this.#options.dry ? blobs.length : await this.#blobs.deleteUnchanged(blobs);
      if (this.#options.dry) this.#removedKeys.push(...blobs.map(({ key }) => key));
      // An object that was written again since the listing stays. Its size counts nevertheless, to
      // save a request.
      const bytes = blobs.reduce((sum, blob) => sum + blob.bytes, 0);
      this.#removed = { objects: this.#removed.objects + gone, bytes: this.#removed.bytes + bytes };
    } catch (error) {
      if (!(error instanceof BlobLockedError)) throw error;
      for (const { blob, since } of removing) {
        if (error.keys.has(blob.key)) {
          this.#locked = plus(this.#locked, blob);
          this.#condemnedSince.set(blob.key, since);
        } else {
          this.#removed = plus(this.#removed, blob);
        }
      }
    }
  }
}

function plus(tally: Tally, { bytes }: BlobInfo): Tally {
  return { objects: tally.objects + 1, bytes: tally.bytes + bytes };
}
