import { type ItemInvalidError, isOfOneLog, type LogfoldError } from '../../errors.ts';
import { FEED_DIVISION, FEED_LOG } from '../../feed/feed-log.ts';
import { type LogId, textLogId } from '../../ids/log-id.ts';
import type { Position } from '../../ids/position.ts';
import { type DivisionPolicy, divides, NO_DIVISION } from '../../log/division-policy.ts';
import type { ReservedTypes } from '../../log/entry.ts';
import type { ForeignPart } from '../../log/foreign.ts';
import type { TableReader } from '../../log/log-store.ts';
import { querySegments, requireDense } from '../../log/newest.ts';
import { isFrozen, type Segment } from '../../log/segment.ts';
import type { RetentionPolicy } from '../../retention/retention-policy.ts';
import { hasStop } from '../../snapshot/stop.ts';
import type { BlobStore } from '../../store/blob-store.ts';
import { findGcCandidates, notInTables, requireInTables } from '../gc/candidates.ts';
import type { Job } from '../jobs/job.ts';
import { findDueRetention } from './due-retention.ts';
import { findPendingSnapshots } from './pending-snapshots.ts';
import { type SweepRest, type SweepResult, SweepTotals } from './sweep-result.ts';
import { type FoundEnd, SweptEnd } from './swept-end.ts';
import { SweptTail } from './swept-tail.ts';

/**
 * Parts of the Segment table that are scanned concurrently. Each part sweeps one log after the
 * other.
 */
const PARTS = 8;
/** How long a stream keeps its records, in seconds. */
export const STREAM_SECONDS = 24 * 3600;

export interface SweepDeps {
  /** The tables without archives. */
  readonly tables: TableReader;
  readonly blobs: BlobStore;
  readonly types: ReservedTypes;
  /** Epoch milliseconds. */
  readonly now: () => number;
  readonly policyOf: (log: LogId) => RetentionPolicy;
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
   * newest segment has only young entries, it takes another query for the end of the one before.
   * The sweep awaits it.
   */
  readonly onEnd?: (log: LogId, end: FoundEnd) => Promise<void>;
  /** Called with the number of logs that the sweep has looked at. */
  readonly onProgress?: (logs: number) => void;
  /** Called for each part that another program wrote, and the sweep passed over. */
  readonly onForeign?: (part: ForeignPart) => void;
  /**
   * Whether the jobs of this sweep replace what other programs wrote, so that it finds them due.
   * False by default.
   */
  readonly replaceForeign?: boolean | undefined;
}

export interface SweepOptions {
  /** Only this log; all logs by default. */
  readonly log?: LogId | undefined;
  /**
   * Epoch seconds. In segments that were open then or later, every Snapshot entry is checked. By
   * default only those after Last Snapshot are checked, so that a log without new entries costs one
   * small request.
   */
  readonly since?: number | undefined;
  /** Snapshot entries younger than this, in seconds, are left to the stream. 0 by default. */
  readonly youngSeconds?: number;
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
  readonly #totals = new SweepTotals();
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
    return this.#totals.result(this.#isThrough && !this.#gcRemains ? undefined : this.#rest);
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
    await this.#guard(log, async () => this.#plan(log, found ?? (await this.#segments(log))));
    this.#totals.logs++;
    this.#deps.onProgress?.(this.#totals.logs);
  }

  /**
   * Sends collect jobs for gc candidates, after all logs. If the time is up by then, the next run
   * does only this. The sweep after that run finds the candidates for which it has no time. Leaves
   * out a feed without a table: the feed was turned off, and its objects are kept.
   */
  async gcCandidates(): Promise<void> {
    if (!this.#gcRemains || !this.#isThrough || (this.#isOver() && !this.#onlyCandidates)) return;
    this.#gcRemains = false;
    const { logs, unknown } = await findGcCandidates(this.#deps, this.#options.log);
    for (const name of unknown) this.#fail(undefined, notInTables(name));
    for (const [log, { why, due }] of logs) {
      await this.#guard(log, async () => {
        if (log === FEED_LOG && (await this.#isOff())) return;
        await requireInTables(this.#deps.tables, log);
        this.#totals.dueSince(due);
        await this.#send({ kind: 'collect', log }, why);
      });
      if (this.#isOver()) return;
    }
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

  #isOver(): boolean {
    const { deadline } = this.#options;
    return deadline !== undefined && this.#deps.now() >= deadline;
  }

  #fail(log: LogId | undefined, error: LogfoldError): void {
    if (this.#totals.fail(log)) this.#deps.onFailure(log, error);
  }

  async #plan(log: LogId, segments: readonly Segment[]): Promise<void> {
    const { now, blobs, onEnd } = this.#deps;
    let isStopped: boolean | undefined;
    const { rebuild, collect, since, youngSeconds = 0 } = this.#options;
    if (rebuild === true) {
      await this.#send({ kind: 'rebuild', log }, 'every snapshot must be rebuilt');
      return;
    }
    const tail = this.#tailOf(segments.at(-1));
    const end = this.#endOf(log);
    for (const [i, segment] of segments.entries()) {
      const next = segments[i + 1];
      const query = { segment, next, since, ...(next === undefined && { tail, end }) };
      const { pending, foreign } = await findPendingSnapshots(this.#deps, query);
      for (const part of foreign) this.#passOver(part);
      for (const { position, created } of pending) {
        this.#totals.pending(tail === undefined ? created : tail.waitsSince(created));
        if (isStopped === undefined) {
          isStopped = await hasStop(blobs, log);
          if (isStopped) this.#totals.stopped++;
        }
        const age = now() / 1000 - created;
        // A creation time in the future comes from a wrong clock. Skipping it would hide a lost
        // record until then.
        if (Math.abs(age) < youngSeconds) continue;
        const sent = await this.#send({ kind: 'snapshot', log, position, force: true }, 'the snapshot is pending');
        const isMissed = youngSeconds > 0 && age < STREAM_SECONDS && tail?.isAskedByStream !== false;
        if (sent && !isStopped && isMissed) this.#totals.missed++;
      }
    }
    // The segment before a young one may have entries that the stream missed.
    const found = end?.found ?? (end && (await this.#newestOf(segments.at(end.isUnread ? -1 : -2), end.newest)));
    if (found !== undefined) await onEnd?.(log, found);
    if (tail !== undefined) {
      this.#totals.tail(tail.entries, tail.isOverdue && isStopped !== true);
      // A stopped log would only get one pending Snapshot entry after the other.
      if (tail.isDue && isStopped !== true)
        await this.#send({ kind: 'divide', log }, 'the division policy makes it due');
    }
    requireDense(log, segments);
    const { due, foreign, unarchived } = await findDueRetention(this.#deps, log, segments);
    for (const part of foreign) this.#passOver(part);
    for (const { job, since: dueMs } of due) {
      this.#totals.dueSince(dueMs);
      const why = `the retention policy ${job.kind === 'archive' ? 'archives' : 'expires'} the segment`;
      await this.#send(job, why);
    }
    for (const error of unarchived) this.#fail(log, error);
    if (collect === true) await this.#send({ kind: 'collect', log }, 'every log must be collected');
  }

  /** Counts the open segment of a log, if there is a division policy. */
  #tailOf(segment: Segment | undefined): SweptTail | undefined {
    const { types, now } = this.#deps;
    const division = segment?.log === FEED_LOG ? FEED_DIVISION : (this.#deps.division ?? NO_DIVISION);
    if (segment === undefined || isFrozen(segment) || !divides(division)) return undefined;
    const { youngSeconds = 0 } = this.#options;
    return new SweptTail(segment, { division, types, now: now() / 1000, youngSeconds });
  }

  /** Whether there is no feed, or none any more. */
  async #isOff(): Promise<boolean> {
    return (await this.#deps.tables.newestSegments(FEED_LOG, 1, { consistent: true })).length === 0;
  }

  /** Finds the end of a log, if there is a feed. */
  #endOf(log: LogId): SweptEnd | undefined {
    const { onEnd, now } = this.#deps;
    if (onEnd === undefined || log === FEED_LOG) return undefined;
    return new SweptEnd({ now: now() / 1000, youngSeconds: this.#options.youngSeconds ?? 0 });
  }

  /**
   * The newest entry of a segment that was not searched for it.
   * @param seen the newest entry of the log that the sweep saw
   */
  async #newestOf(segment: Segment | undefined, seen: Position | undefined): Promise<FoundEnd | undefined> {
    if (segment === undefined) return undefined;
    const newest = await this.#deps.tables.newestEntry(segment.log, segment.segment, { consistent: false });
    return newest && { position: newest.position, newest: seen ?? newest.position, created: undefined };
  }

  #passOver(part: ForeignPart): void {
    this.#totals.foreign++;
    this.#deps.onForeign?.(part);
  }

  #segments(log: LogId): Promise<readonly Segment[]> {
    return querySegments(this.#deps.tables, log, { consistent: true });
  }

  /** @returns whether the job was sent; false if it was held back */
  async #send(job: Job, why: string): Promise<boolean> {
    if (this.#deps.holdsBack?.(job) === true) {
      this.#totals.waiting++;
      return false;
    }
    this.#totals.jobs++;
    await this.#deps.send(job, why);
    return true;
  }
}
