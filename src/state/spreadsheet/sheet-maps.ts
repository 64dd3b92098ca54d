import { isHiddenMap, type State } from '../state.ts';

/** The maps of a sheet, with the kinds of their keys. */
const KINDS: ReadonlyMap<string, string> = new Map([
  ['cells', 'number'],
  ['rows', 'string'],
  ['columns', 'string'],
]);

/** The names of the maps of a sheet. */
export const SHEET_MAPS: ReadonlySet<string> = new Set(KINDS.keys());

/**
 * Whether a state can be read as a sheet, whichever reducer made it: it has at least one map of a
 * sheet, or no map at all. It may have other maps too.
 */
export function mayBeSheet({ maps }: State): boolean {
  const names = [...maps.keys()].filter((name) => !isHiddenMap(name));
  const known = names.filter((name) => KINDS.has(name));
  return known.every((name) => maps.get(name)?.kind === KINDS.get(name)) && known.length >= Math.min(names.length, 1);
}
