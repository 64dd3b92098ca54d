import { equalBytes } from '../codec/bytes.ts';
import type { Value } from '../codec/value.ts';
import { EntryDroppedError, EntryRejectedError, isLogfoldError, plainError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { decodeBody, encodeBody } from '../log/body.ts';
import { MAX_TRANSACTION_ITEMS } from '../log/item-size.ts';
import { type DraftedEntry, MAX_ID_BYTES } from '../log/new-entry.ts';
import type { EntrySource } from '../log/read-entries.ts';
import type { Rebased, RebaseSide, Reducer, UnplacedEntry } from '../state/reducer.ts';
import type { BlobStore } from '../store/blob-store.ts';
import { type Arrival, type ArrivedEntry, readSkippedRange } from './arrivals.ts';

/** An entry on its way to the log. All branches share it. */
export interface Unsent {
  /** The entry as its author wrote it. */
  readonly draft: DraftedEntry;
  /** Its index among the entries of the same append. */
  readonly index: number;
  /** Whether the log may have it. */
  isSent: boolean;
  /** Whether its mutation was applied already when its author wrote it. */
  isApplied?: boolean;
  /** Why the log never gets it. */
  failure?: unknown;
  /** The parts of the body as written that were dropped before it was sent, by index. */
  dropped: readonly number[];
}

/** One of the entries that take the place of an unsent one. */
interface Piece {
  readonly id: Uint8Array;
  readonly entry: UnplacedEntry;
  /** Whether the body is another one than its author wrote. */
  readonly isRewritten: boolean;
  /** The parts of the body as written that it no longer has, by index, in ascending order. */
  readonly dropped: readonly number[];
}

/** An unsent entry on a branch, in its present form. */
export interface BranchItem {
  readonly unsent: Unsent;
  /** Undefined until the entry meets another one: its present form is that of its author. */
  readonly pieces: readonly Piece[] | undefined;
  /** Whether the log has its mutation already, so that it takes no effect. */
  readonly isVoid: boolean;
}

/**
 * Unsent entries on top of a moment of the log. Each was written for the state after those before
 * it. Immutable.
 */
export interface Branch {
  readonly at: Arrival;
  readonly items: readonly BranchItem[];
}

/** @returns an entry as its author wrote it */
export function branchItemOf(unsent: Unsent): BranchItem {
  return { unsent, pieces: undefined, isVoid: false };
}

/**
 * The entries that take the place of an unsent one, as they are appended.
 * @throws EntryRejectedError if the reducer gave it a body that cannot be stored
 */
export function draftsOf({ unsent: { draft, index }, pieces }: BranchItem): readonly DraftedEntry[] {
  if (pieces === undefined) return [draft];
  return pieces.map(({ id, entry: { body: value }, isRewritten }) => {
    if (!isRewritten) return draft;
    const { body: _, ...rest } = draft;
    try {
      return { ...rest, id, ...(value !== null && { body: { format: 'bytes', bytes: encodeBody(value) } }) };
    } catch (cause) {
      throw rebaseFailed(index, draft, cause);
    }
  });
}

/** @returns the dropped parts of an unsent entry, by index */
export function droppedParts({ pieces }: BranchItem): readonly number[] {
  return pieces?.[0]?.dropped ?? [];
}

export interface BranchDeps extends EntrySource {
  readonly blobs: BlobStore;
}

/**
 * Moves branches on with the log, with the reducer's `rebase`. Entries of others are moved over the
 * unsent ones in turn, so each unsent entry meets them as they are after those before it.
 */
export class Rebaser {
  readonly #deps: BranchDeps;
  readonly #log: LogId;
  readonly #reducer: Reducer;

  constructor(deps: BranchDeps, log: LogId, reducer: Reducer) {
    this.#deps = deps;
    this.#log = log;
    this.#reducer = reducer;
  }

  /**
   * Moves a branch onto a newer moment of the log. Takes no request unless the document passed over
   * entries. Leaves out the entries that the log has by then, and those that fail: an entry whose
   * place is gone, one that the reducer cannot rebase, and one that builds on an entry that failed.
   * @throws the errors of {@link readSkippedRange}, if the store does not answer
   */
  async advance({ at, items: given }: Branch, to: Arrival): Promise<Branch> {
    let items = await this.#withoutFailed(given);
    for (let moment = at; moment !== to && moment.next !== undefined; moment = moment.next) {
      const { change } = moment.next;
      if (items.length === 0 || change === undefined) continue;
      if ('entry' in change) items = await this.#past(items, change);
      else if (this.#reducer.rebase !== undefined) {
        for (const arrived of await this.#skipped(items, change)) items = await this.#past(items, arrived);
        items = await this.#withoutFailed(items);
      }
    }
    return { at: to, items };
  }

  /** The entries that a document passed over. If nobody can read them any more, the items fail. */
  async #skipped(
    items: readonly BranchItem[],
    range: Parameters<typeof readSkippedRange>[2],
  ): Promise<readonly ArrivedEntry[]> {
    try {
      return await readSkippedRange(this.#deps, this.#log, range);
    } catch (cause) {
      if (!isLogfoldError(cause) || !cause.stopsLog) throw cause;
      for (const { unsent } of items) {
        this.#fail(unsent, 'the entries that others appended first can no longer be read', cause);
      }
      return [];
    }
  }

  /** Moves items past an entry of the log. */
  async #past(given: readonly BranchItem[], arrived: ArrivedEntry): Promise<readonly BranchItem[]> {
    for (let items = given; ; ) {
      const failed = await this.#passOnce(items, arrived);
      if (typeof failed !== 'number') return failed;
      items = await this.#without(items, failed);
    }
  }

  /** @returns the moved items, or the index of one that fails or takes no effect any more */
  async #passOnce(items: readonly BranchItem[], arrived: ArrivedEntry): Promise<readonly BranchItem[] | number> {
    let others: readonly UnplacedEntry[] = [arrived.entry];
    const moved: BranchItem[] = [];
    for (const [i, item] of items.entries()) {
      const { unsent } = item;
      if (others.length === 0 || hasNoEffect(item)) moved.push(item);
      else if (unsent.isSent && arrived.id !== undefined && equalBytes(firstId(item), arrived.id)) {
        const rest = item.pieces?.slice(1) ?? [];
        if (rest.length > 0) moved.push({ ...item, pieces: rest });
        others = [];
      } else if (overtakes(arrived, unsent)) {
        if (!isSameMutation(arrived, unsent, piecesOf(item))) return i;
        moved.push({ ...item, isVoid: true });
        others = [];
      } else if (this.#reducer.rebase === undefined) moved.push(item);
      else {
        const before = piecesOf(item);
        const crossed = await this.#cross(unsent, before, others);
        if (crossed.pieces.length === 0) this.#fail(unsent, crossed.reason ?? 'others removed what it changes');
        else if (crossed.pieces.length > before.length && !canSplit(unsent, crossed.pieces)) {
          this.#fail(unsent, 'others inserted into the range that it changes, and it cannot be split');
        }
        if (unsent.failure !== undefined) return i;
        others = crossed.others;
        moved.push({ ...item, pieces: crossed.pieces });
      }
    }
    return moved;
  }

  /** Moves pieces over entries that others wrote for the same state, and these over the pieces. */
  async #cross(unsent: Unsent, pieces: readonly Piece[], others: readonly UnplacedEntry[]): Promise<Crossed> {
    try {
      return await this.#crossAll(pieces, others);
    } catch (cause) {
      unsent.failure ??= rebaseFailed(unsent.index, unsent.draft, cause);
      return { pieces: [], others, reason: undefined };
    }
  }

  async #crossAll(pieces: readonly Piece[], others: readonly UnplacedEntry[]): Promise<Crossed> {
    let left = others;
    const result: Piece[] = [];
    let reason: string | undefined;
    for (const piece of pieces) {
      let moved: readonly Piece[] = [piece];
      const next: UnplacedEntry[] = [];
      for (const other of left) {
        const [one] = moved;
        const crossed: Crossed =
          one !== undefined && moved.length === 1 ? await this.#step(one, other) : await this.#crossAll(moved, [other]);
        moved = crossed.pieces;
        next.push(...crossed.others);
        reason ??= crossed.reason;
      }
      result.push(...moved);
      left = next;
    }
    return { pieces: result, others: left, reason };
  }

  async #step(piece: Piece, other: UnplacedEntry): Promise<Crossed> {
    const later = await this.#rebase(piece.entry, other, 'later');
    const earlier = await this.#rebase(other, piece.entry, 'earlier');
    return {
      pieces: later === undefined ? [piece] : later.bodies.map((body, i) => rewritten(piece, later, body, i)),
      others: earlier === undefined ? [other] : earlier.bodies.map((body) => ({ ...other, body })),
      reason: later?.reason,
    };
  }

  async #rebase(entry: UnplacedEntry, other: UnplacedEntry, side: RebaseSide): Promise<Rebased | undefined> {
    const rebased = await this.#reducer.rebase?.(entry, other, side);
    if (rebased === undefined || Array.isArray(rebased.bodies)) return rebased;
    throw new TypeError('rebase gives neither undefined nor an object with the array `bodies`');
  }

  async #withoutFailed(given: readonly BranchItem[]): Promise<readonly BranchItem[]> {
    for (let items = given; ; ) {
      const failed = items.findIndex(({ unsent }) => unsent.failure !== undefined);
      if (failed === -1) return items;
      items = await this.#without(items, failed);
    }
  }

  /**
   * Leaves out an item that fails, or takes no effect any more. Each later item that `rebase` would
   * change over it was written on top of its effect, and fails too.
   */
  async #without(items: readonly BranchItem[], index: number): Promise<readonly BranchItem[]> {
    const gone = items[index];
    if (gone === undefined) return items;
    const before = items.slice(0, index);
    const hasFailed = gone.unsent.failure !== undefined;
    // Its mutation has come, so that it waits without an effect.
    if (!hasFailed) before.push({ ...gone, isVoid: true });
    let after = items.slice(index + 1);
    if (this.#reducer.rebase === undefined || hasNoEffect(gone)) return [...before, ...after];
    let others: readonly UnplacedEntry[] = piecesOf(gone).map(({ entry }) => entry);
    for (let i = 0; i < after.length; ) {
      const item = after[i];
      if (item === undefined) break;
      const pieces = piecesOf(item);
      const crossed = hasNoEffect(item) ? { pieces, others } : await this.#cross(item.unsent, pieces, others);
      if (crossed.pieces.length === pieces.length && crossed.pieces.every((piece, j) => piece === pieces[j])) {
        others = crossed.others;
        i++;
      } else {
        this.#fail(item.unsent, 'it was written on top of an entry that the log does not get', gone.unsent.failure);
        after = [...(await this.#without(after, i))];
      }
    }
    return [...before, ...after];
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
  readonly pieces: readonly Piece[];
  readonly others: readonly UnplacedEntry[];
  readonly reason: string | undefined;
}

function rebaseFailed(index: number, { log, type }: DraftedEntry, cause: unknown): EntryRejectedError {
  const reason = isLogfoldError(cause) ? cause.reason : plainError(cause).message;
  return new EntryRejectedError(index, `the reducer cannot rebase the entry: ${reason}`, { log, type, cause });
}

function piecesOf({ unsent: { draft }, pieces }: BranchItem): readonly Piece[] {
  if (pieces !== undefined) return pieces;
  const { id, type, version, body } = draft;
  const entry = { type, version, body: body === undefined ? null : decodeBody(body) };
  return [{ id, entry, isRewritten: false, dropped: [] }];
}

/** Whether an item changes no state, because its mutation was applied before. */
function hasNoEffect({ isVoid, unsent }: BranchItem): boolean {
  return isVoid || unsent.isApplied === true;
}

function firstId({ unsent, pieces }: BranchItem): Uint8Array {
  return pieces?.[0]?.id ?? unsent.draft.id;
}

/** A piece with another body. The first one keeps the id, by which its writer recognizes it. */
function rewritten(piece: Piece, { dropped = [] }: Rebased, body: Value, i: number): Piece {
  return {
    id: i === 0 ? piece.id : Uint8Array.of(...piece.id, i),
    entry: { ...piece.entry, body },
    isRewritten: true,
    dropped: i === 0 ? [...piece.dropped, ...dropped.map((at) => asWritten(at, piece.dropped))].sort(byNumber) : [],
  };
}

/** The index of a part in the body as written, of which parts were dropped before. */
function asWritten(index: number, dropped: readonly number[]): number {
  return dropped.reduce((at, gone) => (gone <= at ? at + 1 : at), index);
}

function byNumber(a: number, b: number): number {
  return a - b;
}

/** Whether an entry can be stored as several. With one mutation, only the first would apply. */
function canSplit({ draft }: Unsent, pieces: readonly Piece[]): boolean {
  if (draft.once !== undefined || pieces.length > MAX_TRANSACTION_ITEMS) return false;
  return pieces.every(({ id }) => id.length <= MAX_ID_BYTES);
}

/** Whether an unsent mutation takes no effect any more. */
function overtakes({ once }: ArrivedEntry, { draft }: Unsent): boolean {
  if (once === undefined || draft.once === undefined) return false;
  return once.client === draft.once.client && once.mutation >= draft.once.mutation;
}

/** Whether another process appended the same mutation with the same effect. */
function isSameMutation({ once, entry }: ArrivedEntry, { draft }: Unsent, pieces: readonly Piece[]): boolean {
  const [piece] = pieces;
  if (once?.mutation !== draft.once?.mutation || piece === undefined || pieces.length > 1) return false;
  if (entry.type !== piece.entry.type || entry.version !== piece.entry.version) return false;
  return equalBytes(encodeBody(entry.body), encodeBody(piece.entry.body));
}
