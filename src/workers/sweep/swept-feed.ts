import type { LogId } from '../../ids/log-id.ts';
import type { FeedWriter, LogEnd } from '../feed/feed-writer.ts';
import { STREAM_SECONDS } from './sweep.ts';
import type { FoundEnd } from './swept-end.ts';

/** Ends that are fed together. */
const BATCH = 400;

/** The result of {@link SweptFeed.finish}. */
export interface SweptFeedResult {
  /** Spans that the feed did not have. */
  readonly spans: number;
  /** Those of them that the stream should have fed: their newest entry is less than a day old. */
  readonly missed: number;
  /** The end of the feed; undefined if the sweep found no end. */
  readonly checkpoint: number | undefined;
}

export interface SweptFeedDeps {
  readonly feed: Pick<FeedWriter, 'add'>;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Whether a stream should have fed the ends. */
  readonly hasStream: boolean;
}

/** Feeds the ends that a sweep finds, in batches. */
export class SweptFeed {
  readonly #deps: SweptFeedDeps;
  /** Ends that the stream should have fed, and those that are too old for it. */
  #recent: LogEnd[] = [];
  #old: LogEnd[] = [];
  #spans = 0;
  #missed = 0;
  #checkpoint: number | undefined;
  #failure: { readonly error: unknown } | undefined;

  constructor(deps: SweptFeedDeps) {
    this.#deps = deps;
  }

  /**
   * Takes the next end, for `SweepDeps.onEnd`. After the first failure it feeds nothing more, and
   * the sweep goes on.
   */
  readonly onEnd = async (log: LogId, { position, created }: FoundEnd): Promise<void> => {
    const { now, hasStream } = this.#deps;
    const isRecent = hasStream && created !== undefined && now() / 1000 - created < STREAM_SECONDS;
    (isRecent ? this.#recent : this.#old).push({ log, position });
    if (this.#recent.length + this.#old.length >= BATCH) await this.#flush().catch((error) => this.#fail(error));
  };

  /**
   * Feeds the rest.
   * @throws the first failure
   */
  async finish(): Promise<SweptFeedResult> {
    await this.#flush();
    if (this.#failure !== undefined) throw this.#failure.error;
    return { spans: this.#spans, missed: this.#missed, checkpoint: this.#checkpoint };
  }

  async #flush(): Promise<void> {
    const [recent, old] = [this.#recent, this.#old];
    [this.#recent, this.#old] = [[], []];
    if (this.#failure !== undefined) return;
    const missed = await this.#add(recent);
    // Other parts of the sweep feed meanwhile.
    this.#missed += missed;
    await this.#add(old);
  }

  async #add(ends: readonly LogEnd[]): Promise<number> {
    if (ends.length === 0) return 0;
    const { spans, checkpoint } = await this.#deps.feed.add(ends);
    this.#spans += spans;
    this.#checkpoint = checkpoint ?? this.#checkpoint;
    return spans;
  }

  #fail(error: unknown): void {
    this.#failure ??= { error };
  }
}
