import * as z from 'zod';
import { LogBusyError } from '../../client/warm-log.ts';
import type { WarmLogs } from '../../client/warm-logs.ts';
import {
  BodyUndecodableError,
  EntryExistsError,
  EntryNotFoundError,
  LogfoldError,
  LogIdInvalidError,
  MessageInvalidError,
  MessageNewerError,
  NotAllowedError,
  TooLargeError,
  UsageError,
} from '../../errors.ts';
import { type LogId, type ParseLog, parseLogId } from '../../ids/log-id.ts';
import { formatPosition, MAX_NUMBER } from '../../ids/position.ts';
import type { StoredItem } from '../../log/attribute.ts';
import { decodeEntryBody, EXTERNAL_BODY_BYTES } from '../../log/body.ts';
import { type Entry, RESERVED_TYPES, type ReservedTypes } from '../../log/entry.ts';
import { numberAfter } from '../../log/find-position.ts';
import { decodeEntry, encodeEntry, encodeEntryHead, encodeSegment } from '../../log/item-codec.ts';
import { itemBytes, MAX_TRANSACTION_ITEMS } from '../../log/item-size.ts';
import type { EntryAppender, LogReader } from '../../log/log-store.ts';
import { storableMetadata } from '../../log/metadata.ts';
import { checkEntryCount, checkNewEntries } from '../../log/new-entry.ts';
import { type LogEnd, queryNewest } from '../../log/newest.ts';
import type { Reducer } from '../../state/reducer.ts';
import { logIdSchema } from '../../store/log-id-schema.ts';
import { appendFolded } from './append-folded.ts';
import {
  decodeLines,
  encodeError,
  encodeLines,
  type LogAnswer,
  MAX_SEGMENTS,
  MESSAGE_FORMAT,
  type ReadLines,
} from './log-message.ts';

/** A request reads a log or appends to it. */
export type LogOperation = 'read' | 'append';

/** The ports on which the server runs the requests of pages. */
export interface AnsweringStores {
  readonly store: LogReader;
  readonly tables: EntryAppender;
  /** The logs in the memory of a server that folds. */
  readonly warm?: WarmLogs | undefined;
}

export interface AnswerOptions {
  /**
   * Whether the user who sent the request may do this. Without a check every user reads and changes
   * every log, and may use the client name of another user in `once`, whose mutations then have no
   * effect.
   * @param entries the entries to append; none if the operation is `read`
   */
  readonly allows: (log: LogId, operation: LogOperation, entries: readonly Entry[]) => boolean | Promise<boolean>;
  /**
   * Folds the entries of pages before they are appended, and refuses those that it rejects. Without
   * it, a page can append an entry that stops its log.
   */
  readonly reducer?: Reducer | undefined;
  /** Reads the id of a log in a request; {@link parseLogId} by default. */
  readonly parseLog?: ParseLog | undefined;
  /** {@link RESERVED_TYPES} by default. */
  readonly types?: ReservedTypes | undefined;
}

/** An answer gets no further page of items from this many characters on. */
const FULL_ANSWER = 1_000_000;

const envelope = z.looseObject({ format: z.int().min(1) });
const numbered = z.int().min(0).max(MAX_NUMBER);
const format = z.literal(MESSAGE_FORMAT);
const lines = z.array(z.string()).min(1).max(MAX_TRANSACTION_ITEMS);
const place = { format, log: logIdSchema() };
const read = { ...place, consistent: z.boolean() };
const end = z
  .int()
  .min(0)
  .max(MAX_NUMBER + 1);
const logRequest = z.discriminatedUnion('op', [
  z.strictObject({ ...read, op: z.literal('newestSegments'), limit: z.int().min(1).max(MAX_SEGMENTS) }),
  z.strictObject({ ...read, op: z.literal('getSegment'), segment: numbered }),
  z.strictObject({ ...read, op: z.literal('newestEntry'), segment: numbered }),
  z.strictObject({ ...read, op: z.literal('getEntry'), segment: numbered, entry: numbered }),
  z.strictObject({ ...read, op: z.literal('items'), segment: numbered, from: end, to: end }),
  z.strictObject({ ...place, op: z.literal('putEntries'), lines, mayMove: z.boolean().optional() }),
  z.strictObject({
    format,
    op: z.literal('putTogether'),
    appends: z
      .array(z.strictObject({ log: logIdSchema(), lines }))
      .min(2)
      .max(MAX_TRANSACTION_ITEMS),
  }),
]);
/** A request of a page to the application's server. It is JSON. */
export type LogRequest = z.input<typeof logRequest>;
type ParsedRequest = z.output<typeof logRequest>;
type ReadRequest = Exclude<ParsedRequest, { op: 'putEntries' | 'putTogether' }>;

/**
 * Runs a request of a page's `RemoteLogStore` on the server. Both request and answer are JSON. The
 * answer may be an error, which the page throws.
 *
 * A page can only append entries after the newest entry of a log. They cannot name objects of
 * the bucket, carry roots or an expiry, or end a segment. Their types, ids, times, mutations,
 * metadata and bodies have the limits of every writer, and no body is larger than 16 KiB.
 * @throws any error that is not for the page, for example that AWS refuses the credentials: log it,
 * and answer the page with the status 500
 */
export async function answerLogRequest(
  stores: AnsweringStores,
  request: unknown,
  options: AnswerOptions,
): Promise<LogAnswer> {
  try {
    return await answer(stores, parseRequest(request, options), options);
  } catch (error) {
    if (error instanceof LogBusyError || stores.tables.isRetryable(error)) {
      const reason = `${error instanceof LogBusyError ? 'the log is' : 'the tables are'} busy, and nothing was changed`;
      return { error: { code: 'STORE_UNAVAILABLE', reason, advice: 'Try again later', retryable: true } };
    }
    const message = encodeError(error);
    if (message === undefined) throw error;
    return { error: message };
  }
}

function parseRequest(request: unknown, { parseLog = parseLogId }: AnswerOptions): ParsedRequest {
  const { data: sent } = envelope.safeParse(request);
  if (sent !== undefined && sent.format > MESSAGE_FORMAT) {
    throw new MessageNewerError(`the request has format ${sent.format}, and this server knows ${MESSAGE_FORMAT}`, {
      advice: 'Update logfold on the server',
    });
  }
  const parsed = logRequest.safeParse(request);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw malformed(issue?.path.join('.') ?? '', issue?.message ?? '');
  }
  const { data } = parsed;
  try {
    if (data.op !== 'putTogether') return { ...data, log: parseLog(data.log) };
    return { ...data, appends: data.appends.map((append) => ({ ...append, log: parseLog(append.log) })) };
  } catch (error) {
    throw error instanceof LogIdInvalidError ? malformed('log', error.reason) : error;
  }
}

function malformed(place: string, reason: string): MessageInvalidError {
  return new MessageInvalidError(`the request is malformed at '${place}': ${reason}`, {
    advice: 'Give `logs.answer` the request of `send`, parsed from JSON',
  });
}

async function answer(stores: AnsweringStores, request: ParsedRequest, options: AnswerOptions): Promise<LogAnswer> {
  if (request.op === 'putEntries') return putTogether(stores, [request], options, request.mayMove);
  if (request.op === 'putTogether') return putTogether(stores, request.appends, options);
  await requireAllowed(options, request.log, 'read', []);
  return readLines(stores.store, request);
}

/** Appends to one or several logs, if the user may append to each of them. */
async function putTogether(
  { store, tables, warm }: AnsweringStores,
  appends: readonly { readonly log: LogId; readonly lines: readonly string[] }[],
  options: AnswerOptions,
  mayMove = false,
): Promise<LogAnswer> {
  const { types = RESERVED_TYPES, reducer } = options;
  const decoded = appends.map(({ log, lines }) => ({ log, entries: decodeLines(lines).map(decodeEntry) }));
  const [first] = decoded;
  if (first !== undefined) checkEntryCount(first.log, decoded.flatMap(({ entries }) => entries).length);
  if (new Set(decoded.map(({ log }) => log)).size < decoded.length) throw malformed('appends', 'a log comes twice');
  for (const { log, entries } of decoded) checkAppended(log, entries, types);
  for (const { log, entries } of decoded) await requireAllowed(options, log, 'append', entries);
  if (warm !== undefined && reducer !== undefined) {
    return appendFolded({ tables, warm, reducer }, decoded, mayMove);
  }
  const placed = decoded.map(async ({ log, entries }) => {
    return renumbered(entries, await requireEnd({ store, types }, log, entries), types);
  });
  await tables.putEntries((await Promise.all(placed)).flat());
  return { lines: [] };
}

async function requireAllowed(
  { allows }: AnswerOptions,
  log: LogId,
  operation: LogOperation,
  entries: readonly Entry[],
): Promise<void> {
  // A caller without types may forget a promise or return undefined. Only true allows.
  if ((await allows(log, operation, entries)) === true) return;
  throw new NotAllowedError(
    `the server does not allow this user to ${operation === 'read' ? 'read' : 'append to'} the log`,
    {
      log,
      advice: 'Sign in as a user who may do this',
    },
  );
}

async function readLines(store: LogReader, request: ReadRequest): Promise<ReadLines> {
  const { log, consistent } = request;
  const all = (items: readonly (StoredItem | undefined)[]) => ({
    lines: encodeLines(items.filter((item) => item !== undefined)),
  });
  switch (request.op) {
    case 'newestSegments':
      return all((await store.newestSegments(log, request.limit, { consistent })).map(encodeSegment));
    case 'getSegment': {
      const segment = await store.getSegment(log, request.segment, { consistent });
      return all([segment && encodeSegment(segment)]);
    }
    case 'newestEntry': {
      const head = await store.newestEntry(log, request.segment, { consistent });
      return all([head && encodeEntryHead(head)]);
    }
    case 'getEntry': {
      const { segment, entry: number } = request;
      const entry = await store.getEntry(log, { segment, entry: number }, { consistent });
      return all([entry && encodeEntry(entry)]);
    }
    case 'items':
      return readItemLines(store, request);
  }
}

async function readItemLines(store: LogReader, request: Extract<ParsedRequest, { op: 'items' }>): Promise<ReadLines> {
  const { log, segment, from, to, consistent } = request;
  const lines: string[] = [];
  let characters = 0;
  for await (const page of store.items(log, { segment, from, to }, { consistent })) {
    const found = encodeLines(page);
    lines.push(...found);
    for (const line of found) characters += line.length;
    const next = Number(page.at(-1)?.N?.N) + 1;
    if (characters >= FULL_ANSWER && next < to) return { lines, next };
  }
  return { lines };
}

/** Refuses entries with which a page could damage its log, or read objects of another log. */
function checkAppended(log: LogId, entries: readonly Entry[], types: ReservedTypes): void {
  const [first] = entries;
  for (const [i, entry] of entries.entries()) {
    const { segment, entry: number } = entry.position;
    const where = { segment, entry: number, type: entry.type };
    const refuse = (problem: string, details: { readonly advice: string }) =>
      new UsageError(`${problem} from a page`, { log, ...where, ...details });
    if (entry.log !== log || segment !== first?.position.segment || number !== first.position.entry + i) {
      throw new MessageInvalidError('the entries of a request have positions in one segment, without a gap', {
        log,
        ...where,
      });
    }
    if (entry.external !== undefined || entry.file !== undefined) {
      throw refuse('an entry cannot name an object', {
        advice: 'Append entries with files or larger bodies on the server',
      });
    }
    if (entry.expires !== undefined) {
      throw refuse('an entry cannot expire', { advice: 'Append the entry without an expiry' });
    }
    if (entry.type === types.endSegment) {
      throw refuse('a segment cannot be ended', { advice: 'Start a new segment on the server' });
    }
    if (entry.type === types.snapshot && entry.body !== undefined) {
      throw refuse('a Snapshot entry cannot have a root', { advice: 'Append the Snapshot entry without a body' });
    }
    checkLimits(entry);
  }
  // The numbers of one client ascend over all entries.
  checkNewEntries(
    log,
    entries.map(({ type, version, once }) => ({ type, version, once })),
  );
}

/** Refuses an entry that no writer of this release could have made. */
function checkLimits(entry: Entry): void {
  const { log, position, type, version, created, id, once, metadata } = entry;
  const where = { log, ...position, type };
  const bytes = bodyBytes(entry);
  if (bytes > EXTERNAL_BODY_BYTES) {
    throw new TooLargeError(`the body of an entry from a page has ${bytes} bytes, over ${EXTERNAL_BODY_BYTES}`, {
      ...where,
      advice: 'Append entries with files or larger bodies on the server',
    });
  }
  try {
    checkNewEntries(log, [{ type, version, created, id, once }]);
    storableMetadata(log, metadata);
    decodeEntryBody(entry);
  } catch (error) {
    if (error instanceof BodyUndecodableError) {
      const advice = 'Append the entry with a document or a LogClient, which encode its body';
      throw new UsageError(`an entry from a page has a body that cannot be read: ${error.reason}`, {
        ...where,
        advice,
        cause: error,
      });
    }
    throw error instanceof LogfoldError ? error.at(where) : error;
  }
}

/** The size of a body by DynamoDB's rules, without the name of its attribute. */
function bodyBytes({ body, ...entry }: Entry): number {
  if (body === undefined) return 0;
  return itemBytes(encodeEntry({ ...entry, body })) - itemBytes(encodeEntry(entry)) - 'B'.length;
}

/**
 * Requires that the log ends directly before the entries, or that entries exist at their positions.
 * Only then does the condition of the write protect the log from a gap.
 */
async function requireEnd(
  source: { readonly store: LogReader; readonly types: ReservedTypes },
  log: LogId,
  [first]: readonly Entry[],
): Promise<LogEnd> {
  const end = await queryNewest(source, log, { consistent: true });
  if (first === undefined) return end;
  const { position: newest, number: newestNumber } = end;
  const { segment, entry } = first.position;
  if (segment < newest.segment) {
    throw new EntryExistsError('the segment has ended', {
      log,
      segment,
      entry,
      newest,
      newestNumber,
      advice: 'Read the newer entries, then append after the newest',
    });
  }
  if (segment > newest.segment || entry > newest.entry + 1) {
    throw new EntryNotFoundError(`no entry exists before ${formatPosition(first.position)}`, {
      log,
      ...first.position,
      newest,
      newestNumber,
      advice: `Append after ${formatPosition(newest)}, the newest entry`,
    });
  }
  return end;
}

/** The entries with right numbers: a page must not end the numbers of its log, or repeat one. */
function renumbered(entries: readonly Entry[], newest: LogEnd, types: ReservedTypes): Entry[] {
  let before = newest.number;
  return entries.map(({ number: _, ...entry }) => {
    const number = numberAfter(before, entry.type, types);
    before = number;
    return number === undefined ? entry : { ...entry, number };
  });
}
