import { UsageError } from '../errors.ts';

/** A consumer group of the feed. */
export interface FeedGroup {
  readonly name: string;
  /** The place at which the group continues. */
  readonly checkpoint: number;
  /** When the checkpoint was saved, in epoch seconds. */
  readonly saved: number;
  /** The member that works, even if its time is over. Absent if no member has the lease. */
  readonly lease?: GroupLease;
}

/** The right of one member to work for its group. */
export interface GroupLease {
  /** A random name, which no other member has. */
  readonly owner: string;
  /** Epoch milliseconds; afterwards any member may take the lease. */
  readonly until: number;
}

/** How far a member is. */
export interface GroupProgress {
  readonly checkpoint: number;
  /** Epoch seconds. */
  readonly saved: number;
}

/** Remembers the groups that consume the feed. A write may be repeated: the result is the same. */
export interface GroupStore {
  /** The group with its newest checkpoint; undefined if no member ever took its lease. */
  get(name: string): Promise<FeedGroup | undefined>;

  /** All groups, in no order. May miss the newest changes. */
  list(): AsyncIterable<FeedGroup>;

  /**
   * Takes the lease of a group for its owner, if no other member has it at the time `now`. Creates
   * the group if it is new.
   * @param first progress of a new group
   * @param now epoch milliseconds
   * @returns the group afterwards, with the lease of the other member if that one keeps it
   */
  take(name: string, lease: GroupLease, first: GroupProgress, now: number): Promise<FeedGroup>;

  /**
   * Saves a checkpoint, and renews the lease. Changes nothing if another member has the lease or
   * the group has a later checkpoint.
   * @returns whether the group has this checkpoint and this lease afterwards
   */
  save(name: string, lease: GroupLease, progress: GroupProgress): Promise<boolean>;

  /**
   * Saves a checkpoint, and gives the lease back. Changes nothing if another member has the lease
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
