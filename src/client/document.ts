import pLimit from 'p-limit';
import type { Value } from '../codec/value.ts';
import {
  AppendUncertainError,
  AttemptsExhaustedError,
  DocumentClosedError,
  EntryRejectedError,
  isLogfoldError,
  StoreUnavailableError,
} from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { comparePositions, type Position } from '../ids/position.ts';
import type { AddedEntries, AppendOptions, NewEntry } from '../log/client.ts';
import type { FrozenMap } from '../state/frozen-state.ts';
import type { Reducer } from '../state/reducer.ts';
import type { Rectangle } from '../state/spreadsheet/sheet-rows.ts';
import { isSameState, type State } from '../state/state.ts';
import { DocumentState } from './document-state.ts';
import { draftEntry, entriesAt, type Pending, type PendingEntry } from './drafted-entry.ts';
import { Follower, type FollowerDeps, type ReloadLimits } from './follower.ts';
import { type WatchOptions, watch } from './watch.ts';

export interface DocumentOptions {
  /** Folds the entries. It must be the reducer of the deployment, which makes the snapshots. */
  readonly reducer: Reducer;
  /**
   * A document that is further behind loads the newest snapshot instead of every entry since. 5,000
   * entries and 2 segments by default.
   */
  readonly reloadAfter?: Partial<ReloadLimits>;
}

export interface DocumentDeps extends FollowerDeps {
  /** From 0 up to but not including 1. */
  readonly random: () => number;
  /** Resolves after a time in milliseconds, or as soon as the signal is aborted. */
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>;
  /** Called when a document is closed. */
  readonly onClose?: ((document: Document) => void) | undefined;
}

const RELOAD_AFTER: ReloadLimits = { entries: 5_000, segments: 2 };
/** Bounds of the wait before a pending entry is sent again, in milliseconds. */
const [MIN_RESEND_MS, MAX_RESEND_MS] = [200, 30_000];

/**
 * One log, opened by one client. Holds an immutable state, and moves on to the next one when the
 * log has new entries. Every state stays readable.
 *
 * A method that throws leaves the document as it is.
 */
export class Document {
  readonly log: LogId;
  readonly #deps: DocumentDeps;
  readonly #follower: Follower;
  readonly #reducer: Reducer;
  /** Requests for the log: one at a time. */
  readonly #requests = pLimit(1);
  /** Changes of the visible state: one at a time. */
  readonly #changes = pLimit(1);
  readonly #listeners = new Set<() => void>();
  readonly #closing = new AbortController();
  #pending: readonly Pending[] = [];
  #sending = false;
  #state: DocumentState;
  /** Version and end of the confirmed entries that the visible state includes. */
  #version: number;
  #position: Position;

  private constructor(deps: DocumentDeps, follower: Follower, reducer: Reducer) {
    this.#deps = deps;
    this.#follower = follower;
    this.#reducer = reducer;
    this.log = follower.log;
    this.#version = follower.version;
    this.#position = follower.confirmed.end;
    this.#state = this.#stateOf(follower.confirmed.state);
  }

  /** Opens a log. Use `Logs.open`. */
  static async open(deps: DocumentDeps, log: LogId, { reducer, reloadAfter }: DocumentOptions): Promise<Document> {
    const follower = await Follower.load(deps, log, reducer, { ...RELOAD_AFTER, ...reloadAfter });
    return new Document(deps, follower, reducer);
  }

  /** The present state, with the pending entries. The same object until the content changes. */
  get state(): DocumentState {
    return this.#state;
  }

  /** {@link state}, for `useSyncExternalStore`. */
  readonly getSnapshot = (): DocumentState => this.#state;

  /** The position behind the last entry that was read, without the pending entries. */
  get position(): Position {
    return this.#position;
  }

  /** Position of the snapshot on which the state stands; undefined for the beginning of the log. */
  get snapshot(): Position | undefined {
    return this.#follower.snapshot;
  }

  /** The entries of {@link mutate} that the log does not have yet, in order. */
  get pending(): readonly PendingEntry[] {
    return this.#pending;
  }

  /** Chunks that this document has downloaded, and their bytes. */
  get downloads(): { readonly chunks: number; readonly bytes: number } {
    const { read: chunks, bytesRead: bytes } = this.#follower.folder.nodes.counts;
    return { chunks, bytes };
  }

  /**
   * Calls a listener after each change of the content.
   * @returns a function that removes the listener
   */
  readonly subscribe = (listener: () => void): (() => void) => {
    const own = (): void => listener();
    this.#listeners.add(own);
    return () => void this.#listeners.delete(own);
  };

  /**
   * Reads what others appended. One query if there is nothing new.
   * @returns whether the content changed
   */
  async refresh(): Promise<boolean> {
    return this.#requests(async () => {
      this.#checkOpen();
      const before = this.#state;
      await this.#follower.refresh();
      await this.#show();
      return this.#state !== before;
    });
  }

  /**
   * Appends one or several entries in one request, all or nothing, and applies them. They come
   * directly behind the last entry of the log: if others appended meanwhile, the document first
   * reads and folds their entries.
   * @returns the places of the entries; undefined if the log has their mutation already
   * @throws EntryRejectedError if the reducer rejects an entry; nothing is appended
   * @throws EntryExistsError if `after` is given and other application entries follow it
   * @throws AppendUncertainError if the answer was lost and the log cannot be read either
   * @throws the errors of `LogClient.addEntries`
   */
  async append(
    entries: NewEntry | readonly NewEntry[],
    options: AppendOptions = {},
  ): Promise<AddedEntries | undefined> {
    const drafts = (isList(entries) ? entries : [entries]).map((entry) => draftEntry(entry, this.#deps));
    return this.#requests(async () => {
      this.#checkOpen();
      try {
        return await this.#follower.append(drafts, options);
      } catch (error) {
        this.#follower.lost.forget(drafts);
        throw error;
      } finally {
        await this.#show();
      }
    });
  }

  /**
   * Shows an entry immediately, and appends it in the background, in order. When others appended
   * first, folds it again behind their entries. If the store does not answer, tries again until the
   * document is closed.
   * @returns its position, when the log has it; undefined if the log has its mutation already
   * @throws EntryRejectedError if the reducer rejects the entry, now or behind the entries of
   * others. The state then is as if the call had not been made
   * @throws DocumentClosedError if the document is closed before the log has the entry
   */
  async mutate(entry: NewEntry): Promise<Position | undefined> {
    this.#checkOpen();
    const drafted = draftEntry(entry, this.#deps);
    const settled = Promise.withResolvers<Position | undefined>();
    const pending: Pending = { entry: drafted, settled, foldedAt: this.#position };
    await this.#changes(async () => {
      const state = await this.#foldPending(this.#state.content, pending, this.#pending.length);
      this.#pending = [...this.#pending, pending];
      this.#setState(state);
    });
    if (!this.#sending) void this.#send();
    return pending.settled.promise;
  }

  /**
   * Refreshes the document again and again. The interval grows while nothing changes and after
   * errors, and is short again after a change.
   * @returns a function that stops
   */
  watch(options: WatchOptions): () => void {
    this.#checkOpen();
    const { random, sleep } = this.#deps;
    return watch(() => this.refresh(), { random, sleep, signal: this.#closing.signal }, options);
  }

  /**
   * The cells of a rectangle, row by row; null for an empty cell. Downloads the chunks that it
   * needs in parallel.
   * @throws UsageError if the reducer is not the spreadsheet, or the rectangle is larger than
   * 1,000,000 cells or outside the sheet
   */
  view(rectangle: Rectangle): Promise<Value[][]> {
    return this.#state.view(rectangle);
  }

  /** A map of the present state, for reads by key and by range. */
  map(name: string): FrozenMap {
    return this.#state.map(name);
  }

  /**
   * Stops watching and sending. Pending entries that the log does not have are rejected with
   * DocumentClosedError. States stay readable.
   */
  close(): void {
    this.#closing.abort();
    for (const { settled } of this.#pending) settled.reject(closed(this.log));
    this.#pending = [];
    this.#listeners.clear();
    this.#deps.onClose?.(this);
  }

  #checkOpen(): void {
    if (this.#closing.signal.aborted) throw closed(this.log);
  }

  /** Sends the pending entries, in order. */
  async #send(): Promise<void> {
    this.#sending = true;
    let waitMs = MIN_RESEND_MS;
    for (let first = this.#pending[0]; first !== undefined; first = this.#pending[0]) {
      const pending = first;
      const outcome = await this.#requests(() => this.#sendOne(pending));
      if (outcome === 'done') waitMs = MIN_RESEND_MS;
      else {
        await this.#deps.sleep(waitMs * (0.5 + this.#deps.random() / 2), this.#closing.signal);
        waitMs = Math.min(waitMs * 2, MAX_RESEND_MS);
      }
    }
    this.#sending = false;
  }

  async #sendOne(pending: Pending): Promise<'done' | 'again'> {
    if (this.#closing.signal.aborted) return 'done';
    const before = this.#follower.version;
    try {
      const first = (await this.#follower.append([pending.entry]))?.first;
      // The visible state includes the entry already, if nothing came before it.
      const isNext = first !== undefined && comparePositions(first, pending.foldedAt) === 0;
      const cameNext = isNext && this.#follower.version === before + 1;
      await this.#settle(pending, cameNext && this.#version === before);
      pending.settled.resolve(first);
      return 'done';
    } catch (error) {
      if (isFinal(error)) {
        await this.#settle(pending, false);
        pending.settled.reject(error);
        return 'done';
      }
      pending.error = error;
      await this.#show();
      return 'again';
    }
  }

  /** Takes an entry off the pending ones, and shows the state without or behind it. */
  async #settle(pending: Pending, isShown: boolean): Promise<void> {
    await this.#changes(() => {
      this.#pending = this.#pending.filter((each) => each !== pending);
      if (!isShown) return;
      this.#version = this.#follower.version;
      this.#position = this.#follower.confirmed.end;
    });
    if (!isShown) await this.#show(true);
  }

  /** Shows the confirmed state with the pending entries on top, if its content has changed. */
  async #show(always = false): Promise<void> {
    await this.#changes(async () => {
      const { version, confirmed } = this.#follower;
      if (version === this.#version && !always) {
        this.#position = confirmed.end;
        // The same content, maybe on chunks of a newer snapshot.
        if (this.#pending.length === 0) DocumentState.move(this.#state, this.#follower.folder.nodes, confirmed.state);
        return;
      }
      const state = await this.#foldWithoutRejected(confirmed.state);
      this.#version = version;
      this.#position = confirmed.end;
      this.#setState(state);
    });
  }

  /** Folds the pending entries, and rejects those that the reducer rejects. */
  async #foldWithoutRejected(confirmed: State): Promise<State> {
    let state = confirmed;
    const kept: Pending[] = [];
    for (const pending of this.#pending) {
      try {
        state = await this.#foldPending(state, pending, kept.length);
        kept.push(pending);
      } catch (error) {
        if (!(error instanceof EntryRejectedError)) throw error;
        pending.settled.reject(error);
      }
    }
    this.#pending = kept;
    return state;
  }

  /** @param index number of pending entries before this one */
  async #foldPending(state: State, pending: Pending, index: number): Promise<State> {
    const { segment, entry } = this.#follower.confirmed.end;
    const foldedAt = { segment, entry: entry + index };
    const folded = await this.#follower.folder.fold(state, entriesAt(this.log, foldedAt, [pending.entry]));
    pending.foldedAt = foldedAt;
    return folded;
  }

  #stateOf(state: State): DocumentState {
    return new DocumentState(this.#follower.folder.nodes, state, this.#reducer);
  }

  #setState(state: State): void {
    if (isSameState(this.#state.content, state)) return;
    this.#state = this.#stateOf(state);
    for (const listener of [...this.#listeners]) listener();
  }
}

function closed(log: LogId): DocumentClosedError {
  return new DocumentClosedError('the document is closed', { log, advice: 'Open the log again' });
}

function isList<T>(value: T | readonly T[]): value is readonly T[] {
  return Array.isArray(value);
}

/** Whether sending an entry again cannot help. */
function isFinal(error: unknown): boolean {
  const retryable = [StoreUnavailableError, AppendUncertainError, AttemptsExhaustedError];
  return isLogfoldError(error) && !retryable.some((type) => error instanceof type);
}
