import type { LogfoldError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import type { StoredItem } from '../../log/attribute.ts';
import type { OnForeign } from '../../log/guard.ts';
import type { Segment } from '../../log/segment.ts';
import type { Job } from '../jobs/job.ts';

/** How long a stream keeps its records, in seconds. */
export const STREAM_SECONDS = 24 * 3600;

/** Finds one kind of due work in one log. A sweep makes new finders for each log. */
export interface Finder {
  /**
   * Sends what is due. Called once, after the finders before it. The search for pending snapshots
   * is the first one, and shows the items of the newest segment to those that also need them: a log
   * is read once.
   */
  find(): Promise<void>;
}

export interface DueJob {
  readonly job: Job;
  /** Completes "because …". */
  readonly why: string;
  /** When it became due, in epoch seconds; undefined if unknown. */
  readonly since?: number | undefined;
  /** Whether it is left to the stream. */
  readonly isYoung?: boolean;
  /** Whether the stream should have sent it. */
  readonly isMissed?: boolean;
}

/** A log that a sweep looks at. It takes what the finders of the log find. */
export interface SweptLog {
  readonly log: LogId;
  /** All its segments, in order. */
  readonly segments: readonly Segment[];
  /** Whether the log is stopped; undefined until a pending snapshot needs the answer. */
  isStopped: boolean | undefined;
  readonly send: (due: DueJob) => Promise<void>;
  /** Takes a part that another program wrote, so that no job is due. */
  readonly passOver: OnForeign;
  readonly fail: (error: LogfoldError) => void;
  /** Counts the entries since the newest complete snapshot, and whether they are too many. */
  readonly countTail: (entries: number, isOverdue: boolean) => void;
}

/** Which entries are young. */
export interface Youth {
  /** Epoch seconds. */
  readonly now: number;
  /** Entries younger than this, in seconds, are left to the stream. */
  readonly youngSeconds: number;
}

/**
 * Whether an entry is young. A time in the future comes from a wrong clock. Skipping it would hide
 * a lost record until then.
 * @param created epoch seconds
 */
export function isYoung(created: number, { now, youngSeconds }: Youth): boolean {
  const age = now - created;
  return Math.abs(age) < youngSeconds;
}

/** Creation time of an item in epoch seconds; not a number if it has none. */
export function createdOf(item: StoredItem): number {
  return Number(item.C?.N ?? Number.NaN);
}
