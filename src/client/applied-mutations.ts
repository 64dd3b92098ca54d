import { isLogfoldError, MutationOvertakenError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { comparePositions, type Position, START } from '../ids/position.ts';
import type { ClientMutation, CompletedSnapshot, Entry } from '../log/entry.ts';
import { type EntrySource, readUpTo } from '../log/read-entries.ts';
import type { Confirmed, StateFolder } from './state-folder.ts';

/** The mutations of one client that took effect in a range of the log. */
interface Read {
  readonly client: string;
  readonly from: Position;
  to: Position;
  /** The highest mutation before `to`. */
  highest: number;
  readonly applied: Set<number>;
}

/** A state: the position after its last entry, and the snapshot on which it stands. */
interface Known {
  readonly end: Position;
  readonly base: CompletedSnapshot | undefined;
}

/**
 * Tells which numbered mutations took effect. A state only has the highest one of each client. For
 * a lower one, the entries of the log show whether it was applied or overtaken.
 */
export class AppliedMutations {
  readonly #source: EntrySource;
  #read: Read | undefined;

  constructor(source: EntrySource) {
    this.#source = source;
  }

  /**
   * Whether the mutations of all entries have been applied, and there is at least one. Takes no
   * request unless a later mutation of the same client has been applied.
   * @param base the snapshot from which the entries lead to the state
   * @throws MutationOvertakenError if a mutation can never be applied, or nobody knows if it was
   */
  async hasAll(
    entries: readonly Pick<Entry, 'once'>[],
    folder: StateFolder,
    { state, end }: Confirmed,
    base: CompletedSnapshot | undefined,
  ): Promise<boolean> {
    const given = Map.groupBy(
      entries.flatMap(({ once }) => once ?? []),
      ({ client }) => client,
    );
    let hasAll = given.size > 0;
    for (const [client, onces] of given) {
      const highest = await folder.highestMutation(state, client);
      // Entries of one append are applied together.
      if (onces.at(-1)?.mutation === highest) continue;
      for (const once of onces) {
        if (once.mutation > highest) hasAll = false;
        else if (once.mutation < highest) await this.#requireApplied(folder, once, { highest, end, base });
      }
    }
    return hasAll;
  }

  async #requireApplied(
    folder: StateFolder,
    once: ClientMutation,
    known: Known & { readonly highest: number },
  ): Promise<void> {
    const { log } = folder;
    const { client, mutation } = once;
    const { highest, end } = known;
    let isApplied: boolean;
    try {
      const read = await this.#readOn(log, this.#read?.client === client ? this.#read : undefined, end);
      isApplied = read?.applied.has(mutation) === true || (await this.#isApplied(folder, once, known));
    } catch (cause) {
      if (!isLogfoldError(cause) || !cause.stopsLog) throw cause;
      throw new MutationOvertakenError(
        `mutation ${highest} of client '${client}' has been applied, and the log no longer shows whether mutation ${mutation} was applied before`,
        { log, advice: 'Look whether the state has the change. If it has not, append it with a higher number', cause },
      );
    }
    if (isApplied) return;
    throw new MutationOvertakenError(
      `mutation ${mutation} of client '${client}' can no longer be applied, since mutation ${highest} came first`,
      { log, advice: 'Append the change with a higher number, and give each writer another client name' },
    );
  }

  /** Reads the entries since the base, or all if the base has this or a later mutation. */
  async #isApplied(folder: StateFolder, { client, mutation }: ClientMutation, { end, base }: Known): Promise<boolean> {
    if (this.#read?.client === client && this.#read.from === START) return false;
    const root = base && (await folder.ownRoot(base));
    const before = root === undefined ? 0 : await folder.highestMutation(root.state, client);
    const isBehind = base !== undefined && root !== undefined && before < mutation;
    const from = isBehind ? base.position : START;
    const read = { client, from, to: from, highest: isBehind ? before : 0, applied: new Set<number>() };
    return (await this.#readOn(folder.log, read, end))?.applied.has(mutation) === true;
  }

  /** Reads the entries after those that were read. After a failure nothing counts as read. */
  async #readOn(log: LogId, read: Read | undefined, to: Position): Promise<Read | undefined> {
    this.#read = undefined;
    if (read === undefined) return undefined;
    if (comparePositions(read.to, to) < 0) {
      for await (const page of readUpTo(this.#source, log, { from: read.to, to, newestSegment: to.segment })) {
        for (const { once } of page) {
          if (once?.client !== read.client || once.mutation <= read.highest) continue;
          read.highest = once.mutation;
          read.applied.add(once.mutation);
        }
      }
      read.to = to;
    }
    this.#read = read;
    return read;
  }
}
