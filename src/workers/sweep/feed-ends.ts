import { FeedAheadError, LogfoldError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import { comparePositions, formatPosition, type Position } from '../../ids/position.ts';
import type { StoredItem } from '../../log/attribute.ts';
import type { ReservedTypes } from '../../log/entry.ts';
import { entryPlace } from '../../log/item-codec.ts';
import type { TableReader } from '../../log/log-store.ts';
import { queryNewest } from '../../log/newest.ts';
import type { FeedWriter, LogPosition } from '../feed/feed-writer.ts';
import { createdOf, type Finder, isYoung, STREAM_SECONDS, type SweptLog, type Youth } from './finder.ts';

export interface FoundEnd {
  readonly position: Position;
  /** The newest entry that the sweep saw, also if it is young. */
  readonly newest: Position;
  /** Creation time of the entry in epoch seconds; undefined if unknown. */
  readonly created: number | undefined;
}

interface FeedEndDeps extends Youth {
  /** The tables without archives. */
  readonly tables: TableReader;
  readonly onEnd: (log: LogId, end: FoundEnd) => Promise<void>;
}

/**
 * Finds the newest entry of a log that a sweep feeds: the one before the first young entry. The
 * stream feeds that one and those after it.
 */
export class FeedEnd implements Finder {
  readonly #deps: FeedEndDeps;
  readonly #swept: SweptLog;
  #found: Omit<FoundEnd, 'newest'> | undefined;
  #newest: Position | undefined;
  #sawYoung = false;

  constructor(swept: SweptLog, deps: FeedEndDeps) {
    this.#swept = swept;
    this.#deps = deps;
  }

  /** @throws ItemInvalidError if the keys of the item are malformed */
  see(item: StoredItem): void {
    const created = createdOf(item);
    this.#sawYoung ||= isYoung(created, this.#deps);
    const { position } = entryPlace(item);
    this.#newest = position;
    if (this.#sawYoung) return;
    this.#found = { position, created: Number.isSafeInteger(created) && created > 0 ? created : undefined };
  }

  async find(): Promise<void> {
    const newest = this.#newest;
    const end = newest && this.#found ? { ...this.#found, newest } : await this.#unseen();
    if (end !== undefined) await this.#deps.onEnd(this.#swept.log, end);
  }

  /**
   * The newest entry of a segment that was not read. If the newest segment has only young entries,
   * this is the previous one, which may have entries that the stream missed.
   */
  async #unseen(): Promise<FoundEnd | undefined> {
    const segment = this.#swept.segments.at(this.#newest === undefined ? -1 : -2);
    if (segment === undefined) return undefined;
    const newest = await this.#deps.tables.newestEntry(segment.log, segment.segment, { consistent: false });
    return newest && { position: newest.position, newest: this.#newest ?? newest.position, created: undefined };
  }
}

/** Ends that are fed together. */
const BATCH = 400;

/** The result of {@link SweptFeed.finish}. */
export interface SweptFeedResult {
  /** Spans that the feed did not have. */
  readonly spans: number;
  /** The spans that the stream should have fed: their newest entry is less than a day old. */
  readonly missed: number;
  /** Logs that end before the last of their entries that the feed has. */
  readonly ahead: number;
  /** The end of the feed; undefined if the sweep found no end. */
  readonly checkpoint: number | undefined;
}

export interface SweptFeedDeps {
  readonly feed: Pick<FeedWriter, 'add'>;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Whether a stream should have fed the ends. */
  readonly hasStream: boolean;
  /** The tables without archives. */
  readonly tables: TableReader;
  readonly types: ReservedTypes;
  /**
   * Called for each log that ends before the last of its entries that the feed has. The feed would
   * leave out its next entries. Tables that went back to an earlier state cause this.
   */
  readonly onAhead: (log: LogId, error: FeedAheadError) => void;
}

/** An end, and the newest entry of the log that the sweep saw. */
interface SeenEnd extends LogPosition {
  readonly newest: Position;
}

/** Feeds the ends that a sweep finds, in batches. */
export class SweptFeed {
  readonly #deps: SweptFeedDeps;
  /** Ends that the stream should have fed, and those that are too old for it. */
  #recent: SeenEnd[] = [];
  #old: SeenEnd[] = [];
  #spans = 0;
  #missed = 0;
  #ahead = 0;
  #checkpoint: number | undefined;
  #failure: { readonly error: unknown } | undefined;

  constructor(deps: SweptFeedDeps) {
    this.#deps = deps;
  }

  /**
   * Takes the next end, for `SweepDeps.onEnd`. After the first failure it feeds nothing more, and
   * the sweep goes on.
   */
  readonly onEnd = async (log: LogId, { position, newest, created }: FoundEnd): Promise<void> => {
    const { now, hasStream } = this.#deps;
    const isRecent = hasStream && created !== undefined && now() / 1000 - created < STREAM_SECONDS;
    (isRecent ? this.#recent : this.#old).push({ log, position, newest });
    if (this.#recent.length + this.#old.length >= BATCH) await this.#flush().catch((error) => this.#fail(error));
  };

  /**
   * Feeds the rest.
   * @throws the first failure
   */
  async finish(): Promise<SweptFeedResult> {
    await this.#flush();
    if (this.#failure !== undefined) throw this.#failure.error;
    return { spans: this.#spans, missed: this.#missed, ahead: this.#ahead, checkpoint: this.#checkpoint };
  }

  async #flush(): Promise<void> {
    const [recent, old] = [this.#recent, this.#old];
    [this.#recent, this.#old] = [[], []];
    if (this.#failure !== undefined) return;
    const missed = await this.#add(recent);
    // Other parts of the sweep feed in the meantime.
    this.#missed += missed;
    await this.#add(old);
  }

  async #add(ends: readonly SeenEnd[]): Promise<number> {
    if (ends.length === 0) return 0;
    const { spans, checkpoint, ahead } = await this.#deps.feed.add(ends);
    this.#spans += spans;
    this.#checkpoint = checkpoint ?? this.#checkpoint;
    const newest = new Map(ends.map((end) => [end.log, end.newest]));
    for (const fed of ahead) await this.#check(fed, newest.get(fed.log));
    return spans;
  }

  /** The feed may know entries that are young, or that a stale read did not show. */
  async #check({ log, position: fed }: LogPosition, seen: Position | undefined): Promise<void> {
    if (seen !== undefined && comparePositions(seen, fed) >= 0) return;
    const { tables, types, onAhead } = this.#deps;
    let end: Position;
    try {
      ({ position: end } = await queryNewest({ store: tables, types }, log, { consistent: true }));
    } catch (error) {
      // The log is changing, or gone. The next sweep looks again.
      if (error instanceof LogfoldError) return;
      throw error;
    }
    if (comparePositions(end, fed) >= 0) return;
    this.#ahead++;
    const reason = `the log ends at ${formatPosition(end)}, and the feed has it up to ${formatPosition(fed)}, so the feed leaves out what the log gets next`;
    onAhead(
      log,
      new FeedAheadError(reason, {
        log,
        ...fed,
        advice: "If the tables were restored, run 'logfold feed --rebuild', which feeds all logs again",
      }),
    );
  }

  #fail(error: unknown): void {
    this.#failure ??= { error };
  }
}
