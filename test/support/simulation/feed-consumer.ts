import type { Feed, FeedItem, FeedReadOptions } from '../../../src/client/feed.ts';
import type { Value } from '../../../src/codec/value.ts';
import { AppendUncertainError, EntryGapError, FeedGroupBusyError } from '../../../src/errors.ts';
import type { LogId } from '../../../src/ids/log-id.ts';
import { RESERVED_TYPES } from '../../../src/log/entry.ts';
import { isInjected } from './client.ts';
import type { FeedPorts, FeedWorld } from './feed-world.ts';
import { SeenEntries, type SeenReading } from './seen-entries.ts';

/** The longest time for which a consumer follows the feed, in milliseconds. */
const FOLLOW_MS = 30_000;

/**
 * A consumer of the feed, with one member or several, which crash. It checks everything that it
 * sees: every entry of every log, in the order of the log. After a crash it may see entries again.
 * The entries after a restart of the feed are another pass, in which it sees all of them again.
 */
export class FeedConsumer {
  readonly name: string;
  readonly #world: FeedWorld;
  readonly #isGroup: boolean;
  readonly #seen: SeenEntries;
  /** The checkpoint at which the consumer goes on. It never goes back. */
  #checkpoint = 0;
  /** Items that were processed, also again. */
  processed = 0;

  constructor(world: FeedWorld, { name, isGroup }: { readonly name: string; readonly isGroup: boolean }) {
    this.name = name;
    this.#world = world;
    this.#isGroup = isGroup;
    this.#seen = new SeenEntries(name, world);
  }

  /** One life of one member. */
  async live(ports: FeedPorts, isOver: () => boolean): Promise<void> {
    const { random, scheduler } = this.#world;
    for (let idle = 0; !isOver(); idle++) {
      const { processed } = this;
      const { isAhead } = this.#world;
      try {
        await this.#read(ports, isOver);
      } catch (error) {
        // Entries that are gone come again after the next restart.
        const isGone = error instanceof EntryGapError && (isAhead || this.#world.isAhead);
        if (!passes(error) && !(error instanceof FeedGroupBusyError) && !isGone) throw error;
      }
      if (this.processed > processed) idle = 0;
      if (!isOver()) await scheduler.sleep(random.integer(0, 15_000) * Math.min(2 ** idle, 60));
    }
  }

  async #read(ports: FeedPorts, isOver: () => boolean): Promise<void> {
    const { random, scheduler } = this.#world;
    const feed = this.#world.reader(ports);
    const end = new AbortController();
    const options = { follow: random.chance(0.4), signal: end.signal };
    if (options.follow) scheduler.after(random.integer(0, FOLLOW_MS), () => end.abort());
    const reading = this.#seen.reading(this.#checkpoint);
    // Some consumers end in the middle, also of a batch.
    let rest = random.chance(0.3) ? random.integer(1, 50) : Number.POSITIVE_INFINITY;
    batches: for await (const batch of this.#batches(feed, options)) {
      for (const item of batch) {
        await ports.process.intercept('process', async () => this.#process(reading, item, await item.body()));
        if (--rest === 0) break batches;
      }
      if (isOver()) end.abort();
    }
    await this.checkGroup();
  }

  #batches(feed: Feed, options: FeedReadOptions): AsyncIterable<readonly FeedItem[]> {
    const { random } = this.#world;
    if (this.#isGroup && random.chance(0.5)) {
      return feed.consumeBatches(this.name, { ...options, size: random.integer(1, 20) });
    }
    return oneByOne(
      this.#isGroup ? feed.consume(this.name, options) : feed.read({ ...options, from: this.#checkpoint }),
    );
  }

  /** Checks that the checkpoint of the group has not gone back. */
  async checkGroup(): Promise<void> {
    if (!this.#isGroup) return;
    const { checkpoint = 0 } = (await this.#world.groups.get(this.name)) ?? {};
    this.#goOn(checkpoint);
  }

  #goOn(checkpoint: number): void {
    if (checkpoint < this.#checkpoint)
      throw new Error(`${this.name} went back from ${this.#checkpoint} to ${checkpoint}`);
    this.#checkpoint = checkpoint;
  }

  #process(reading: SeenReading, item: FeedItem, body: Value): void {
    reading.see(item);
    // Every entry of an application has a body.
    if ((body === null) !== RESERVED_TYPES.includes(item.entry.type)) {
      throw new Error(`${this.name} got ${item.entry.type} of ${item.log} with the body ${JSON.stringify(body)}`);
    }
    this.processed++;
    if (!this.#isGroup) this.#goOn(Math.max(this.#checkpoint, item.checkpoint));
  }

  /** The logs of which this consumer does not have all entries in the newest pass. */
  missing(): LogId[] {
    return this.#seen.missing();
  }
}

async function* oneByOne(items: AsyncIterable<FeedItem>): AsyncGenerator<readonly FeedItem[]> {
  for await (const item of items) yield [item];
}

/** Whether an error comes from an injected fault, so that another attempt may succeed. */
export function passes(error: unknown): boolean {
  return isInjected(error) || error instanceof AppendUncertainError;
}
