import { LogNotFoundError, PolicyInvalidError } from './caller.ts';
import { LogfoldError } from './logfold-error.ts';
import { ObjectInvalidError } from './state.ts';

/** Whether an error concerns one log only. A loop over many logs can continue with the next log. */
export function isOfOneLog(error: unknown): error is LogfoldError {
  if (!(error instanceof LogfoldError)) return false;
  const ofALog = [LogNotFoundError, ObjectInvalidError, PolicyInvalidError].some((each) => error instanceof each);
  return error.stopsLog || (ofALog && error.log !== undefined);
}

/** The longest text kept of a thrown value, in UTF-16 code units. */
const MAX_THROWN_TEXT = 2000;

/** Whether a thrown value is a LogfoldError. Never throws. */
export function isLogfoldError(thrown: unknown): thrown is LogfoldError {
  try {
    return thrown instanceof LogfoldError;
  } catch {
    // The prototype of a revoked proxy cannot be read.
    return false;
  }
}

/**
 * A thrown value as text. Never throws, although some values have no text or throw when they are
 * converted.
 */
export function textOf(thrown: unknown): string {
  try {
    const text = String(thrown);
    return text.length > MAX_THROWN_TEXT ? `${text.slice(0, MAX_THROWN_TEXT)}…` : text;
  } catch {
    return thrown !== null && typeof thrown === 'object'
      ? 'an object without a text'
      : `a ${typeof thrown} without a text`;
  }
}

/**
 * A thrown value as a plain error that is safe to log: no getters, no own methods, at most `depth`
 * causes.
 */
export function plainError(thrown: unknown, depth = 4): Error {
  const plain = new Error(textOf(thrown));
  try {
    if (!(thrown instanceof Error)) return plain;
    const { name, message, stack, cause } = thrown;
    if (typeof name === 'string') plain.name = name.slice(0, MAX_THROWN_TEXT);
    if (typeof message === 'string') plain.message = message.slice(0, MAX_THROWN_TEXT);
    if (typeof stack === 'string') plain.stack = stack.slice(0, 4 * MAX_THROWN_TEXT);
    if (cause !== undefined && depth > 0) plain.cause = plainError(cause, depth - 1);
  } catch {
    // A getter threw. Keep the fields read so far.
  }
  return plain;
}
