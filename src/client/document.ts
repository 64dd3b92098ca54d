import pLimit from 'p-limit';
import type { Value } from '../codec/value.ts';
import { ChunkMissingError, DocumentClosedError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { type Position, previousPosition } from '../ids/position.ts';
import { type AppendOptions, checkAppendOptions } from '../log/append.ts';
import { oncePerPart } from '../log/guard.ts';
import type { LogAttributes } from '../log/log-attributes.ts';
import { type DraftedEntry, draftEntries, draftEntry } from '../log/new-entry.ts';
import { checkOptionNames } from '../log/option-names.ts';
import type { BadEntry } from '../snapshot/bad-entry.ts';
import type { LoadDeps } from '../snapshot/load.ts';
import type { NewEntryOf } from '../state/define-reducer.ts';
import type { FrozenMap } from '../state/frozen-state.ts';
import type { Reducer } from '../state/reducer.ts';
import type { Rectangle } from '../state/spreadsheet/sheet.ts';
import { type Branch, branchItemOf, type Unsent } from './branch.ts';
import { type DocumentState, loadPastState, type Moment, type PastState, type StateChange } from './document-state.ts';
import { Follower } from './follower.ts';
import { type HistoryOptions, type HistoryPlace, type Revision, readHistory } from './history.ts';
import type { Observable } from './listeners.ts';
import { type AppendedEntries, LogWriter, type LogWriterDeps, type Unwritten } from './log-writer.ts';
import type { DocumentOptions } from './options.ts';
import { Rebaser } from './passage.ts';
import type { Pending, PendingEntry, StoredMutation } from './pending-list.ts';
import { PendingSender } from './pending-sender.ts';
import { conditionAt } from './send-condition.ts';
import type { ReloadLimits } from './state-folder.ts';
import { VisibleState } from './visible-state.ts';
import { type WatchOptions, watch } from './watch.ts';

export interface DocumentDeps extends Omit<LogWriterDeps, 'wait'> {
  /** Resolves after a time in milliseconds, or as soon as the signal is aborted. */
  readonly sleep: (ms: number, signal?: AbortSignal) => Promise<void>;
  /** Called when a document is closed. */
  readonly onClose?: ((document: Document) => void) | undefined;
}

const RELOAD_AFTER: ReloadLimits = { entries: 5_000, segments: 2 };

/** How an entry of `mutate` is sent. */
export type MutateOptions = Pick<AppendOptions, 'after'>;

/**
 * One log, opened by one client. Holds an immutable state, and moves on to the next one when the
 * log has new entries. Every state stays readable.
 *
 * A method that throws leaves the document as it is.
 */
export class Document<R extends Reducer = Reducer> {
  readonly log: LogId;
  readonly #deps: DocumentDeps & LoadDeps;
  readonly #follower: Follower;
  readonly #writer: LogWriter;
  readonly #visible: VisibleState;
  readonly #sender: PendingSender;
  /** Requests for the log: one at a time. */
  readonly #requests = pLimit(1);
  /** Entries of {@link mutate} that are going to be shown: one at a time. */
  readonly #adding = pLimit(1);
  readonly #closing = new AbortController();

  private constructor(deps: DocumentDeps & LoadDeps, follower: Follower) {
    this.#deps = deps;
    this.#follower = follower;
    const rebaser = new Rebaser(deps, follower.log);
    this.#writer = new LogWriter({ ...deps, wait: this.#wait }, follower, rebaser);
    this.#visible = new VisibleState(follower, deps.reducer, rebaser);
    const { random, sleep } = deps;
    const writer = this.#writer;
    this.#sender = new PendingSender({ random, sleep, signal: this.#closing.signal, follower, writer }, this.#visible);
    this.log = follower.log;
  }

  /** Opens a log. Use `Logs.open`. */
  static async open<R extends Reducer>(
    deps: DocumentDeps,
    log: LogId,
    options: DocumentOptions<R>,
  ): Promise<Document<R>> {
    const { reducer, reloadAfter, onBadEntry } = options;
    const { entries = RELOAD_AFTER.entries, segments = RELOAD_AFTER.segments } = reloadAfter ?? {};
    const onForeign = options.onForeign && oncePerPart(options.onForeign);
    const follower = await Follower.load({ ...deps, onForeign }, log, reducer, {
      limits: { entries, segments },
      onBadEntry,
    });
    return new Document<R>({ ...deps, onForeign, reducer }, follower);
  }

  /**
   * The current state, with the pending entries. The same object until the content changes. An
   * append without a listener may replace it with an equal state.
   */
  get state(): DocumentState {
    return this.#visible.state;
  }

  /** {@link state}, for `useSyncExternalStore`. */
  readonly getSnapshot = (): DocumentState => this.#visible.state;

  /**
   * The position after the last entry that was read, without the pending entries: the next entry
   * may get it. The last entry itself is at {@link newest}.
   */
  get position(): Position {
    return this.#visible.position;
  }

  /**
   * The position of the last entry that was read, without the pending entries; it may be a Snapshot
   * entry. An append `after` it succeeds only if no other application entry follows. Undefined if
   * no entry was read.
   */
  get newest(): Position | undefined {
    return this.position.entry === 0 ? undefined : previousPosition(this.position);
  }

  /**
   * The number of the last entry of the application that was read, without the pending entries: the
   * count of these entries so far. An append `after: { number }` of it succeeds only if no other
   * application entry follows. Undefined if the log's entries have no numbers.
   */
  get number(): number | undefined {
    return this.#visible.number;
  }

  /**
   * Position of the snapshot on which the state stands. Undefined for the beginning of the log, and
   * if another reducer or another version made the newest snapshot.
   */
  get snapshot(): Position | undefined {
    return this.#follower.snapshot;
  }

  /**
   * The entry at which the document has stopped, since it cannot be decoded or folded; only with
   * `onBadEntry: 'stop'`. The state is that before the entry. A refresh goes on as soon as the
   * entry can be folded, or this reducer has made a snapshot after it. The same object until it
   * changes.
   */
  get badEntry(): BadEntry | undefined {
    return this.#visible.badEntry;
  }

  /** The entries of {@link mutate} that the log does not have yet, in order. Immutable. */
  get pending(): readonly PendingEntry[] {
    return this.#visible.pending.getSnapshot();
  }

  /**
   * {@link pending} as a value to observe, for example with `useDocument`. Its listeners run after
   * each change of the list and after each new error of an entry.
   */
  get pendingList(): Observable<readonly PendingEntry[]> {
    return this.#visible.pending;
  }

  /**
   * The attributes of the log as a whole, as the document saw them last: when it was opened, and
   * when a refresh read the newest segments, for example after a segment started. Takes no request;
   * `LogClient.logAttributes` reads them now. The same object until they change. Undefined if the
   * two newest segments had none.
   */
  get attributes(): LogAttributes | undefined {
    return this.#follower.attributes;
  }

  /** Chunks that this document has downloaded, and their bytes. */
  get downloads(): { readonly chunks: number; readonly bytes: number } {
    return this.#follower.folder.downloads;
  }

  /**
   * Calls a listener after each change of the content, and of {@link badEntry}. An error that a
   * listener throws becomes an uncaught error of the process or page; it disturbs neither the
   * document nor other listeners.
   * @returns a function that removes the listener
   * @throws UsageError if the listener is not a function
   */
  readonly subscribe = (listener: () => void): (() => void) => this.#visible.subscribe(listener);

  /**
   * Reads what others appended. One query if there is nothing new.
   * @returns whether the content changed
   */
  async refresh(): Promise<boolean> {
    return this.#requests(async () => {
      this.#checkOpen();
      const before = this.state;
      await this.#follower.refresh();
      await this.#visible.update({ compares: true });
      return this.state !== before;
    });
  }

  /**
   * Appends one or several entries in one request, all or nothing, and applies them. They come
   * directly after the last entry of the log: if others appended in the meantime, the document
   * first reads and folds their entries. While others are faster, it waits and tries again, for two
   * minutes at least.
   *
   * The entries are for the state that the document shows at the call, with the entries of `mutate`
   * before it, which are sent first. If the reducer has a `rebase`, they are rewritten over what
   * others appended since.
   * @param options with `after: document.newest`, the entries are appended only if no application
   * entry follows those that the document has read. They are appended as they were given, and not
   * after the entries of `mutate`
   * @returns the places of the entries, and what was dropped of them; undefined if the log has
   * applied their mutations already
   * @throws EntryRejectedError if the reducer rejects an entry, also after the entries that others
   * appended; nothing is appended
   * @throws EntryDroppedError if others removed what an entry changes; nothing is appended
   * @throws MutationOvertakenError if a mutation never takes effect, because a later one of its
   * client did before; nothing is appended
   * @throws AttemptsExhaustedError if others were faster in every attempt; nothing is appended
   * @throws DocumentStoppedError if the document has stopped at a bad entry; nothing is appended
   * @throws EntryExistsError if `after` is given and other application entries follow it
   * @throws AppendUncertainError if the answer was lost and the log cannot be read either
   * @throws the errors of `LogClient.addEntries`
   */
  async append(
    entries: NewEntryOf<R> | readonly NewEntryOf<R>[],
    options: AppendOptions = {},
  ): Promise<AppendedEntries | undefined> {
    checkAppendOptions(this.log, options);
    const drafts = draftEntries(this.#deps, this.log, isList(entries) ? entries : [entries]);
    const [first, ...others] = drafts.map(unsentOf);
    if (first === undefined) return undefined;
    const unsent: Unwritten['unsent'] = [first, ...others];
    // An entry `after` another one is about the log up to there, whatever the document shows.
    const isFree = options.after === undefined;
    const seen = isFree ? this.#visible.waiting : [];
    const branch = isFree ? this.#visible.author(unsent) : async () => this.#branchOnNewest(unsent);
    if (seen.length > 0) await this.#adding(() => undefined);
    return this.#requests(async () => {
      this.#checkOpen();
      try {
        await this.#sender.sendAll(seen, () => this.#checkOpen());
        return await this.#writer.append({ unsent, branch }, options);
      } finally {
        this.#follower.lost.forget(first.draft);
        // The log has the entries even if the state cannot show them yet.
        await this.#visible.update().catch(() => undefined);
      }
    });
  }

  /**
   * Shows an entry as soon as the reducer has folded it, and appends it in the background, in
   * order. When others appended first, rebases it as {@link append} does, and folds it again after
   * their entries. The entries of earlier calls count as seen, also before they are shown. If the
   * store does not answer, tries again until the document is closed.
   * @param options with `after: document.newest`, the entry is appended only if no other
   * application entry follows those that the document has read, except those of `mutate` before it
   * @returns its position, when the log has it, and its dropped parts; undefined if the log has
   * applied its mutation already
   * @throws EntryRejectedError if the reducer rejects the entry, now or after the entries of
   * others. The state then is as if the call had not been made
   * @throws EntryDroppedError if others removed what the entry changes, or if it was written on top
   * of an entry that failed
   * @throws EntryExistsError if `after` is given and other application entries follow it
   * @throws MutationOvertakenError if its mutation never takes effect
   * @throws DocumentStoppedError if the document stops at a bad entry before the log has the entry
   * @throws DocumentClosedError if the document is closed before the log has the entry
   */
  async mutate(entry: NewEntryOf<R>, options: MutateOptions = {}): Promise<StoredMutation | undefined> {
    this.#checkOpen();
    checkOptionNames('mutate', options, ['after']);
    checkAppendOptions(this.log, options);
    const draft = draftEntry(this.#deps, this.log, entry);
    const settled = Promise.withResolvers<StoredMutation | undefined>();
    const shown = Object.freeze({
      entry: { ...entry, id: draft.id, created: draft.created, milliseconds: draft.milliseconds },
    });
    const pending: Pending = {
      ...unsentOf(draft, 0),
      shown,
      settled,
      isSettled: false,
      foldedAt: this.position,
      condition: options.after && conditionAt(options.after, this.#visible),
    };
    this.#visible.announce(pending);
    await this.#adding(() => this.#show(pending));
    this.#sender.start(this.#requests);
    return settled.promise;
  }

  async #show(pending: Pending): Promise<void> {
    try {
      try {
        await this.#visible.add(pending);
      } catch (error) {
        if (!(error instanceof ChunkMissingError)) throw error;
        // The document slept while a collection removed chunks of its state.
        await this.refresh();
        await this.#visible.add(pending);
      }
    } catch (error) {
      await this.#visible.refuse(pending, error);
      throw error;
    }
  }

  /**
   * Refreshes the document again and again. The interval grows while nothing changes and after
   * errors, and is short again after a change. An error that `onError` throws becomes an uncaught
   * error; the watch goes on.
   * @returns a function that stops
   * @throws UsageError if an option is invalid
   */
  watch(options: WatchOptions): () => void {
    this.#checkOpen();
    const { random, sleep } = this.#deps;
    return watch(() => this.refresh(), { random, sleep, signal: this.#closing.signal }, options);
  }

  /**
   * The cells of a rectangle, row by row; null for an empty cell. Downloads the chunks that it
   * needs in parallel.
   * @throws the errors of {@link DocumentState.view}
   */
  view(rectangle: Rectangle): Promise<Value[][]> {
    return this.state.view(rectangle);
  }

  /**
   * The state at a moment of the past, also in archived segments: before the entry at a position or
   * with a number, or after all entries up to a time, to the second. If the times of entries go
   * back, it is the state from one of the positions at which they pass the time. Pending entries
   * are not part of it.
   * @throws EntryNotFoundError if the log has no such position, or its entries have expired
   * @throws PositionInvalidError, UsageError if it is not a position, number or valid date, or if
   * the log's entries have no numbers
   * @throws any error that stops a log, also after a bad entry at which the document has stopped
   */
  async at(moment: Moment): Promise<PastState> {
    this.#checkOpen();
    return loadPastState(this.#deps, this.log, moment, { known: this.#follower.lastRead });
  }

  /**
   * The differences between two moments: see {@link DocumentState.diff}. Both states are loaded
   * when the iteration begins.
   * @param after by default the current state, with the pending entries
   * @throws the errors of {@link at}
   */
  async *diff(before: Moment, after?: Moment): AsyncGenerator<StateChange, undefined> {
    const states = [this.at(before), after === undefined ? this.state : this.at(after)] as const;
    const [old, now] = await Promise.all(states);
    yield* old.diff(now);
  }

  /**
   * The values that a place has had, oldest first: a key of a map, a cell or row of a sheet, or an
   * item of a collection. Pending entries are not part of it. The history of a cell begins when its
   * row or column was inserted.
   *
   * If the reducer keeps its history (see {@link withHistory}), requests grow with the answer.
   * Otherwise the call folds the log from its beginning.
   * @throws UsageError if the state has no such place, or an option is invalid
   * @throws HistoryGoneError if the reducer keeps no history and entries expired without an archive
   * @throws the errors of {@link at}
   */
  history(place: HistoryPlace, options: HistoryOptions = {}): AsyncGenerator<Revision> {
    this.#checkOpen();
    const { confirmed, folder } = this.#follower;
    const newest = { log: this.log, nodes: folder.nodes, ...confirmed, known: this.#follower.lastRead };
    return readHistory(this.#deps, newest, { ...options, place });
  }

  /** A map of the current state, for reads by key and by range. */
  map(name: string): FrozenMap {
    return this.state.map(name);
  }

  /**
   * Stops watching and sending. Rejects the pending entries with DocumentClosedError; the log may
   * get the first of them, if it is on its way. States stay readable.
   */
  close(): void {
    this.#closing.abort();
    this.#visible.close(closed(this.log));
    this.#deps.onClose?.(this);
  }

  /** Waits before another attempt to append, and shows meanwhile what others appended. */
  readonly #wait = async (ms: number): Promise<void> => {
    await this.#visible.update().catch(() => undefined);
    await this.#deps.sleep(ms, this.#closing.signal);
    this.#checkOpen();
  };

  #checkOpen(): void {
    if (this.#closing.signal.aborted) throw closed(this.log);
  }

  #branchOnNewest(unsent: readonly Unsent[]): Branch {
    return { at: this.#follower.newest, items: unsent.map(branchItemOf) };
  }
}

function unsentOf(draft: DraftedEntry, index: number): Unsent {
  return { draft, index, sent: 0, dropped: [] };
}

function closed(log: LogId): DocumentClosedError {
  return new DocumentClosedError('the document is closed', { log, advice: 'Open the log again' });
}

function isList<T>(value: T | readonly T[]): value is readonly T[] {
  return Array.isArray(value);
}
