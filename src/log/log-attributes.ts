import { equalBytes } from '../codec/bytes.ts';
import { encodeValue } from '../codec/canonical.ts';
import { setKey, type Value } from '../codec/value.ts';
import { LogfoldError, SegmentStateError, TooLargeError, UsageError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { START } from '../ids/position.ts';
import { type AttributeAnswer, type AttributeChange, CHANGE_NAMES } from './application-attributes.ts';
import { attributeFromValue, checkNative, type Item, valueFromMap } from './attribute.ts';
import { type ClientContext, writeWithRetries } from './client-context.ts';
import { itemBytes } from './item-size.ts';
import type { SegmentReader } from './log-store.ts';
import { queryNewestSegments } from './newest.ts';
import { checkOptionNames } from './option-names.ts';
import { changedMeanwhile, type Segment, shownAttributes } from './segment.ts';

/** The values that an application gives to a log as a whole, by name. */
export interface LogAttributes {
  readonly [name: string]: Value;
}

/**
 * The most bytes of a log's attributes, by DynamoDB's rules for an item's size. Every client that
 * opens the log reads them.
 */
export const MAX_LOG_ATTRIBUTES_BYTES = 4 * 1024;

/** Segments of the reads that look for the attributes of a log further back. */
const OLDER_SEGMENTS = [16, 1000, Number.MAX_SAFE_INTEGER];

/**
 * Encodes the attributes of a log.
 * @throws UsageError if they are not a plain object
 * @throws ValueUnsupportedError if DynamoDB has no native type for a value, or a name is empty
 * @throws TooLargeError if they have more than {@link MAX_LOG_ATTRIBUTES_BYTES} bytes
 */
export function encodeLogAttributes(log: LogId, attributes: LogAttributes): Item {
  const given: unknown = attributes;
  const prototype: unknown = typeof given === 'object' && given !== null && Object.getPrototypeOf(given);
  if (prototype !== Object.prototype && prototype !== null) {
    throw new UsageError('the attributes of the log are not a plain object', {
      log,
      advice: 'Give an object of names and values',
    });
  }
  const item: Item = {};
  try {
    checkNative('the attributes of the log', attributes);
    for (const [name, value] of Object.entries(attributes)) setKey(item, name, attributeFromValue(value));
  } catch (error) {
    throw error instanceof LogfoldError ? error.at({ log }) : error;
  }
  checkSize(log, item);
  return item;
}

function checkSize(log: LogId, item: Item): void {
  const bytes = itemBytes(item);
  if (bytes <= MAX_LOG_ATTRIBUTES_BYTES) return;
  throw new TooLargeError(`the attributes of the log have ${bytes} bytes, over ${MAX_LOG_ATTRIBUTES_BYTES}`, {
    log,
    advice: 'Append an entry with the largest values instead',
  });
}

/**
 * The attributes of a log. Sends no request if its newest segments show them, or if they are all
 * its segments. Else an older release may have started segments without them, so looks back.
 * @param segments the newest ones, newest first
 */
export async function findLogAttributes(
  store: Pick<SegmentReader, 'newestSegments'>,
  log: LogId,
  segments: readonly Segment[],
): Promise<LogAttributes> {
  return valueFromMap((await lookBack(store, log, segments)) ?? {});
}

async function lookBack(
  store: Pick<SegmentReader, 'newestSegments'>,
  log: LogId,
  segments: readonly Segment[],
): Promise<Item | undefined> {
  let known = segments;
  for (const limit of OLDER_SEGMENTS) {
    const shown = shownAttributes(known);
    if (shown !== undefined || (known.at(-1)?.segment ?? START.segment) === START.segment) return shown;
    known = await store.newestSegments(log, limit, { consistent: true });
  }
  return shownAttributes(known);
}

/** The attributes of a log as a client saw them last. */
export interface SeenAttributes {
  /** The newest segment at that time. */
  readonly segment: number;
  /** Undefined if no segment that the client read had some. */
  readonly attributes: LogAttributes | undefined;
}

/**
 * The attributes of a log after a read of its newest segments. The same object until they change.
 * Keeps what is known if the read was older, or if an older release started the segments.
 * @param segments newest first
 */
export function seeAttributes(
  known: SeenAttributes | undefined,
  segments: readonly Segment[],
): SeenAttributes | undefined {
  const [newest] = segments;
  if (newest === undefined || (known !== undefined && newest.segment < known.segment)) return known;
  const shown = shownAttributes(segments);
  const attributes = shown === undefined ? known?.attributes : valueFromMap(shown);
  const before = known?.attributes;
  const isSame = before !== undefined && attributes !== undefined && isEqual(before, attributes);
  return { segment: newest.segment, attributes: isSame ? before : attributes };
}

/**
 * Changes attributes of a log, if they are as expected: reads them, then writes them to the newest
 * segment. Each later segment carries them.
 *
 * After any other error, such as a lost connection, the attributes may have been changed.
 * @throws UsageError if the change has a wrong name, there is nothing to change, or an attribute is
 * both set and removed
 * @throws LogNotFoundError if the log does not exist
 * @throws AttemptsExhaustedError if others were faster in every attempt
 * @throws the errors of {@link encodeLogAttributes}
 */
export async function changeLogAttributes(
  context: ClientContext,
  log: LogId,
  change: AttributeChange,
): Promise<AttributeAnswer> {
  checkChange(log, change);
  const conflict = (error: unknown) => error instanceof SegmentStateError;
  const options = { failure: 'Changing the attributes of the log failed', conflict, keepsEnd: conflict };
  return writeWithRetries(context, [log], options, async () => {
    const segments = await queryNewestSegments(context.store, log, { consistent: true });
    const [newest] = segments;
    const shown = (await lookBack(context.store, log, segments)) ?? {};
    const attributes = valueFromMap(shown);
    if (!isExpected(attributes, change.if)) return { updated: false, attributes };
    const to = { ...shown, ...encodeLogAttributes(log, change.set ?? {}) };
    for (const name of change.remove ?? []) delete to[name];
    checkSize(log, to);
    if (await context.tables.replaceAttributes(newest, newest.attributes, to)) return { updated: true };
    throw changedMeanwhile(newest);
  });
}

function checkChange(log: LogId, change: AttributeChange): void {
  checkOptionNames('updateLogAttributes', change, CHANGE_NAMES, { log });
  const { set = {}, remove = [] } = change;
  const changed = [...Object.keys(set), ...remove];
  if (changed.length === 0) throw new UsageError('there is no attribute to set or to remove', { log });
  const twice = changed.find((name, i) => changed.indexOf(name) !== i);
  if (twice !== undefined) throw new UsageError(`the change names the attribute '${twice}' twice`, { log });
}

function isExpected(attributes: LogAttributes, expected: AttributeChange['if'] = {}): boolean {
  return Object.entries(expected).every(([name, value]) => {
    const found = Object.hasOwn(attributes, name) ? attributes[name] : undefined;
    if (found === undefined || value === undefined) return found === value;
    return isEqual(found, value);
  });
}

function isEqual(a: Value, b: Value): boolean {
  return equalBytes(encodeValue(a), encodeValue(b));
}
