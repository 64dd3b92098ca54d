import { ChunkMissingError, DocumentStoppedError, EntryGapError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { comparePositions, nextPosition, type Position, START } from '../ids/position.ts';
import type { AddedEntries, LogClient } from '../log/client.ts';
import type { CompletedSnapshot, Entry, EntryHead, ReservedTypes } from '../log/entry.ts';
import { type LogAttributes, type SeenAttributes, seeAttributes } from '../log/log-attributes.ts';
import { queryNewerSnapshot, queryNewestSegments, TRUST_MS } from '../log/newest.ts';
import { readUpTo } from '../log/read-entries.ts';
import { lastSnapshotOf, type Segment } from '../log/segment.ts';
import { type BadEntry, isSameBadEntry, type OnBadEntry } from '../snapshot/bad-entry.ts';
import type { LoadDeps } from '../snapshot/load.ts';
import type { SnapshotStores } from '../snapshot/snapshots.ts';
import type { FoldEntry, Reducer } from '../state/reducer.ts';
import { EMPTY_STATE, type State, stateTops } from '../state/state.ts';
import { Arrival, arrivedEntries, type LogChange } from './arrivals.ts';
import { LostAnswers } from './lost-answers.ts';
import { type Confirmed, FarBehind, type NewRange, type ReloadLimits, StateFolder } from './state-folder.ts';
import { loadTail, Tail } from './tail.ts';

export interface FollowerDeps extends SnapshotStores {
  readonly client: LogClient;
  readonly types: ReservedTypes;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** As in {@link LoadDeps}. */
  readonly onForeign?: LoadDeps['onForeign'];
}

export interface FollowOptions {
  readonly limits: ReloadLimits;
  /** As in {@link LoadOptions}. */
  readonly onBadEntry?: OnBadEntry | undefined;
}

/**
 * Follows one log with one reducer: holds the state of all entries up to a position, and reads
 * newer entries. When a newer snapshot completes, the follower forks its tail there, which
 * downloads nothing. The state itself moves onto the chunks of that snapshot later, when its own
 * nodes take too much memory.
 *
 * The methods must not overlap. A method that fails changes nothing.
 */
export class Follower {
  readonly log: LogId;
  #folder: StateFolder;
  readonly #deps: FollowerDeps;
  readonly #reducer: Reducer;
  readonly #options: FollowOptions;
  #confirmed: Confirmed = { state: EMPTY_STATE, end: START };
  #tail: Tail;
  /** Whether another reducer made the snapshot at which the tail begins. */
  #isForeign = false;
  #version = 0;
  #readMs = 0;
  #last: EntryHead | undefined;
  #move = new MoveTimer(0, false);
  #search = new SearchTimer();
  /** The newest snapshot after the bad entry, if another reducer made it. */
  #passedOver: Position | undefined;
  #newest = new Arrival();
  #attributes: SeenAttributes | undefined;
  readonly lost = new LostAnswers();

  private constructor(deps: FollowerDeps, log: LogId, reducer: Reducer, options: FollowOptions) {
    this.#deps = deps;
    this.log = log;
    this.#reducer = reducer;
    this.#options = options;
    this.#folder = new StateFolder(deps, log, reducer);
    this.#tail = new Tail(deps.types);
  }

  /** Loads a log. Throws the errors of {@link loadState}. */
  static async load(deps: FollowerDeps, log: LogId, reducer: Reducer, options: FollowOptions): Promise<Follower> {
    const follower = new Follower(deps, log, reducer, options);
    await follower.reload();
    return follower;
  }

  /** Folds entries onto the confirmed state. */
  get folder(): StateFolder {
    return this.#folder;
  }

  get confirmed(): Confirmed {
    return this.#confirmed;
  }

  /** The newest moment of the document: that of the confirmed state. */
  get newest(): Arrival {
    return this.#newest;
  }

  /** The snapshot on which the state stands; undefined for the beginning of the log. */
  get snapshot(): Position | undefined {
    return this.#isForeign ? undefined : this.#tail.base?.position;
  }

  /** The newest snapshot that is known, whichever reducer made it. */
  get #newestSnapshot(): Position {
    return this.#tail.base?.position ?? START;
  }

  /** The snapshot at which the tail begins, whichever reducer made it. */
  get base(): CompletedSnapshot | undefined {
    return this.#tail.base;
  }

  /** The last entry that was read. */
  get lastRead(): EntryHead | undefined {
    return this.#last;
  }

  /** The attributes of the log, as the newest segments that were read show them. */
  get attributes(): LogAttributes | undefined {
    return this.#attributes?.attributes;
  }

  /** Memory that no other log shares, about: the entries since the snapshot, and changed nodes. */
  get heldBytes(): number {
    return this.#tail.bytes + this.#folder.unsavedBytes(this.#confirmed.state);
  }

  /** Number of application entries that were folded; a reload counts as one. */
  get version(): number {
    return this.#version;
  }

  /**
   * Reads the entries since the last read and folds them. One query if there are none, and another
   * one now and then while a snapshot is pending. If too many entries are new, loads the newest
   * snapshot instead. Stopped at a bad entry, reads this one again and looks for a newer snapshot.
   */
  async refresh(): Promise<void> {
    try {
      const { badEntry } = this.#confirmed;
      if (badEntry === undefined || (await this.#passBadEntry(badEntry))) {
        await this.#readOn({ to: 'end', limits: this.#options.limits });
        await this.#searchSnapshot();
      }
      await this.#moveIfNeeded();
    } catch (error) {
      if (error instanceof ChunkMissingError) return this.reload();
      // Without an archive, the next entries may have expired.
      if (!(error instanceof FarBehind || error instanceof EntryGapError)) throw error;
      if (await this.#hasSnapshotAhead()) return this.reload();
      if (error instanceof EntryGapError) throw error;
      await this.readTo('end');
    }
  }

  /** @throws DocumentStoppedError if the follower has stopped at a bad entry */
  checkAppends(): void {
    const { badEntry } = this.#confirmed;
    if (badEntry !== undefined) throw stopped(this.log, badEntry);
  }

  /** Loads the newest snapshot and the entries since, in place of the current state. */
  async reload(): Promise<void> {
    const { store, types, now } = this.#deps;
    const startedMs = now();
    const deps = { ...this.#deps, reducer: this.#reducer };
    const onSegments = (segments: readonly Segment[]): void => this.#see(segments);
    const loaded = await loadTail(deps, this.#folder, { ...this.#options, onSegments });
    const { folder, tail, last, state, base, end, badEntry } = loaded;
    const order = comparePositions(end, this.#confirmed.end);
    // The state has entries that cannot be folded any more.
    if (order < 0 && badEntry !== undefined) throw badEntry.error;
    // A stale read must not take the document back.
    if (order < 0) return;
    if (!this.lost.isEmpty) {
      const range = { from: this.#confirmed.end, to: end };
      for await (const page of readUpTo({ store, types }, this.log, range)) this.lost.note(page);
    }
    // With equal numbers, only Snapshot and End Segment entries are new.
    if (order > 0 && (last?.number === undefined || last.number !== this.#last?.number)) {
      this.#version++;
      this.#arrive([{ from: this.#confirmed.end, to: end, state: this.#confirmed.state, folder: this.#folder }]);
    }
    this.#folder = folder;
    // A stale read may show the entry of the snapshot without its root.
    if (tail.base === undefined && base !== undefined) tail.fork(base);
    this.#tail = tail;
    this.#isForeign = base === undefined && this.#tail.base !== undefined;
    const isForked = comparePositions(this.#newestSnapshot, base?.position ?? START) !== 0;
    this.#move = new MoveTimer(startedMs, isForked);
    this.#read({ state, end, badEntry }, last, startedMs);
  }

  /** Like {@link #readOn}. If chunks of the state are gone, loads the newest snapshot first. */
  async readTo(to: Position | 'end'): Promise<void> {
    try {
      await this.#readOn({ to });
    } catch (error) {
      if (!(error instanceof ChunkMissingError)) throw error;
      await this.reload();
      await this.#readOn({ to });
    }
  }

  /**
   * Reads and folds new entries, up to a bad one if the follower stops there. With `to: 'end'` it
   * may miss the newest; with a position it misses none before it.
   * @throws FarBehind if there are more than the limits allow
   */
  async #readOn({ to, limits }: NewRange): Promise<void> {
    const { types, now } = this.#deps;
    const startedMs = now();
    const { state: before, end: from } = this.#confirmed;
    if (to !== 'end' && comparePositions(to, from) <= 0) return;
    const { onBadEntry } = this.#options;
    // Skipped entries could include those whose answer was lost.
    const range = { to, limits: this.lost.isEmpty ? limits : undefined, onBadEntry };
    const { draft, entries, effective, badEntry } = await this.#folder.foldAfter(this.#confirmed, range);
    const changes = entries.filter(({ type }) => !types.includes(type)).length;
    const state = changes === 0 ? before : await draft.state();
    const last = entries.at(-1);
    this.#version += changes;
    this.#arrive(arrivedEntries(entries, effective));
    this.lost.note(entries);
    if (this.#tail.add(entries)) this.#forked();
    const end = last === undefined ? from : nextPosition(last.position);
    this.#read({ state, end, badEntry }, last, startedMs);
  }

  /** Goes on after a bad entry, if it can be folded by now or a newer snapshot has its effect. */
  async #passBadEntry({ position }: BadEntry): Promise<boolean> {
    await this.#readOn({ to: nextPosition(position) });
    if (this.#confirmed.badEntry === undefined) return true;
    const newer = await this.#querySnapshot(this.#passedOver ?? this.#newestSnapshot);
    if (newer === undefined) return false;
    if (comparePositions(newer.position, position) < 0) this.#heardOf(newer);
    else if ((await this.#folder.ownRoot(newer)) !== undefined) await this.reload();
    else this.#passedOver = newer.position;
    return this.#confirmed.badEntry === undefined;
  }

  /** @param last the last entry that was read; undefined if nothing was new */
  #read(confirmed: Confirmed, last: EntryHead | undefined, startedMs: number): void {
    const { badEntry } = this.#confirmed;
    this.#last = last ?? this.#last;
    const { number } = this.#last ?? {};
    this.#confirmed = { ...confirmed, number };
    if (isSameBadEntry(badEntry, confirmed.badEntry)) this.#confirmed = { ...this.#confirmed, badEntry };
    this.#readMs = startedMs;
    if (!this.#tail.isPending) this.#move.knewNewest(startedMs);
    const isEnd = this.#confirmed.badEntry === undefined;
    if (this.#last !== undefined && isEnd) this.#deps.client.sawEnd(this.#last, startedMs);
  }

  /**
   * Takes entries as read that were just appended after the confirmed ones.
   * @param folded the confirmed state with the entries, if no others came in between, and those of
   * them that took effect
   */
  async appended(
    added: AddedEntries,
    drafts: readonly Entry[],
    { state, effective }: { readonly state: State; readonly effective: readonly FoldEntry[] },
  ): Promise<void> {
    const [first] = drafts;
    const last = drafts.at(-1);
    const isAsFolded = first?.number === added.firstNumber;
    if (first === undefined || !isAsFolded || comparePositions(first.position, added.first) !== 0) {
      // Snapshot or End Segment entries of other clients came in between.
      await this.readTo(nextPosition(added.last));
    } else {
      this.#version += drafts.length;
      this.#arrive(arrivedEntries(drafts, effective));
      if (this.#tail.add(drafts)) this.#forked();
      const number = added.firstNumber === undefined ? undefined : added.firstNumber + drafts.length - 1;
      this.#read({ state, end: nextPosition(added.last) }, last && { ...last, number }, this.#deps.now());
    }
    if (added.lastSnapshot !== undefined) this.#heardOf(added.lastSnapshot);
  }

  #arrive(changes: readonly LogChange[]): void {
    for (const change of changes) this.#newest = this.#newest.add(change);
  }

  /** Whether an append may meet entries that were not read, because the last read was long ago. */
  get isStale(): boolean {
    const age = this.#deps.now() - this.#readMs;
    // A clock that was set back does not show the age.
    return age < 0 || age > TRUST_MS / 2;
  }

  /** The newest known snapshot, if it is time to ask for a newer one. */
  askForSnapshot(): Position | undefined {
    return this.#startsSearch() ? this.#newestSnapshot : undefined;
  }

  #startsSearch(): boolean {
    return this.#tail.isPending && this.#search.starts(this.#deps.now());
  }

  async #searchSnapshot(): Promise<void> {
    if (!this.#startsSearch()) return;
    const newer = await this.#querySnapshot(this.#newestSnapshot);
    if (newer !== undefined) this.#heardOf(newer);
  }

  async #querySnapshot(standsOn: Position): Promise<CompletedSnapshot | undefined> {
    return queryNewerSnapshot(this.#deps.store, this.log, await this.#querySegments(), standsOn);
  }

  async #querySegments(): Promise<readonly Segment[]> {
    const segments = await queryNewestSegments(this.#deps.store, this.log);
    this.#see(segments);
    return segments;
  }

  #see(segments: readonly Segment[]): void {
    this.#attributes = seeAttributes(this.#attributes, segments);
  }

  /** Forks at a newer snapshot, unless its entry is beyond the entries that were read. */
  #heardOf(snapshot: CompletedSnapshot): void {
    if (this.#tail.fork(snapshot)) this.#forked();
  }

  #forked(): void {
    this.#move.forked(this.#deps.now());
    this.#search = new SearchTimer();
  }

  async #hasSnapshotAhead(): Promise<boolean> {
    const last = lastSnapshotOf(await this.#querySegments());
    return last !== undefined && comparePositions(last, this.#confirmed.end) > 0;
  }

  /** Moves the state onto the chunks of the snapshot at which the tail forked. */
  async #moveIfNeeded(): Promise<void> {
    const { base, entries } = this.#tail;
    const { state } = this.#confirmed;
    if (base === undefined || !this.#move.isDue(this.#deps.now(), this.#folder.unsavedBytes(state))) return;
    if (entries === undefined) return this.reload();
    const root = await this.#folder.ownRoot(base);
    this.#isForeign = root === undefined;
    if (root !== undefined) {
      // The snapshot shares most of these chunks, so the fold needs no download.
      this.#folder.nodes.remember(stateTops(state));
      const folder = this.#folder.renewed();
      this.#confirmed = { ...this.#confirmed, state: await folder.fold(root.state, entries) };
      this.#folder = folder;
    }
    this.#move.done();
  }
}

/** The error of an append to a document that has stopped at a bad entry. */
function stopped(log: LogId, { position, error }: BadEntry): DocumentStoppedError {
  const advice =
    "Correct the reducer and raise its version, or repair the entry; then run 'logfold resume LOG' and open the log again";
  const details = { log, ...position, type: error.type, advice, cause: error };
  return new DocumentStoppedError(
    `nothing was appended: the document has stopped at an entry that cannot be folded (${error.code}: ${error.reason})`,
    details,
  );
}

/** Bounds of the wait between two searches for a newer snapshot. */
const MIN_SEARCH_MS = 1_000;
const MAX_SEARCH_MS = 30_000;

/** Decides when a client looks for a newer snapshot: less and less often. */
class SearchTimer {
  #afterMs = 0;
  #waitMs = MIN_SEARCH_MS;

  /** Whether a search starts now. @param nowMs epoch milliseconds */
  starts(nowMs: number): boolean {
    if (nowMs < this.#afterMs) return false;
    this.#afterMs = nowMs + this.#waitMs;
    this.#waitMs = Math.min(this.#waitMs * 2, MAX_SEARCH_MS);
    return true;
  }
}

/** Above this memory of nodes that are in no chunk, a state moves onto the newer snapshot. */
const MOVE_BYTES = 4 * 1024 * 1024;
/**
 * After this time a state moves onto the newer snapshot in any case, in milliseconds. It is far
 * below every sensible grace period, after which the chunks of the older snapshot may go.
 */
const MOVE_MS = 10 * 60_000;

/** Decides when a state moves onto the chunks of the newer snapshot at which its tail forked. */
class MoveTimer {
  /** Time of the last read at which no newer snapshot could be complete. */
  #newestMs: number;
  /** The earliest time at which a newer snapshot may have completed; undefined before a fork. */
  #forkedMs: number | undefined;

  /**
   * @param nowMs time before the state was loaded, in epoch milliseconds
   * @param isForked whether the tail has forked at a newer snapshot already
   */
  constructor(nowMs: number, isForked: boolean) {
    this.#newestMs = nowMs;
    if (isForked) this.forked(nowMs);
  }

  /** Notes that no newer snapshot could be complete at a time. */
  knewNewest(ms: number): void {
    this.#newestMs = ms;
  }

  /**
   * Notes that the tail forked at the newest complete snapshot. That one may have completed long
   * before, while nobody used the document.
   */
  forked(nowMs: number): void {
    this.#forkedMs ??= this.#newestMs;
    this.#newestMs = nowMs;
  }

  /** Notes that the state has moved. */
  done(): void {
    this.#forkedMs = undefined;
  }

  /** Whether the state moves now. @param unsavedBytes memory of its nodes that are in no chunk */
  isDue(nowMs: number, unsavedBytes: number): boolean {
    if (this.#forkedMs === undefined) return false;
    return unsavedBytes >= MOVE_BYTES || nowMs - this.#forkedMs >= MOVE_MS;
  }
}
