import {
  AppendUncertainError,
  LogfoldError,
  MessageInvalidError,
  StoreUnavailableError,
  textOf,
  UsageError,
} from '../../errors.ts';
import type { LogId } from '../../ids/log-id.ts';
import type { Position } from '../../ids/position.ts';
import type { AttributeValue, Item } from '../../log/attribute.ts';
import type { Entry, EntryHead, ReservedTypes } from '../../log/entry.ts';
import { decodeEntry, decodeEntryHead, decodeSegment, encodeEntry, entryPlace } from '../../log/item-codec.ts';
import type { Consistency, EntryAppender, LogReader, PutOptions, SegmentRange } from '../../log/log-store.ts';
import { VIRTUAL_TYPES } from '../../log/schedule.ts';
import type { Segment } from '../../log/segment.ts';
import type { LogRequest } from './answer-log-request.ts';
import {
  decodeError,
  decodeLines,
  type ErrorMessage,
  encodeLines,
  MAX_SEGMENTS,
  MESSAGE_FORMAT,
  type ReadLines,
} from './log-message.ts';

/**
 * Sends a request to the application's server, which gives it to `logs.answer`, and returns
 * the answer. Both are JSON. Throws if there is no answer.
 */
export type SendLogRequest = (request: LogRequest) => Promise<unknown>;

/**
 * Logs behind the application's own server, for a page or another program without AWS credentials.
 * Each method is one request, as in the tables; `items` and `entries` take one for about each
 * megabyte.
 *
 * It reads logs and appends entries. Everything else, such as creating logs and segments, happens
 * on the server: those methods throw UsageError. Every other method throws the error of the server,
 * StoreUnavailableError if the server does not answer, and NotAllowedError if it refuses.
 */
export class RemoteLogStore implements LogReader, EntryAppender {
  readonly reads = 'tables and archives';
  readonly #send: SendLogRequest;
  readonly #types: ReservedTypes | undefined;
  readonly #retryable = new WeakSet<LogfoldError>();

  /**
   * @param types those of the entries that the page does not fold. With them, a mapped log whose
   * types are others is refused; by default it is not
   */
  constructor(send: SendLogRequest, types?: ReservedTypes) {
    this.#send = send;
    this.#types = types;
  }

  /** At most {@link MAX_SEGMENTS}. */
  async newestSegments(log: LogId, most: number, { consistent }: Consistency): Promise<Segment[]> {
    const limit = Math.min(most, MAX_SEGMENTS);
    const { items } = await this.#ask({ format: MESSAGE_FORMAT, op: 'newestSegments', log, limit, consistent });
    return items.map((item) => ofLog(log, decodeSegment(item)));
  }

  async getSegment(log: LogId, segment: number, { consistent }: Consistency): Promise<Segment | undefined> {
    const { items } = await this.#ask({ format: MESSAGE_FORMAT, op: 'getSegment', log, segment, consistent });
    return items[0] && ofLog(log, decodeSegment(items[0]));
  }

  async newestEntry(log: LogId, segment: number, { consistent }: Consistency): Promise<EntryHead | undefined> {
    const { items } = await this.#ask({ format: MESSAGE_FORMAT, op: 'newestEntry', log, segment, consistent });
    return items[0] && ofLog(log, decodeEntryHead(items[0]));
  }

  async getEntry(log: LogId, position: Position, { consistent }: Consistency): Promise<Entry | undefined> {
    const { items } = await this.#ask({ format: MESSAGE_FORMAT, op: 'getEntry', log, ...position, consistent });
    return items[0] && ofLog(log, decodeEntry(items[0]));
  }

  async *entries(log: LogId, range: SegmentRange, consistency: Consistency): AsyncGenerator<Entry[]> {
    for await (const items of this.items(log, range, consistency)) yield items.map(decodeEntry);
  }

  async *items(log: LogId, { segment, from, to }: SegmentRange, { consistent }: Consistency): AsyncGenerator<Item[]> {
    let next = from;
    while (next < to) {
      const range = { segment, from: next, to, consistent };
      const { items, next: rest = to } = await this.#ask({ format: MESSAGE_FORMAT, op: 'items', log, ...range });
      for (const item of items) ofLog(log, entryPlace(item));
      if (items.length > 0) yield items;
      if (rest <= next) throw malformed('its range does not advance');
      next = rest;
    }
  }

  async putEntries(entries: readonly Entry[], { mayMove }: PutOptions = {}): Promise<void> {
    const logs = [...new Set(entries.map(({ log }) => log))];
    const appends = logs.map((log) => {
      return { log, lines: encodeLines(entries.filter((entry) => entry.log === log).map(encodeEntry)) };
    });
    const [append] = appends;
    if (append === undefined) return;
    const several = { format: MESSAGE_FORMAT, op: 'putTogether', appends } as const;
    const single = { format: MESSAGE_FORMAT, op: 'putEntries', ...append, ...(mayMove && { mayMove }) } as const;
    const { moved } = await this.#ask(appends.length > 1 ? several : single);
    if (moved) throw new AppendUncertainError('the entries come after those of others', { log: append.log });
  }

  async updateAttributes(): Promise<undefined> {
    throw onServer('attributes of an entry cannot be changed');
  }

  async replaceAttributes(): Promise<boolean> {
    throw onServer('attributes of a log cannot be changed');
  }

  isRetryable(error: unknown): boolean {
    return error instanceof LogfoldError && this.#retryable.has(error);
  }

  async createLog(): Promise<void> {
    throw onServer('a log cannot be created');
  }

  async startSegment(): Promise<void> {
    throw onServer('a segment cannot be started');
  }

  segments(): AsyncIterable<Segment> {
    throw onServer('all segments of a log cannot be listed');
  }

  allSegments(): AsyncIterable<Segment> {
    throw onServer('all logs cannot be listed');
  }

  async #ask(request: LogRequest): Promise<Found> {
    const answer = await this.#answer(request);
    if (isRecord(answer) && isRecord(answer.error)) {
      if (!isErrorMessage(answer.error)) throw malformed('it has an error without code and reason');
      const error = decodeError(answer.error);
      if (answer.error.retryable === true) this.#retryable.add(error);
      throw error;
    }
    if (!isLines(answer)) throw malformed('it has neither lines nor an error');
    try {
      const items = decodeLines(answer.lines);
      for (const { T: type } of items) this.#checkType(type);
      return { items, next: answer.next, moved: answer.moved === true };
    } catch (cause) {
      throw cause instanceof MessageInvalidError ? malformed(cause.reason) : cause;
    }
  }

  /** Refuses a mapped log if the page does not know its types: it would fold Snapshot entries. */
  #checkType(type: AttributeValue | undefined): void {
    if (this.#types === undefined || type === undefined || !('S' in type)) return;
    if (!VIRTUAL_TYPES.includes(type.S) || this.#types.includes(type.S)) return;
    throw new UsageError(`the log is in a table of another schema: it has an entry of type '${type.S}'`, {
      advice: 'Give `openLogs` of the page the options `types: VIRTUAL_TYPES` and `parseLog: textLogId`',
    });
  }

  async #answer(request: LogRequest): Promise<unknown> {
    try {
      return await this.#send(request);
    } catch (cause) {
      if (cause instanceof LogfoldError) throw cause;
      throw new StoreUnavailableError(`the server did not answer: ${textOf(cause)}`, {
        log: request.op === 'putTogether' ? undefined : request.log,
        advice: 'Check the network and the server, then try again',
        cause,
      });
    }
  }
}

/** The parts of an answer. */
interface Found {
  readonly items: Item[];
  readonly next: number | undefined;
  /** Whether the entries of an append have other positions than the page gave them. */
  readonly moved: boolean;
}

function ofLog<T extends { readonly log: LogId }>(log: LogId, read: T): T {
  if (read.log !== log) throw malformed(`it belongs to log ${read.log}, not to ${log}`);
  return read;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}

function isLines(value: unknown): value is ReadLines & { readonly moved?: unknown } {
  if (!isRecord(value) || !Array.isArray(value.lines)) return false;
  const hasNext = value.next === undefined || Number.isSafeInteger(value.next);
  return hasNext && value.lines.every((line) => typeof line === 'string');
}

function isErrorMessage(value: Readonly<Record<string, unknown>>): value is ErrorMessage & Record<string, unknown> {
  return typeof value.code === 'string' && typeof value.reason === 'string';
}

function malformed(problem: string): MessageInvalidError {
  return new MessageInvalidError(`the answer of the server is malformed: ${problem}`, {
    advice: 'Let `send` return the JSON that `logs.answer` gave on the server',
  });
}

function onServer(what: string): UsageError {
  return new UsageError(`${what} from a page`, { advice: 'Do this on the server' });
}
