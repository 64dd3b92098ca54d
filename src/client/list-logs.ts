import pLimit from 'p-limit';
import { LogIdInvalidError, UsageError } from '../errors.ts';
import { FEED_LOG } from '../feed/feed-log.ts';
import { isChosenId, type LogId, MAX_CHOSEN_ID_BYTES, type ParseLog, textLogId } from '../ids/log-id.ts';
import { START } from '../ids/position.ts';
import type { LogReader } from '../log/log-store.ts';
import { checkOptionNames } from '../log/option-names.ts';
import type { BlobStore } from '../store/blob-store.ts';
import { listedIdKey, listedIdPrefix, parseListedId } from '../store/keys.ts';

/** A log in a listing. */
export interface ListedLog {
  readonly log: LogId;
  /** Epoch seconds. */
  readonly created: number;
}

/** Which logs with chosen ids a listing has. */
export interface LogListOptions {
  /** The beginning of their ids; an empty text lists them all. */
  readonly prefix: string;
  /** Only ids after this one, such as the last of the previous page. */
  readonly after?: string | undefined;
  /** The most logs; all by default. */
  readonly limit?: number | undefined;
}

interface ListDeps {
  readonly store: LogReader;
  readonly blobs: Pick<BlobStore, 'list'>;
  readonly parseLog: ParseLog;
}

/** Logs that are looked up at the same time. */
const CONCURRENCY = 16;
const NAMES = ['prefix', 'after', 'limit'] satisfies (keyof LogListOptions)[];

/** All logs but the feed, in no order. Scans the Segment table. */
export async function* scanLogs({ store }: Pick<ListDeps, 'store'>): AsyncGenerator<ListedLog> {
  for await (const { log, segment, created } of store.allSegments()) {
    if (segment === START.segment && log !== FEED_LOG) yield { log, created };
  }
}

/**
 * The logs whose chosen ids begin with a text, in the order of their bytes. Lists their keys, and
 * looks up each log: an id whose log could not be created is listed too.
 * @throws UsageError if an option is invalid, or the logs are those of a mapping
 * @throws LogIdInvalidError if no log can have the id `after`
 */
export async function* listLogs(deps: ListDeps, options: LogListOptions): AsyncGenerator<ListedLog> {
  checkListOptions(deps, options);
  const { prefix, after, limit = Number.POSITIVE_INFINITY } = options;
  const from = { after: after === undefined ? undefined : listedIdKey(deps.parseLog(after)) };
  const lookUps = pLimit(CONCURRENCY);
  let left = limit;
  let waiting: Promise<ListedLog | undefined>[] = [];
  async function* found(): AsyncGenerator<ListedLog> {
    const logs = await Promise.all(waiting);
    waiting = [];
    for (const log of logs) if (log !== undefined && left-- > 0) yield log;
  }
  for await (const { key } of deps.blobs.list(listedIdPrefix(prefix), from)) {
    const log = chosenId(deps, key);
    if (log !== undefined) waiting.push(lookUps(() => lookUp(deps, log)));
    if (waiting.length < Math.min(CONCURRENCY, left)) continue;
    yield* found();
    if (left <= 0) return;
  }
  yield* found();
}

async function lookUp({ store }: ListDeps, log: LogId): Promise<ListedLog | undefined> {
  const first = await store.getSegment(log, START.segment, { consistent: true });
  return first && { log, created: first.created };
}

/** The id that a key lists; undefined if logfold wrote no such key. */
function chosenId({ parseLog }: ListDeps, key: string): LogId | undefined {
  const id = parseListedId(key);
  try {
    return id === undefined || !isChosenId(id) || parseLog(id) !== id ? undefined : id;
  } catch (error) {
    if (error instanceof LogIdInvalidError) return undefined;
    throw error;
  }
}

function checkListOptions({ store }: ListDeps, options: LogListOptions): void {
  checkOptionNames('list', options, NAMES);
  const { prefix, limit = 1 } = options;
  const isText = typeof prefix === 'string' && prefix.isWellFormed();
  if (!isText || new TextEncoder().encode(prefix).length > MAX_CHOSEN_ID_BYTES) {
    throw new UsageError('the prefix of a list of logs is not the beginning of an id', {
      advice: "Give the beginning of ids, such as 'org-7/', or call list without options for all logs",
    });
  }
  if (!Number.isSafeInteger(limit) || limit < 1) {
    throw new UsageError(`the limit ${String(limit)} is not a positive integer`);
  }
  if (store.meaningOf?.(textLogId('any')) === undefined) return;
  throw new UsageError('the ids of mapped logs are not listed', {
    advice: 'Call list without options, which scans the Segment table, or query the table of the application',
  });
}
