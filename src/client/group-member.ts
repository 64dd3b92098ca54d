import pLimit from 'p-limit';
import { dateAt } from '../codec/value.ts';
import { FeedGroupBusyError, shellWord } from '../errors.ts';
import type { FeedPlace, GroupLease, GroupStore } from '../feed/group-store.ts';
import { epochSeconds } from '../log/entry.ts';

export interface GroupMemberDeps {
  readonly groups: GroupStore;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** From 0 up to but not including 1. */
  readonly random: () => number;
  /** Resolves after a time in milliseconds, or as soon as the signal is aborted. */
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>;
}

export interface JoinOptions {
  readonly group: string;
  /** Checkpoint of a group that is new. */
  readonly from: number;
  /** The answer to another member that has the lease. */
  readonly otherwise: 'wait' | 'fail' | 'take over';
  /** Ends the wait. */
  readonly signal?: AbortSignal | undefined;
}

/** How long a lease lasts, in milliseconds. */
const LEASE_MS = 60_000;
/** Time between two renewals of a member that works on one item, in milliseconds. */
const RENEW_MS = 20_000;
/** The most renewals while a member works on one item. Then it may have stopped for good. */
const MAX_RENEWALS = 45;
/** Time between two attempts to take the lease, in milliseconds. */
const RETRY_MS = 5_000;
/** How far the clocks of members may differ, in milliseconds. No lease counts that ends later. */
const CLOCK_ERROR_MS = 5 * 60_000;
/** The place is saved after this many items, or after this time in milliseconds. */
const SAVE_ITEMS = 1_000;
const SAVE_MS = 5_000;

/** The member of a consumer group that works: it has the lease, and saves the place. */
export class GroupMember {
  readonly #deps: GroupMemberDeps;
  readonly #group: string;
  readonly #owner: string;
  /** Writes of this member: one at a time, so that they arrive in order. */
  readonly #writes = pLimit(1);
  readonly #left = new AbortController();
  #place: FeedPlace;
  #saved: FeedPlace;
  #savedMs: number;
  #items = 0;
  #renewals = 0;
  #isRenewing = false;
  #isLost = false;

  private constructor(deps: GroupMemberDeps, group: string, owner: string, place: FeedPlace) {
    this.#deps = deps;
    this.#group = group;
    this.#owner = owner;
    this.#place = place;
    this.#saved = place;
    this.#savedMs = deps.now();
    this.#keepLease();
  }

  /**
   * Takes the lease of a group. The caller must leave the group.
   *
   * A lease whose member died ends after its length. A caller that waits believes no
   * clock: it sees that the lease is not renewed for so long. Another caller compares with its
   * clock, and does not believe a lease that ends later than an honest one could.
   * @returns undefined if the signal was aborted first
   * @throws FeedGroupBusyError if another member has the lease and `otherwise` is `fail`
   */
  static async join(deps: GroupMemberDeps, options: JoinOptions): Promise<GroupMember | undefined> {
    const { group, from, otherwise, signal } = options;
    const owner = Array.from({ length: 4 }, () => Math.floor(deps.random() * 2 ** 32).toString(36)).join('-');
    let over: GroupLease | undefined;
    let seen: GroupLease | undefined;
    /** Time in which the seen lease was not renewed, in milliseconds. */
    let seenMs = 0;
    while (signal?.aborted !== true) {
      const now = deps.now();
      const first = { checkpoint: from, saved: epochSeconds(now) };
      const mine = { owner, until: now + LEASE_MS };
      const { lease, checkpoint, within } = await deps.groups.take(group, mine, first, over);
      if (lease === undefined || lease.owner === owner) {
        return new GroupMember(deps, group, owner, { checkpoint, within });
      }
      if (otherwise !== 'wait') {
        const isFree = otherwise === 'take over' || (over === undefined && isOver(lease, now));
        if (!isFree) throw busy(group, lease);
        // If its member renews the lease in the meantime, it is another one.
        over = lease;
        continue;
      }
      if (lease.owner !== seen?.owner || lease.until !== seen.until) [seen, seenMs] = [lease, 0];
      over = seenMs >= LEASE_MS ? lease : undefined;
      if (over !== undefined) continue;
      await deps.sleep(RETRY_MS, signal);
      seenMs += RETRY_MS;
    }
    return undefined;
  }

  /** The place at which the group continues. */
  get place(): FeedPlace {
    return this.#place;
  }

  /**
   * The member has done an item or a batch. Saves the place after a batch, and after items now
   * and then.
   * @throws FeedGroupBusyError if the group was released, or another member has taken over
   */
  async done(place: FeedPlace, { isBatch }: { readonly isBatch: boolean }): Promise<void> {
    this.#place = place;
    this.#items++;
    if (isBatch || this.#items >= SAVE_ITEMS || Math.abs(this.#deps.now() - this.#savedMs) >= SAVE_MS)
      await this.#save();
    this.#checkLease();
    this.#keepLease();
  }

  /** There is no item before a checkpoint that the member has not done. */
  reached(checkpoint: number): void {
    if (checkpoint > this.#place.checkpoint) this.#place = { checkpoint };
  }

  /**
   * The member is about to wait for the next item. Saves the place if it has moved.
   * @throws FeedGroupBusyError if the group was released, or another member has taken over
   */
  async pause(): Promise<void> {
    if (this.#place !== this.#saved) await this.#save();
    this.#checkLease();
    this.#keepLease();
  }

  /** Saves the place, and gives the lease back. */
  async leave(): Promise<void> {
    this.#left.abort();
    await this.#writes(async () => {
      const progress = { ...this.#place, saved: epochSeconds(this.#deps.now()) };
      if (!this.#isLost) await this.#deps.groups.release(this.#group, this.#owner, progress);
    });
  }

  #save(): Promise<void> {
    return this.#writes(async () => {
      if (this.#isLost || this.#left.signal.aborted) return;
      const place = this.#place;
      const now = this.#deps.now();
      const lease = { owner: this.#owner, until: now + LEASE_MS };
      const progress = { ...place, saved: epochSeconds(now) };
      this.#isLost = !(await this.#deps.groups.save(this.#group, lease, progress));
      this.#saved = place;
      this.#savedMs = now;
      this.#items = 0;
    });
  }

  #checkLease(): void {
    if (!this.#isLost) return;
    throw new FeedGroupBusyError(`group '${this.#group}' was released, or another member of it has taken over`, {
      advice: 'Read again as a member of the group; the items since the last save come again',
    });
  }

  /** The member is at work, so it may renew its lease for another while. */
  #keepLease(): void {
    this.#renewals = 0;
    if (this.#isRenewing) return;
    this.#isRenewing = true;
    const stop = (): void => {
      this.#isRenewing = false;
    };
    this.#renew().then(stop, stop);
  }

  async #renew(): Promise<void> {
    const { signal } = this.#left;
    for (; this.#renewals < MAX_RENEWALS; this.#renewals++) {
      await this.#deps.sleep(RENEW_MS, signal);
      if (signal.aborted || this.#isLost) return;
      // The next save reports the error.
      await this.#save().catch(() => undefined);
    }
  }
}

/** Whether no honest member can have a lease any more, or yet. @param now epoch milliseconds */
function isOver({ until }: GroupLease, now: number): boolean {
  return until <= now || until > now + LEASE_MS + CLOCK_ERROR_MS;
}

function busy(group: string, lease: GroupLease): FeedGroupBusyError {
  const until = dateAt(lease.until).toISOString();
  return new FeedGroupBusyError(`another member of group '${group}' reads the feed`, {
    advice: `Try again when it has ended, at the latest after ${until}, or wait with \`follow\`, on the command line --follow. If that member is gone, run 'logfold feed --group ${shellWord(group)} --release'`,
  });
}
