import { type ItemInvalidError, isOfOneLog, type LogfoldError } from '../../errors.ts';
import { FEED_LOG } from '../../feed/feed-log.ts';
import { type LogId, textLogId } from '../../ids/log-id.ts';
import type { DivisionPolicy } from '../../log/division-policy.ts';
import type { OnForeign } from '../../log/guard.ts';
import { querySegments } from '../../log/newest.ts';
import type { Segment } from '../../log/segment.ts';
import { findGcCandidates, type GcCandidatesDeps, notInTables } from '../gc/candidates.ts';
import { isTimeUp } from '../jobs/deadline.ts';
import type { Job } from '../jobs/job.ts';
import { countMetric, type Metric, type Report, secondsMetric } from '../jobs/report.ts';
import { dueCollection } from './due-collection.ts';
import { DueDivision } from './due-division.ts';
import { type DueRetentionDeps, dueRetention } from './due-retention.ts';
import { FeedEnd, type FoundEnd } from './feed-ends.ts';
import type { DueJob, Finder, SweptLog } from './finder.ts';
import { type PendingSnapshotsDeps, type PendingSnapshotsOptions, pendingSnapshots } from './pending-snapshots.ts';
import type { SweepRest } from './sweep-note.ts';

/**
 * Parts of the Segment table that are scanned concurrently. Each part sweeps one log after the
 * other.
 */
const PARTS = 8;

export interface SweepDeps extends PendingSnapshotsDeps, DueRetentionDeps, GcCandidatesDeps {
  readonly tables: PendingSnapshotsDeps['tables'];
  /** {@link NO_DIVISION} by default. */
  readonly division?: DivisionPolicy | undefined;
  /**
   * Sends a job, with the reason for it. The sweep awaits it, so a slow `send` slows the sweep
   * down.
   */
  readonly send: (job: Job, why: string) => Promise<void>;
  /**
   * Whether to count a due job without sending it, because its message still waits or its queue is
   * full. By default every due job is sent.
   */
  readonly holdsBack?: (job: Job) => boolean;
  /**
   * Called once for each log that cannot be read, that exists only in the bucket, or that has a
   * segment which expires without the archive that the policy requires. Also called for each
   * segment, and each name in the bucket, whose log is unknown.
   */
  readonly onFailure: (log: LogId | undefined, error: LogfoldError) => void;
  /**
   * Called for each log with its newest entry that is not young, for the feed. Not called for the
   * feed itself. With it, the query of a log begins at Last Snapshot and not after it. If the
   * newest segment has only young entries, it takes another query for the end of the previous one.
   * The sweep awaits it.
   */
  readonly onEnd?: (log: LogId, end: FoundEnd) => Promise<void>;
  /** Called with the number of logs that the sweep has looked at. */
  readonly onProgress?: (logs: number) => void;
  /** Called for each part that another program wrote, and the sweep passed over. */
  readonly onForeign?: OnForeign;
}

export interface SweepOptions extends PendingSnapshotsOptions {
  /** Only this log; all logs by default. */
  readonly log?: LogId | undefined;
  /**
   * Whether to look for gc candidates, which takes two listings. True unless `collect` or `rebuild`
   * is true.
   */
  readonly gcCandidates?: boolean;
  /** Rebuilds every snapshot of every log. */
  readonly rebuild?: boolean | undefined;
  /** Collects every log, not only gc candidates. */
  readonly collect?: boolean | undefined;
  /** The rest of an earlier sweep, to continue it. All logs by default. */
  readonly from?: SweepRest | undefined;
  /**
   * Epoch milliseconds; none by default. After this time each part ends when its current log is
   * done, and the search for gc candidates ends too. Each part looks at one log in any case.
   */
  readonly deadline?: number | undefined;
}

export interface SweepResult {
  readonly logs: number;
  /** Jobs that were sent. */
  readonly jobs: number;
  /** Due jobs that were held back. */
  readonly waiting: number;
  /** Failures that `onFailure` was called with: logs, and segments or names of unknown logs. */
  readonly failed: number;
  /** Stopped logs with pending snapshots. */
  readonly stopped: number;
  /**
   * Snapshot jobs that the stream should have sent: their entries are older than `youngSeconds` and
   * less than a day old. 0 if `youngSeconds` is 0, because the stream may still send them.
   */
  readonly missed: number;
  /**
   * Creation time of the oldest pending snapshot, however young, in epoch seconds by the client's
   * clock; undefined if there is none. In a scheduled log, it waits only after the
   * policy's minutes are over. A scheduled log whose items have no time does not count.
   */
  readonly oldest?: number | undefined;
  /**
   * When the oldest archive, expire or collect job became due, sent or not, in epoch seconds;
   * undefined if none is.
   */
  readonly oldestDue?: number | undefined;
  /**
   * The most entries of a log since its newest complete snapshot; undefined without a division
   * policy.
   */
  readonly longestTail?: number | undefined;
  /**
   * Logs that are not stopped and whose newest complete snapshot is more than twice as old as the
   * division policy allows, in entries or bytes that are not young; undefined without a policy.
   */
  readonly undivided?: number | undefined;
  /**
   * Parts that other programs wrote, and the sweep passed over; undefined if there is none. Counts
   * only those that the sweep meets without reading whole logs.
   */
  readonly foreign?: number | undefined;
  /**
   * Logs that end before the last of their entries that the feed has; undefined without a feed, or
   * if it could not be written.
   */
  readonly feedAhead?: number | undefined;
  /** The part of the work that the sweep had no time for; undefined if it is complete. */
  readonly rest?: SweepRest | undefined;
}

/** Ages of the oldest work that a sweep found, in seconds; 0 if it found none. */
export interface SweptAges {
  /** Age of the oldest pending snapshot, by its client's clock. */
  readonly unsnapshottedSeconds: number;
  /** Time since the oldest archive, expire or collect job became due. */
  readonly dueSeconds: number;
}

export function reportSweep(result: SweepResult, ages: SweptAges | undefined): Report {
  const text = result.rest === undefined ? 'swept' : 'swept a part; the next run continues from there';
  const optionalMetric = (name: string, value: number | undefined): readonly Metric[] =>
    value === undefined ? [] : [countMetric(name, value)];
  const trouble = [
    countMetric('LogsFailed', result.failed),
    countMetric('LogsStopped', result.stopped),
    countMetric('RecordsMissed', result.missed),
    ...optionalMetric('FeedAhead', result.feedAhead),
    ...optionalMetric('LogsUndivided', result.undivided),
  ];
  const metrics = [
    countMetric('LogsLookedAt', result.logs),
    countMetric('JobsSent', result.jobs),
    countMetric('JobsHeldBack', result.waiting),
    ...optionalMetric('LongestTailEntries', result.longestTail),
    // A partial sweep reports no zeros, because a zero would end an alarm for logs that it did not
    // look at.
    ...trouble.filter(({ value }) => ages !== undefined || value > 0),
  ];
  if (ages !== undefined) {
    metrics.push(secondsMetric('OldestUnsnapshottedSeconds', ages.unsnapshottedSeconds));
    metrics.push(secondsMetric('OldestDueSeconds', ages.dueSeconds));
  }
  return { text, level: 'info', metrics };
}

/**
 * Finds what the stream missed and what is due, in all logs: pending snapshots, segments to archive
 * or expire, Snapshot entries that the division policy makes due, and gc candidates. It sends jobs
 * and writes nothing itself.
 *
 * If a log changes while a sweep continues an earlier one, the next sweep finds the change at the
 * latest.
 *
 * A sweep costs one scan of the Segment table, one query from Last Snapshot on for each log, two
 * listings of the bucket, and one more query for each gc candidate. If keys of gc candidates name
 * their logs by hashes, it costs one more scan.
 */
export async function sweep(deps: SweepDeps, options: SweepOptions = {}): Promise<SweepResult> {
  const run = new SweepRun(deps, options);
  const scans =
    options.log === undefined ? Array.from({ length: PARTS }, (_, index) => run.part(index)) : [run.log(options.log)];
  // If one part cannot be read, the sweep still looks at the logs of the others.
  const failed = (await Promise.allSettled(scans)).find(({ status }) => status === 'rejected');
  await run.gcCandidates();
  if (failed?.status === 'rejected') throw failed.reason;
  return run.result;
}

class SweepRun {
  readonly #deps: SweepDeps;
  readonly #options: SweepOptions;
  readonly #counts: { -readonly [Name in keyof SweepResult]: SweepResult[Name] } = {
    ...{ logs: 0, jobs: 0, waiting: 0, failed: 0, stopped: 0, missed: 0 },
  };
  readonly #failed = new Set<LogId>();
  readonly #rest: SweepRest[number][];
  /** Whether the search for gc candidates remains. */
  #gcRemains: boolean;
  /** Whether only gc candidates remained when this run began. */
  readonly #onlyCandidates: boolean;

  constructor(deps: SweepDeps, options: SweepOptions) {
    this.#deps = deps;
    this.#options = options;
    this.#rest = Array.from({ length: PARTS }, (_, index) => options.from?.[index] ?? 'beginning');
    if (options.log !== undefined) this.#rest.fill('end');
    this.#gcRemains = options.gcCandidates ?? (options.collect !== true && options.rebuild !== true);
    this.#onlyCandidates = this.#isThrough;
  }

  get result(): SweepResult {
    return { ...this.#counts, rest: this.#isThrough && !this.#gcRemains ? undefined : this.#rest };
  }

  /** Whether all parts are at their end. */
  get #isThrough(): boolean {
    return this.#rest.every((each) => each === 'end');
  }

  /** Sweeps all logs in one part of the Segment table. */
  async part(index: number): Promise<void> {
    const from = this.#rest[index];
    if (from === undefined || from === 'end') return;
    // Logs to query individually after the scan.
    const individual = new Set<LogId>();
    // If the log of an invalid item is known, its query reports what is wrong.
    const onInvalid = (error: ItemInvalidError): void => {
      if (error.log !== undefined) individual.add(textLogId(error.log));
      else this.#fail(undefined, error);
    };
    // A scan returns the segments of one log in order, but DynamoDB does not guarantee this. A log
    // whose segments do not start with the first one is queried individually.
    const end = async (group: readonly Segment[]): Promise<void> => {
      const [first] = group;
      if (first === undefined) return;
      const isInOrder = group.every(({ segment }, i) => segment === i);
      if (!individual.has(first.log) && isInOrder) await this.log(first.log, group);
      else individual.add(first.log);
    };
    let group: Segment[] = [];
    let rest: SweepRest[number] = 'end';
    const after = from === 'beginning' ? undefined : from;
    for await (const segment of this.#deps.tables.allSegments({ index, of: PARTS, after }, onInvalid)) {
      const last = group.at(-1);
      if (last !== undefined && last.log !== segment.log) {
        await end(group);
        group = [];
        if (this.#isOver()) {
          rest = { log: last.log, segment: last.segment };
          break;
        }
      }
      group.push(segment);
    }
    await end(group);
    for (const log of individual) await this.log(log);
    this.#rest[index] = rest;
  }

  /**
   * Sweeps one log.
   * @param found the segments of the log, if they are known
   */
  async log(log: LogId, found?: readonly Segment[]): Promise<void> {
    await this.#guard(log, async () => {
      const segments = found ?? (await querySegments(this.#deps.tables, log, { consistent: true }));
      const swept = this.#sweptLog(log, segments);
      await this.#plan(swept).finally(() => {
        if (swept.isStopped === true) this.#counts.stopped++;
      });
    });
    this.#counts.logs++;
    this.#deps.onProgress?.(this.#counts.logs);
  }

  /**
   * Sends collect jobs for gc candidates, after all logs. If the time is up by then, the next run
   * does only this. The sweep after that run finds the candidates for which it has no time.
   */
  async gcCandidates(): Promise<void> {
    if (!this.#gcRemains || !this.#isThrough || (this.#isOver() && !this.#onlyCandidates)) return;
    this.#gcRemains = false;
    const { logs, unknown } = await findGcCandidates(this.#deps, this.#options.log);
    for (const name of unknown) this.#fail(undefined, notInTables(name));
    for (const [log, candidate] of logs) {
      const finder = dueCollection(this.#sweptLog(log, []), this.#deps.tables, candidate);
      await this.#guard(log, () => finder.find());
      if (this.#isOver()) return;
    }
  }

  async #plan(swept: SweptLog): Promise<void> {
    const { log, send } = swept;
    const { rebuild, collect } = this.#options;
    if (rebuild === true) return send({ job: { kind: 'rebuild', log }, why: 'every snapshot must be rebuilt' });
    for (const finder of this.#finders(swept)) await finder.find();
    if (collect === true) await send({ job: { kind: 'collect', log }, why: 'every log must be collected' });
  }

  /** The finders of a log, in the order in which their jobs are sent. */
  #finders(swept: SweptLog): readonly Finder[] {
    const { onEnd, now } = this.#deps;
    const youth = { now: now() / 1000, youngSeconds: this.#options.youngSeconds ?? 0 };
    const division = DueDivision.of(swept, { ...this.#deps, ...youth });
    const hasEnd = onEnd !== undefined && swept.log !== FEED_LOG;
    const end = hasEnd ? new FeedEnd(swept, { ...this.#deps, ...youth, onEnd }) : undefined;
    const snapshots = pendingSnapshots(swept, this.#deps, this.#options, { division, end });
    return [snapshots, ...(end ? [end] : []), ...(division ? [division] : []), dueRetention(swept, this.#deps)];
  }

  #sweptLog(log: LogId, segments: readonly Segment[]): SweptLog {
    const counts = this.#counts;
    return {
      log,
      segments,
      isStopped: undefined,
      send: (due) => this.#send(due),
      passOver: (part) => {
        counts.foreign = (counts.foreign ?? 0) + 1;
        this.#deps.onForeign?.(part);
      },
      fail: (error) => this.#fail(log, error),
      countTail: (entries, isOverdue) => {
        counts.longestTail = Math.max(entries, counts.longestTail ?? 0);
        counts.undivided = (counts.undivided ?? 0) + (isOverdue ? 1 : 0);
      },
    };
  }

  async #send({ job, why, since, isYoung, isMissed }: DueJob): Promise<void> {
    const counts = this.#counts;
    const oldest = job.kind === 'snapshot' ? 'oldest' : 'oldestDue';
    if (since !== undefined) counts[oldest] = Math.min(since, counts[oldest] ?? since);
    if (isYoung) return;
    if (this.#deps.holdsBack?.(job) === true) {
      counts.waiting++;
      return;
    }
    counts.jobs++;
    if (isMissed) counts.missed++;
    await this.#deps.send(job, why);
  }

  /** An error of one log must not end the sweep. */
  async #guard(log: LogId, act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      if (!isOfOneLog(error)) throw error;
      this.#fail(log, error.at({ log }));
    }
  }

  /** Calls `onFailure` for the first failure of a log. */
  #fail(log: LogId | undefined, error: LogfoldError): void {
    if (log !== undefined && this.#failed.has(log)) return;
    if (log !== undefined) this.#failed.add(log);
    this.#counts.failed++;
    this.#deps.onFailure(log, error);
  }

  #isOver(): boolean {
    return isTimeUp({ now: this.#deps.now, deadline: this.#options.deadline });
  }
}
