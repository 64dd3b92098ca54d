import type { Value } from '../codec/value.ts';
import { LogfoldError, TooLargeError, UsageError } from '../errors.ts';
import type { LogId } from '../ids/log-id.ts';
import { formatPosition, type Position } from '../ids/position.ts';
import { bodyPrefix, isFileKey } from '../store/keys.ts';
import { encodeBody } from './body.ts';
import {
  type ClientMutation,
  type EncodedBody,
  type Entry,
  type EntryMetadata,
  epochSeconds,
  newEntryId,
  partOfSecond,
  RESERVED_VERSION,
  type ReservedTypes,
} from './entry.ts';
import { MAX_TRANSACTION_ITEMS } from './item-size.ts';
import { storableMetadata } from './metadata.ts';
import { checkMutations } from './mutation.ts';
import { checkOptionNames } from './option-names.ts';

/** An entry that has no position yet. */
export interface NewEntry {
  readonly type: string;
  /** Version of the body's format, for this type. */
  readonly version: number;
  /** None by default; null is the same. */
  readonly body?: Value | undefined;
  /**
   * The file that the reducer reads beside the body: the key that `saveFile` returned. The body has
   * the parameters, at most 16 KiB of them, and is not null. None by default.
   */
  readonly file?: string | undefined;
  /** Epoch seconds; now by default. */
  readonly created?: number | undefined;
  /**
   * Milliseconds after `created`, from 0 to 999; 0 by default. Without `created`, both are those of
   * the clock.
   */
  readonly milliseconds?: number | undefined;
  /** None by default. */
  readonly metadata?: EntryMetadata | undefined;
  /**
   * Applies the entry at most once, even if several processes append it. A client numbers its
   * mutations in ascending order and appends them in this order. An entry with a number that was
   * used before is stored, but has no effect, even if its body differs.
   */
  readonly once?: ClientMutation | undefined;
  /**
   * Bytes by which the writer recognizes the entry, 1 to 64; 8 random ones by default. An append
   * with an id that the log has at the same position succeeds and changes nothing.
   */
  readonly id?: Uint8Array | undefined;
}

/**
 * A new entry that was checked and encoded, with its id and its time. It lacks only its place in
 * the log, and its body may be too large for the table.
 */
export interface DraftedEntry extends Omit<Entry, 'position' | 'number' | 'external'> {
  readonly id: Uint8Array;
  readonly body?: EncodedBody | undefined;
}

/** The clock and the other ports of a writer that drafts entries. */
export interface DraftDeps {
  readonly types: ReservedTypes;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** From 0 up to but not including 1. */
  readonly random: () => number;
}

/** The most UTF-16 code units of an entry's type. Every read of the entry also reads its type. */
const MAX_TYPE_LENGTH = 1024;
/** The most bytes of an entry's id. Every read of the entry also reads its id. */
export const MAX_ID_BYTES = 64;
/** The year 5138 in epoch seconds, and 1973 in milliseconds. */
const MAX_TIME = 1e11;

/**
 * Checks and encodes entries that are appended together. All attempts to write an entry share its
 * id and its time, at whatever position.
 * @throws the errors of {@link checkNewEntries}, and UsageError if an entry has a wrong name
 * @throws ValueUnsupportedError if a body or metadata cannot be stored
 * @throws TooLargeError if metadata is too large
 * @throws ClockInvalidError if the clock shows a time before 1970
 */
export function draftEntries(deps: DraftDeps, log: LogId, entries: readonly NewEntry[]): DraftedEntry[] {
  checkNewEntries(log, entries, deps.types);
  return entries.map((entry) => drafted(deps, log, entry));
}

/** Like {@link draftEntries}, for one entry. */
export function draftEntry(deps: DraftDeps, log: LogId, entry: NewEntry): DraftedEntry {
  checkNewEntries(log, [entry], deps.types);
  return drafted(deps, log, entry);
}

const ENTRY_NAMES = [
  'type',
  'version',
  'body',
  'file',
  'created',
  'milliseconds',
  'metadata',
  'once',
  'id',
] satisfies (keyof NewEntry)[];

function drafted({ now, random }: DraftDeps, log: LogId, entry: NewEntry): DraftedEntry {
  checkOptionNames('an entry', entry, ENTRY_NAMES, { log });
  const { id = newEntryId(random), type, version, body = null, file, once } = entry;
  const metadata = storableMetadata(log, entry.metadata);
  return {
    log,
    id,
    ...timeOfNew(entry, now),
    type,
    version,
    ...(body !== null && { body: { format: 'bytes', bytes: encodeNew(log, type, body) } }),
    ...(file !== undefined && { file }),
    ...(metadata !== undefined && { metadata }),
    ...(once !== undefined && { once: { client: once.client, mutation: once.mutation } }),
  };
}

function encodeNew(log: LogId, type: string, body: Value): Uint8Array {
  try {
    return encodeBody(body);
  } catch (error) {
    throw error instanceof LogfoldError ? error.at({ log, type }) : error;
  }
}

function timeOfNew(
  { created, milliseconds = 0 }: NewEntry,
  now: () => number,
): Pick<Entry, 'created' | 'milliseconds'> {
  const ms = created === undefined ? now() : milliseconds;
  const part = partOfSecond(ms);
  return { created: created ?? epochSeconds(ms), ...(part !== undefined && { milliseconds: part }) };
}

/** A Snapshot entry with a new id, at a place or without one. */
export function snapshotEntry<T extends Pick<Entry, 'log' | 'created'>>(
  { types, random }: Pick<DraftDeps, 'types' | 'random'>,
  place: T,
): T & Pick<DraftedEntry, 'id' | 'type' | 'version'> {
  return { ...place, id: newEntryId(random), type: types.snapshot, version: RESERVED_VERSION };
}

/**
 * Drafted entries as readers will see them, if no other entry comes in between.
 * @param first the position of the first of them
 * @param before the number of the entry before them, if they are to have numbers
 */
export function entriesAt<T extends Omit<Entry, 'position'>>(
  { segment, entry }: Position,
  drafts: readonly T[],
  before?: number,
): (T & Pick<Entry, 'position'>)[] {
  return drafts.map((draft, i) => ({
    ...draft,
    position: { segment, entry: entry + i },
    ...(before !== undefined && { number: before + 1 + i }),
  }));
}

/**
 * Checks entries that are appended together, except their bodies and metadata, which are checked
 * when they are encoded.
 * @param reserved types that the application must not use
 * @throws UsageError if there are none, one is malformed or has a reserved type
 * @throws TooLargeError if there are more than one transaction takes
 */
export function checkNewEntries(log: LogId, entries: readonly NewEntry[], reserved?: ReservedTypes): void {
  if (!Array.isArray(entries) || entries.length === 0) throw new UsageError('the list of entries is empty', { log });
  checkEntryCount(log, entries.length);
  for (const entry of entries) {
    checkEntry(log, entry);
    if (reserved?.includes(entry.type) !== true) continue;
    throw new UsageError(`the type '${entry.type}' is reserved`, {
      log,
      advice: 'Call addSnapshot or startSegment, or give the entry another type',
    });
  }
  checkMutations(log, entries);
}

/** @throws TooLargeError if there are more entries than one transaction takes */
export function checkEntryCount(log: LogId, entries: number): void {
  if (entries <= MAX_TRANSACTION_ITEMS) return;
  throw new TooLargeError(`${entries} entries are more than the ${MAX_TRANSACTION_ITEMS} of one transaction`, {
    log,
    advice: 'Add them in several batches',
  });
}

/** The error if only some of the entries of one transaction exist. */
export function idUsedTwice({ log, position }: Pick<Entry, 'log' | 'position'>, own: readonly Entry[]): UsageError {
  const others = own.map((entry) => `${formatPosition(entry.position)} of log ${entry.log}`);
  const reason = `the log does not have this entry, but entries that were given together with it are at ${others.join(', ')}`;
  return new UsageError(reason, {
    log,
    ...position,
    advice: 'Give each new entry another id, or none',
  });
}

function checkEntry(log: LogId, entry: NewEntry): void {
  if (typeof entry !== 'object' || entry === null) {
    throw new UsageError(`an entry is ${kindOf(entry)}`, { log, advice: 'Give an object with a type and a version' });
  }
  const { type, version, created, milliseconds, id, file } = entry;
  if (typeof type !== 'string' || type === '') throw new UsageError('an entry needs a type', { log });
  if (type.length > MAX_TYPE_LENGTH) {
    throw new UsageError(`the type '${type.slice(0, 40)}…' has ${type.length} characters`, {
      log,
      advice: `Give the entry a type of at most ${MAX_TYPE_LENGTH} characters`,
    });
  }
  if (!type.isWellFormed()) {
    throw new UsageError('the type of an entry has a lone surrogate, which no table stores', {
      log,
      advice: 'Give the entry a type of well-formed text',
    });
  }
  if (!Number.isSafeInteger(version) || version < 0) {
    throw new UsageError(
      `version ${typeof version === 'number' ? version : kindOf(version)} is not a non-negative integer`,
      { log },
    );
  }
  if (created !== undefined) checkCreated(log, created);
  if (milliseconds !== undefined) checkMilliseconds(log, created, milliseconds);
  if (file !== undefined) checkFile(log, entry, file);
  if (id !== undefined && !(id instanceof Uint8Array && id.length > 0 && id.length <= MAX_ID_BYTES)) {
    throw new UsageError("an entry's id is not bytes of a valid length", {
      log,
      advice: `Give a Uint8Array of 1 to ${MAX_ID_BYTES} bytes, or no id`,
    });
  }
}

function checkFile(log: LogId, { body }: NewEntry, file: unknown): void {
  if (typeof file !== 'string' || !file.startsWith(bodyPrefix(log)) || !isFileKey(file)) {
    throw new UsageError("an entry's file is not the key of a file of this log", {
      log,
      advice: 'Give the key that `saveFile` returned for this log, or import the file into this log',
    });
  }
  if (body !== undefined && body !== null) return;
  throw new UsageError('an entry has a file, but no body', {
    log,
    advice: 'Give a body with the parameters of the file, such as an empty object',
  });
}

/**
 * The time of a new item, in epoch seconds: the given one, or now.
 * @throws UsageError if the given time is not in epoch seconds
 * @throws ClockInvalidError if the clock shows a time before 1970
 */
export function creationTime({ now }: Pick<DraftDeps, 'now'>, log: LogId, given: number | undefined): number {
  if (given === undefined) return epochSeconds(now());
  checkCreated(log, given);
  return given;
}

function checkCreated(log: LogId, created: number): void {
  if (Number.isSafeInteger(created) && created >= 0 && created <= MAX_TIME) return;
  const shown = typeof created === 'number' ? created : kindOf(created);
  throw new UsageError(`created ${shown} is not a time in epoch seconds`, {
    log,
    advice: 'Give epoch seconds, such as Math.floor(Date.now() / 1000)',
  });
}

function checkMilliseconds(log: LogId, created: number | undefined, milliseconds: number): void {
  const isPart = Number.isSafeInteger(milliseconds) && milliseconds >= 0 && milliseconds <= 999;
  if (isPart && created !== undefined) return;
  const shown = typeof milliseconds === 'number' ? milliseconds : kindOf(milliseconds);
  throw new UsageError(isPart ? 'an entry has milliseconds, but no `created`' : `${shown} are not milliseconds`, {
    log,
    advice: 'Give `created` in epoch seconds, and with it whole milliseconds from 0 to 999',
  });
}

function kindOf(value: unknown): string {
  return value === null || value === undefined ? String(value) : `a value of type ${typeof value}`;
}
