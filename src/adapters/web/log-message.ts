import { decodeItemLine, encodeItemLine } from '../../archive/item-line.ts';
import {
  ArchiveCorruptError,
  ArchiveMissingError,
  DocumentStoppedError,
  EntryExistsError,
  EntryNotFoundError,
  EntryRejectedError,
  type ErrorDetails,
  ItemInvalidError,
  LogfoldError,
  LogNotFoundError,
  LogReadOnlyError,
  MessageInvalidError,
  MessageNewerError,
  NotAllowedError,
  StoreUnavailableError,
  TooLargeError,
  UsageError,
  ValueUnsupportedError,
} from '../../errors.ts';
import type { Position } from '../../ids/position.ts';
import type { Item, StoredItem } from '../../log/attribute.ts';
import type { ClientMutation } from '../../log/entry.ts';

/**
 * Version of requests and answers; there is only one so far. A server refuses requests of newer
 * versions, which a page sends if its code is newer than the server's.
 */
export const MESSAGE_FORMAT = 1;

/** The most segments that one request reads. */
export const MAX_SEGMENTS = 1000;

/** The server's answer to a request of a page. It is JSON. */
export type LogAnswer = ReadLines | WrittenEntries | { readonly error: ErrorMessage };

/** The items that were found, each as a line of DynamoDB JSON. */
export interface ReadLines {
  readonly lines: readonly string[];
  /** The number from which the range has not been read; absent if all of it has been read. */
  readonly next?: number | undefined;
}

/** The answer of a server that folds, after it wrote the entries of a page. */
export interface WrittenEntries {
  readonly lines: readonly [];
  /** Whether the entries came after those of others, so they have other positions than given. */
  readonly moved: boolean;
  /** The highest mutation that the log has applied, of each client that the entries name. */
  readonly mutations: readonly ClientMutation[];
}

export interface ErrorMessage extends Pick<ErrorDetails, 'log' | 'segment' | 'entry' | 'type' | 'advice'> {
  readonly code: string;
  readonly reason: string;
  /** See {@link EntryExistsError}. */
  readonly newest?: Position | undefined;
  readonly newestNumber?: number | undefined;
  /** See {@link EntryRejectedError}. */
  readonly index?: number | undefined;
  /** True if the request changed nothing and may succeed if it is repeated. */
  readonly retryable?: true | undefined;
}

type ErrorClass = new (reason: string, details: ErrorDetails & NewestDetails) => LogfoldError;
type NewestDetails = { readonly newest?: Position; readonly newestNumber?: number | undefined };

/** The errors that a page gets from the server. All others may name resources of the server. */
const CLASSES: Readonly<Record<string, ErrorClass>> = {
  ARCHIVE_CORRUPT: ArchiveCorruptError,
  ARCHIVE_MISSING: ArchiveMissingError,
  DOCUMENT_STOPPED: DocumentStoppedError,
  ENTRY_EXISTS: EntryExistsError,
  ENTRY_NOT_FOUND: EntryNotFoundError,
  ITEM_INVALID: ItemInvalidError,
  LOG_NOT_FOUND: LogNotFoundError,
  LOG_READ_ONLY: LogReadOnlyError,
  MESSAGE_INVALID: MessageInvalidError,
  MESSAGE_NEWER: MessageNewerError,
  NOT_ALLOWED: NotAllowedError,
  STORE_UNAVAILABLE: StoreUnavailableError,
  TOO_LARGE: TooLargeError,
  USAGE: UsageError,
  VALUE_UNSUPPORTED: ValueUnsupportedError,
};

/** Items as lines. */
export function encodeLines(items: Iterable<StoredItem>): string[] {
  return Array.from(items, encodeItemLine);
}

/**
 * The inverse of {@link encodeLines}.
 * @throws MessageInvalidError if a line is not an item
 */
export function decodeLines(lines: readonly string[]): Item[] {
  try {
    return lines.map(decodeItemLine);
  } catch (cause) {
    if (cause instanceof ArchiveCorruptError) throw new MessageInvalidError(cause.reason, { cause });
    // The stack is used up.
    throw cause instanceof RangeError ? new MessageInvalidError('a line is nested too deeply', { cause }) : cause;
  }
}

/** An error as a message for a page; undefined if it is not for pages. */
export function encodeError(error: unknown): ErrorMessage | undefined {
  if (!(error instanceof LogfoldError)) return undefined;
  const { code, reason, log, segment, entry, type, advice } = error;
  if (error instanceof EntryRejectedError) return { code, reason, log, type, index: error.index };
  if (CLASSES[code] === undefined) return undefined;
  const { newest, newestNumber } =
    error instanceof EntryExistsError || error instanceof EntryNotFoundError ? error : {};
  return { code, reason, log, segment, entry, type, advice, newest, newestNumber };
}

/** The inverse of {@link encodeError}. An unknown code becomes MessageNewerError. */
export function decodeError({ code, reason, newest, index = 0, ...where }: ErrorMessage): LogfoldError {
  if (code === 'ENTRY_REJECTED') return new EntryRejectedError(index, reason, where);
  const Class = CLASSES[code];
  if (Class !== undefined) return new Class(reason, { ...where, ...(newest !== undefined && { newest }) });
  return new MessageNewerError(`the server answered with the unknown error '${code}': ${reason}`, {
    ...where,
    advice: 'Reload the page, so that it runs the code that fits the server',
  });
}
