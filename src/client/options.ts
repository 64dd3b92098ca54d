import { LogIdInvalidError, ReducerInvalidError, UsageError } from '../errors.ts';
import type { OnForeign } from '../log/guard.ts';
import { checkOptionNames } from '../log/option-names.ts';
import { checkOnBadEntry, type OnBadEntry } from '../snapshot/bad-entry.ts';
import { isReducer, REDUCER_PARTS, type Reducer } from '../state/reducer.ts';
import type { ReloadLimits } from './state-folder.ts';

/** @template R decides which entries the document takes: those of its reducer */
export interface DocumentOptions<R extends Reducer = Reducer> {
  /** Folds the entries. It must be the reducer of the deployment, which makes the snapshots. */
  readonly reducer: R;
  /**
   * A document that is further behind loads the newest snapshot instead of every entry since. 5,000
   * entries and 2 segments by default.
   */
  readonly reloadAfter?: Partial<ReloadLimits>;
  /**
   * Called once for each archive, root or Last Snapshot that another program wrote and that the
   * document passed over. Ignored by default.
   */
  readonly onForeign?: OnForeign;
  /**
   * With `stop`, a document that meets an entry that cannot be decoded or folded shows the state
   * before it, names it in `badEntry`, and refuses to append. `throw` by default.
   */
  readonly onBadEntry?: OnBadEntry | undefined;
}

/**
 * Checks the arguments with which an application opens a document.
 * @throws LogIdInvalidError if the id is not a string
 * @throws ReducerInvalidError if the reducer lacks a part
 * @throws UsageError if another option is invalid
 */
export function checkDocumentOptions(log: unknown, options: DocumentOptions): void {
  if (typeof log !== 'string') throw new LogIdInvalidError(`the id of the log is not a string, but ${String(log)}`);
  const names = ['reducer', 'reloadAfter', 'onForeign', 'onBadEntry'] satisfies (keyof DocumentOptions)[];
  checkOptionNames('open', options, names);
  const { reducer, reloadAfter = {}, onForeign, onBadEntry } = options;
  if (!isReducer(reducer)) {
    throw new ReducerInvalidError('the reducer of a document is not valid', {
      advice: `Give 'open' a reducer: ${REDUCER_PARTS}`,
    });
  }
  if (onForeign !== undefined && typeof onForeign !== 'function') {
    throw new UsageError(`'onForeign' is ${String(onForeign)}, not a function`);
  }
  checkOnBadEntry(onBadEntry);
  checkOptionNames('reloadAfter', reloadAfter, ['entries', 'segments']);
  for (const [name, limit] of Object.entries<unknown>(reloadAfter)) {
    if (limit === undefined || (Number.isSafeInteger(limit) && Number(limit) >= 0)) continue;
    throw new UsageError(`'${name}' of reloadAfter is ${String(limit)}, not a whole number of at least 0`);
  }
}
