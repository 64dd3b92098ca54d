import { ItemInvalidError, UsageError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import type { Item } from '../log/attribute.ts';
import type { Entry } from '../log/entry.ts';
import { entryPlace } from '../log/item-codec.ts';
import type { LogStore, ScanPart } from '../log/log-store.ts';
import type { Segment } from '../log/segment.ts';
import { FEED_LOG } from './feed-log.ts';

/**
 * The tables of a deployment together with the table of its feed, so that the feed is one more log
 * for jobs, sweeps and commands.
 * @param logs the logs of the deployment, in logfold's own schema or mapped
 * @param feed the table of the feed; the store never scans it
 */
export function withFeed(logs: LogStore, feed: LogStore): LogStore {
  const of = (log: LogId | undefined): LogStore => (log === FEED_LOG ? feed : logs);
  return {
    reads: 'tables',
    newestSegments: (log, limit, consistency) => of(log).newestSegments(log, limit, consistency),
    getSegment: (log, segment, consistency) => of(log).getSegment(log, segment, consistency),
    segments: (log, consistency) => of(log).segments(log, consistency),
    allSegments: (part, onInvalid) => allSegments(logs, feed, part, onInvalid),
    newestEntry: (log, segment, consistency) => of(log).newestEntry(log, segment, consistency),
    getEntry: (log, position, consistency) => of(log).getEntry(log, position, consistency),
    entries: (log, range, options) => of(log).entries(log, range, options),
    items: (log, range, options) => of(log).items(log, range, options),
    nameItem: async (log, position) => of(log).nameItem?.(log, position),
    meaningOf: (log) => of(log).meaningOf?.(log),
    createLog: (segment, first) => of(segment.log).createLog(segment, first),
    putEntries: async (entries, how) => of(onlyLogs(entries)).putEntries(entries, how),
    startSegment: (items) => of(items.segment.log).startSegment(items),
    putAhead: (items, unread) => of(unread.log).putAhead(items, unread),
    replaceAttributes: (place, from, to) => of(place.log).replaceAttributes(place, from, to),
    updateAttributes: (log, position, update) => of(log).updateAttributes(log, position, update),
    isRetryable: (error) => logs.isRetryable(error) || feed.isRetryable(error),
    completeSnapshot: (log, position, root, id) => of(log).completeSnapshot(log, position, root, id),
    replaceRoot: (log, position, from, to) => of(log).replaceRoot(log, position, from, to),
    advanceLastSnapshot: (log, position, from) => of(log).advanceLastSnapshot(log, position, from),
    removeAttributes: (place, attributes) => of(place.log).removeAttributes(place, attributes),
    setArchive: (segment, archive) => of(segment.log).setArchive(segment, archive),
    replaceArchive: (segment, archive) => of(segment.log).replaceArchive(segment, archive),
    setExpiration: (segment, to) => of(segment.log).setExpiration(segment, to),
    setEntryExpiry: (log, position, expires) => of(log).setEntryExpiry(log, position, expires),
    deleteEntries: (log, segment, entries) => of(log).deleteEntries(log, segment, entries),
    expireEntries: (segment, entries, how) => of(segment.log).expireEntries(segment, entries, how),
    unexpireEntries: (segment, entries) => of(segment.log).unexpireEntries(segment, entries),
    putItems: (items) => putItems(logs, feed, items),
    putSegment: (segment) => of(segment.log).putSegment(segment),
  };
}

/**
 * The log of entries, or one of their logs.
 * @throws UsageError if some are entries of the feed, and others are not
 */
function onlyLogs(entries: readonly Entry[]): LogId | undefined {
  const [first] = entries;
  if (entries.every(({ log }) => (log === FEED_LOG) === (first?.log === FEED_LOG))) return first?.log;
  throw new UsageError('the feed has a separate table, so no transaction writes to it and to other logs', {
    advice: 'Append to the other logs only; logfold itself writes the feed',
  });
}

/** The segments of the feed, in the first part before the others; then those of the other logs. */
async function* allSegments(
  logs: LogStore,
  feed: LogStore,
  part: ScanPart = { index: 0, of: 1 },
  onInvalid?: (error: ItemInvalidError) => void,
): AsyncGenerator<Segment> {
  const { after, ...whole } = part;
  const isInFeed = after === undefined || after.log === FEED_LOG;
  if (isInFeed && part.index === 0) {
    try {
      for await (const segment of feed.segments(FEED_LOG)) {
        if (after === undefined || segment.segment > after.segment) yield segment;
      }
    } catch (error) {
      if (!(error instanceof ItemInvalidError) || onInvalid === undefined) throw error;
      onInvalid(error);
    }
  }
  yield* logs.allSegments(isInFeed ? whole : part, onInvalid);
}

async function putItems(logs: LogStore, feed: LogStore, items: readonly Item[]): Promise<void> {
  const isOfFeed = (item: Item): boolean => entryPlace(item).log === FEED_LOG;
  const [fed, rest] = [items.filter(isOfFeed), items.filter((item) => !isOfFeed(item))];
  if (fed.length > 0) await feed.putItems(fed);
  if (rest.length > 0 || fed.length === 0) await logs.putItems(rest);
}
