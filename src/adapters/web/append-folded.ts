import type { AcceptedEntries, WarmLog } from '../../client/warm-log.ts';
import type { WarmLogs } from '../../client/warm-logs.ts';
import { EntryExistsError } from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import { comparePositions, type Position } from '../../ids/position.ts';
import type { ClientMutation, Entry } from '../../log/entry.ts';
import type { EntryAppender } from '../../log/log-store.ts';
import type { Reducer } from '../../state/reducer.ts';
import type { WrittenEntries } from './log-message.ts';

/** Entries of a page for one log, with positions after the entries that the page has read. */
interface PageEntries {
  readonly log: LogId;
  readonly entries: readonly Entry[];
}

export interface FoldingServer {
  readonly tables: EntryAppender;
  readonly warm: WarmLogs;
  readonly reducer: Reducer;
}

/** Attempts to append while other servers are faster. */
const ATTEMPTS = 5;

/**
 * Folds entries of a page onto the states of their logs. If the reducer accepts all of them,
 * appends them in one request, all or nothing.
 * @param appends of different logs
 * @param mayMove whether they may be rebased over entries that others appended first; only if they
 * are of one log
 * @throws the errors of {@link WarmLog.accept} and {@link EntryAppender.putEntries}
 */
export async function appendFolded(
  { tables, warm, reducer }: FoldingServer,
  appends: readonly PageEntries[],
  mayMove: boolean,
): Promise<WrittenEntries> {
  return warm.run(
    reducer,
    appends.map(({ log }) => log),
    async (logs) => {
      for (let attempt = 1; ; attempt++) {
        const accepted = await acceptAll(logs, appends, mayMove);
        if (accepted === undefined) return answerOf(logs, appends, true);
        try {
          await tables.putEntries(accepted.flatMap(({ entries }) => entries));
        } catch (error) {
          if (!(error instanceof EntryExistsError)) throw error;
          for (const log of logs) await log.refresh();
          if (mayMove && attempt < ATTEMPTS) continue;
          const lost = logs.findIndex(({ log }) => log === error.log);
          throw logs.at(lost)?.exists(firstOf(appends.at(lost))) ?? error;
        }
        for (const [i, log] of logs.entries()) await followWritten(log, accepted[i]);
        return answerOf(logs, appends, isMoved(appends, accepted));
      }
    },
  );
}

/** @returns undefined if the log has the entries already, perhaps at other positions */
async function acceptAll(
  logs: readonly WarmLog[],
  appends: readonly PageEntries[],
  mayMove: boolean,
): Promise<readonly AcceptedEntries[] | undefined> {
  const accepted: AcceptedEntries[] = [];
  for (const [i, { entries }] of appends.entries()) {
    const folded = await logs[i]?.accept({ entries, mayMove: mayMove && appends.length === 1 });
    if (folded === undefined) return undefined;
    accepted.push(folded);
  }
  return accepted;
}

/** The entries are stored, even if the state cannot have them yet. The next request reads them. */
async function followWritten(log: WarmLog, accepted: AcceptedEntries | undefined): Promise<void> {
  if (accepted !== undefined) await log.written(accepted).catch(() => undefined);
}

async function answerOf(
  logs: readonly WarmLog[],
  appends: readonly PageEntries[],
  moved: boolean,
): Promise<WrittenEntries> {
  const mutations: ClientMutation[] = [];
  for (const [i, { entries }] of appends.entries()) {
    const clients = new Set(entries.flatMap(({ once }) => (once === undefined ? [] : [once.client])));
    for (const client of clients) {
      const mutation = (await logs[i]?.highestMutation(client)) ?? 0;
      mutations.push({ client, mutation });
    }
  }
  return { lines: [], moved, mutations };
}

function isMoved(appends: readonly PageEntries[], accepted: readonly AcceptedEntries[]): boolean {
  return appends.some((append, i) => comparePositions(firstOf(append), firstOf(accepted[i])) !== 0);
}

function firstOf(given: Pick<PageEntries, 'entries'> | undefined): Position {
  const [first] = given?.entries ?? [];
  if (first === undefined) throw new RangeError('there are no entries');
  return first.position;
}
