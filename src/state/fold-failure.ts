import { FoldFailedError, isLogfoldError, type LogfoldError, plainError, textOf, type Where } from '../errors.ts';

/**
 * Turns a value that code of a reducer threw into an error that stops its log at the entry.
 * @param thrower the code that threw, such as `reducer 'notes'`
 */
export function foldFailure(thrower: string, where: Where, thrown: unknown): LogfoldError {
  try {
    if (isLogfoldError(thrown) && thrown.stopsLog === true && isText(thrown.code) && isText(thrown.reason)) {
      Object.assign(thrown, { log: undefined, segment: undefined, entry: undefined, type: undefined });
      return thrown.at(where);
    }
  } catch {
    // The value only resembles a LogfoldError.
  }
  return new FoldFailedError(`${thrower} failed: ${textOf(thrown)}`, {
    ...where,
    advice: 'Correct the reducer, raise its version, and deploy it',
    cause: plainError(thrown),
    thrown,
  });
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

/** Why a reducer refuses a new entry, and what to do, by what it threw. */
export function whyRefused(thrown: unknown): Pick<LogfoldError, 'reason' | 'advice'> {
  return isLogfoldError(thrown) ? thrown : { reason: plainError(thrown).message, advice: undefined };
}
