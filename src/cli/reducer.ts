import { resolve } from 'node:path';
import { BUILT_IN_REDUCERS, builtInReducer, loadReducer } from '../adapters/platform/reducer-module.ts';
import { isOfOneLog, printable, ReducerForeignError, shellWord, UsageError } from '../errors.ts';
import { isUuid, type LogId } from '../ids/log-id.ts';
import type { EntryTime } from '../log/client.ts';
import type { ReservedTypes } from '../log/entry.ts';
import { createdAt } from '../log/find-position.ts';
import { findSnapshot } from '../log/last-snapshot.ts';
import { queryLast, queryNewestSegments } from '../log/newest.ts';
import type { ReducerId } from '../snapshot/root.ts';
import { loadRoot, type SnapshotStores } from '../snapshot/snapshots.ts';
import { foldsItems } from '../state/items/reducer.ts';
import type { Reducer } from '../state/reducer.ts';
import { foldsSheets } from '../state/spreadsheet/reducer.ts';

/** The reducer of a command, and whether somebody named it. */
export interface ChosenReducer {
  readonly reducer: Reducer;
  /** Whether the caller named the reducer. */
  readonly named: boolean;
}

/**
 * Loads the reducer of a module, or returns a reducer that comes with logfold.
 * @param named path of a module relative to the working directory, or the name of a reducer that
 * comes with logfold; undefined for the default
 * @throws ReducerInvalidError if the module has no valid reducer
 */
export async function chooseReducer(named: string | undefined): Promise<ChosenReducer> {
  if (named === undefined) return { reducer: BUILT_IN_REDUCERS[0], named: false };
  return { reducer: builtInReducer(named) ?? (await loadReducer(resolve(named))), named: true };
}

/**
 * Makes a check that refuses to fold another reducer's log with the default reducer. The check
 * throws ReducerForeignError if another reducer made the newest snapshot of a log. It also throws
 * if a mapped log has no snapshot, because the default reducer knows no entries of an application
 * and would stop the log. The check accepts every reducer that the caller named, and other versions
 * of the same reducer.
 */
export function reducerGuard(
  stores: SnapshotStores,
  { reducer, named }: ChosenReducer,
  isMapped: (log: LogId) => boolean,
): (log: LogId) => Promise<void> {
  const passed = new Set<LogId>();
  return async (log) => {
    if (named || passed.has(log)) return;
    const maker = await newestMaker(stores, log);
    if (maker === undefined && isMapped(log)) {
      throw new ReducerForeignError(`no reducer is named, and '${reducer.name}' is not for entries of an application`, {
        log,
        advice: "Nothing was changed. Give --reducer FILE; 'logfold inspect TABLE' prints a reducer to begin with",
      });
    }
    if (maker !== undefined && maker.name !== reducer.name) {
      const option = builtInReducer(maker.name)?.name ?? `FILE with the module of '${maker.name}'`;
      throw new ReducerForeignError(`reducer '${maker.name}' folds this log, not '${reducer.name}'`, {
        log,
        maker: maker.name,
        advice: `Nothing was changed. Give --reducer ${option}, or --reducer ${reducer.name} to change the reducer of the log`,
      });
    }
    passed.add(log);
  };
}

/** Says that the pipeline leaves a log to its own reducer, and how to build what is due there. */
export function skippedText({ log = 'LOG', reason, maker }: ReducerForeignError): string {
  const reducer = builtInReducer(maker ?? '')?.name ?? 'FILE';
  return `${printable(log)} is skipped: ${reason}. 'logfold sweep --log ${shellWord(log)} --reducer ${reducer}' builds the snapshots that are due.`;
}

/**
 * The reducer of a log's newest snapshot; undefined if there is no snapshot or it cannot be read.
 */
async function newestMaker(stores: SnapshotStores, log: LogId): Promise<ReducerId | undefined> {
  try {
    const [{ segment }] = await queryNewestSegments(stores.store, log, { consistent: true });
    const found = await findSnapshot(stores.store, log, { segment, entry: Number.MAX_SAFE_INTEGER });
    return found && (await loadRoot(stores, { log, position: found.position }, found.root)).reducer;
  } catch (error) {
    // The fold meets the same error and handles it.
    if (isOfOneLog(error)) return undefined;
    throw error;
  }
}

/** The version digit of a UUID: revisions of plain tables have logs of version 8. */
const REVISIONS_ID = /^.{14}8/;

/**
 * The time with which to write a Snapshot entry or to start a segment by hand: now by default. In a
 * log of revisions it is the time of the newest entry. The entries have the times of a stream's
 * records, which come late, and must not seem older than what is written now.
 */
export async function manualTime(
  stores: SnapshotStores & { readonly types: ReservedTypes; readonly reducer: Reducer },
  log: LogId,
): Promise<EntryTime> {
  if (!isUuid(log) || !REVISIONS_ID.test(log)) return {};
  if (!foldsItems(stores.reducer) && !foldsItems((await newestMaker(stores, log)) ?? stores.reducer)) return {};
  const [{ segment }] = await queryNewestSegments(stores.store, log, { consistent: true });
  const last = await queryLast(stores, log, segment);
  const created = last && (await createdAt(stores.store, log, last.position));
  return created === undefined ? {} : { created: created.seconds };
}

const SHEETS_ADVICE = "Use 'logfold state LOG', or 'logfold export LOG' without options for sheets";

/**
 * Checks that states are sheets.
 * @param option the option that makes sense only for sheets
 * @throws UsageError if the reducer is not the spreadsheet
 */
export function requireSheets(reducer: Reducer, option: string, advice = SHEETS_ADVICE): void {
  if (foldsSheets(reducer)) return;
  throw new UsageError(`${option} is for sheets, and the states of reducer '${reducer.name}' are not sheets`, {
    advice,
  });
}
