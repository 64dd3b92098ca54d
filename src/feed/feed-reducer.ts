import { sha256 } from '@noble/hashes/sha2.js';
import { bytesToHex, utf8ToBytes } from '@noble/hashes/utils.js';
import type { Value } from '../codec/value.ts';
import { BodyInvalidError, TooLargeError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { comparePositions, formatPosition, type Position } from '../ids/position.ts';
import type { DraftMap } from '../state/draft-map.ts';
import { checkType, type FoldEntry, type Reducer, type ReducerDraft } from '../state/reducer.ts';
import { MAX_EPOCH_ENTRIES } from './checkpoint.ts';
import { FEED_ENTRY_VERSIONS, readSpans } from './feed-entry.ts';

const RESTART_NAME = 'restart';

/** Ids up to this length are keys, in UTF-16 code units. Longer ones end with their hash. */
const MAX_ID_KEY_LENGTH = 960;
/** After the keys of all ids: no id has as many bytes. */
const AFTER_ALL = '\uffff'.repeat(700);

/**
 * Folds the feed into the position up to which it has each log: the map `logs`, and `restart` in
 * the metadata record.
 *
 * A new entry must continue there, so `validate` refuses a span of a writer that has not read the
 * newest entries. The fold itself reads no log's position: a read would load a leaf for nearly
 * every span.
 */
export const feedReducer: Reducer = {
  name: 'feed',
  version: 1,
  fold(draft: ReducerDraft, entry: FoldEntry): void {
    checkType(entry, FEED_ENTRY_VERSIONS);
    const logs = logsOf(draft);
    if (entry.type === 'Restart') {
      logs.deleteRange({ from: '', to: AFTER_ALL });
      draft.meta.set(RESTART_NAME, storedPosition(entry.position));
    } else {
      for (const { log, to } of readSpans(entry.body)) logs.put(logKey(log), storedPosition(to));
    }
  },
  async validate(entry: FoldEntry, state: ReducerDraft): Promise<void> {
    checkType(entry, FEED_ENTRY_VERSIONS);
    if (entry.position.entry >= MAX_EPOCH_ENTRIES) {
      throw new TooLargeError('the epoch has no numbers left', {
        advice: "Run 'logfold status feed': the next epoch begins as soon as this one has a snapshot",
      });
    }
    if (entry.type === 'Restart') return;
    const spans = readSpans(entry.body);
    const ends = new Map<LogId, Position | undefined>();
    const fed = await Promise.all(spans.map(({ log }) => fedPosition(state, log)));
    for (const [i, { log, after, to }] of spans.entries()) {
      const end = ends.has(log) ? ends.get(log) : fed[i];
      if (!isSame(end, after)) throw staleSpan(log, { after, end });
      ends.set(log, to);
    }
  },
};

/** The last entry of a log that the feed has; undefined if it has none since the restart. */
export async function fedPosition(state: ReducerDraft, log: LogId): Promise<Position | undefined> {
  return readPosition(await logsOf(state).get(logKey(log)));
}

/** The entry at which the feed began again; undefined if it never did. */
export function restartPosition(state: ReducerDraft): Position | undefined {
  return readPosition(state.meta.get(RESTART_NAME));
}

/** The key of a log: its id, or for an id that is longer than a key its beginning and its hash. */
function logKey(log: LogId): string {
  if (log.length <= MAX_ID_KEY_LENGTH) return log;
  // The cut may divide a character, and keys have no lone surrogates.
  return log.slice(0, MAX_ID_KEY_LENGTH).toWellFormed() + bytesToHex(sha256(utf8ToBytes(log)));
}

function logsOf(draft: ReducerDraft): DraftMap {
  return draft.map('logs', 'string', { buffers: true });
}

function storedPosition({ segment, entry }: Position): Value {
  return [segment, entry];
}

function readPosition(stored: Value | undefined): Position | undefined {
  if (!Array.isArray(stored)) return undefined;
  const [segment, entry]: readonly Value[] = stored;
  return typeof segment === 'number' && typeof entry === 'number' ? { segment, entry } : undefined;
}

function isSame(a: Position | undefined, b: Position | undefined): boolean {
  return a === undefined || b === undefined ? a === b : comparePositions(a, b) === 0;
}

function staleSpan(log: LogId, { after, end }: Record<'after' | 'end', Position | undefined>): BodyInvalidError {
  const shown = (position: Position | undefined): string => (position ? formatPosition(position) : 'its beginning');
  return new BodyInvalidError(
    `a span of log ${log} continues after ${shown(after)}, but the feed has the log up to ${shown(end)}`,
  );
}
