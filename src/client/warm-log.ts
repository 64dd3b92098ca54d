import pLimit from 'p-limit';
import { toHex } from '../codec/bytes.ts';
import { ChunkMissingError, EntryExistsError, EntryNotFoundError, StoreUnavailableError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { comparePositions, formatPosition, nextPosition, type Position, previousPosition } from '../ids/position.ts';
import type { Entry } from '../log/entry.ts';
import { numberAfter } from '../log/find-position.ts';
import type { DraftedEntry } from '../log/new-entry.ts';
import { readUpTo } from '../log/read-entries.ts';
import type { FoldEntry, Reducer } from '../state/reducer.ts';
import type { State } from '../state/state.ts';
import type { Arrival } from './arrivals.ts';
import { type Branch, branchItemOf, draftsOf, droppedParts, type Unsent } from './branch.ts';
import { Follower, type FollowerDeps } from './follower.ts';
import { Rebaser } from './passage.ts';

/** Entries of a page, with positions directly after the entries that it has read. */
export interface PlacedEntries {
  /** At least one; their positions follow each other in one segment. */
  readonly entries: readonly Entry[];
  /** Whether they may be rebased over entries that others appended first. */
  readonly mayMove: boolean;
}

/** Entries that can be written. */
export interface AcceptedEntries {
  readonly entries: readonly Entry[];
  /** The state with the entries. Undefined if the log has entries in their place. */
  readonly folded?: { readonly state: State; readonly effective: readonly FoldEntry[] } | undefined;
}

/** An end of the log that pages may have read, and the moment of the follower there. */
interface KnownEnd {
  readonly end: Position;
  readonly moment: Arrival;
}

/** The most ends of a log from which late entries can be rebased. */
const MAX_KNOWN_ENDS = 100;
/** The most requests that wait for one log. */
const MAX_WAITING = 100;

/** Too many requests wait for a log. Nothing was changed, and a retry may help. */
export class LogBusyError extends StoreUnavailableError {}

/**
 * A log whose newest state a server keeps in memory, so that it can fold an entry before it appends
 * it, without a request. Other writers may append at any time.
 */
export class WarmLog {
  readonly log: LogId;
  readonly #follower: Follower;
  readonly #rebaser: Rebaser;
  readonly #deps: FollowerDeps & { readonly reducer: Reducer };
  readonly #requests = pLimit(1);
  #known: readonly KnownEnd[] = [];

  private constructor(deps: FollowerDeps & { readonly reducer: Reducer }, follower: Follower) {
    this.#deps = deps;
    this.log = follower.log;
    this.#follower = follower;
    this.#rebaser = new Rebaser(deps, follower.log);
    this.#remember();
  }

  /** Loads a log. Throws the errors of `loadState`, but not those of a bad entry. */
  static async load(deps: FollowerDeps & { readonly reducer: Reducer }, log: LogId): Promise<WarmLog> {
    const limits = { entries: 5_000, segments: 2 };
    return new WarmLog(deps, await Follower.load(deps, log, deps.reducer, { limits, onBadEntry: 'stop' }));
  }

  /** The memory of the state and of the entries that are held, about, in bytes. */
  get bytes(): number {
    return this.#follower.heldBytes;
  }

  /** Whether a request uses the log now. */
  get isBusy(): boolean {
    return this.#requests.activeCount + this.#requests.pendingCount > 0;
  }

  /**
   * Runs a request after the earlier ones of this log.
   * @throws LogBusyError if too many requests wait
   */
  async exclusive<T>(work: () => Promise<T>): Promise<T> {
    if (this.#requests.pendingCount >= MAX_WAITING) {
      throw new LogBusyError('too many requests wait for the log, and nothing was changed', {
        log: this.log,
        advice: 'Try again later',
      });
    }
    return this.#requests(work);
  }

  /**
   * Folds entries onto the state, which stays as it is. Reads the log only if the entries do not
   * come directly after those that were read. To be called by {@link exclusive}, as the others.
   * @returns the entries with their places and numbers; undefined if the log has them, perhaps
   * after others. Entries in whose place the log has some come back as they are, because an earlier
   * attempt may have written them: the tables decide
   * @throws EntryRejectedError if the reducer rejects an entry
   * @throws EntryExistsError if others appended first, and the entries cannot be rebased here
   * @throws EntryNotFoundError if there is no entry directly before them
   * @throws DocumentStoppedError if the log has stopped at a bad entry
   */
  async accept(placed: PlacedEntries): Promise<AcceptedEntries | undefined> {
    try {
      return await this.#accept(placed);
    } catch (error) {
      if (!(error instanceof ChunkMissingError)) throw error;
      // The log was not used while a collection removed chunks of its state.
      await this.#follower.reload();
      return this.#accept(placed);
    }
  }

  async #accept(placed: PlacedEntries): Promise<AcceptedEntries | undefined> {
    const { entries } = placed;
    const position = firstOf(entries);
    const follower = this.#follower;
    const isNext = comparePositions(position, follower.confirmed.end) === 0;
    const isUnsure = follower.isStale || follower.confirmed.badEntry !== undefined;
    if (!isNext || isUnsure) await this.refresh();
    follower.checkAppends();
    const { end } = follower.confirmed;
    const order = comparePositions(position, end);
    if (order > 0) throw this.#notThere(position);
    if (order === 0) return this.#fold(entries);
    // A segment that has ended takes no entry, not even after a gap.
    if (position.segment < end.segment && !placed.mayMove) throw this.exists(position);
    if (!placed.mayMove) return { entries };
    const moved = await this.#moved(placed);
    return moved && this.#fold(moved);
  }

  /** Reads what others appended. */
  async refresh(): Promise<void> {
    await this.#follower.refresh();
    this.#remember();
  }

  /** Takes entries as the newest of the log, after they were written. */
  async written({ entries, folded }: AcceptedEntries): Promise<void> {
    const last = entries.at(-1);
    if (last === undefined || folded === undefined) return;
    const { number } = entries.find(({ type }) => !this.#deps.types.includes(type)) ?? {};
    const first = firstOf(entries);
    const added = { first, last: last.position, ...(number !== undefined && { firstNumber: number }) };
    await this.#follower.appended(added, entries, folded);
    this.#remember();
  }

  /** The highest mutation of a client that the log has applied; 0 if there is none. */
  highestMutation(client: string): Promise<number> {
    const { folder, confirmed } = this.#follower;
    return folder.highestMutation(confirmed.state, client);
  }

  /** The error for entries in whose place the log has others. */
  exists(position: Position): EntryExistsError {
    return new EntryExistsError('others appended first', {
      log: this.log,
      ...position,
      ...this.#newest,
      advice: 'Read the newer entries, then append after the newest',
    });
  }

  #notThere(position: Position): EntryNotFoundError {
    const newest = this.#newest;
    return new EntryNotFoundError(`no entry exists before ${formatPosition(position)}`, {
      log: this.log,
      ...position,
      ...newest,
      advice: `Append after ${formatPosition(newest.newest)}, the newest entry`,
    });
  }

  get #newest(): { readonly newest: Position; readonly newestNumber: number | undefined } {
    const { end, number } = this.#follower.confirmed;
    return { newest: previousPosition(end), newestNumber: number };
  }

  async #fold(given: readonly Entry[]): Promise<AcceptedEntries> {
    const { confirmed, folder } = this.#follower;
    const entries = this.#placed(given);
    const effective: FoldEntry[] = [];
    const state = await folder.foldNew(confirmed.state, entries, effective);
    return { entries, folded: { state, effective } };
  }

  /** Entries at the end of the log. The numbers are the log's own, whatever a page gave. */
  #placed(given: readonly Entry[]): readonly Entry[] {
    const { end, number } = this.#follower.confirmed;
    let [position, before] = [end, number];
    return given.map(({ number: _, ...entry }) => {
      const now = numberAfter(before, entry.type, this.#deps.types);
      const placed = { ...entry, position, ...(now !== undefined && { number: now }) };
      [position, before] = [nextPosition(position), now];
      return placed;
    });
  }

  /**
   * Rebases late entries over those that others appended. Only if each stays one entry with all its
   * parts: everything else is for their author to know, who rebases them again.
   * @returns undefined if the log has them, after an answer that was lost
   */
  async #moved({ entries }: PlacedEntries): Promise<readonly Entry[] | undefined> {
    const position = firstOf(entries);
    const known = this.#known.find(({ end }) => comparePositions(end, position) === 0);
    const drafts = entries.flatMap((entry) => draftOf(entry) ?? []);
    const isOfApplication = entries.every(({ type }) => !this.#deps.types.includes(type));
    if (drafts.length < entries.length || !isOfApplication) throw this.exists(position);
    if (known === undefined) {
      if (await this.#hasAny(drafts, position)) return undefined;
      throw this.exists(position);
    }
    const unsent = drafts.map((draft, index): Unsent => ({ draft, index, sent: 1, dropped: [] }));
    const branch: Branch = { at: known.moment, items: unsent.map(branchItemOf) };
    const { items } = await this.#rebaser.advance(branch, this.#follower.newest);
    if (unsent.some(({ failure }) => failure !== undefined)) throw this.exists(position);
    if (items.length === 0) return undefined;
    const rebased = items.flatMap((item) => (item.isVoid || droppedParts(item).length > 0 ? [] : draftsOf(item)));
    if (items.length < drafts.length || rebased.length !== drafts.length) throw this.exists(position);
    return rebased.map((draft) => ({ ...draft, position }));
  }

  /** Whether the log has one of the entries at a position or after it. */
  async #hasAny(drafts: readonly DraftedEntry[], from: Position): Promise<boolean> {
    const ids = new Set(drafts.map(({ id }) => toHex(id)));
    for await (const page of readUpTo(this.#deps, this.log, { from, to: this.#follower.confirmed.end })) {
      if (page.some(({ id }) => id !== undefined && ids.has(toHex(id)))) return true;
    }
    return false;
  }

  #remember(): void {
    const { newest: moment, confirmed } = this.#follower;
    const last = this.#known.at(-1);
    if (last !== undefined && comparePositions(last.end, confirmed.end) === 0) return;
    this.#known = [...this.#known.slice(1 - MAX_KNOWN_ENDS), { end: confirmed.end, moment }];
  }
}

/** The entry without its place; undefined if no document made it. */
function draftOf({ position: _, number: __, id, body, ...entry }: Entry): DraftedEntry | undefined {
  if (id === undefined || (body !== undefined && body.format !== 'bytes')) return undefined;
  return { ...entry, id, ...(body !== undefined && { body }) };
}

function firstOf([first]: readonly Entry[]): Position {
  if (first === undefined) throw new RangeError('there are no entries');
  return first.position;
}
