import { printable, TooLargeError, UsageError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { type AddedEntries, type AppendOptions, checkAppendOptions, Placement, writeTogether } from './append.ts';
import type { ClientContext } from './client-context.ts';
import { MAX_TRANSACTION_ITEMS } from './item-size.ts';
import { type DraftedEntry, draftEntries, type NewEntry } from './new-entry.ts';

/** Entries for one log of a transaction. */
export interface LogAppend extends Pick<AppendOptions, 'after' | 'snapshotBefore'> {
  readonly log: string;
  readonly entries: readonly NewEntry[];
}

const OPTIONS = ['after', 'snapshotBefore'] satisfies (keyof LogAppend)[];

interface DraftedAppend {
  readonly log: LogId;
  readonly drafts: readonly DraftedEntry[];
  readonly options: AppendOptions;
}

/**
 * Appends entries to several logs in one request, all or nothing, as `append` does to one log.
 *
 * After any other error, such as a lost connection, all entries may have been appended, or none.
 * @returns the places of the entries of each log, in the order of the appends
 * @throws UsageError if there are no appends, two are for one log, or an option or entry is invalid
 * @throws TooLargeError, with the counts of the logs, if one request cannot carry the entries
 * @throws the errors of `append`; they name the log
 */
export async function transact(context: ClientContext, appends: readonly LogAppend[]): Promise<AddedEntries[]> {
  const drafted = draftAppends(context, appends);
  const placements = await Promise.all(
    drafted.map(({ log, drafts, options }) => Placement.of(context, log, drafts, options)),
  );
  try {
    await writeTogether(context, placements);
  } catch (error) {
    if (!(error instanceof TooLargeError) || error.log !== undefined) throw error;
    throw new TooLargeError(`${error.reason}: ${countsOf(drafted)}`, { advice: error.advice, cause: error });
  }
  return placements.map(({ added }) => added);
}

function draftAppends(context: ClientContext, appends: readonly LogAppend[]): DraftedAppend[] {
  if (!Array.isArray(appends) || appends.length === 0) {
    throw new UsageError('the list of appends is empty', { advice: 'Give an array of { log, entries }' });
  }
  const logs = new Set<LogId>();
  const drafted = appends.map((append: LogAppend): DraftedAppend => {
    const log = context.parseLog(logOf(append));
    if (logs.has(log)) {
      const advice = 'Give all entries of a log in one append';
      throw new UsageError('two appends of one transaction are for the same log', { log, advice });
    }
    logs.add(log);
    const { log: _, entries, ...options } = append;
    checkAppendOptions(log, options, OPTIONS);
    return { log, drafts: draftEntries(context, log, entries), options };
  });
  const count = drafted.reduce((sum, append) => sum + entriesOf(append), 0);
  if (count <= MAX_TRANSACTION_ITEMS) return drafted;
  throw new TooLargeError(
    `${count} entries are more than the ${MAX_TRANSACTION_ITEMS} of one transaction: ${countsOf(drafted)}`,
    { advice: 'Append fewer entries together' },
  );
}

function logOf(append: unknown): string {
  if (typeof append === 'object' && append !== null && 'log' in append && typeof append.log === 'string') {
    return append.log;
  }
  throw new UsageError('an append names no log', { advice: 'Give an array of { log, entries }' });
}

function entriesOf({ drafts, options }: DraftedAppend): number {
  return drafts.length + (options.snapshotBefore === true ? 1 : 0);
}

/** The most logs in the message of an error. */
const NAMED_LOGS = 10;

/** How many entries the logs have in a transaction. */
function countsOf(drafted: readonly DraftedAppend[]): string {
  const named = drafted.slice(0, NAMED_LOGS).map((append) => `${entriesOf(append)} for log ${printable(append.log)}`);
  const others = drafted.length - named.length;
  return [...named, ...(others > 0 ? [`others for ${others} more logs`] : [])].join(', ');
}
