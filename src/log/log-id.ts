import { parse, stringify, validate } from 'uuid';
import { LogIdInvalidError } from '../errors.ts';

/** The id of a log: a UUID in lower case. */
export type LogId = string & { readonly __brand: 'LogId' };

/**
 * Reads a UUID in its text form, in either case.
 * @throws LogIdInvalidError where the text is no UUID
 */
export function parseLogId(text: string): LogId {
  const lower = text.toLowerCase();
  if (!isLogId(lower)) {
    throw new LogIdInvalidError(`'${text}' is not a log id`, {
      advice: "Give the UUID of a log, such as the one that 'logfold create' prints",
    });
  }
  return lower;
}

function isLogId(text: string): text is LogId {
  return validate(text);
}

/** The 16 bytes of a log id, as they stand in both tables. */
export function logIdBytes(log: LogId): Uint8Array {
  return parse(log);
}

/**
 * The log id in 16 bytes.
 * @throws LogIdInvalidError where there are not 16 bytes or they are no UUID
 */
export function logIdFromBytes(bytes: Uint8Array): LogId {
  // stringify leaves the rest of a longer array alone.
  if (bytes.length !== 16) throw new LogIdInvalidError(`A log id has 16 bytes, not ${bytes.length}`);
  try {
    return parseLogId(stringify(bytes));
  } catch (cause) {
    throw new LogIdInvalidError('16 bytes of a log id are no UUID', { cause });
  }
}
