import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex } from '@noble/hashes/utils.js';
import { LogIdInvalidError } from '../errors.ts';
import { isUuid, type LogId, textLogId } from '../ids/log-id.ts';

/**
 * The name of a log in keys of objects. It consists of lower-case letters, digits and `-_=~`, so
 * that every file system and every URL can hold it.
 */
export type LogName = string & { readonly __brand: 'LogName' };

/** A longer name is replaced by a hash. A file name has at most 255 bytes. */
const MAX_NAME = 200;

const ESCAPED_NAME = /^~(?:[0-9a-z_-]|=[0-9a-f]{2})+$/;
const HASHED_NAME = /^~~[0-9a-f]{64}$/;

/**
 * The name of a log. A UUID is its own name. Any other log is named `~` and its id, in which
 * lower-case letters, digits, `-` and `_` stay, and `=` and two hexadecimal digits replace every
 * other byte of its UTF-8. If that is too long, the name is a hash.
 */
export function logName(log: LogId): LogName {
  const id: string = log;
  if (isUuid(id)) return id as string as LogName;
  const escaped = `~${escapeId(log)}`;
  return escaped.length <= MAX_NAME ? (escaped as LogName) : hashedLogName(log);
}

/** `~~` and the SHA-256 of the id's UTF-8, in 64 hexadecimal digits. */
export function hashedLogName(log: LogId): LogName {
  return `~~${bytesToHex(sha256(new TextEncoder().encode(log)))}` as LogName;
}

/** Checks a name; undefined if no log has it. */
export function parseLogName(text: string): LogName | undefined {
  if (HASHED_NAME.test(text)) return text as LogName;
  const log = idOf(text);
  return log !== undefined && logName(log) === text ? (text as LogName) : undefined;
}

/** The inverse of {@link logName}; undefined if the name is a hash. */
export function logOfName(name: LogName): LogId | undefined {
  return idOf(name);
}

function idOf(text: string): LogId | undefined {
  try {
    if (isUuid(text)) return text;
    return ESCAPED_NAME.test(text) ? textLogId(unescapeId(text.slice(1))) : undefined;
  } catch (error) {
    if (error instanceof URIError || error instanceof LogIdInvalidError) return undefined;
    throw error;
  }
}

function escapeId(text: string): string {
  // `encodeURIComponent` keeps more characters. A group of its escapes stays together.
  return encodeURIComponent(text).replaceAll(/%[0-9A-F]{2}|[^0-9a-z_-]/g, (found) => {
    const digits = found.length === 1 ? found.charCodeAt(0).toString(16) : found.slice(1).toLowerCase();
    return `=${digits}`;
  });
}

/** @throws URIError if the bytes are not UTF-8 */
function unescapeId(escaped: string): string {
  return decodeURIComponent(escaped.replaceAll('=', '%'));
}
