import { type ItemInvalidError, isOfOneLog, type LogfoldError, SegmentStateError } from '../../errors.ts';
import { type LogId, parseLogId } from '../../ids/log-id.ts';
import type { ReservedTypes } from '../../log/entry.ts';
import type { LogStore, ScanPlace } from '../../log/log-store.ts';
import { querySegments, requireDense } from '../../log/newest.ts';
import type { Segment } from '../../log/segment.ts';
import { dueSince, expiringUnarchived, planRetention, type RetentionPolicy } from '../../retention/retention-policy.ts';
import { hasStop } from '../../snapshot/stop.ts';
import type { BlobStore } from '../../store/blob-store.ts';
import { findGcCandidates, requireInTables } from '../gc/candidates.ts';
import type { Job } from '../jobs/job.ts';
import { findPendingSnapshots } from './pending-snapshots.ts';

/** Parts in which the Segment table is scanned at once. In each, one log is looked at after the other. */
const PARTS = 8;
/** For how long a stream keeps its records, in seconds. */
const STREAM_SECONDS = 24 * 3600;

export interface SweepDeps {
  /** The tables themselves: nothing is looked at that an archive may have. */
  readonly tables: LogStore;
  readonly blobs: BlobStore;
  readonly types?: ReservedTypes | undefined;
  /** Epoch milliseconds. */
  readonly now: () => number;
  readonly policyOf: (log: LogId) => RetentionPolicy;
  /** Takes a job to be done, and the reason for it. Awaited: whoever is slow slows the sweep down. */
  readonly send: (job: Job, why: string) => Promise<void>;
  /** Whether a due job is only counted and not sent: its message still waits, or its queue is full. None is by default. */
  readonly holdsBack?: ((job: Job) => boolean) | undefined;
  /**
   * Told, once, of each log that cannot be looked at, that only the bucket has something of, or of which a segment leaves
   * without the archive that the policy wants; and of each segment of which nobody knows whose it is.
   */
  readonly onFailure: (log: LogId | undefined, error: LogfoldError) => void;
  /** Told how many logs have been looked at so far. */
  readonly onProgress?: ((logs: number) => void) | undefined;
}

export interface SweepOptions {
  /** Only this log; all of them by default. */
  readonly log?: LogId | undefined;
  /**
   * Epoch seconds: of segments that were open then or later, every Snapshot entry is looked at. By default only those
   * after Last Snapshot are, so that a log at rest costs one small request.
   */
  readonly since?: number | undefined;
  /** Snapshot entries younger than this, in seconds, are left to the stream. 0 by default. */
  readonly youngSeconds?: number | undefined;
  /** Whether to look for what is left over in the bucket: two listings. By default unless all is asked for anyway. */
  readonly leftovers?: boolean | undefined;
  /** Asks for every snapshot of every log to be made anew. */
  readonly rebuild?: boolean | undefined;
  /** Asks for every log to be collected, not just for those in which something is known to be left over. */
  readonly collect?: boolean | undefined;
  /** Where to go on: what an earlier sweep gave as its rest. All logs by default. */
  readonly from?: SweepRest | undefined;
  /**
   * From then on each part ends after the log that it is at, and so does the search for what is left over by collections
   * and uploads. Epoch milliseconds; none by default. One log a part is looked at in any case.
   */
  readonly deadline?: number | undefined;
}

/**
 * Where each part of the Segment table is to be gone on with: at its beginning, behind a segment, or not at all. Where all
 * are at their end, only what is left over is to be looked for.
 */
export type SweepRest = readonly ('beginning' | 'end' | ScanPlace)[];

export interface SweepResult {
  readonly logs: number;
  /** Jobs that were sent. */
  readonly jobs: number;
  /** Due jobs that were held back. */
  readonly waiting: number;
  /** Logs that could not be looked at, and segments that somebody must look at: all of which was told. */
  readonly failed: number;
  /** Logs with Snapshot entries that nobody completes because the log is stopped. */
  readonly stopped: number;
  /**
   * Snapshot jobs that were sent though the stream should have sent them: their entries are older than `youngSeconds` and
   * less than a day old. 0 if `youngSeconds` is 0, since the stream may yet send them.
   */
  readonly missed: number;
  /**
   * When the oldest Snapshot entry was written that nobody has completed, however young, in epoch seconds by its
   * client's clock; undefined where there is none.
   */
  readonly oldest?: number | undefined;
  /** Since when the oldest archive, expire or collect job is due, sent or not, in epoch seconds; undefined if none is. */
  readonly oldestDue?: number | undefined;
  /** What is left to be looked at, its time being up; undefined where all was. */
  readonly rest?: SweepRest | undefined;
}

/**
 * Finds what the stream missed and what is due, in all logs: snapshots that nobody completed, segments that are to be
 * archived or to expire, and what collections have left for later. Writes nothing itself.
 *
 * A log that is written to while a sweep goes on from an earlier one is looked at by the next one at the latest.
 *
 * It costs one scan of the Segment table, for each log one query from its Last Snapshot on, and two listings of the bucket for
 * all logs together, and one query more for each log in which something is left over.
 */
export async function sweep(deps: SweepDeps, options: SweepOptions = {}): Promise<SweepResult> {
  const run = new Run(deps, options);
  const looks =
    options.log === undefined ? Array.from({ length: PARTS }, (_, index) => run.part(index)) : [run.log(options.log)];
  // Where one part cannot be read to its end, the logs of the others are looked at all the same.
  const failed = (await Promise.allSettled(looks)).find(({ status }) => status === 'rejected');
  await run.leftovers();
  if (failed?.status === 'rejected') throw failed.reason;
  return run.result;
}

class Run {
  readonly #deps: SweepDeps;
  readonly #options: SweepOptions;
  #logs = 0;
  #jobs = 0;
  #waiting = 0;
  #stopped = 0;
  #missed = 0;
  readonly #failed = new Set<LogId>();
  /** Segments of which nobody knows whose they are. */
  #strangers = 0;
  #oldest: number | undefined;
  #oldestDue: number | undefined;
  readonly #rest: SweepRest[number][];
  /** Whether what is left over is still to be looked for. */
  #leftovers: boolean;
  /** Whether a sweep was all done before but for that. */
  readonly #onlyCandidates: boolean;

  constructor(deps: SweepDeps, options: SweepOptions) {
    this.#deps = deps;
    this.#options = options;
    this.#rest = Array.from({ length: PARTS }, (_, index) => options.from?.[index] ?? 'beginning');
    if (options.log !== undefined) this.#rest.fill('end');
    this.#leftovers = options.leftovers ?? (options.collect !== true && options.rebuild !== true);
    this.#onlyCandidates = this.#isThrough;
  }

  get result(): SweepResult {
    const rest = this.#isThrough && !this.#leftovers ? undefined : this.#rest;
    return {
      logs: this.#logs,
      jobs: this.#jobs,
      waiting: this.#waiting,
      failed: this.#failed.size + this.#strangers,
      stopped: this.#stopped,
      missed: this.#missed,
      oldest: this.#oldest,
      oldestDue: this.#oldestDue,
      rest,
    };
  }

  /** Whether all parts are at their end. */
  get #isThrough(): boolean {
    return this.#rest.every((each) => each === 'end');
  }

  /** Looks at all logs in one part of the Segment table. */
  async part(index: number): Promise<void> {
    const from = this.#rest[index];
    if (from === undefined || from === 'end') return;
    const torn = new Set<LogId>();
    // Its log, where one can see whose it is, is asked for by itself, which says what is wrong.
    const onInvalid = (error: ItemInvalidError): void => {
      if (error.log !== undefined) torn.add(parseLogId(error.log));
      else this.#fail(undefined, error);
    };
    // A scan gives the segments of one log one after the other, but nobody promises so: a log whose segments do not come
    // from the first on is asked for by itself.
    const end = async (group: readonly Segment[]): Promise<void> => {
      const [first] = group;
      if (first === undefined) return;
      if (!torn.has(first.log) && group.every(({ segment }, i) => segment === i)) await this.#look(first.log, group);
      else torn.add(first.log);
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
    for (const log of torn) await this.log(log);
    this.#rest[index] = rest;
  }

  /** Looks at one log. */
  async log(log: LogId): Promise<void> {
    await this.#look(log);
  }

  /**
   * Asks for what other collections, and uploads that were never finished, have left behind, once all logs have been
   * looked at. Where the time is up by then it is left to a run of its own; what that has no time for, the next sweep finds.
   */
  async leftovers(): Promise<void> {
    if (!this.#leftovers || !this.#isThrough || (this.#isOver() && !this.#onlyCandidates)) return;
    this.#leftovers = false;
    for (const [log, { why, due }] of await findGcCandidates(this.#deps)) {
      if (this.#options.log !== undefined && this.#options.log !== log) continue;
      await this.#guard(log, async () => {
        await requireInTables(this.#deps.tables, log);
        this.#isDueSince(due);
        await this.#send({ kind: 'collect', log }, why);
      });
      if (this.#isOver()) return;
    }
  }

  /** @param found its segments, where they are known */
  async #look(log: LogId, found?: readonly Segment[]): Promise<void> {
    await this.#guard(log, async () => this.#plan(log, found ?? (await this.#segments(log))));
    this.#logs++;
    this.#deps.onProgress?.(this.#logs);
  }

  /** What is wrong with one log must not keep the others from being looked at. */
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
    if (log === undefined) this.#strangers++;
    else if (this.#failed.has(log)) return;
    else this.#failed.add(log);
    this.#deps.onFailure(log, error);
  }

  async #plan(log: LogId, segments: readonly Segment[]): Promise<void> {
    const { policyOf, now, blobs } = this.#deps;
    let isStopped: boolean | undefined;
    const { rebuild, collect, since, youngSeconds = 0 } = this.#options;
    if (rebuild === true) {
      await this.#send({ kind: 'rebuild', log }, 'every snapshot is to be made anew');
      return;
    }
    for (const [i, segment] of segments.entries()) {
      for (const { position, created } of await findPendingSnapshots(this.#deps, {
        segment,
        next: segments[i + 1],
        since,
      })) {
        this.#oldest = Math.min(created, this.#oldest ?? created);
        if (isStopped === undefined) {
          isStopped = await hasStop(blobs, log);
          if (isStopped) this.#stopped++;
        }
        const age = now() / 1000 - created;
        // An entry from the future has the time of a wrong clock, which would hide a lost record until then.
        if (Math.abs(age) < youngSeconds) continue;
        const sent = await this.#send(
          { kind: 'snapshot', log, position, again: true },
          'nobody completed this snapshot',
        );
        if (sent && !isStopped && youngSeconds > 0 && age < STREAM_SECONDS) this.#missed++;
      }
    }
    requireDense(log, segments);
    const policy = policyOf(log);
    const plan = (of: readonly Segment[]) => planRetention(of, policy, now());
    // The scan may show what has changed since; whatever is to go is looked at again.
    const isAtRest = plan(segments).length + expiringUnarchived(segments, policy).length === 0;
    const current = isAtRest ? [] : await this.#segments(log);
    for (const job of plan(current)) {
      this.#isDueSince(dueSince(current, job, policy));
      await this.#send(job, job.kind === 'archive' ? 'it need not stay' : 'it need not stay in the table');
    }
    for (const { segment } of expiringUnarchived(current, policy)) {
      const error = new SegmentStateError(
        'the policy archives, and the entries of the segment leave without an archive',
        {
          log,
          segment,
          advice: `Run 'logfold expire LOG ${segment} --undo', which takes that back: then it is archived`,
        },
      );
      this.#fail(log, error);
    }
    if (collect === true) await this.#send({ kind: 'collect', log }, 'every log is to be collected');
  }

  #segments(log: LogId): Promise<readonly Segment[]> {
    return querySegments(this.#deps.tables, log, { consistent: true });
  }

  /** @param ms epoch milliseconds */
  #isDueSince(ms: number): void {
    this.#oldestDue = Math.min(ms / 1000, this.#oldestDue ?? Number.POSITIVE_INFINITY);
  }

  /** Whether the job was sent, and not held back. */
  async #send(job: Job, why: string): Promise<boolean> {
    if (this.#deps.holdsBack?.(job) === true) {
      this.#waiting++;
      return false;
    }
    this.#jobs++;
    await this.#deps.send(job, why);
    return true;
  }
}
