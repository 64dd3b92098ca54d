import { isAbsolute } from 'node:path';
import { pathToFileURL } from 'node:url';
import { ReducerInvalidError, textOf } from '../../errors.ts';
import { collections } from '../../state/collections/reducer.ts';
import { withHistory } from '../../state/history/with-history.ts';
import { items } from '../../state/items/reducer.ts';
import { isReducer, REDUCER_PARTS, type Reducer } from '../../state/reducer.ts';
import { spreadsheet } from '../../state/spreadsheet/reducer.ts';

/** The reducers that come with logfold. The first is the default. */
export const BUILT_IN_REDUCERS = [
  spreadsheet,
  collections,
  items,
  withHistory(spreadsheet),
  withHistory(collections),
  withHistory(items),
] as const satisfies readonly Reducer[];

/** The reducer that comes with logfold and has a name; undefined if there is none. */
export function builtInReducer(named: string): Reducer | undefined {
  return BUILT_IN_REDUCERS.find(({ name }) => name === named);
}

/**
 * The reducer that is the default export of an ES module.
 * @param path absolute
 * @throws ReducerInvalidError if the module cannot be loaded or exports no reducer
 */
export async function loadReducer(path: string): Promise<Reducer> {
  if (!isAbsolute(path)) throw invalid(path, 'is not an absolute path');
  const module: unknown = await import(pathToFileURL(path).href).catch((cause: unknown) => {
    throw invalid(path, `cannot be loaded: ${textOf(cause)}`, cause);
  });
  const exported = typeof module === 'object' && module !== null && 'default' in module ? module.default : undefined;
  if (isReducer(exported)) return exported;
  throw invalid(path, `has no reducer (${REDUCER_PARTS}) as its default export`);
}

function invalid(path: string, reason: string, cause?: unknown): ReducerInvalidError {
  return new ReducerInvalidError(`the module '${path}' ${reason}`, {
    advice: 'Name an ES module whose default export is a reducer, or a built-in reducer such as collections',
    cause,
  });
}
