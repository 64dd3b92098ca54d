import {
  AppendUncertainError,
  AttemptsExhaustedError,
  ChunkMissingError,
  EntryExistsError,
  EntryRejectedError,
  isLogfoldError,
  StoreUnavailableError,
} from '../errors.ts';
import { comparePositions, MAX_NUMBER, nextPosition, previousPosition } from '../ids/position.ts';
import { Attempts, Contention, type RetryLimits } from '../log/backoff.ts';
import type { AddedEntries, AppendOptions } from '../log/client.ts';
import { DEFAULT_RETRIES } from '../log/client-context.ts';
import { type DraftedEntry, entriesAt } from '../log/new-entry.ts';
import type { FoldEntry } from '../state/reducer.ts';
import { AppliedMutations } from './applied-mutations.ts';
import { type Branch, draftsOf, droppedParts, rejectedAsWritten, type Unsent } from './branch.ts';
import type { Follower, FollowerDeps } from './follower.ts';
import type { Rebaser } from './passage.ts';
import { placeUnder, type SendCondition } from './send-condition.ts';

export interface LogWriterDeps extends FollowerDeps {
  /** From 0 up to but not including 1. */
  readonly random: () => number;
  /** As in {@link LogClientDeps}. */
  readonly retries?: RetryLimits;
  /** Waits for a time in milliseconds before another attempt, or throws to give up. */
  readonly wait: (ms: number) => Promise<void>;
}

/** Entries that are appended together. */
export interface Unwritten {
  readonly unsent: readonly [Unsent, ...Unsent[]];
  /** The branch that their author saw, with the entries at its end. */
  readonly branch: () => Promise<Branch>;
  /** Decides the place of the first one. With it, `after` is given. */
  readonly condition?: SendCondition | undefined;
}

/** The entries that a document appended. */
export interface AppendedEntries extends AddedEntries {
  /** The parts that were left out, since others removed what they change. Absent if none. */
  readonly dropped?: readonly DroppedParts[];
}

/** The parts of an entry that were not appended, such as cells of a Set whose rows are gone. */
export interface DroppedParts {
  /** Index of the entry among those of the append. */
  readonly index: number;
  /** The parts of its body as it was given, by index. */
  readonly parts: readonly number[];
}

/** Attempts to append after a lost answer. */
const UNCERTAIN_ATTEMPTS = 3;

/**
 * Appends entries directly after those that a follower has read. The methods must not overlap with
 * each other or with those of the follower.
 */
export class LogWriter {
  readonly #deps: LogWriterDeps;
  readonly #follower: Follower;
  readonly #rebaser: Rebaser;
  readonly #mutations: AppliedMutations;
  readonly #contention: Contention;

  constructor(deps: LogWriterDeps, follower: Follower, rebaser: Rebaser) {
    this.#deps = deps;
    this.#follower = follower;
    this.#rebaser = rebaser;
    this.#mutations = new AppliedMutations(deps);
    this.#contention = new Contention(deps.retries ?? DEFAULT_RETRIES, deps.now);
  }

  /**
   * Appends entries directly after the last entry of the log, and folds them. Rebases them first
   * over what their author had not seen. An entry that the reducer rejects, also after a refresh,
   * is not appended. If others appended in the meantime, reads their entries, waits and tries
   * again, unless `after` is given. After a lost answer, looks for the entries in the log.
   * @returns undefined if the log has applied the entries' mutations already; nothing is appended
   * @throws MutationOvertakenError if a mutation never takes effect; nothing is appended
   * @throws AttemptsExhaustedError if other clients were faster in every attempt
   * @throws EntryRejectedError if the reducer rejects an entry
   * @throws EntryDroppedError if an entry has lost its place; nothing is appended
   * @throws DocumentStoppedError if the follower has stopped at a bad entry; nothing is appended
   * @throws EntryExistsError if `after` is given and other application entries follow it
   * @throws AppendUncertainError if the answer was lost and the log cannot be read either
   * @throws the errors of `LogClient.addEntries`
   */
  async append(entries: Unwritten, options: AppendOptions): Promise<AppendedEntries | undefined> {
    const follower = this.#follower;
    if (follower.isStale || follower.confirmed.badEntry !== undefined) await follower.refresh();
    try {
      return await this.#append(entries, options);
    } catch (error) {
      if (error instanceof ChunkMissingError) await follower.reload();
      else if (!(error instanceof EntryRejectedError)) throw error;
      // With `after`, the entries are about the state that was rejected.
      else if (options.after !== undefined || !(await this.#readsNews())) throw error;
      return this.#append(entries, options);
    }
  }

  /** Refreshes the follower. @returns whether the log has entries that it had not read */
  async #readsNews(): Promise<boolean> {
    const { end } = this.#follower.confirmed;
    await this.#follower.refresh().catch(() => undefined);
    return comparePositions(this.#follower.confirmed.end, end) !== 0;
  }

  async #append(entries: Unwritten, options: AppendOptions): Promise<AppendedEntries | undefined> {
    const { now, random, retries = DEFAULT_RETRIES, wait: sleep } = this.#deps;
    const before = options.after === undefined ? this.#contention.before : 0;
    const how = {
      ...retries,
      now,
      random,
      sleep,
      before,
      failure: 'Appending failed',
      where: { log: this.#follower.log },
    };
    const attempts = new Attempts(how);
    let isWritten = false;
    try {
      if (before > 0) {
        await attempts.wait();
        await this.#follower.readTo('end');
      }
      const added = await this.#attempt(entries, options, attempts);
      isWritten = added !== undefined;
      const dropped = entries.unsent.flatMap(({ index, dropped: parts }) =>
        parts.length === 0 ? [] : [{ index, parts }],
      );
      return added && { ...added, ...(dropped.length > 0 && { dropped }) };
    } finally {
      if (options.after === undefined) this.#contention.ended({ before, failures: attempts.failures, isWritten });
    }
  }

  async #attempt(
    { unsent, branch: authored, condition }: Unwritten,
    options: AppendOptions,
    attempts: Attempts,
  ): Promise<AppendedEntries | undefined> {
    const follower = this.#follower;
    const [{ draft: first }] = unsent;
    let branch: Branch | undefined;
    let uncertain = 0;
    for (;;) {
      const known = follower.lost.take(first);
      if (known !== undefined) return known;
      follower.checkAppends();
      branch = await this.#rebaser.advance(branch ?? (await authored()), follower.newest);
      const forms = presentForms(unsent, branch);
      const entries = forms.flatMap(({ drafts }) => drafts);
      const asWritten = (error: unknown): never => {
        throw rejectedAsWritten(error, (i) => authorsIndex(forms, i));
      };
      const { confirmed, folder } = follower;
      const drafts = entriesAt(confirmed.end, entries, confirmed.number);
      if (await this.#mutations.hasAll(entries, folder, confirmed, follower.base)) return undefined;
      const effective: FoldEntry[] = [];
      const state = await folder.foldNew(confirmed.state, drafts, effective).catch(asWritten);
      let added: AddedEntries | undefined;
      try {
        const after = condition && placeUnder(condition, unsent[0], confirmed.end);
        added = await this.#put(entries, after === undefined ? options : { ...options, after }).catch(asWritten);
        noteSent(forms);
        await follower.appended(added, drafts, { state, effective });
        return added;
      } catch (error) {
        const isConflict = error instanceof EntryExistsError;
        if (added === undefined && !isConflict && !isUncertain(error)) throw error;
        // After a lost answer, the other entry may be its own.
        const isOthers = isConflict && options.after !== undefined;
        if (isOthers && uncertain === 0) throw error;
        // After a conflict, an entry with this id is another one that the application gave it.
        if (!isConflict) noteSent(forms);
        const newest = isConflict && error.newest !== undefined ? nextPosition(error.newest) : follower.confirmed.end;
        if (!isConflict) await this.#findAppended(entries);
        else if (uncertain > 0) await follower.readTo(newest);
        if (!isConflict) uncertain++;
        const found = follower.lost.take(first);
        if (found !== undefined) return found;
        if (uncertain >= UNCERTAIN_ATTEMPTS || isOthers) throw error;
        await attempts.failed(error);
        // Others may have appended during the wait, and a lost request may have arrived.
        if (uncertain > 0) await this.#findAppended(entries);
        else await follower.readTo('end');
        await follower.readTo(newest);
      }
    }
  }

  /** Puts entries after the last known one, and asks for a newer snapshot now and then. */
  #put(entries: readonly DraftedEntry[], options: AppendOptions): Promise<AddedEntries> {
    const { log, confirmed } = this.#follower;
    const snapshot = this.#follower.askForSnapshot();
    const after = options.after ?? previousPosition(confirmed.end);
    const mayMove = options.after === undefined;
    return this.#deps.client.addDrafted(log, entries, { ...options, after, mayMove, ...(snapshot && { snapshot }) });
  }

  /** Looks for entries in the log whose answer was lost. */
  async #findAppended(entries: readonly DraftedEntry[]): Promise<void> {
    this.#follower.lost.add(entries);
    try {
      await this.#follower.readTo({ segment: MAX_NUMBER, entry: 0 });
    } catch (cause) {
      throw new AppendUncertainError('no answer came, and the log cannot be read', {
        log: this.#follower.log,
        advice:
          'Refresh the document and look for the entry before you append it again, or append it with a client and a mutation, which apply once',
        cause,
      });
    }
  }
}

/** The entries that take the place of an unsent one. */
interface PresentForm {
  readonly unsent: Unsent;
  readonly drafts: readonly DraftedEntry[];
}

/**
 * The entries that take the place of unsent ones, as they are appended. Notes which of their parts
 * are dropped.
 * @throws the failure of an unsent entry
 */
function presentForms(unsent: readonly Unsent[], { items }: Branch): readonly PresentForm[] {
  return unsent.map((each) => {
    if (each.failure !== undefined) throw each.failure;
    const item = items.find((one) => one.unsent === each);
    // Final, since sending it again cannot help.
    if (item === undefined) throw new RangeError('an entry that is being appended is in the log already');
    each.dropped = droppedParts(item);
    return { unsent: each, drafts: draftsOf(item) };
  });
}

/** Notes that the log may have entries. */
function noteSent(forms: readonly PresentForm[]): void {
  for (const { unsent, drafts } of forms) unsent.sent = Math.max(unsent.sent, drafts.length);
}

/** The index of the unsent entry whose place the i-th entry takes. */
function authorsIndex(forms: readonly PresentForm[], i: number): number {
  return forms.flatMap(({ unsent, drafts }) => drafts.map(() => unsent.index))[i] ?? i;
}

/** Whether a failed append may have been carried out. */
function isUncertain(error: unknown): boolean {
  if (!isLogfoldError(error)) return true;
  return error instanceof StoreUnavailableError || error instanceof AppendUncertainError;
}

/**
 * Whether sending an entry again cannot help: logfold, the code or the service refuses it. Other
 * errors, such as a lost connection, may pass.
 */
export function isFinal(error: unknown): boolean {
  const passing = [StoreUnavailableError, AppendUncertainError, AttemptsExhaustedError];
  if (isLogfoldError(error)) return !passing.some((type) => error instanceof type);
  if (error instanceof TypeError || error instanceof RangeError) return true;
  return error instanceof Error && error.name === 'ValidationException';
}
