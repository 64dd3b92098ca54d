import { isDeepStrictEqual } from 'node:util';
import type { FeedItem } from '../../../src/client/feed.ts';
import type { LogId } from '../../../src/ids/log-id.ts';
import { formatPosition, type Position } from '../../../src/ids/position.ts';
import { type Entry, RESERVED_TYPES } from '../../../src/log/entry.ts';

/** The contents of the logs and of the feed, against which a consumer is checked. */
export interface FeedTruth {
  readonly logs: readonly LogId[];
  /** The checkpoints at which the feed began again, in order. */
  readonly restarts: readonly number[];
  /** Every entry of a log, in order. */
  entriesOf(log: LogId): readonly Entry[];
  /** The number of a position in its log, from 0. @throws Error if the log does not have it */
  numberOf(log: LogId, position: Position): number;
  /**
   * Whether a log went back to an earlier state in a pass or after it, so that the feed has
   * entries that the log lacks. Never by default.
   */
  wentBack?(log: LogId, pass: number): boolean;
}

/** One iteration of a consumer over the feed. */
export interface SeenReading {
  /** @throws Error if the item is not the entry that must come next */
  readonly see: (item: Omit<FeedItem, 'body'>) => void;
}

/**
 * The entries that a consumer of the feed has seen: each entry of each log at least once, in the
 * order of the log. The entries after a restart of the feed are another pass, in which the consumer
 * sees all of them again.
 */
export class SeenEntries {
  readonly #consumer: string;
  readonly #truth: FeedTruth;
  /** The highest number of an entry that was seen, by pass and log. */
  readonly #reached = new Map<string, number>();

  constructor(consumer: string, truth: FeedTruth) {
    this.#consumer = consumer;
    this.#truth = truth;
  }

  /** The consumer reads again, and may see entries again. @param from a checkpoint */
  reading(from: number): SeenReading {
    const last = new Map<string, number>();
    let newest = from;
    const see: SeenReading['see'] = ({ checkpoint, log, entry }) => {
      const what = `${this.#consumer} got ${log}/${formatPosition(entry.position)} at ${checkpoint}`;
      if (checkpoint < newest) throw new Error(`${what} after ${newest}`);
      newest = checkpoint;
      if (this.#truth.wentBack?.(log, this.#numberOfPass(checkpoint)) === true) return;
      const number = this.#truth.numberOf(log, entry.position);
      const written = this.#truth.entriesOf(log)[number];
      if (written === undefined || !isSame(written, entry)) throw new Error(`${what}, which differs`);
      const pass = this.#passOf(checkpoint, log);
      const before = last.get(pass);
      const reached = this.#reached.get(pass) ?? -1;
      if (before === undefined ? number > reached + 1 : number !== before + 1) {
        throw new Error(`${what}, number ${number}, after number ${before ?? reached}`);
      }
      last.set(pass, number);
      this.#reached.set(pass, Math.max(reached, number));
    };
    return { see };
  }

  /** The consumer begins in the middle of the first pass, after an entry of a log. */
  skip(log: LogId, to: Position): void {
    this.#reached.set(`0/${log}`, this.#truth.numberOf(log, to));
  }

  /** The log, and how often the feed had begun again when the item was fed. */
  #passOf(checkpoint: number, log: LogId): string {
    return `${this.#numberOfPass(checkpoint)}/${log}`;
  }

  #numberOfPass(checkpoint: number): number {
    return this.#truth.restarts.filter((restart) => restart < checkpoint).length;
  }

  /** The logs of which the consumer has not seen all entries in a pass: the newest by default. */
  missing(pass = this.#truth.restarts.length): LogId[] {
    const isMissing = (log: LogId): boolean =>
      (this.#reached.get(`${pass}/${log}`) ?? -1) < this.#truth.entriesOf(log).length - 1;
    return this.#truth.logs.filter(isMissing);
  }
}

/** Whether an entry is as it was written. Builds add roots to Snapshot entries later. */
function isSame(written: Entry, entry: Entry): boolean {
  if (written.type !== entry.type || written.created !== entry.created) return false;
  return written.type === RESERVED_TYPES.snapshot || isDeepStrictEqual(written.body, entry.body);
}
