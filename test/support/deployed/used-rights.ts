import type { NeededRight } from './aws-gateway.ts';
import { allows, type DeployedFunction, matches, NOT_OF_CODE } from './deployed-functions.ts';

type Functions = ReadonlyMap<string, DeployedFunction>;

/** Lists requests that the functions' roles deny, as `function: action on resource`. */
export function notAllowed(functions: Functions, needed: readonly NeededRight[]): string[] {
  const refused = needed.filter(({ caller, action, resource }) => {
    return !allows(functions.get(caller)?.statements ?? [], action, resource);
  });
  return [...new Set(refused.map(({ caller, action, resource }) => `${caller}: ${action} on ${resource}`))].sort();
}

/**
 * Lists the permissions of the roles for requests of logfold's code, with true if a request used
 * it. Each resource of a statement counts as a separate permission.
 * @returns by `function: action (statement)`, with a number if the statement has several resources
 */
export function useOfRights(functions: Functions, needed: readonly NeededRight[]): Map<string, boolean> {
  const use = new Map<string, boolean>();
  for (const { id, statements } of functions.values()) {
    for (const { sid, actions, resources } of statements) {
      if (NOT_OF_CODE.has(sid)) continue;
      for (const action of actions) {
        for (const [i, pattern] of resources.entries()) {
          const number = resources.length === 1 ? '' : ` ${i + 1}`;
          const used = needed.some(
            (each) => each.caller === id && each.action === action && matches(pattern, each.resource),
          );
          use.set(`${id}: ${action} (${sid}${number})`, used);
        }
      }
    }
  }
  return use;
}
