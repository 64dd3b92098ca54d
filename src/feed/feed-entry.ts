import type { Value } from '../codec/value.ts';
import { LogfoldError } from '../errors.ts';
import { type LogId, logIdBytes, logIdFromBytes } from '../ids/log-id.ts';
import { comparePositions, formatPosition, MAX_NUMBER, type Position } from '../ids/position.ts';
import { EXTERNAL_BODY_BYTES } from '../log/body.ts';
import type { NewEntry } from '../log/new-entry.ts';
import { bodyInvalid } from '../state/reducer.ts';

/** A run of entries of one log, without a gap. */
export interface Span {
  readonly log: LogId;
  /** The entry directly before the run. Undefined if the run begins with the log's first entry. */
  readonly after: Position | undefined;
  /** The last entry of the run. */
  readonly to: Position;
}

/** The entry types of the feed, and the highest version of each. */
export const FEED_ENTRY_VERSIONS = { Appends: 1, Restart: 1 } as const;

/** The most spans of one entry. */
const MAX_SPANS = 400;

/** Bytes of spans in one entry. The stream function need not write bodies beside the table. */
const MAX_SPAN_BYTES = EXTERNAL_BODY_BYTES - 64;
/** The most bytes of a span beside those of the log id: lengths and four numbers. */
const SPAN_OVERHEAD_BYTES = 24;

/** The new entry after which the feed begins again. */
export const RESTART: NewEntry = { type: 'Restart', version: FEED_ENTRY_VERSIONS.Restart };

/** Divides spans, in their order, among as few entries as take them: one for most batches. */
export function groupSpans(spans: readonly Span[]): Span[][] {
  const groups: Span[][] = [];
  let bytes = 0;
  for (const span of spans) {
    const group = groups.at(-1);
    const size = logIdBytes(span.log).length + SPAN_OVERHEAD_BYTES;
    bytes += size;
    if (group !== undefined && bytes <= MAX_SPAN_BYTES && group.length < MAX_SPANS) group.push(span);
    else {
      groups.push([span]);
      bytes = size;
    }
  }
  return groups;
}

/** The new entry of the feed that lists spans: a group of {@link groupSpans}. */
export function appendsEntry(spans: readonly Span[]): NewEntry {
  const stored = spans.map(({ log, after, to }) => [
    logIdBytes(log),
    to.segment,
    to.entry,
    ...(after === undefined ? [] : [after.segment, after.entry]),
  ]);
  return { type: 'Appends', version: FEED_ENTRY_VERSIONS.Appends, body: { spans: stored } };
}

/**
 * The spans in the body of an `Appends` entry.
 * @throws BodyInvalidError if the body has another form, or a span has no entry
 */
export function readSpans(body: Value): Span[] {
  const spans = typeof body === 'object' && body !== null && 'spans' in body ? body.spans : undefined;
  if (!Array.isArray(spans)) throw bodyInvalid('Appends', 'it has no list of spans');
  return spans.map(readSpan);
}

function readSpan(span: Value): Span {
  const [id, ...numbers]: readonly Value[] = Array.isArray(span) ? span : [];
  const [segment, entry, afterSegment, afterEntry] = numbers.filter(isNumber);
  const isWhole = numbers.every(isNumber) && (numbers.length === 2 || numbers.length === 4);
  if (!(id instanceof Uint8Array && isWhole) || segment === undefined || entry === undefined) {
    throw bodyInvalid('Appends', 'a span is not a log id with its positions');
  }
  const isFromStart = afterSegment === undefined || afterEntry === undefined;
  const after = isFromStart ? undefined : { segment: afterSegment, entry: afterEntry };
  const to = { segment, entry };
  if (after !== undefined && comparePositions(after, to) >= 0) {
    throw bodyInvalid('Appends', `a span after ${formatPosition(after)} ends at ${formatPosition(to)}`);
  }
  return { log: readLogId(id), after, to };
}

function readLogId(id: Uint8Array): LogId {
  try {
    return logIdFromBytes(id);
  } catch (error) {
    throw error instanceof LogfoldError ? bodyInvalid('Appends', error.reason) : error;
  }
}

function isNumber(value: Value): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 && value <= MAX_NUMBER;
}
