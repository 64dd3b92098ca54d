import { EntryExistsError, SegmentWithoutSnapshotError } from '../errors.ts';
import { isChosenId, type LogId } from '../ids/log-id.ts';
import { type Position, START } from '../ids/position.ts';
import { listedIdKey } from '../store/keys.ts';
import { checkRoom } from './append.ts';
import { type ClientContext, writeWithRetries } from './client-context.ts';
import { newEntryId, RESERVED_VERSION } from './entry.ts';
import { shownParts } from './guard.ts';
import { encodeLogAttributes, type LogAttributes } from './log-attributes.ts';
import type { Consistency, NextSegment } from './log-store.ts';
import { creationTime, snapshotEntry } from './new-entry.ts';
import { type LogEnd, type Newest, queryNewest } from './newest.ts';
import { checkOptionNames } from './option-names.ts';
import { type Segment, shownAttributes } from './segment.ts';

/** The time of a new log, its attributes, and what happens if it exists. */
export interface CreateOptions {
  /** Epoch seconds; now by default. */
  readonly created?: number | undefined;
  /** None by default. */
  readonly attributes?: LogAttributes | undefined;
  /** Leaves a log that exists as it is, with its time and attributes; an error by default. */
  readonly ifMissing?: boolean | undefined;
}

export interface NewSegment {
  readonly segment: number;
  /** Position of its first entry, a Snapshot entry with a pending snapshot. */
  readonly position: Position;
}

/**
 * Creates a log with its first segment and its first entry, a Snapshot entry for the empty state.
 * Lists a chosen id before, so that every log with a chosen id is listed. If the log exists, its id
 * is listed again, in case that the listing lost it.
 * @param log a new id by default
 * @throws UsageError if an option has a wrong name, or the time is not in epoch seconds
 * @throws EntryExistsError if the log exists, without `ifMissing`
 * @throws the errors of {@link encodeLogAttributes}
 */
export async function createLog(
  context: ClientContext,
  log = context.newLogId(),
  options: CreateOptions = {},
): Promise<LogId> {
  checkOptionNames('create', options, ['created', 'attributes', 'ifMissing'] satisfies (keyof CreateOptions)[]);
  const { created: time, attributes, ifMissing = false } = options;
  const created = creationTime(context, log, time);
  const segment = { log, segment: START.segment, created };
  const about = attributes === undefined ? segment : { ...segment, attributes: encodeLogAttributes(log, attributes) };
  const first = snapshotEntry(context, { log, position: START, created, number: 0 });
  // If the id exists, another attempt cannot help.
  const write = { failure: 'Creating a log failed', conflict: () => false };
  if (isChosenId(log)) await context.blobs.put(listedIdKey(log), new TextEncoder().encode(log));
  try {
    await writeWithRetries(context, [log], write, async () => {
      await context.tables.createLog(about, first);
      context.newest.set(log, first);
    });
  } catch (error) {
    if (!(error instanceof EntryExistsError)) throw error;
    if (ifMissing) return log;
    throw new EntryExistsError(error.reason, {
      log,
      advice: 'Use the log that exists, as { ifMissing: true } does, or choose another id',
      cause: error,
    });
  }
  return log;
}

/**
 * Ends a log's newest segment and starts the next, in one transaction.
 * @param time of the segment and of both entries, in epoch seconds; now by default
 * @throws UsageError if the time is not in epoch seconds
 * @throws LogNotFoundError if the log does not exist
 * @throws SegmentWithoutSnapshotError if the newest segment has no complete snapshot yet
 * @throws AttemptsExhaustedError if other clients were faster in every attempt
 */
export async function startSegment(context: ClientContext, log: LogId, time?: number): Promise<NewSegment> {
  const conflict = (error: unknown) => error instanceof EntryExistsError;
  const id = newEntryId(context.random);
  return writeWithRetries(context, [log], { failure: 'Starting a segment failed', conflict }, async (consistency) => {
    const created = creationTime(context, log, time);
    const newest = await findCovered(context, log, consistency);
    const items = nextSegment(context, { log, newest, id, created, segments: newest.segments });
    await context.tables.startSegment(items);
    context.newest.set(log, items.first);
    return { segment: items.segment.segment, position: items.first.position };
  });
}

/**
 * The items that end a log's newest segment and start the next, for one transaction.
 * @param place `newest` is the log's end, `id` that of the End Segment entry, `created` the time of
 * the segment and of both entries in epoch seconds, `segments` the two newest ones, newest first
 * @throws TooLargeError if a number is too high
 */
export function nextSegment(
  { types, random }: Pick<ClientContext, 'types' | 'random'>,
  place: {
    readonly log: LogId;
    readonly newest: LogEnd;
    readonly id: Uint8Array;
    readonly created: number;
    readonly segments: readonly Segment[];
  },
): NextSegment {
  const { log, newest, id, created, segments } = place;
  const attributes = shownAttributes(segments);
  const numbered = newest.number === undefined ? {} : { number: newest.number };
  const end = { segment: newest.position.segment, entry: newest.position.entry + 1 };
  const position = { segment: end.segment + 1, entry: 0 };
  checkRoom(log, end);
  checkRoom(log, position);
  return {
    end: { log, position: end, id, created, type: types.endSegment, version: RESERVED_VERSION, ...numbered },
    segment: { log, segment: position.segment, created, ...(attributes !== undefined && { attributes }) },
    endedAttributes: segments[0]?.attributes,
    first: snapshotEntry({ types, random }, { log, position, created, ...numbered }),
  };
}

/**
 * The log's end, if its segment has a complete snapshot. A stale read may not show the snapshot, so
 * reads again.
 */
async function findCovered(context: ClientContext, log: LogId, consistency: Consistency): Promise<Newest> {
  const newest = await queryNewest(context, log, consistency);
  const [segment] = newest.segments;
  // No snapshot can be completed in a segment onto which another program wrote.
  if (segment?.lastSnapshot !== undefined || (segment !== undefined && shownParts(segment).length > 0)) return newest;
  if (!consistency.consistent) return findCovered(context, log, { consistent: true });
  throw new SegmentWithoutSnapshotError('the newest segment has no complete snapshot yet', {
    log,
    segment: newest.position.segment,
    advice: 'Wait until its snapshot is complete, then start the segment',
  });
}
