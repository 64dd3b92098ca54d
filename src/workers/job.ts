import type { LogId } from '../log/log-id.ts';
import type { Position } from '../log/position.ts';

/** One unit of background work, as it travels in the queue. */
export interface SnapshotJob {
  readonly kind: 'snapshot';
  readonly log: LogId;
  /** Position of the Snapshot entry to complete. */
  readonly position: Position;
}

export type Job = SnapshotJob;
