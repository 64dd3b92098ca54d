import type { LogfoldError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import type { AdoptResult } from '../workers/adopt/adopt-logs.ts';
import type { RoutedJob, StreamRecord } from '../workers/dispatch/route-stream-records.ts';
import type { JobResult } from '../workers/dispatch/run-job.ts';
import type { PartlyReplayed, Replayed } from '../workers/inspect/replay.ts';
import type { Job } from '../workers/jobs/job.ts';
import type { CompareResult } from '../workers/revisions/compare-table.ts';
import type { SweepResult } from '../workers/sweep/sweep.ts';

export interface Delivery {
  readonly messageId: string;
  /** How often the message was delivered, this time included. */
  readonly receiveCount: number;
}

/** How far a snapshot lagged behind its log when it was completed. */
export interface SnapshotLag {
  /** Entries that were appended to its segment after it. */
  readonly entries: number;
  /**
   * Time since the client wrote its entry, by the client's clock. Undefined if items of a mapped
   * log have no time.
   */
  readonly seconds: number | undefined;
}

export type StreamEvent =
  /** A record was turned into a job. */
  | { readonly kind: 'routed'; readonly record: StreamRecord; readonly job: RoutedJob }
  /**
   * A record was malformed, or its job could not be sent. Lambda delivers the record again, unless
   * it is skipped.
   */
  | { readonly kind: 'record'; readonly record: StreamRecord; readonly error: unknown; readonly isSkipped?: true }
  | FeedEvent;

/** An event of a feed. `run` is the id of the request, or of the first stream record. */
export type FeedEvent =
  | {
      readonly kind: 'fed';
      readonly run: string;
      /** Spans that the feed did not have. */
      readonly spans: number;
      /** The end of the feed. */
      readonly checkpoint: number;
      /** The spans that the stream should have fed, if a sweep did. */
      readonly missed?: number;
    }
  /**
   * The feed could not be written, or its end not published. The stream delivers its records again;
   * the next sweep finds the ends again.
   */
  | { readonly kind: 'unfed'; readonly run: string; readonly error: unknown };

/** An event of a function that runs jobs. */
export type JobEvent =
  | {
      readonly kind: 'job';
      readonly delivery: Delivery;
      readonly job: Job;
      readonly result: JobResult;
      readonly ms: number;
      /** Undefined unless a snapshot was built. */
      readonly lag: SnapshotLag | undefined;
    }
  /**
   * A message is not a job, or its job failed. SQS delivers it again or moves it to the dead-letter
   * queue.
   */
  | {
      readonly kind: 'failed';
      readonly delivery: Delivery;
      /** Undefined if the message is not a job. */
      readonly job: Job | undefined;
      readonly error: unknown;
    }
  /** A request to change a visibility timeout failed. The message keeps the timeout that it has. */
  | { readonly kind: 'visibility unchanged'; readonly delivery: Delivery; readonly error: unknown };

/** An event of the sweep function. `run` is the id of the request. */
export type SweepEvent =
  | { readonly kind: 'due'; readonly run: string; readonly job: Job; readonly why: string }
  /** The sweep failed for a log, or an operator must look at one of its segments. */
  | { readonly kind: 'unswept'; readonly run: string; readonly log: LogId | undefined; readonly error: unknown }
  /** New entries do not come through the stream any more. Sweeps find them later. */
  | { readonly kind: 'unusable stream'; readonly run: string; readonly error: unknown }
  | {
      readonly kind: 'swept';
      readonly run: string;
      readonly result: SweepResult;
      readonly ms: number;
      /** Absent for partial sweeps. */
      readonly ages: SweptAges | undefined;
      /**
       * 1 if the stream does not bring new entries. Absent for manual sweeps, and without a stream.
       */
      readonly unusableStreams?: number | undefined;
    }
  /** A log ends before the last of its entries that the feed has. */
  | { readonly kind: 'ahead'; readonly run: string; readonly log: LogId; readonly error: LogfoldError }
  /** An item does not fit the mapping, or the log of the error could not be registered. */
  | { readonly kind: 'not adopted'; readonly run: string; readonly error: LogfoldError }
  | { readonly kind: 'adopted'; readonly run: string; readonly result: AdoptResult; readonly ms: number }
  | FeedEvent;

/** Ages of the oldest work that a sweep found, in seconds; 0 if it found none. */
export interface SweptAges {
  /** Age of the oldest pending snapshot, by its client's clock. */
  readonly unsnapshottedSeconds: number;
  /** Time since the oldest archive, expire or collect job became due. */
  readonly dueSeconds: number;
}

export interface ReplayEvent {
  readonly kind: 'replayed';
  readonly run: string;
  readonly log: LogId;
  readonly replayed: Replayed | PartlyReplayed;
}

/** An event of the revisions function. `run` is the id of the request. */
export type RevisionsEvent =
  /** A record was malformed, or its change could not be recorded. Lambda delivers it again. */
  | { readonly kind: 'unrecorded'; readonly run: string; readonly sequence: string; readonly error: unknown }
  | {
      readonly kind: 'recorded';
      readonly run: string;
      /** Changes that became revisions. */
      readonly recorded: number;
      /** `Gap` revisions. */
      readonly gaps: number;
      /** Records that Lambda delivers again. */
      readonly failed: number;
      readonly ms: number;
    }
  /** A log, or the whole table if it is undefined, could not be compared. */
  | { readonly kind: 'uncompared'; readonly run: string; readonly log: LogId | undefined; readonly error: unknown }
  | { readonly kind: 'compared'; readonly run: string; readonly result: CompareResult; readonly ms: number };

/** An event of a function, for logs and metrics. */
export type FunctionEvent = StreamEvent | JobEvent | SweepEvent | ReplayEvent | RevisionsEvent;
