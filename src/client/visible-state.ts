import pLimit from 'p-limit';
import { ChunkMissingError, EntryExistsError, EntryRejectedError } from '../errors.ts';
import { comparePositions, type Position } from '../ids/position.ts';
import { entriesAt } from '../log/new-entry.ts';
import type { BadEntry } from '../snapshot/bad-entry.ts';
import type { Reducer } from '../state/reducer.ts';
import { isSameState, type State } from '../state/state.ts';
import type { Arrival } from './arrivals.ts';
import { type Branch, type BranchItem, branchItemOf, draftsOf, rejectedAsWritten, type Unsent } from './branch.ts';
import { DocumentState } from './document-state.ts';
import type { Follower } from './follower.ts';
import { Listeners } from './listeners.ts';
import type { Rebaser } from './passage.ts';
import { BranchMove, PendingBranch } from './pending-branch.ts';
import { type Pending, PendingList, type StoredMutation } from './pending-list.ts';
import type { Confirmed, StateFolder } from './state-folder.ts';

/** A pending entry and its current form, after some entries on top of a confirmed state. */
interface ToFold extends Pick<Confirmed, 'end' | 'number'> {
  readonly pending: Pending;
  readonly item: BranchItem;
  readonly entries: number;
}

/** A state with the pending entries on top. */
interface FoldedPending {
  readonly state: State;
  /** The entries that still wait. */
  readonly pending: readonly Pending[];
  readonly move: BranchMove;
  /** The number of entries that they become. */
  readonly entries: number;
}

/**
 * The state that a document shows: the confirmed entries before a position, and the pending entries
 * on top. State, position and pending entries change together, one change at a time.
 */
export class VisibleState {
  readonly #follower: Follower;
  readonly #reducer: Reducer;
  readonly #rebaser: Rebaser;
  readonly #limit = pLimit(1);
  readonly #listeners = new Listeners();
  readonly pending = new PendingList();
  #state: DocumentState;
  /** Made the state, and holds its large values. */
  #folder: StateFolder;
  /** Version and state of the confirmed entries that the state includes. */
  #version: number;
  #confirmed: Confirmed;
  /** The pending entries as the state folds them, then those that were announced. */
  readonly #branch: PendingBranch;
  /** Entries that are not shown yet, in order. */
  readonly #announced = new Set<Pending>();
  /** Whether the state includes entries that no longer wait, or pending ones at other places. */
  #isOutdated = false;
  /** Entries that failed and whose authors learn it after the next update. */
  readonly #untold: Pending[] = [];
  #closed: Error | undefined;

  constructor(follower: Follower, reducer: Reducer, rebaser: Rebaser) {
    this.#follower = follower;
    this.#reducer = reducer;
    this.#rebaser = rebaser;
    this.#branch = new PendingBranch(follower.newest);
    this.#version = follower.version;
    this.#confirmed = follower.confirmed;
    this.#folder = follower.folder;
    this.#state = this.#stateOf(follower.confirmed.state);
  }

  get state(): DocumentState {
    return this.#state;
  }

  get position(): Position {
    return this.#confirmed.end;
  }

  /** The number of the entry before the position, if it has one. */
  get number(): number | undefined {
    return this.#confirmed.number;
  }

  /** The entry at which the state has stopped. */
  get badEntry(): BadEntry | undefined {
    return this.#confirmed.badEntry;
  }

  /** The first entry that waits to be sent. */
  get next(): Pending | undefined {
    return this.pending.next;
  }

  subscribe(listener: () => void): () => void {
    return this.#listeners.add(listener);
  }

  /** The entries that an author sees now and that the log may not have. */
  get waiting(): readonly Pending[] {
    return [...this.pending.entries.filter(({ isSettled }) => !isSettled), ...this.#announced];
  }

  /**
   * The branch with new entries at its end, whose author sees the state now and all entries that
   * were announced before.
   */
  author(unsent: readonly Unsent[]): () => Promise<Branch> {
    const seen = this.#branch.copy();
    const [folder, { state }] = [this.#folder, this.#confirmed];
    for (const each of unsent) each.repeats = each.draft.once && this.#branch.applying(each.draft.once);
    return async () => {
      for (const each of unsent) await noteApplied(each, folder, state);
      const { at, items } = seen();
      return { at, items: [...items, ...unsent.map(branchItemOf)] };
    };
  }

  /**
   * Notes an entry that is going to be shown. Its author sees the state now and all entries that
   * were announced before. Each needs a call of {@link add}, in order.
   */
  announce(pending: Pending): void {
    pending.repeats = pending.draft.once && this.#branch.applying(pending.draft.once);
    this.#announced.add(pending);
    this.#branch.add(branchItemOf(pending));
  }

  /**
   * Shows an announced entry on top of the others.
   * @throws EntryRejectedError if the reducer rejects it
   * @throws EntryDroppedError if it has lost its place
   * @throws DocumentStoppedError if the follower has stopped at a bad entry
   */
  async add(pending: Pending): Promise<void> {
    await this.#changes(async () => {
      this.#follower.checkAppends();
      await noteApplied(pending, this.#folder, this.#confirmed.state);
      const item = this.#branch.find(pending);
      if (item === undefined) throw pending.failure ?? new Error('an announced entry is not on the branch');
      const state = await this.#fold(this.#folder, this.#state.content, {
        pending,
        item,
        end: this.#confirmed.end,
        number: this.#confirmed.number,
        entries: this.#branch.entries,
      });
      const isSame = await this.#isSame(this.#folder, state);
      if (this.#closed !== undefined) throw this.#closed;
      this.#announced.delete(pending);
      this.pending.add(pending);
      this.#branch.show(item);
      this.#set(state, isSame);
    });
  }

  /** Takes back an announced entry that is not shown, and those that were written on top of it. */
  async refuse(pending: Pending, error: unknown): Promise<void> {
    pending.failure ??= error;
    this.#announced.delete(pending);
    await this.#changes(async () => {
      const move = new BranchMove(this.#branch, this.#rebaser, this.#branch.at);
      while (!move.isDone) await this.#carry(move);
      move.end(this.#branch.entries);
    });
  }

  /** The branch that ends with a pending entry. */
  branchOf(pending: Pending): () => Promise<Branch> {
    const copy = this.#branch.copy(pending);
    return async () => copy();
  }

  /**
   * Shows the confirmed state with the pending entries on top. A method that fails changes nothing;
   * the next call tries again.
   * @param how `compares` keeps the state object for the same content, also without a listener
   */
  async update(how: { readonly compares?: boolean } = {}): Promise<void> {
    await this.#changes(() => this.#update(how.compares));
  }

  /**
   * Takes off the pending ones an entry that the follower has just appended.
   * @param first its position; undefined if the log had its mutation already
   */
  async stored(pending: Pending, first: Position | undefined): Promise<void> {
    await this.#changes(async () => {
      this.pending.settle(pending);
      if (!this.#cameNext(pending, first)) await this.#updateOrLater();
    });
    pending.settled.resolve(storedMutation(pending, first));
  }

  /** Takes an entry that cannot be stored off the pending ones. */
  async failed(pending: Pending, error: unknown): Promise<void> {
    pending.failure ??= error;
    // The next one most likely fails for the same reason: then one update is for all of them.
    const waits = (): boolean => error instanceof EntryExistsError && this.next?.condition !== undefined;
    await this.#changes(async () => {
      this.pending.settle(pending);
      this.#untold.push(pending);
      if (waits()) this.#isOutdated = true;
      else await this.#updateOrLater();
    }, waits);
  }

  /** Shows the error of an entry that is sent again later. */
  postponed(pending: Pending, error: unknown): void {
    this.pending.postpone(pending, error);
    this.pending.announce();
  }

  /** Rejects the pending entries. The state stays as it is from now on. */
  close(error: Error): void {
    this.#closed ??= error;
    this.#tell();
    for (const { settled } of this.pending.entries) settled.reject(error);
    this.#listeners.clear();
    this.pending.close();
  }

  /** Runs one change after the others. Then notifies the listeners of the pending entries. */
  async #changes(run: () => Promise<void>, waits?: () => boolean): Promise<void> {
    await this.#limit(async () => {
      try {
        await run();
      } finally {
        this.pending.announce();
        if (waits?.() !== true) this.#tell();
      }
    });
  }

  /** Tells the authors of entries that failed. */
  #tell(): void {
    for (const { settled, failure } of this.#untold.splice(0)) settled.reject(failure);
  }

  /** Leaves the state as it is if that fails, for example because the store does not answer. */
  async #updateOrLater(): Promise<void> {
    this.#isOutdated = true;
    await this.#update().catch(() => undefined);
  }

  async #update(compares = false): Promise<void> {
    const { version, confirmed, folder, newest } = this.#follower;
    if (this.#closed !== undefined) return;
    if (version === this.#version && !this.#isOutdated) {
      this.#reach(confirmed);
      if (folder === this.#folder) return;
      // The same content on chunks of a newer snapshot.
      const folded = await this.#foldUnsettled(folder, confirmed, newest);
      while (this.#lacks(folded.move)) await this.#carry(folded.move);
      if (this.#isClosed()) return;
      this.#replacePending(folded);
      this.#folder = folder;
      DocumentState.move(this.#state, folder.nodes, folded.state);
      return;
    }
    const found = this.#settleFound();
    if (found !== undefined && this.#cameNext(found.pending, found.first)) return;
    this.#isOutdated = true;
    const folded = await this.#foldUnsettled(folder, confirmed, newest);
    const isSame = await this.#isSame(folder, folded.state, compares);
    while (this.#lacks(folded.move)) await this.#carry(folded.move);
    if (this.#isClosed()) return;
    this.#isOutdated = false;
    this.#replacePending(folded);
    this.#folder = folder;
    this.#version = version;
    this.#set(folded.state, isSame, confirmed);
  }

  #replacePending({ pending, move, entries }: FoldedPending): void {
    this.pending.replace(pending);
    move.end(entries);
  }

  /** Whether a move of the branch lacks entries that wait, such as those announced meanwhile. */
  #lacks(move: BranchMove): boolean {
    return !move.isDone && (this.pending.next !== undefined || this.#announced.size > 0);
  }

  async #carry(move: BranchMove): Promise<void> {
    const { state } = this.#confirmed;
    // A collection may have removed chunks of this state.
    for (const each of this.#announced) await noteApplied(each, this.#folder, state).catch(ignoreMissing);
    await move.carry();
  }

  /**
   * Takes an entry off the pending ones if it is the only new one of the log, at the place where
   * the state includes it already.
   */
  #cameNext(pending: Pending, first: Position | undefined): boolean {
    const { version, confirmed, folder, newest } = this.#follower;
    const isNext = first !== undefined && comparePositions(first, pending.foldedAt) === 0;
    // After a reload, one version may stand for several entries.
    const isLast = first?.segment === confirmed.end.segment && first.entry + 1 === confirmed.end.entry;
    const isOnly = version === this.#version + 1 && (folder === this.#folder || isLast);
    if (!isNext || !isOnly || this.#isOutdated || this.#closed !== undefined) return false;
    this.pending.remove(pending);
    this.#branch.remove(pending, newest);
    this.#version = version;
    this.#reach(confirmed);
    return true;
  }

  /** The pending entry whose answer was lost, if the follower has found it. It no longer waits. */
  #settleFound(): { readonly pending: Pending; readonly first: Position } | undefined {
    if (this.#follower.lost.isEmpty) return undefined;
    for (const pending of this.pending.entries) {
      const found = pending.isSettled ? undefined : this.#follower.lost.take(pending.draft);
      if (found === undefined) continue;
      this.pending.settle(pending);
      pending.settled.resolve(storedMutation(pending, found.first));
      return { pending, first: found.first };
    }
    return undefined;
  }

  /**
   * Folds the pending entries, moved onto a moment of the log. Leaves out those that no longer
   * wait, that the reducer rejects, or that have lost their place.
   */
  async #foldUnsettled(folder: StateFolder, confirmed: Confirmed, newest: Arrival): Promise<FoldedPending> {
    const move = new BranchMove(this.#branch, this.#rebaser, newest);
    if (this.#lacks(move)) await this.#carry(move);
    // The log had applied the mutations of these, so that nothing arrived for them.
    const done = new Set<Unsent>(
      this.pending.entries.filter(({ isSettled, failure }) => isSettled && failure === undefined),
    );
    move.leaveOut(({ unsent, isStored }) => done.has(unsent) && !isStored);
    let items = itemsOf(move);
    let { state } = confirmed;
    let entries = 0;
    const kept: Pending[] = [];
    for (const pending of this.pending.entries) {
      if (pending.isSettled) continue;
      try {
        if (pending.failure !== undefined) throw pending.failure;
        const item = items.get(pending);
        // Otherwise the log has the entry, and its writer is about to learn it.
        if (item !== undefined) {
          state = await this.#fold(folder, state, { ...confirmed, pending, item, entries });
          entries += draftsOf(item).length;
        }
        kept.push(pending);
      } catch (error) {
        if (!(error instanceof EntryRejectedError) && error !== pending.failure) throw error;
        pending.failure = error;
        this.#follower.lost.forget(pending.draft);
        this.pending.settle(pending);
        pending.settled.reject(error);
        await move.drop();
        items = itemsOf(move);
      }
    }
    return { state, pending: kept, move, entries };
  }

  async #fold(folder: StateFolder, state: State, { pending, item, end, number, entries }: ToFold): Promise<State> {
    const foldedAt = { segment: end.segment, entry: end.entry + entries };
    const before = number === undefined ? undefined : number + entries;
    const folded = await folder
      .foldNew(state, entriesAt(foldedAt, draftsOf(item), before))
      .catch((error: unknown) => Promise.reject(rejectedAsWritten(error, () => pending.index)));
    pending.foldedAt = foldedAt;
    return folded;
  }

  #isClosed(): boolean {
    return this.#closed !== undefined;
  }

  #stateOf(state: State): DocumentState {
    return new DocumentState(this.#folder.nodes, state, this.#reducer);
  }

  /**
   * Whether a state has the content that is shown. Without a listener, does not look for this in
   * chunks that nobody has read.
   */
  async #isSame(folder: StateFolder, state: State, compares = false): Promise<boolean> {
    if (isSameState(this.#state.content, state)) return true;
    if (!compares && this.#listeners.isEmpty) return false;
    return DocumentState.isSame(this.#state, folder.nodes, state);
  }

  /**
   * @param isSame whether the content is the same
   * @param confirmed what the state includes; by default what it included before
   */
  #set(state: State, isSame: boolean, confirmed = this.#confirmed): void {
    if (isSame) {
      DocumentState.move(this.#state, this.#folder.nodes, state);
      return this.#reach(confirmed);
    }
    this.#state = this.#stateOf(state);
    this.#confirmed = confirmed;
    this.#listeners.call();
  }

  /** Takes the place of the state. Calls the listeners if the bad entry is another one. */
  #reach(confirmed: Confirmed): void {
    const { badEntry } = this.#confirmed;
    this.#confirmed = confirmed;
    if (confirmed.badEntry !== badEntry) this.#listeners.call();
  }
}

function storedMutation({ dropped }: Pending, first: Position | undefined): StoredMutation | undefined {
  return first && { ...first, ...(dropped.length > 0 && { dropped }) };
}

/** Notes whether a new entry takes no effect, because the log had applied its mutation before. */
async function noteApplied(unsent: Unsent, folder: StateFolder, state: State): Promise<void> {
  const { once } = unsent.draft;
  if (once === undefined || unsent.isApplied !== undefined) return;
  unsent.isApplied = (await folder.highestMutation(state, once.client)) >= once.mutation;
  if (unsent.isApplied) unsent.repeats = undefined;
}

function ignoreMissing(error: unknown): void {
  if (!(error instanceof ChunkMissingError)) throw error;
}

function itemsOf({ items }: BranchMove): ReadonlyMap<Unsent, BranchItem> {
  return new Map(items.map((item) => [item.unsent, item]));
}
