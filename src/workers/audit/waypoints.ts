import type { LogId } from '../../ids/log-id.ts';
import { comparePositions, type Position, START } from '../../ids/position.ts';
import { type Entry, type RootRef, rootOf } from '../../log/entry.ts';
import type { Segment } from '../../log/segment.ts';
import type { BuildDeps } from '../../snapshot/build.ts';
import { isDamage } from '../../snapshot/progress.ts';
import { otherReducer, type Root } from '../../snapshot/root.ts';
import { loadRoot } from '../../snapshot/snapshots.ts';
import { readCollected } from '../gc/collection-record.ts';
import { keepsRoot } from '../gc/kept-roots.ts';

/**
 * About how many snapshots a run compares: enough that little is folded twice, and few enough to
 * cost little.
 */
const LOOKS = 16;

export interface WaypointDeps extends BuildDeps {
  readonly now: () => number;
  readonly deadline: number;
}

/**
 * Chooses the stored snapshots that a run of a replay compares on its way. It looks at one in each
 * sixteenth of the time limit, the first after a sixteenth. A replay that ends before that makes no
 * request for it. It skips snapshots that are dropped or damaged, or that another reducer made.
 */
export class Waypoints {
  readonly #deps: WaypointDeps;
  readonly #log: LogId;
  readonly #snapshotType: string;
  /** Milliseconds. */
  readonly #interval: number;
  #nextLook: number;
  /** The last snapshot that was looked at, or the start of the run. */
  #passed: Position;
  #chosen: Root | undefined;
  #dropped: ReadonlyMap<string, number> | undefined;
  #segment: Segment | undefined;

  /** @param from the start of the run; the log's beginning by default */
  constructor(deps: WaypointDeps, log: LogId, from: Position = START) {
    this.#deps = deps;
    this.#log = log;
    this.#snapshotType = deps.types.snapshot;
    this.#interval = (deps.deadline - deps.now()) / LOOKS;
    this.#nextLook = deps.now() + this.#interval;
    this.#passed = from;
  }

  /**
   * Whether the fold must stop before an entry, so that {@link compare} can compare the snapshot
   * that it carries.
   */
  isDue(entry: Entry): boolean | Promise<boolean> {
    if (entry.type !== this.#snapshotType || comparePositions(entry.position, this.#passed) <= 0) return false;
    const ref = rootOf(entry);
    if (ref === undefined || this.#deps.now() < this.#nextLook) return false;
    return this.#choose(entry.position, ref);
  }

  /**
   * Compares the snapshot for which the fold has stopped.
   * @returns undefined if the fold has not stopped for a snapshot, or if a chunk is missing or
   * damaged
   */
  async compare<T>(how: (stored: Root) => Promise<T>): Promise<T | undefined> {
    const chosen = this.#chosen;
    this.#chosen = undefined;
    const compared = chosen && (await unlessDamaged(how(chosen)));
    this.#nextLook = this.#deps.now() + this.#interval;
    return compared;
  }

  async #choose(position: Position, ref: RootRef): Promise<boolean> {
    if (!(await this.#isKept(position))) return false;
    this.#passed = position;
    this.#nextLook = this.#deps.now() + this.#interval;
    const root = await unlessDamaged(loadRoot(this.#deps, { log: this.#log, position }, ref));
    if (root === undefined || otherReducer(root, this.#deps.reducer) !== undefined) return false;
    this.#chosen = root;
    return true;
  }

  async #isKept({ segment, entry }: Position): Promise<boolean> {
    const { store, blobs } = this.#deps;
    if (this.#segment?.segment !== segment) {
      this.#segment = await store.getSegment(this.#log, segment, { consistent: true });
    }
    this.#dropped ??= new Map((await readCollected(blobs, this.#log)).dropped);
    const kept = { keepSnapshots: 'all', dropped: this.#dropped } as const;
    return this.#segment !== undefined && keepsRoot(this.#segment, entry, kept);
  }
}

/** A damaged snapshot is skipped, because a later one serves as well. */
async function unlessDamaged<T>(reading: Promise<T>): Promise<T | undefined> {
  try {
    return await reading;
  } catch (error) {
    if (!isDamage(error)) throw error;
    return undefined;
  }
}
