import type { LogId } from '../ids/log-id.ts';
import type { Position } from '../ids/position.ts';
import type { DivisionPolicy } from '../log/division-policy.ts';
import type { Due, Scheduler } from '../log/schedule.ts';
import type { BlobStore } from '../store/blob-store.ts';
import { claimBucket, type MappedTable } from './bucket-claim.ts';
import type { SegmentSizes } from './item-division.ts';
import type { MappedLogStore } from './mapped-log-store.ts';

export interface LogRegistrarDeps extends MappedTable {
  readonly store: Pick<MappedLogStore, 'register' | 'endAt'> & Scheduler;
  readonly blobs: BlobStore;
}

/**
 * Registers mapped logs. It first claims the bucket for their table and their keys, because the
 * ids of two mappings may be equal: then each would collect the other's objects as garbage.
 */
export class LogRegistrar implements Scheduler {
  readonly #deps: LogRegistrarDeps;
  #claimed: Promise<void> | undefined;

  constructor(deps: LogRegistrarDeps) {
    this.#deps = deps;
  }

  /**
   * As `register` of the mapped log store. The first call takes two to four requests more.
   * @throws BucketTakenError, MappingDiffersError if the bucket holds the logs of another table or
   * mapping; nothing is registered
   */
  async register(log: LogId, sizes: SegmentSizes): Promise<number> {
    await this.#claim();
    return this.#deps.store.register(log, sizes);
  }

  /**
   * As `due` of the mapped log store. The first call takes two to four requests more.
   * @throws BucketTakenError, MappingDiffersError as {@link register}
   */
  async due(log: LogId, division: DivisionPolicy, nowSeconds: number): Promise<Due> {
    await this.#claim();
    return this.#deps.store.due(log, division, nowSeconds);
  }

  async #claim(): Promise<void> {
    this.#claimed ??= claimBucket(this.#deps.blobs, this.#deps);
    await this.#claimed.catch((error: unknown) => {
      this.#claimed = undefined;
      throw error;
    });
  }

  /**
   * As `endAt` of the mapped log store. Registers the log if it is not registered.
   * @param sizes those of new segments
   * @throws BucketTakenError, MappingDiffersError if the log must be registered, as
   * {@link register}
   * @throws ItemInvalidError if the log must be registered, and an item does not fit the mapping
   */
  async endAt(log: LogId, index: number, sizes: SegmentSizes): Promise<Position | undefined> {
    const end = await this.#deps.store.endAt(log, index);
    if (end !== undefined) return end;
    await this.register(log, sizes);
    return this.#deps.store.endAt(log, index);
  }
}
