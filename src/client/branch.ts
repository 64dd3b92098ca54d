import { equalBytes } from '../codec/bytes.ts';
import type { Value } from '../codec/value.ts';
import { EntryRejectedError } from '../errors.ts';
import { decodeBody, encodeBody } from '../log/body.ts';
import { MAX_TRANSACTION_ITEMS } from '../log/item-size.ts';
import { type DraftedEntry, MAX_ID_BYTES } from '../log/new-entry.ts';
import { whyRefused } from '../state/fold-failure.ts';
import type { Rebased, UnplacedEntry } from '../state/reducer.ts';
import type { Arrival } from './arrivals.ts';

/** An entry on its way to the log. All branches share it. */
export interface Unsent {
  /** The entry as its author wrote it. */
  readonly draft: DraftedEntry;
  /** Its index among the entries of the same append. */
  readonly index: number;
  /** The most entries that the log may have in its place. 0 if it was not sent. */
  sent: number;
  /** Whether others appended an entry after those that its author saw. */
  followsOthers?: boolean;
  /** Whether the log had applied its mutation when its author wrote it. */
  isApplied?: boolean;
  /** The unsent entry before it that applies its mutation, or a later one of its client. */
  repeats?: Unsent | undefined;
  /** Why the log never gets it. */
  failure?: unknown;
  /** Whether it failed because others did the same. Later entries do not build on it alone. */
  isDoneByOthers?: boolean;
  /** The parts of the body as written that were dropped before it was sent, by index. */
  dropped: readonly number[];
}

/** One of the entries that take the place of an unsent one. */
export interface UnsentPiece {
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
  readonly pieces: readonly UnsentPiece[] | undefined;
  /** Whether the log has its mutation already, so that it takes no effect. */
  readonly isVoid: boolean;
  /** Whether its first pieces were read from the log. The others follow there. */
  readonly isStored: boolean;
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
  return { unsent, pieces: undefined, isVoid: false, isStored: false };
}

/**
 * The entries that take the place of an unsent one, as they are appended.
 * @throws EntryRejectedError if the reducer gave it a body that cannot be stored
 */
export function draftsOf({ unsent, pieces }: BranchItem): readonly DraftedEntry[] {
  const { draft } = unsent;
  if (pieces === undefined) return [draft];
  return pieces.map(({ entry: { body: value }, isRewritten }, i) => {
    if (!isRewritten) return draft;
    const { body: _, ...rest } = draft;
    try {
      return {
        ...rest,
        id: pieceId(draft.id, i),
        ...(value !== null && { body: { format: 'bytes', bytes: encodeBody(value) } }),
      };
    } catch (cause) {
      throw rebaseFailed(unsent, cause);
    }
  });
}

/** Writers recognize the first piece by the id of the entry. @param i the index of the piece */
function pieceId(id: Uint8Array, i: number): Uint8Array {
  return i === 0 ? id : Uint8Array.of(...id, i);
}

/** Whether an entry of the log is an unsent one, or one of those that took its place. */
export function isOwn({ draft, sent }: Unsent, id: Uint8Array | undefined): boolean {
  if (sent === 0 || id === undefined) return false;
  const i = id.length === draft.id.length ? 0 : (id.at(-1) ?? 0);
  return i < sent && equalBytes(id, pieceId(draft.id, i));
}

/** @returns the dropped parts of an unsent entry, by index */
export function droppedParts({ pieces }: BranchItem): readonly number[] {
  return pieces?.[0]?.dropped ?? [];
}

/** @returns an item as it is now */
export function piecesOf({ unsent: { draft }, pieces }: BranchItem): readonly UnsentPiece[] {
  if (pieces !== undefined) return pieces;
  const { type, version, body } = draft;
  const entry = { type, version, body: body === undefined ? null : decodeBody(body) };
  return [{ entry, isRewritten: false, dropped: [] }];
}

/** @returns an item after its first piece was read from the log; undefined if it has no other */
export function withoutFirst(item: BranchItem): BranchItem | undefined {
  const pieces = item.pieces?.slice(1) ?? [];
  return pieces.length === 0 ? undefined : { ...item, pieces, isStored: true };
}

/** A piece with another body. @param i its index among those that take the place of the piece */
export function rewrittenPiece(piece: UnsentPiece, { dropped = [] }: Rebased, body: Value, i: number): UnsentPiece {
  return {
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
export function canSplit({ draft }: Unsent, count: number): boolean {
  return draft.once === undefined && count <= MAX_TRANSACTION_ITEMS && draft.id.length < MAX_ID_BYTES;
}

/**
 * The error of a reducer that refuses one of several entries, with the index of the entry that its
 * author wrote. Other errors stay as they are.
 * @param indexOf the index of the entry whose place the one at an index takes
 */
export function rejectedAsWritten(error: unknown, indexOf: (i: number) => number): unknown {
  if (!(error instanceof EntryRejectedError)) return error;
  const { index, reason, log, type, advice, cause } = error;
  if (indexOf(index) === index) return error;
  return new EntryRejectedError(indexOf(index), reason, { log, type, advice, cause });
}

/** @returns the error for an entry that the reducer cannot rebase */
export function rebaseFailed({ index, draft }: Unsent, cause: unknown): EntryRejectedError {
  const { log, type } = draft;
  const { reason, advice } = whyRefused(cause);
  return new EntryRejectedError(index, `the reducer cannot rebase the entry: ${reason}`, { log, type, advice, cause });
}

/** Whether an item changes no state, because its mutation is applied before it. */
export function hasNoEffect({ isVoid, unsent }: BranchItem): boolean {
  return isVoid || unsent.isApplied === true || unsent.repeats !== undefined;
}
