import { equalBytes } from '../codec/bytes.ts';
import { EntryDroppedError, isLogfoldError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { encodeBody } from '../log/body.ts';
import type { EntrySource } from '../log/read-entries.ts';
import type { Rebased, RebaseSide, Reducer, UnplacedEntry } from '../state/reducer.ts';
import type { BlobStore } from '../store/blob-store.ts';
import { type Arrival, type ArrivedEntry, MAX_HELD_STRETCHES, readSkipped, type SkippedRange } from './arrivals.ts';
import {
  type Branch,
  type BranchItem,
  canSplit,
  hasNoEffect,
  isOwn,
  piecesOf,
  rebaseFailed,
  rewrittenPiece,
  type Unsent,
  type UnsentPiece,
  withoutFirst,
} from './branch.ts';

export interface RebaserDeps extends EntrySource {
  readonly blobs: BlobStore;
  readonly reducer: Reducer;
}

/** Moves branches on with the log, with the reducer's `rebase`. */
export class Rebaser {
  readonly #deps: RebaserDeps;
  readonly #log: LogId;

  constructor(deps: RebaserDeps, log: LogId) {
    this.#deps = deps;
    this.#log = log;
  }

  /** The passage from a moment of the log to a newer one. */
  passage(from: Arrival, to: Arrival): Passage {
    return new Passage(this.#deps, this.#log, from, to);
  }

  /** Moves a branch onto a newer moment of the log: see {@link Passage.carry}. */
  async advance({ at, items }: Branch, to: Arrival): Promise<Branch> {
    return { at: to, items: await this.passage(at, to).carry(items) };
  }
}

/** An entry of the log on its way past the items of a branch. */
interface Passing {
  readonly arrived: ArrivedEntry;
  /** The entries that it is for the next item. */
  readonly entries: readonly UnplacedEntry[];
  /** Whether it is one of the items that it passed, so that the next ones were written on top. */
  readonly isSeen: boolean;
}

/** Some entries of the log in a row. One item after the other passes them. */
interface Stretch {
  passing: readonly Passing[];
  /** The entries of items that failed or take no effect any more. Later items may build on them. */
  gone: readonly UnplacedEntry[];
  /** Why the last of these items failed. */
  cause: unknown;
}

/**
 * Carries the items of a branch over the entries between two moments of the log, one item after the
 * other: each item meets each entry once. The entries of others are moved over the items in turn,
 * so each item meets them as they are after those before it.
 */
export class Passage {
  readonly #deps: RebaserDeps;
  readonly #log: LogId;
  readonly #from: Arrival;
  readonly #to: Arrival;
  /** Those that items meet which come later. */
  readonly #stretches: Stretch[] = [];
  #isRead = false;
  /** Why no more items can be carried. */
  #refusal: { readonly reason: string; readonly cause?: unknown } | undefined;

  constructor(deps: RebaserDeps, log: LogId, from: Arrival, to: Arrival) {
    this.#deps = deps;
    this.#log = log;
    this.#from = from;
    this.#to = to;
  }

  /**
   * Carries the next items of the branch. Takes no request unless the document passed over entries.
   * Leaves out the entries that the log has by then, and those that fail: an entry whose place is
   * gone, one that the reducer cannot rebase, and one that builds on an entry that failed.
   * @throws the errors of {@link readSkipped}, if the store does not answer
   */
  async carry(given: readonly BranchItem[]): Promise<readonly BranchItem[]> {
    if (given.length === 0) return given;
    if (!this.#isRead) return this.#readAndCarry(given);
    if (this.#refusal !== undefined) return this.#refuse(given, this.#refusal);
    let items = given;
    for (const stretch of this.#stretches) items = await this.#pass(items, stretch);
    return items;
  }

  /** Leaves out those of the carried items that have failed since, and those that build on them. */
  async drop(items: readonly BranchItem[]): Promise<readonly BranchItem[]> {
    return this.#pass(items, this.#stretchOf([]));
  }

  async #readAndCarry(given: readonly BranchItem[]): Promise<readonly BranchItem[]> {
    let items = given;
    const passed: ArrivedEntry[] = [];
    for (let moment = this.#from; moment !== this.#to && moment.next !== undefined; moment = moment.next.moment) {
      const { change } = moment.next;
      if ('entry' in change) passed.push(change);
      else {
        items = await this.#pass(items, this.#stretchOf(passed.splice(0)));
        items = await this.#passSkipped(items, change);
      }
    }
    items = await this.#pass(items, this.#stretchOf(passed));
    this.#isRead = true;
    return items;
  }

  /** Entries that a document passed over. If nobody can read them any more, the items fail. */
  async #passSkipped(given: readonly BranchItem[], range: SkippedRange): Promise<readonly BranchItem[]> {
    let items = given;
    for (const { unsent } of items) unsent.followsOthers = true;
    if (this.#deps.reducer.rebase === undefined) return items;
    try {
      for await (const arrived of readSkipped(this.#deps, this.#log, range)) {
        items = await this.#pass(items, this.#stretchOf(arrived));
      }
      return items;
    } catch (cause) {
      if (!isLogfoldError(cause) || !cause.stopsLog) throw cause;
      this.#refusal = { reason: 'the entries that others appended first can no longer be read', cause };
      return this.#refuse(items, this.#refusal);
    }
  }

  #stretchOf(arrived: readonly ArrivedEntry[]): Stretch {
    const passing = arrived.map((each) => ({ arrived: each, entries: [each.entry], isSeen: false }));
    const stretch: Stretch = { passing, gone: [], cause: undefined };
    if (this.#stretches.length < MAX_HELD_STRETCHES) this.#stretches.push(stretch);
    else this.#refusal ??= { reason: 'the document was reading too many entries of others when it was made' };
    return stretch;
  }

  async #pass(given: readonly BranchItem[], stretch: Stretch): Promise<readonly BranchItem[]> {
    const items: BranchItem[] = [];
    for (const item of given) {
      const { failure, repeats } = item.unsent;
      const isIdle = stretch.passing.length + stretch.gone.length === 0 && (failure ?? repeats?.failure) === undefined;
      const passed = isIdle ? item : await this.#passOne(item, stretch);
      if (passed !== undefined) items.push(passed);
    }
    return items;
  }

  /** Moves an item past a stretch. @returns undefined if the log has it, or it fails */
  async #passOne(item: BranchItem, stretch: Stretch): Promise<BranchItem | undefined> {
    const { unsent } = item;
    let passed: { readonly item: BranchItem | undefined; readonly passing: readonly Passing[] } | undefined;
    try {
      await this.#checkBasis(item, stretch);
      if (unsent.failure === undefined || unsent.isDoneByOthers) passed = await this.#meet(item, stretch.passing);
    } catch (cause) {
      unsent.failure ??= rebaseFailed(unsent, cause);
    }
    if (passed !== undefined && (unsent.failure === undefined || passed.item === undefined)) {
      stretch.passing = passed.passing;
      return passed.item;
    }
    if (this.#deps.reducer.rebase !== undefined && !hasNoEffect(item)) {
      stretch.gone = [...stretch.gone, ...piecesOf(item).map(({ entry }) => entry)];
      stretch.cause = unsent.failure;
    }
    // An overtaken mutation waits without an effect.
    return unsent.failure === undefined ? { ...item, isVoid: true } : undefined;
  }

  /**
   * An item that `rebase` would change over one that is gone was written on top of its effect, and
   * fails too. So does one that repeats the mutation of an item that failed.
   */
  async #checkBasis(item: BranchItem, stretch: Stretch): Promise<void> {
    const { unsent } = item;
    if (unsent.failure !== undefined) return;
    const cause = unsent.repeats?.failure;
    if (cause !== undefined) this.#fail(unsent, 'it repeats a mutation that the log does not get', cause);
    if (stretch.gone.length === 0 || hasNoEffect(item)) return;
    const pieces = piecesOf(item);
    const crossed = await this.#cross(pieces, stretch.gone);
    if (crossed.pieces.length === pieces.length && crossed.pieces.every((piece, i) => piece === pieces[i])) {
      stretch.gone = crossed.others;
    } else this.#fail(unsent, 'it was written on top of an entry that the log does not get', stretch.cause);
  }

  /** @returns undefined if the item fails, or if its mutation is overtaken */
  async #meet(
    item: BranchItem,
    passing: readonly Passing[],
  ): Promise<{ readonly item: BranchItem | undefined; readonly passing: readonly Passing[] } | undefined> {
    const { unsent } = item;
    const next: Passing[] = [];
    let now: BranchItem | undefined = item;
    for (const each of passing) {
      const { arrived } = each;
      if (now === undefined || each.isSeen) {
        next.push(each);
        continue;
      }
      if (isOwn(unsent, arrived.id)) {
        now = withoutFirst(now);
        next.push({ arrived, entries: [], isSeen: true });
        continue;
      }
      unsent.followsOthers = true;
      if (!hasNoEffect(now) && overtakes(arrived, unsent)) {
        if (!isSameMutation(arrived, unsent, piecesOf(now))) return undefined;
        now = { ...now, isVoid: true };
        next.push({ arrived, entries: [], isSeen: true });
      } else if (hasNoEffect(now) || this.#deps.reducer.rebase === undefined) next.push(each);
      else {
        const crossed = await this.#crossItem(now, each.entries);
        if (crossed === undefined) return undefined;
        now = crossed.pieces.length === 0 ? undefined : { ...now, pieces: crossed.pieces };
        next.push({ ...each, entries: crossed.others });
      }
    }
    return { item: now, passing: next };
  }

  /**
   * If neither the item nor the entries have anything left to do, they did the same: the item
   * fails, and later items were written for the state that there is.
   * @returns undefined if the item fails otherwise
   */
  async #crossItem(item: BranchItem, entries: readonly UnplacedEntry[]): Promise<Crossed | undefined> {
    const pieces = piecesOf(item);
    const crossed = await this.#cross(pieces, entries);
    const count = crossed.pieces.length;
    if (count === 0) {
      this.#fail(item.unsent, crossed.reason ?? 'others removed what it changes');
      item.unsent.isDoneByOthers ??= crossed.others.length === 0;
      if (crossed.others.length === 0) return crossed;
    } else if (count > pieces.length && !canSplit(item.unsent, count)) {
      this.#fail(item.unsent, 'others inserted into the range that it changes, and it cannot be split');
    } else return crossed;
    return undefined;
  }

  /** Moves pieces over entries that others wrote for the same state, and these over the pieces. */
  async #cross(pieces: readonly UnsentPiece[], others: readonly UnplacedEntry[]): Promise<Crossed> {
    let left = others;
    const result: UnsentPiece[] = [];
    let reason: string | undefined;
    for (const piece of pieces) {
      let moved: readonly UnsentPiece[] = [piece];
      const next: UnplacedEntry[] = [];
      for (const other of left) {
        const [one] = moved;
        const crossed: Crossed =
          one !== undefined && moved.length === 1 ? await this.#step(one, other) : await this.#cross(moved, [other]);
        moved = crossed.pieces;
        next.push(...crossed.others);
        reason ??= crossed.reason;
      }
      result.push(...moved);
      left = next;
    }
    return { pieces: result, others: left, reason };
  }

  async #step(piece: UnsentPiece, other: UnplacedEntry): Promise<Crossed> {
    const later = await this.#rebase(piece.entry, other, 'later');
    const earlier = await this.#rebase(other, piece.entry, 'earlier');
    return {
      pieces: later === undefined ? [piece] : later.bodies.map((body, i) => rewrittenPiece(piece, later, body, i)),
      others: earlier === undefined ? [other] : earlier.bodies.map((body) => ({ ...other, body })),
      reason: later?.reason,
    };
  }

  async #rebase(entry: UnplacedEntry, other: UnplacedEntry, side: RebaseSide): Promise<Rebased | undefined> {
    const rebased = await this.#deps.reducer.rebase?.(entry, other, side);
    if (rebased === undefined || Array.isArray(rebased.bodies)) return rebased;
    throw new TypeError('rebase gives neither undefined nor an object with the array `bodies`');
  }

  #refuse(
    items: readonly BranchItem[],
    { reason, cause }: { readonly reason: string; readonly cause?: unknown },
  ): readonly BranchItem[] {
    for (const { unsent } of items) this.#fail(unsent, reason, cause);
    return [];
  }

  #fail(unsent: Unsent, reason: string, cause?: unknown): void {
    unsent.failure ??= new EntryDroppedError(unsent.index, reason, {
      log: this.#log,
      type: unsent.draft.type,
      advice: 'Look at the new state, and make the change again if it is still wanted',
      cause,
    });
  }
}

interface Crossed {
  readonly pieces: readonly UnsentPiece[];
  readonly others: readonly UnplacedEntry[];
  readonly reason: string | undefined;
}

/** Whether an unsent mutation takes no effect any more. */
function overtakes({ once }: ArrivedEntry, { draft }: Unsent): boolean {
  if (once === undefined || draft.once === undefined) return false;
  return once.client === draft.once.client && once.mutation >= draft.once.mutation;
}

/** Whether another process appended the same mutation with the same effect. */
function isSameMutation({ once, entry }: ArrivedEntry, { draft }: Unsent, pieces: readonly UnsentPiece[]): boolean {
  const [piece] = pieces;
  if (once?.mutation !== draft.once?.mutation || piece === undefined || pieces.length > 1) return false;
  if (entry.type !== piece.entry.type || entry.version !== piece.entry.version) return false;
  return equalBytes(encodeBody(entry.body), encodeBody(piece.entry.body));
}
