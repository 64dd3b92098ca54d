import type { LogId } from '../ids/log-id.ts';
import type { StreamRecord } from '../workers/dispatch/route-stream-records.ts';
import type { JobResult } from '../workers/dispatch/run-job.ts';
import type { PartlyReplayed, Replayed } from '../workers/inspect/replay.ts';
import type { Job, SnapshotJob } from '../workers/jobs/job.ts';
import type { SweepResult } from '../workers/sweep/sweep.ts';

/** One delivery of a message. */
export interface Delivery {
  readonly messageId: string;
  /** How often the message was given out, this time included. */
  readonly receiveCount: number;
}

/** How far a snapshot was behind at the moment when it was completed. */
export interface SnapshotLag {
  /** Entries of its segment that were written behind it meanwhile. */
  readonly entries: number;
  /** Since its entry was written, by its client's clock. */
  readonly seconds: number;
}

/** Something that the stream function did. */
export type StreamEvent =
  /** A record was turned into a job. */
  | { readonly kind: 'routed'; readonly record: StreamRecord; readonly job: SnapshotJob }
  /** A record could not be, or its job could not be sent: it is given again. */
  | { readonly kind: 'record'; readonly record: StreamRecord; readonly error: unknown };

/** Something that a function did which works on jobs. */
export type JobEvent =
  | {
      readonly kind: 'job';
      readonly delivery: Delivery;
      readonly job: Job;
      readonly result: JobResult;
      readonly ms: number;
      /** Of a snapshot that was built. */
      readonly lag: SnapshotLag | undefined;
    }
  /** A message could not be read, or its job failed: it comes again, or ends in the dead-letter queue. */
  | {
      readonly kind: 'failed';
      readonly delivery: Delivery;
      /** Undefined where the message is no job. */
      readonly job: Job | undefined;
      readonly error: unknown;
    }
  /** The queue could not be told when a message comes again: it comes after the visibility timeout that it has. */
  | { readonly kind: 'visibility unchanged'; readonly delivery: Delivery; readonly error: unknown };

/** Something that the sweep function did. `run` is the id of the request. */
export type SweepEvent =
  | { readonly kind: 'due'; readonly run: string; readonly job: Job; readonly why: string }
  /** A log could not be looked at, or somebody must look at a segment of it. */
  | { readonly kind: 'unswept'; readonly run: string; readonly log: LogId | undefined; readonly error: unknown }
  | {
      readonly kind: 'swept';
      readonly run: string;
      readonly result: SweepResult;
      readonly ms: number;
      /** Absent for partial sweeps. */
      readonly ages: SweptAges | undefined;
    };

/** How long what a sweep found has waited, in seconds; 0 if it found nothing. */
export interface SweptAges {
  /** The oldest Snapshot entry that nobody completed, by its client's clock. */
  readonly unsnapshottedSeconds: number;
  /** The archive, expire or collect job that has been due for the longest. */
  readonly dueSeconds: number;
}

/** Something that the replay function did. */
export interface ReplayEvent {
  readonly kind: 'replayed';
  readonly run: string;
  readonly log: LogId;
  readonly replayed: Replayed | PartlyReplayed;
}

/** Something that a function did, for logs and metrics. */
export type FunctionEvent = StreamEvent | JobEvent | SweepEvent | ReplayEvent;

/** What a function is told of its invocation. Milliseconds. */
export interface Invocation {
  readonly awsRequestId: string;
  getRemainingTimeInMillis(): number;
}
