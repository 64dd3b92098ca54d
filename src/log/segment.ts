import type { LogId } from './log-id.ts';

/** One item of the Segment table: a run of entries under one partition key. */
export interface Segment {
  readonly log: LogId;
  readonly segment: number;
  /** Epoch seconds. */
  readonly created: number;
  /** Number of the newest entry of this segment with a completed snapshot; absent while there is none. */
  readonly lastSnapshot?: number | undefined;
  /** Key of the object that holds this segment's archive; absent while it has none. */
  readonly archive?: string | undefined;
  /** SHA-256 of that archive's index, which vouches for all of it; present where `archive` is. */
  readonly archiveHash?: Uint8Array | undefined;
  /** Epoch seconds from which on the entries may be gone from the table; absent while they stay. */
  readonly expires?: number | undefined;
  /**
   * Present once all entries were deleted or given their expiry: how many they were, as far as the archive or what was
   * left of them told.
   */
  readonly expired?: number | undefined;
}
