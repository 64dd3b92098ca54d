import { UsageError } from '../errors.ts';
import type { Position } from '../ids/position.ts';

/** A place in the feed: everything before it is done. */
export interface FeedPlace {
  /** The checkpoint of the feed's first entry whose items are not all done. */
  readonly checkpoint: number;
  /** The items of that entry that are done; absent if none is. */
  readonly within?: SpanPlace | undefined;
}

/** A place among the items of one entry of the feed: after an entry of a span. */
export interface SpanPlace {
  /** Index of the span in the entry of the feed. All spans before it are done. */
  readonly span: number;
  /** The last entry of the span that is done. */
  readonly to: Position;
}

/** How far a group is. */
export interface GroupProgress extends FeedPlace {
  /** Epoch seconds. */
  readonly saved: number;
}

/** A consumer group of the feed, and the place at which it continues. */
export interface FeedGroup extends GroupProgress {
  readonly name: string;
  /** The member that works, even if its time is over. Absent if no member has the lease. */
  readonly lease?: GroupLease;
}

/** The right of one member to work for its group. */
export interface GroupLease {
  /** A random name, which no other member has. */
  readonly owner: string;
  /** Epoch milliseconds by the clock of its member, which may be wrong. Each save changes it. */
  readonly until: number;
}

/** Remembers the groups that consume the feed. A write may be repeated: the result is the same. */
export interface GroupStore {
  /** The group with its newest checkpoint; undefined if no member ever took its lease. */
  get(name: string): Promise<FeedGroup | undefined>;

  /** All groups, in no order. May miss the newest changes. */
  list(): AsyncIterable<FeedGroup>;

  /**
   * Takes the lease of a group for its owner, if no other member has it, or one has exactly the
   * lease `over`. Creates the group if it is new.
   * @param first progress of a new group
   * @param over a lease of another member that the caller takes over; none by default
   * @returns the group afterwards, with the lease of the other member if that one keeps it
   */
  take(name: string, lease: GroupLease, first: GroupProgress, over?: GroupLease): Promise<FeedGroup>;

  /**
   * Saves a place, and renews the lease. Changes nothing if another member has the lease or
   * the group has a later checkpoint.
   * @returns whether the group has this place and this lease afterwards
   */
  save(name: string, lease: GroupLease, progress: GroupProgress): Promise<boolean>;

  /**
   * Saves a place, and gives the lease back. Changes nothing if another member has the lease
   * or the group has a later checkpoint.
   */
  release(name: string, owner: string, progress: GroupProgress): Promise<void>;
}

/** The longest name of a group, in UTF-16 code units. */
const MAX_NAME = 256;

/** @throws UsageError if a group cannot have this name */
export function checkGroupName(name: unknown): asserts name is string {
  if (typeof name === 'string' && name !== '' && name.length <= MAX_NAME && name.isWellFormed()) return;
  throw new UsageError(
    `${typeof name === 'string' ? `'${name.slice(0, 100)}'` : String(name)} cannot be the name of a group`,
    { advice: `Give a name of 1 to ${MAX_NAME} characters, such as 'search'` },
  );
}
