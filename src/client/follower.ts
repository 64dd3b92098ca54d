import { ChunkMissingError, EntryExistsError, EntryGapError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { comparePositions, MAX_NUMBER, nextPosition, type Position, previousPosition, START } from '../ids/position.ts';
import { Attempts, Contention, type RetryLimits } from '../log/backoff.ts';
import type { AddedEntries, AppendOptions, LogClient } from '../log/client.ts';
import { DEFAULT_RETRIES } from '../log/client-context.ts';
import type { CompletedSnapshot, Entry, EntryHead, ReservedTypes } from '../log/entry.ts';
import { queryNewerSnapshot, queryNewestSegments, TRUST_MS } from '../log/newest.ts';
import { readUpTo } from '../log/read-entries.ts';
import { lastSnapshotOf } from '../log/segment.ts';
import { type BadEntry, isSameBadEntry } from '../snapshot/bad-entry.ts';
import type { LoadDeps } from '../snapshot/load.ts';
import type { SnapshotStores } from '../snapshot/snapshots.ts';
import type { Reducer } from '../state/reducer.ts';
import { EMPTY_STATE, type State, stateTops } from '../state/state.ts';
import { AppliedMutations } from './applied-mutations.ts';
import { type DraftedEntry, entriesAt, lastOf } from './drafted-entry.ts';
import { appendStopped, appendUncertain, isUncertain, LostAnswers } from './lost-answers.ts';
import { type Confirmed, FarBehind, type FollowOptions, foldAfter, type NewRange } from './new-entries.ts';
import { MoveTimer, SearchTimer } from './snapshot-timers.ts';
import { StateFolder } from './state-folder.ts';
import { loadTail, Tail } from './tail.ts';

export interface FollowerDeps extends SnapshotStores {
  readonly client: LogClient;
  readonly types: ReservedTypes;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** From 0 up to but not including 1. */
  readonly random: () => number;
  /** As in {@link LogClientDeps}. */
  readonly retries?: RetryLimits;
  /** As in {@link LoadDeps}. */
  readonly onForeign?: LoadDeps['onForeign'];
}

/** Attempts to append after a lost answer. */
const UNCERTAIN_ATTEMPTS = 3;

/**
 * Follows one log with one reducer: holds the state of all entries up to a position, reads newer
 * entries and appends. When a newer snapshot completes, the follower forks its tail there, which
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
  readonly #mutations: AppliedMutations;
  readonly #contention: Contention;
  readonly lost = new LostAnswers();

  private constructor(deps: FollowerDeps, log: LogId, reducer: Reducer, options: FollowOptions) {
    this.#deps = deps;
    this.log = log;
    this.#reducer = reducer;
    this.#options = options;
    this.#folder = new StateFolder(deps, log, reducer);
    this.#tail = new Tail(deps.types);
    this.#mutations = new AppliedMutations(deps);
    this.#contention = new Contention(deps.retries ?? DEFAULT_RETRIES, deps.now);
  }

  /** Loads a log. Throws the errors of {@link loadState}. */
  static async load(deps: FollowerDeps, log: LogId, reducer: Reducer, options: FollowOptions): Promise<Follower> {
    const follower = new Follower(deps, log, reducer, options);
    await follower.#reload();
    return follower;
  }

  /** Folds entries onto the confirmed state. */
  get folder(): StateFolder {
    return this.#folder;
  }

  get confirmed(): Confirmed {
    return this.#confirmed;
  }

  /** The snapshot on which the state stands; undefined for the beginning of the log. */
  get snapshot(): Position | undefined {
    return this.#isForeign ? undefined : this.#tail.base?.position;
  }

  /** The newest snapshot that is known, whichever reducer made it. */
  get #newestSnapshot(): Position {
    return this.#tail.base?.position ?? START;
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
      if (error instanceof ChunkMissingError) return this.#reload();
      // Without an archive, the next entries may have expired.
      if (!(error instanceof FarBehind || error instanceof EntryGapError)) throw error;
      if (await this.#hasSnapshotAhead()) return this.#reload();
      if (error instanceof EntryGapError) throw error;
      await this.#readTo('end');
    }
  }

  /**
   * Appends entries directly after the last entry of the log, and folds them. Folds them first: an
   * entry that the reducer rejects is not appended. If others appended in the meantime, reads their
   * entries, waits and tries again, unless `after` is given. After a lost answer, looks for the
   * entries in the log.
   * @param sleep waits for a time in milliseconds, or throws to give up
   * @returns undefined if the log has applied the entries' mutations already; nothing is appended
   * @throws MutationOvertakenError if a mutation never takes effect; nothing is appended
   * @throws AttemptsExhaustedError if other clients were faster in every attempt
   * @throws EntryRejectedError if the reducer rejects an entry
   * @throws DocumentStoppedError if the follower has stopped at a bad entry; nothing is appended
   * @throws EntryExistsError if `after` is given and other application entries follow it
   * @throws AppendUncertainError if the answer was lost and the log cannot be read either
   * @throws the errors of {@link LogClient.addEntries}
   */
  async append(
    entries: readonly DraftedEntry[],
    options: AppendOptions,
    sleep: (ms: number) => Promise<void>,
  ): Promise<AddedEntries | undefined> {
    const isStale = this.#deps.now() - this.#readMs > TRUST_MS / 2;
    if (isStale || this.#confirmed.badEntry !== undefined) await this.refresh();
    try {
      return await this.#append(entries, options, sleep);
    } catch (error) {
      if (!(error instanceof ChunkMissingError)) throw error;
      await this.#reload();
      return this.#append(entries, options, sleep);
    }
  }

  async #append(
    entries: readonly DraftedEntry[],
    options: AppendOptions,
    sleep: (ms: number) => Promise<void>,
  ): Promise<AddedEntries | undefined> {
    const { now, random, retries = DEFAULT_RETRIES } = this.#deps;
    const before = options.after === undefined ? this.#contention.before : 0;
    const how = { ...retries, now, random, sleep, before, failure: 'Appending failed', where: { log: this.log } };
    const attempts = new Attempts(how);
    let isWritten = false;
    try {
      if (before > 0) {
        await attempts.wait();
        await this.#readTo('end');
      }
      const added = await this.#attempt(entries, options, attempts);
      isWritten = added !== undefined;
      return added;
    } finally {
      if (options.after === undefined) this.#contention.ended({ before, failures: attempts.failures, isWritten });
    }
  }

  async #attempt(
    entries: readonly DraftedEntry[],
    options: AppendOptions,
    attempts: Attempts,
  ): Promise<AddedEntries | undefined> {
    let uncertain = 0;
    for (;;) {
      const known = this.lost.take(entries);
      if (known !== undefined) return known;
      this.checkAppends();
      const drafts = entriesAt(this.log, this.#confirmed.end, entries);
      if (await this.#mutations.hasAll(entries, this.#folder, this.#confirmed, this.#tail.base)) return undefined;
      const state = await this.#folder.foldNew(this.#confirmed.state, drafts);
      let added: AddedEntries | undefined;
      try {
        added = await this.#put(entries, options);
        await this.#appended(added, drafts, state);
        return added;
      } catch (error) {
        const isConflict = error instanceof EntryExistsError;
        if (added === undefined && !isConflict && !isUncertain(error)) throw error;
        // After a lost answer, the other entry may be the own one.
        const isOthers = isConflict && options.after !== undefined;
        if (isOthers && uncertain === 0) throw error;
        const newest = isConflict && error.newest !== undefined ? nextPosition(error.newest) : this.#confirmed.end;
        if (!isConflict) await this.#findAppended(entries);
        else if (uncertain > 0) await this.#readTo(newest);
        if (!isConflict) uncertain++;
        const found = this.lost.take(entries);
        if (found !== undefined) return found;
        if (uncertain >= UNCERTAIN_ATTEMPTS || isOthers) throw error;
        await attempts.failed(error);
        // Others may have appended during the wait, and a lost request may have arrived.
        if (uncertain > 0) await this.#findAppended(entries);
        else await this.#readTo('end');
        await this.#readTo(newest);
      }
    }
  }

  /** @throws DocumentStoppedError if the follower has stopped at a bad entry */
  checkAppends(): void {
    const { badEntry } = this.#confirmed;
    if (badEntry !== undefined) throw appendStopped(this.log, badEntry);
  }

  /** Puts entries after the last known one, and asks for a newer snapshot now and then. */
  #put(entries: readonly DraftedEntry[], options: AppendOptions): Promise<AddedEntries> {
    const snapshot = this.#startsSearch() ? this.#newestSnapshot : undefined;
    const after = options.after ?? previousPosition(this.#confirmed.end);
    return this.#deps.client.addEntries(this.log, entries, { ...options, after, ...(snapshot && { snapshot }) });
  }

  /** Loads the newest snapshot and the entries since, in place of the current state. */
  async #reload(): Promise<void> {
    const { store, types, now } = this.#deps;
    const startedMs = now();
    const deps = { ...this.#deps, reducer: this.#reducer };
    const loaded = await loadTail(deps, this.#folder, this.#options);
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
    if (order > 0 && (last?.number === undefined || last.number !== this.#last?.number)) this.#version++;
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
  async #readTo(to: Position | 'end'): Promise<void> {
    try {
      await this.#readOn({ to });
    } catch (error) {
      if (!(error instanceof ChunkMissingError)) throw error;
      await this.#reload();
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
    const { draft, entries, badEntry } = await foldAfter(this.#deps, this.#folder, this.#confirmed, range);
    const changes = entries.filter(({ type }) => !types.includes(type)).length;
    const state = changes === 0 ? before : await draft.state();
    const last = entries.at(-1);
    this.#version += changes;
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
    else if ((await this.#folder.ownRoot(newer)) !== undefined) await this.#reload();
    else this.#passedOver = newer.position;
    return this.#confirmed.badEntry === undefined;
  }

  /** @param last the last entry that was read; undefined if nothing was new */
  #read(confirmed: Confirmed, last: EntryHead | undefined, startedMs: number): void {
    const { badEntry } = this.#confirmed;
    this.#confirmed = isSameBadEntry(badEntry, confirmed.badEntry) ? { ...confirmed, badEntry } : confirmed;
    this.#readMs = startedMs;
    if (!this.#tail.isPending) this.#move.knewNewest(startedMs);
    this.#last = last ?? this.#last;
    const isEnd = this.#confirmed.badEntry === undefined;
    if (this.#last !== undefined && isEnd) this.#deps.client.sawEnd(this.#last, startedMs);
  }

  async #appended(added: AddedEntries, drafts: readonly Entry[], state: State): Promise<void> {
    const [first] = drafts;
    if (first === undefined || comparePositions(first.position, added.first) !== 0) {
      // Snapshot or End Segment entries of other clients came in between.
      await this.#readTo(nextPosition(added.last));
    } else {
      this.#version += drafts.length;
      if (this.#tail.add(drafts)) this.#forked();
      this.#read({ state, end: nextPosition(added.last) }, lastOf(drafts, added), this.#deps.now());
    }
    if (added.lastSnapshot !== undefined) this.#heardOf(added.lastSnapshot);
  }

  /** Looks for entries in the log whose answer was lost. */
  async #findAppended(entries: readonly DraftedEntry[]): Promise<void> {
    this.lost.add(entries);
    try {
      await this.#readTo({ segment: MAX_NUMBER, entry: 0 });
    } catch (cause) {
      throw appendUncertain(this.log, cause);
    }
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
    const { store } = this.#deps;
    return queryNewerSnapshot(store, this.log, await queryNewestSegments(store, this.log), standsOn);
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
    const last = lastSnapshotOf(await queryNewestSegments(this.#deps.store, this.log));
    return last !== undefined && comparePositions(last, this.#confirmed.end) > 0;
  }

  /** Moves the state onto the chunks of the snapshot at which the tail forked. */
  async #moveIfNeeded(): Promise<void> {
    const { base, entries } = this.#tail;
    const { state } = this.#confirmed;
    if (base === undefined || !this.#move.isDue(this.#deps.now(), this.#folder.unsavedBytes(state))) return;
    if (entries === undefined) return this.#reload();
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
