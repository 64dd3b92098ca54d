import { EntryGapError, LogNotFoundError, UsageError } from '../errors.ts';
import { checkpointOf, FEED_START, positionOfCheckpoint } from '../feed/checkpoint.ts';
import { checkGroupName, type FeedGroup, type FeedPlace, type SpanPlace } from '../feed/group-store.ts';
import { comparePositions, type Position } from '../ids/position.ts';
import { checkOptionNames } from '../log/option-names.ts';
import { type FeedItem, FeedReader, type FeedReaderDeps, type PlacedItem } from './feed-reader.ts';
import { GroupMember, type GroupMemberDeps } from './group-member.ts';

export type { FeedItem } from './feed-reader.ts';

export interface FeedDeps extends FeedReaderDeps, GroupMemberDeps {}

export interface FeedReadOptions {
  /** Checkpoint to begin at: 0, the beginning of the feed, by default. */
  readonly from?: number | undefined;
  /** Whether to wait for new items at the end of the feed. False by default. */
  readonly follow?: boolean | undefined;
  /** Ends the reading without an error. */
  readonly signal?: AbortSignal | undefined;
  /** The most items. At least 1; all by default. */
  readonly limit?: number | undefined;
  /**
   * Whether to leave out entries that expired without an archive. By default reading them throws
   * EntryNotFoundError, since a consumer may need them.
   */
  readonly skipExpired?: boolean | undefined;
}

/** Options of `feed.consume`. `from` counts only for a group that is new. */
export type FeedConsumeOptions = FeedReadOptions;

export interface FeedBatchOptions extends FeedConsumeOptions {
  /** The most items of a batch. At least 1; 100 by default. */
  readonly size?: number | undefined;
}

/** The end of the feed, as a reader met it: there was no other item before it. */
interface ReachedEnd {
  readonly end: number;
}

/** A consumer group, and how far it is behind. */
export interface FeedGroupStatus extends FeedGroup {
  /** Age of the first entry of the feed that the group has not done; 0 if there is none. */
  readonly lagSeconds: number;
}

/** Milliseconds between two reads of the end of the feed. */
const FOLLOW_MS = 1_000;
const BATCH_SIZE = 100;

/**
 * All entries of all logs in one sequence, gapless and in order per log. Entries of different logs
 * come in the order in which the pipeline saw them.
 *
 * Reading throws EntryNotFoundError if an entry expired without an archive, EntryGapError if one is
 * missing for another reason, and any error of the stores.
 */
export class Feed {
  readonly #deps: FeedDeps;
  readonly #reader: FeedReader;

  constructor(deps: FeedDeps) {
    this.#deps = deps;
    this.#reader = new FeedReader(deps);
  }

  /**
   * Reads the feed from a checkpoint onward. Requests entries ahead, up to a fixed amount of
   * memory.
   * @throws CheckpointInvalidError if `from` is not a checkpoint; reading throws it if the feed
   * ends before it
   * @throws UsageError if another option is invalid
   */
  read(options: FeedReadOptions = {}): AsyncGenerator<FeedItem, undefined> {
    const { from = FEED_START } = checkOptions('read', options);
    return this.#read(positionOfCheckpoint(from), options);
  }

  /**
   * Reads the feed as a member of a group, from the checkpoint of the group on. An item is done
   * when the next one is asked for. The checkpoint of the done items is saved every 1,000 items or
   * 5 seconds, before a wait, and at the end; after a crash, the items since then come again. So
   * each item comes at least once.
   *
   * One member of a group works at a time. With `follow`, the others wait for it. A member that is
   * killed keeps its lease for a minute, and for six if its clock was wrong.
   * @throws CheckpointInvalidError if `from` is not a checkpoint. Reading throws it if the feed
   * ends before it and the group is new
   * @throws UsageError if the name of the group or another option is invalid. Reading throws
   * FeedGroupBusyError if another member works and this one does not wait, or if another member
   * took over since this one did not ask for the next item for 15 minutes
   */
  consume(group: string, options: FeedConsumeOptions = {}): AsyncGenerator<FeedItem, undefined> {
    checkGroupName(group);
    const { from = FEED_START } = checkOptions('consume', options);
    positionOfCheckpoint(from);
    return this.#consumeEach(group, from, options);
  }

  /**
   * Reads the feed as {@link consume} does, several items at a time. A batch has at least one item,
   * and those at the end of the feed may be smaller than `size`. A batch is done when the next one
   * is asked for, and is saved then.
   * @throws the errors of {@link consume}
   */
  consumeBatches(group: string, options: FeedBatchOptions = {}): AsyncGenerator<readonly FeedItem[], undefined> {
    checkGroupName(group);
    const { size = BATCH_SIZE, ...others } = options;
    const { from = FEED_START } = checkOptions('consumeBatches', others, ['size']);
    positionOfCheckpoint(from);
    checkCount('size', size);
    return this.#consume(group, from, others, size);
  }

  /** The checkpoint after the newest item, from which a reader gets only new ones. */
  async end(): Promise<number> {
    return checkpointOf(await this.#reader.end());
  }

  /**
   * Takes the lease of a group from the member that has it, for example one that is gone, and gives
   * it back. The group keeps its place. A member that still works ends with FeedGroupBusyError at
   * its next save.
   * @returns the group before
   * @throws UsageError if there is no such group
   */
  async release(group: string): Promise<FeedGroup> {
    checkGroupName(group);
    const found = await this.#deps.groups.get(group);
    if (found === undefined) {
      throw new UsageError(`there is no consumer group '${group}'`, {
        advice: "Run 'logfold feed --groups', which lists the groups",
      });
    }
    if (found.lease === undefined) return found;
    const member = await GroupMember.join(this.#deps, { group, from: found.checkpoint, otherwise: 'take over' });
    await member?.leave();
    return found;
  }

  /** All consumer groups, in order of name. */
  async groups(): Promise<readonly FeedGroupStatus[]> {
    const end = await this.end();
    const groups = await Array.fromAsync(this.#deps.groups.list());
    groups.sort((a, b) => (a.name < b.name ? -1 : 1));
    return Promise.all(groups.map(async (group) => ({ ...group, lagSeconds: await this.#lag(group, end) })));
  }

  async *#read(from: Position, options: FeedReadOptions): AsyncGenerator<FeedItem, undefined> {
    for await (const each of this.#items(from, undefined, options)) if ('item' in each) yield each.item;
  }

  async #lag({ checkpoint }: FeedGroup, end: number): Promise<number> {
    if (checkpoint >= end) return 0;
    const created = await this.#reader.createdAt(positionOfCheckpoint(checkpoint));
    return created === undefined ? 0 : Math.max(0, Math.floor(this.#deps.now() / 1000) - created);
  }

  async *#consumeEach(group: string, from: number, options: FeedConsumeOptions): AsyncGenerator<FeedItem, undefined> {
    for await (const batch of this.#consume(group, from, options)) yield* batch;
  }

  /** @param size the most items of a batch; one by one if undefined */
  async *#consume(
    group: string,
    from: number,
    options: FeedConsumeOptions,
    size?: number,
  ): AsyncGenerator<readonly FeedItem[], undefined> {
    const { follow: waits = false, signal } = options;
    // A checkpoint never falls, so a new group could not leave one that the feed does not have.
    if (from !== FEED_START && (await this.#deps.groups.get(group)) === undefined) {
      await this.#reader.requireReached(positionOfCheckpoint(from));
    }
    const otherwise = waits ? 'wait' : 'fail';
    const member = await GroupMember.join(this.#deps, { group, from, otherwise, signal });
    if (member === undefined) return;
    let hasFailed = false;
    try {
      const { checkpoint, within } = member.place;
      for await (const read of inBatches(this.#items(positionOfCheckpoint(checkpoint), within, options), size ?? 1)) {
        if ('end' in read) {
          member.reached(read.end);
          if (waits) await member.pause();
          continue;
        }
        if (isAborted(signal)) return;
        yield read.items;
        await member.done(read.after, { isBatch: size !== undefined });
      }
    } catch (error) {
      hasFailed = true;
      throw error;
    } finally {
      // The first error counts. Without this save, items come again.
      await member.leave().catch((error: unknown) => {
        if (!hasFailed) throw error;
      });
    }
  }

  async *#items(
    from: Position,
    within: SpanPlace | undefined,
    { follow = false, signal, limit = Number.POSITIVE_INFINITY, skipExpired = false }: FeedReadOptions,
  ): AsyncGenerator<PlacedItem | ReachedEnd, undefined> {
    let next = await this.#reader.startFrom(from);
    for (let left = limit; ; ) {
      const isFirst = comparePositions(next, from) === 0;
      let reached = next;
      const pass = this.#reader.pass(next, { within: isFirst ? within : undefined, skipExpired, isFresh: !follow });
      try {
        for await (const item of pass.items) {
          if (isAborted(signal)) return;
          reached = positionOfCheckpoint(item.item.checkpoint);
          yield item;
          left--;
          if (left === 0) return;
        }
      } catch (error) {
        // The pass may have gone on across a restart already.
        const restart = isMissing(error) ? await this.#reader.restartAfter(reached) : undefined;
        if (restart === undefined) throw error;
        next = restart;
        continue;
      }
      next = pass.end;
      yield { end: checkpointOf(next) };
      if (!follow || isAborted(signal)) return;
      await this.#deps.sleep(FOLLOW_MS, signal);
      if (isAborted(signal)) return;
    }
  }
}

/**
 * Whether the feed names entries that do not exist. If the tables went back to an earlier state,
 * they come again after a restart of the feed.
 */
function isMissing(error: unknown): boolean {
  return error instanceof EntryGapError || error instanceof LogNotFoundError;
}

/** The signal may have been aborted during a wait, which the compiler does not know. */
function isAborted(signal: AbortSignal | undefined): boolean {
  return signal?.aborted === true;
}

/** Items that are done together, and the place after them. */
interface Batch {
  readonly items: readonly FeedItem[];
  readonly after: FeedPlace;
}

/** Batches of this many items, and fewer before an end. */
async function* inBatches(
  read: AsyncIterable<PlacedItem | ReachedEnd>,
  size: number,
): AsyncGenerator<Batch | ReachedEnd> {
  let items: FeedItem[] = [];
  let last: FeedPlace | undefined;
  for await (const each of read) {
    if ('item' in each) {
      items.push(each.item);
      last = each.after;
    }
    if (last !== undefined && ('end' in each || items.length >= size)) {
      yield { items, after: last };
      [items, last] = [[], undefined];
    }
    if ('end' in each) yield each;
  }
  if (last !== undefined) yield { items, after: last };
}

/** @param others names of further options of the call, which it checks itself */
function checkOptions(call: string, options: FeedReadOptions, others: readonly string[] = []): FeedReadOptions {
  const names = ['from', 'follow', 'signal', 'limit', 'skipExpired'] satisfies (keyof FeedReadOptions)[];
  checkOptionNames(call, options, [...names, ...others]);
  checkCount('limit', options.limit ?? 1);
  return options;
}

function checkCount(name: string, count: number): void {
  if (Number.isSafeInteger(count) && count > 0) return;
  throw new UsageError(`the ${name} ${String(count)} is not a positive integer`);
}
