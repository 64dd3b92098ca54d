import pLimit from 'p-limit';
import type { Document } from '../../client/document.ts';
import { type Logs, type LogsDeps, openOrCreate } from '../../client/logs.ts';
import {
  ChunkMissingError,
  EntryExistsError,
  EntryGapError,
  EntryRejectedError,
  LogNotFoundError,
} from '../../errors.ts';
import { checkpointOf } from '../../feed/checkpoint.ts';
import { appendsEntry, groupSpans, RESTART, type Span } from '../../feed/feed-entry.ts';
import { FEED_DIVISION, FEED_LOG } from '../../feed/feed-log.ts';
import { fedPosition, feedReducer } from '../../feed/feed-reducer.ts';
import type { LogId } from '../../ids/log-id.ts';
import { comparePositions, type Position } from '../../ids/position.ts';
import { retry } from '../../log/backoff.ts';
import { asksAt } from '../../log/division-policy.ts';
import { type JobSender, jobMessage, logLabel } from '../jobs/job.ts';

/** A position of a log that has an entry. All entries before it exist too. */
export interface LogPosition {
  readonly log: LogId;
  readonly position: Position;
}

/** The result of {@link FeedWriter.add}. */
export interface Fed {
  /** Spans that this call appended; 0 if the feed had all ends. */
  readonly spans: number;
  /** Positions of the feed's new entries, which may make a snapshot or an epoch due. */
  readonly entries: readonly Position[];
  /** The end of the feed, as far as this writer knows it. Undefined if no end was given. */
  readonly checkpoint: number | undefined;
  /** The logs of which the feed has entries after the given end, up to this position. */
  readonly ahead: readonly LogPosition[];
}

export interface FeedWriterDeps extends Pick<LogsDeps, 'sleep' | 'random'> {
  /** Logs on the table of the feed. */
  readonly logs: Pick<Logs, 'open' | 'client'>;
}

/** Logs whose positions are read at a time. */
const LOGS_AT_A_TIME = 400;
/** Enough for a few dozen writers. If all attempts fail, the stream delivers the batch again. */
const ATTEMPTS = { attempts: 30, baseMs: 10, capMs: 500 };
/**
 * Batches after which a writer refreshes the feed, so that its state moves onto a newer snapshot.
 * An append alone reads nothing.
 */
const REFRESH_EVERY = 20;

/**
 * Appends to the feed. Each entry is one conditional write directly after the last one, so any
 * number of writers may run: the feed has every entry of a log once, in order and without a gap. A
 * writer keeps the feed open; share one within a process.
 */
export class FeedWriter {
  readonly #deps: FeedWriterDeps;
  /** Calls that change the feed: one at a time. */
  readonly #turns = pLimit(1);
  #opening: Promise<Document> | undefined;
  #batches = 0;

  constructor(deps: FeedWriterDeps) {
    this.#deps = deps;
  }

  /**
   * Feeds logs up to new ends, and creates the feed if it does not exist. The ends may come in any
   * order, again and with gaps; an end that the feed has changes nothing. Ends of the feed itself
   * are left out.
   *
   * After an error, the feed may have some of the ends, and the same call can be made again.
   * @throws TooLargeError if the newest epoch is full
   * @throws AttemptsExhaustedError if other writers were faster in every attempt
   * @throws DocumentStoppedError if the feed has an entry that cannot be folded
   * @throws the errors of `Document.append`
   */
  async add(ends: Iterable<LogPosition>): Promise<Fed> {
    const newest = newestEnds(ends);
    if (newest.size === 0) return { spans: 0, entries: [], checkpoint: undefined, ahead: [] };
    return this.#turns(async () => {
      try {
        return await this.#add(newest);
      } catch (error) {
        if (!isGone(error)) throw error;
        await this.#close();
        return this.#add(newest);
      }
    });
  }

  /**
   * Begins the feed again: from now on it has no entry of any log, so the next ends feed their logs
   * from the first entry onward. Readers that are before this place go on with it.
   * @returns its checkpoint
   * @throws the errors of {@link add}
   */
  async restart(): Promise<number> {
    return this.#turns(async () => {
      const document = await this.#open();
      const added = await document.append(RESTART);
      return checkpointOf(added?.first ?? document.position);
    });
  }

  async #add(ends: ReadonlyMap<LogId, Position>): Promise<Fed> {
    const document = await this.#open();
    this.#batches++;
    if (this.#batches % REFRESH_EVERY === 0) await document.refresh();
    const added = await this.#appendSpans(document, ends);
    return { ...added, checkpoint: checkpointOf(document.position) };
  }

  /** Appends what the feed does not have of some logs. If other writers are faster, looks again. */
  async #appendSpans(document: Document, ends: ReadonlyMap<LogId, Position>): Promise<Omit<Fed, 'checkpoint'>> {
    const entries: Position[] = [];
    let spans = 0;
    let before = document.position;
    const retryable = (error: unknown): boolean =>
      error instanceof EntryExistsError ||
      // A span of a stale document. The document has read the other entries in the meantime.
      (error instanceof EntryRejectedError && comparePositions(before, document.position) < 0);
    const options = { ...ATTEMPTS, ...this.#deps, retryable, failure: 'Feeding failed', where: { log: FEED_LOG } };
    return retry(options, async (attempt) => {
      if (attempt > 1) await document.refresh();
      const { due, ahead } = await dueSpans(document, ends);
      for (const group of groupSpans(due)) {
        const { newest } = document;
        before = document.position;
        const added = await document.append(appendsEntry(group), newest && { after: newest });
        if (added !== undefined) entries.push(added.first);
        spans += group.length;
      }
      return { spans, entries, ahead };
    });
  }

  /** Opens the feed once. The first writer of a deployment creates it. */
  #open(): Promise<Document> {
    this.#opening ??= openOrCreate(this.#deps.logs, FEED_LOG, { reducer: feedReducer }).catch((error: unknown) => {
      this.#opening = undefined;
      throw error;
    });
    return this.#opening;
  }

  async #close(): Promise<void> {
    const document = await this.#opening;
    this.#opening = undefined;
    document?.close();
  }
}

/** The newest of the given ends of each log. */
function newestEnds(ends: Iterable<LogPosition>): Map<LogId, Position> {
  const newest = new Map<LogId, Position>();
  for (const { log, position } of ends) {
    const known = newest.get(log);
    const isNewer = known === undefined || comparePositions(known, position) < 0;
    if (isNewer && log !== FEED_LOG) newest.set(log, position);
  }
  return newest;
}

/**
 * Whether a part of the feed is gone on which an open document is based: chunks that garbage
 * collection removed, or entries after a restore of the table.
 */
function isGone(error: unknown): boolean {
  return error instanceof ChunkMissingError || error instanceof EntryGapError || error instanceof LogNotFoundError;
}

/**
 * The entries up to the given ends that the feed does not have, as far as the document knows, and
 * the logs of which it has more.
 */
async function dueSpans(
  document: Document,
  ends: ReadonlyMap<LogId, Position>,
): Promise<{ readonly due: readonly Span[]; readonly ahead: readonly LogPosition[] }> {
  const { draft } = document.state;
  const all = [...ends];
  const due: Span[] = [];
  const ahead: LogPosition[] = [];
  for (let i = 0; i < all.length; i += LOGS_AT_A_TIME) {
    const some = all.slice(i, i + LOGS_AT_A_TIME);
    const fed = await Promise.all(some.map(([log]) => fedPosition(draft, log)));
    for (const [j, [log, to]] of some.entries()) {
      const after = fed[j];
      if (after === undefined || comparePositions(after, to) < 0) due.push({ log, after, to });
      else if (comparePositions(after, to) > 0) ahead.push({ log, position: after });
    }
  }
  return { due, ahead };
}

/**
 * A feed that also sends the divide job of the feed, because no stream watches its table. If a
 * process ends before it sends the job, the next sweep finds the job due.
 */
export function dividedFeed(feed: Pick<FeedWriter, 'add'>, queue: JobSender): Pick<FeedWriter, 'add'> {
  return {
    add: async (ends) => {
      const fed = await feed.add(ends);
      const asking = fed.entries.find(({ entry }) => asksAt(FEED_DIVISION, { entry, bytes: 0, share: 1 }));
      if (asking !== undefined) {
        const { segment, entry } = asking;
        const id = `feed:divide:${logLabel(FEED_LOG)}:${segment}:${entry}`;
        await queue.send(jobMessage({ kind: 'divide', log: FEED_LOG }, id));
      }
      return fed;
    },
  };
}
