import { resolve } from 'node:path';
import { loadReducer } from '../adapters/platform/reducer-module.ts';
import { isOfOneLog, ReducerForeignError, UsageError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { queryNewestSegments } from '../log/newest.ts';
import type { ReducerId } from '../snapshot/root.ts';
import { findSnapshot, loadRoot, type SnapshotStores } from '../snapshot/snapshots.ts';
import type { Reducer } from '../state/reducer.ts';
import { spreadsheet } from '../state/spreadsheet/reducer.ts';

/** What a command folds with, and whether a log is to be folded with it. */
export interface ChosenReducer {
  readonly reducer: Reducer;
  /** Whether a person named it. */
  readonly named: boolean;
}

/**
 * The reducer of a module, or the one that comes with logfold, by its name or where nothing is named.
 * @param named path of a module, from the working directory on
 * @throws ReducerInvalidError
 */
export async function chooseReducer(named: string | undefined): Promise<ChosenReducer> {
  if (named === undefined || named === spreadsheet.name) return { reducer: spreadsheet, named: named !== undefined };
  return { reducer: await loadReducer(resolve(named)), named: true };
}

/**
 * Makes sure that nobody folds a log with a reducer which they did not choose. A reducer of another version is a new
 * release of the same, and one that a person named is their decision, as it is where functions are deployed.
 * @returns what throws ReducerForeignError where the newest snapshot of a log is of another reducer
 */
export function reducerGuard(stores: SnapshotStores, { reducer, named }: ChosenReducer): (log: LogId) => Promise<void> {
  const passed = new Set<LogId>();
  return async (log) => {
    if (named || passed.has(log)) return;
    const maker = await newestMaker(stores, log);
    if (maker !== undefined && maker.name !== reducer.name) {
      throw new ReducerForeignError(`the log is folded by reducer '${maker.name}', and this is '${reducer.name}'`, {
        log,
        advice: `Nothing was changed. Give --reducer FILE with the module of '${maker.name}', or --reducer ${reducer.name} if that is what you want`,
      });
    }
    passed.add(log);
  };
}

/** Who made the newest snapshot of a log; undefined where there is none, or none that can be read. */
async function newestMaker(stores: SnapshotStores, log: LogId): Promise<ReducerId | undefined> {
  try {
    const [{ segment }] = await queryNewestSegments(stores.store, log, { consistent: true });
    const found = await findSnapshot(stores.store, log, { segment, entry: Number.MAX_SAFE_INTEGER });
    return found && (await loadRoot(stores, { log, position: found.position }, found.ref)).reducer;
  } catch (error) {
    // What is wrong with the log, whoever folds it finds too, and knows what to do about it.
    if (isOfOneLog(error)) return undefined;
    throw error;
  }
}

/**
 * Makes sure that states are sheets, for a command that knows nothing else.
 * @throws UsageError
 */
export function requireSheets({ name }: Reducer, command: string): void {
  if (name === spreadsheet.name) return;
  throw new UsageError(`${command} is for sheets, and the states of reducer '${name}' are something else`, {
    advice: 'Append and load with a program of your own, as the application does',
  });
}
