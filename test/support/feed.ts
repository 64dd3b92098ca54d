import { readSpans, type Span } from '../../src/feed/feed-entry.ts';
import { FEED_LOG } from '../../src/feed/feed-log.ts';
import { type LogId, parseLogId } from '../../src/ids/log-id.ts';
import { comparePositions, formatPosition, type Position } from '../../src/ids/position.ts';
import { decodeEntryBody } from '../../src/log/body.ts';
import type { Entry } from '../../src/log/entry.ts';
import type { LogReader } from '../../src/log/log-store.ts';

/** The id of a log by its number. */
export function numberedLog(number: number): LogId {
  return parseLogId(`0192f7a1-0000-7000-8000-${String(number).padStart(12, '0')}`);
}

/** All entries of the feed, those of archived epochs too. */
export async function feedEntries(store: LogReader): Promise<Entry[]> {
  const entries: Entry[] = [];
  for await (const { segment } of store.segments(FEED_LOG, { consistent: true })) {
    const range = { segment, from: 0, to: 2 ** 32 };
    for await (const page of store.entries(FEED_LOG, range, { consistent: true })) entries.push(...page);
  }
  return entries;
}

/**
 * The spans of the feed by log, in order, since it began or began again.
 * @throws if two neighbouring spans of a log have a gap or share an entry
 */
export async function feedSpans(store: LogReader): Promise<Map<LogId, Span[]>> {
  const spans = new Map<LogId, Span[]>();
  for (const entry of await feedEntries(store)) {
    if (entry.type === 'Restart') spans.clear();
    if (entry.type !== 'Appends') continue;
    for (const span of readSpans(decodeEntryBody(entry))) {
      const of = spans.get(span.log) ?? [];
      const last = of.at(-1)?.to;
      if (!isSame(last, span.after)) {
        throw new Error(`entry ${formatPosition(entry.position)} does not continue log ${span.log}`);
      }
      spans.set(span.log, [...of, span]);
    }
  }
  return spans;
}

/** The last position of each log in the feed. */
export async function fedEnds(store: LogReader): Promise<Record<string, string>> {
  const spans = await feedSpans(store);
  return Object.fromEntries(
    [...spans].map(([log, of]) => [log, formatPosition(of.at(-1)?.to ?? { segment: -1, entry: -1 })]),
  );
}

function isSame(a: Position | undefined, b: Position | undefined): boolean {
  return a === undefined || b === undefined ? a === b : comparePositions(a, b) === 0;
}
