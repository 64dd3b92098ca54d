import { checkFunction } from '../../client/listeners.ts';
import { Logs, type LogsDeps } from '../../client/logs.ts';
import { WarmLogs } from '../../client/warm-logs.ts';
import { ReducerInvalidError } from '../../errors.ts';
import { parseLogId } from '../../ids/log-id.ts';
import { checkOptionNames } from '../../log/option-names.ts';
import { isReducer, REDUCER_PARTS } from '../../state/reducer.ts';
import { type AnswerOptions, answerLogRequest } from './answer-log-request.ts';
import { answerObjectRequest, type ObjectAnswer, type ObjectOptions } from './answer-object-request.ts';
import type { LogAnswer } from './log-message.ts';

/** Memory for logs that a server keeps, by default. */
const WARM_BYTES = 64 * 1024 * 1024;

/** The logs of a server, which also answers the requests of pages. */
export class ServerLogs extends Logs {
  readonly #deps: LogsDeps;
  readonly #warm: WarmLogs;

  constructor(deps: LogsDeps) {
    super(deps);
    this.#deps = deps;
    this.#warm = new WarmLogs(this.documentDeps, deps.warmBytes ?? WARM_BYTES);
  }

  /** The logs that a server which folds keeps in memory, and their memory in bytes, about. */
  get warm(): { readonly logs: number; readonly bytes: number } {
    return { logs: this.#warm.size, bytes: this.#warm.bytes };
  }

  /**
   * Runs a request of a page that reads a log or appends to it: what `send` of the page got.
   *
   * A page can only append entries after the newest entry of the log. They cannot name objects of
   * the bucket, carry roots or an expiry, or end a segment. Their types, ids, times, mutations,
   * metadata and bodies have the limits of every writer, and no body is larger than 16 KiB.
   *
   * With a `reducer`, the server folds the entries first, and refuses those that it rejects. So
   * nothing that a page sends can stop a log. It keeps the states of these logs in memory: see
   * {@link LogsDeps.warmBytes}. Entries that come late are rebased over those of others.
   * @param request the body of the HTTP request, parsed from JSON
   * @returns the body of the HTTP response, to be sent as JSON. It may be an error, which the page
   * throws
   * @throws any error that is not for the page, for example that AWS refuses the credentials: log
   * it, and answer the page with the status 500
   * @throws UsageError if there is no function `allows`
   * @throws ReducerInvalidError if the reducer lacks a part
   * @throws LogsClosedError after {@link close}
   */
  async answer(request: unknown, options: Pick<AnswerOptions, 'allows' | 'reducer'>): Promise<LogAnswer> {
    this.checkOpen();
    checkServerOptions('answer', options, ['allows', 'reducer']);
    const { allows, reducer } = options;
    if (reducer !== undefined && !isReducer(reducer)) {
      throw new ReducerInvalidError(`'reducer' of answer is not a reducer: it needs ${REDUCER_PARTS}`);
    }
    const { parseLog, types } = this.#deps;
    return answerLogRequest({ ...this.#deps, warm: this.#warm }, request, { parseLog, types, allows, reducer });
  }

  /**
   * Answers a page's request for an object, of which `urlOf` of the page got the key: see
   * {@link answerObjectRequest}.
   * @throws UsageError if there is no function `allows`
   * @throws LogsClosedError after {@link close}
   */
  async object(key: string, options: ObjectOptions): Promise<ObjectAnswer> {
    this.checkOpen();
    checkServerOptions('object', options, ['allows', 'range', 'log'] satisfies (keyof ObjectOptions)[]);
    const { blobs, parseLog = parseLogId } = this.#deps;
    return answerObjectRequest({ blobs, parseLog }, key, options);
  }
}

/** @throws UsageError if an option has a wrong name, or `allows` is missing */
function checkServerOptions(call: string, options: Pick<AnswerOptions, 'allows'>, names: readonly string[]): void {
  checkOptionNames(call, options, names);
  checkFunction(`'allows' of ${call}`, options.allows);
}
