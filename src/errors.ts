/** Where in a log an error belongs. Every part is optional, since some errors belong to no entry. */
export interface Where {
  readonly log?: string | undefined;
  readonly segment?: number | undefined;
  readonly entry?: number | undefined;
  /** Type of the entry. */
  readonly type?: string | undefined;
}

export interface ErrorDetails extends Where {
  /** What a person should do next, as one sentence. */
  readonly advice?: string | undefined;
  readonly cause?: unknown;
}

function describeWhere(where: Where): string {
  const parts: string[] = [];
  if (where.log !== undefined) parts.push(`log ${where.log}`);
  if (where.segment !== undefined) parts.push(`segment ${where.segment}`);
  if (where.entry !== undefined) parts.push(`entry ${where.entry}`);
  if (where.type !== undefined) parts.push(`type '${where.type}'`);
  return parts.length === 0 ? '' : ` [${parts.join(', ')}]`;
}

function describe(reason: string, details: ErrorDetails): string {
  const advice = named(details.advice, details.log);
  return `${reason}${describeWhere(details)}${advice === undefined ? '' : `. ${advice}`}`;
}

function named(advice: string | undefined, log: string | undefined): string | undefined {
  return log === undefined ? advice : advice?.replaceAll(/\bLOG\b/g, log);
}

/** What to do if an object of a snapshot is missing or damaged. */
export const REBUILD_ADVICE =
  "Restore the object from a version or a backup of the bucket, or run 'logfold sweep --rebuild --log LOG'; 'logfold verify LOG' says what else is wrong";

/**
 * The base of every error that logfold throws on purpose. `code` never changes once released; `message` says what
 * happened, where, and what to do next.
 */
export abstract class LogfoldError extends Error {
  abstract readonly code: string;
  /**
   * True where trying again cannot help because what is stored is wrong: such an error stops its log's snapshots
   * until a person acts. False where the fault lies with the caller or may pass.
   */
  readonly stopsLog: boolean = false;
  log: string | undefined;
  segment: number | undefined;
  entry: number | undefined;
  type: string | undefined;
  /** What happened, without place and advice. */
  readonly reason: string;
  readonly #advice: string | undefined;

  constructor(reason: string, details: ErrorDetails = {}) {
    super(describe(reason, details), details.cause === undefined ? undefined : { cause: details.cause });
    this.name = new.target.name;
    this.reason = reason;
    this.log = details.log;
    this.segment = details.segment;
    this.entry = details.entry;
    this.type = details.type;
    this.#advice = details.advice;
  }

  /** What to do next; `LOG` in it is the log's id once that is known, so that a command in it can be pasted. */
  get advice(): string | undefined {
    return named(this.#advice, this.log);
  }

  /** Adds the place to an error that was thrown without one, where only its catcher knows it. */
  at(where: Where): this {
    this.log ??= where.log;
    this.segment ??= where.segment;
    this.entry ??= where.entry;
    this.type ??= where.type;
    this.message = describe(this.reason, this);
    return this;
  }

  toJSON(): Record<string, unknown> {
    return {
      code: this.code,
      message: this.message,
      log: this.log,
      segment: this.segment,
      entry: this.entry,
      type: this.type,
      advice: this.advice,
    };
  }
}

/** Words or values given by the caller (command line, options, configuration) make no sense. */
export class UsageError extends LogfoldError {
  override readonly code: string = 'USAGE';
}

/** A text that should be a log id is not a UUID. */
export class LogIdInvalidError extends UsageError {
  override readonly code = 'LOG_ID_INVALID';
}

/** A position, segment number or entry number is out of range or malformed. */
export class PositionInvalidError extends UsageError {
  override readonly code = 'POSITION_INVALID';
}

/** A line of an edits file is malformed. `line` counts from 1. */
export class EditLineInvalidError extends UsageError {
  override readonly code = 'EDIT_LINE_INVALID';
  readonly line: number;
  constructor(line: number, reason: string, details: ErrorDetails = {}) {
    super(`line ${line}: ${reason}`, details);
    this.line = line;
  }
}

/** A `check` line of an edits file does not agree with the sheet. `line` counts from 1. */
export class CheckFailedError extends LogfoldError {
  override readonly code = 'CHECK_FAILED';
  readonly line: number;
  constructor(line: number, reason: string, details: ErrorDetails = {}) {
    super(`line ${line}: ${reason}`, details);
    this.line = line;
  }
}

/** A signal ended a command before its end. */
export class InterruptedError extends LogfoldError {
  override readonly code = 'INTERRUPTED';
  /** Name of the signal, such as `SIGINT`. */
  readonly signal: NodeJS.Signals;
  constructor(signal: NodeJS.Signals, reason: string, details: ErrorDetails = {}) {
    super(reason, details);
    this.signal = signal;
  }
}

/** A file or stream takes nothing more of a command's output: the disk is full, for example. */
export class OutputFailedError extends LogfoldError {
  override readonly code = 'OUTPUT_FAILED';
}

export class LogNotFoundError extends LogfoldError {
  override readonly code = 'LOG_NOT_FOUND';
}

export class SegmentNotFoundError extends LogfoldError {
  override readonly code = 'SEGMENT_NOT_FOUND';
}

export class EntryNotFoundError extends LogfoldError {
  override readonly code = 'ENTRY_NOT_FOUND';
}

/** A table, bucket or queue that the configuration names does not exist. */
export class ResourceMissingError extends LogfoldError {
  override readonly code = 'RESOURCE_MISSING';
}

/** A key of the blob store is malformed: absolute, with an empty part or `..`, or not printable ASCII. */
export class BlobKeyInvalidError extends LogfoldError {
  override readonly code = 'BLOB_KEY_INVALID';
  override readonly stopsLog = true;
}

/** The blob store kept objects that it was told to delete. */
export class BlobDeleteError extends LogfoldError {
  override readonly code = 'BLOB_DELETE_FAILED';
}

/** An object was being written and somebody gave it up: nothing of it is there. */
export class UploadAbortedError extends LogfoldError {
  override readonly code = 'UPLOAD_ABORTED';
}

/** A message became visible to other consumers again before its receipt was used. It will be delivered again. */
export class ReceiptExpiredError extends LogfoldError {
  override readonly code = 'RECEIPT_EXPIRED';
}

/** The SDK found no credentials, or AWS refused them. */
export class CredentialsError extends LogfoldError {
  override readonly code = 'CREDENTIALS';
}

/**
 * What a deployment was told, or what it is to work on, is not as it must be. `parameter` is the template's parameter
 * that is to be corrected, or the name of an environment variable that no parameter sets.
 */
export class DeploymentInvalidError extends LogfoldError {
  override readonly code = 'DEPLOYMENT_INVALID';
  readonly parameter: string;
  constructor(parameter: string, reason: string, details: ErrorDetails = {}) {
    super(`parameter ${parameter} ${reason}`, details);
    this.parameter = parameter;
  }
}

/** The local engine could not be started or joined. */
export class EngineError extends LogfoldError {
  override readonly code = 'ENGINE_UNAVAILABLE';
}

/** Another process holds a lock that the processes of one machine share, or took it over. */
export class FileLockError extends LogfoldError {
  override readonly code = 'FILE_LOCK';
}

/** An entry with this number exists already: somebody else appended first. Callers retry with the next number. */
export class EntryExistsError extends LogfoldError {
  override readonly code = 'ENTRY_EXISTS';
}

/** Every attempt failed. `attempts` counts them; `cause` is the last failure. */
export class AttemptsExhaustedError extends LogfoldError {
  override readonly code = 'ATTEMPTS_EXHAUSTED';
  readonly attempts: number;
  constructor(attempts: number, reason: string, details: ErrorDetails = {}) {
    const last = details.cause instanceof Error ? ` (last cause: ${details.cause.message})` : '';
    super(`${reason} after ${attempts} attempts${last}`, details);
    this.attempts = attempts;
  }
}

/** A new segment was asked for while the current one has no completed snapshot yet. */
export class SegmentWithoutSnapshotError extends LogfoldError {
  override readonly code = 'SEGMENT_WITHOUT_SNAPSHOT';
}

/** An entry, batch or value is larger than DynamoDB or logfold allows. */
export class TooLargeError extends LogfoldError {
  override readonly code = 'TOO_LARGE';
}

/** A value cannot be stored: a function, a lone surrogate, an integer beyond 64 bits, too deep or too large. */
export class ValueUnsupportedError extends LogfoldError {
  override readonly code = 'VALUE_UNSUPPORTED';
  override readonly stopsLog = true;
}

/** A map key is of the wrong kind or out of range. */
export class KeyInvalidError extends LogfoldError {
  override readonly code = 'KEY_INVALID';
  override readonly stopsLog = true;
}

/**
 * A reducer asks for a state that no snapshot can hold: a weight or a map's name that is none, weights in a map that
 * buffers edits, or more metadata or maps than fit into a root.
 */
export class StateUnsupportedError extends LogfoldError {
  override readonly code = 'STATE_UNSUPPORTED';
  override readonly stopsLog = true;
}

/** An item in the Entry or Segment table, or a stream record, does not have the attributes of the schema. */
export class ItemInvalidError extends LogfoldError {
  override readonly code = 'ITEM_INVALID';
  override readonly stopsLog = true;
}

/** Entry numbers are not dense: an entry that must exist is not there. */
export class EntryGapError extends LogfoldError {
  override readonly code = 'ENTRY_GAP';
  override readonly stopsLog = true;
}

/** Segment numbers are not dense, or the bucket has something of a segment that the table has not. */
export class SegmentGapError extends LogfoldError {
  override readonly code = 'SEGMENT_GAP';
  override readonly stopsLog = true;
}

/** Entries that must be folded have left the table, as the policy wants it, and are in no archive. */
export class HistoryGoneError extends LogfoldError {
  override readonly code = 'HISTORY_GONE';
  override readonly stopsLog = true;
}

export class EntryTypeUnknownError extends LogfoldError {
  override readonly code = 'ENTRY_TYPE_UNKNOWN';
  override readonly stopsLog = true;
}

export class EntryVersionUnknownError extends LogfoldError {
  override readonly code = 'ENTRY_VERSION_UNKNOWN';
  override readonly stopsLog = true;
}

/** The bytes of an entry's body are neither MessagePack nor JSON nor native DynamoDB values. */
export class BodyUndecodableError extends LogfoldError {
  override readonly code = 'BODY_UNDECODABLE';
  override readonly stopsLog = true;
}

/** An entry's body decodes, but its type's reducer cannot make sense of it. */
export class BodyInvalidError extends LogfoldError {
  override readonly code = 'BODY_INVALID';
  override readonly stopsLog = true;
}

/** A reducer threw something else than one of these errors: a fault in its code. */
export class FoldFailedError extends LogfoldError {
  override readonly code = 'FOLD_FAILED';
  override readonly stopsLog = true;
}

/** The blob store or the tables did not answer, as opposed to answering something wrong. Trying again may help. */
export class StoreUnavailableError extends LogfoldError {
  override readonly code = 'STORE_UNAVAILABLE';
}

/** The object that holds an entry's external body is not in the blob store. */
export class ExternalMissingError extends LogfoldError {
  override readonly code = 'EXTERNAL_MISSING';
  override readonly stopsLog = true;
}

/** The object that holds an entry's external body does not hash to its name. */
export class ExternalCorruptError extends LogfoldError {
  override readonly code = 'EXTERNAL_CORRUPT';
  override readonly stopsLog = true;
}

/** An edit addresses rows or columns outside the sheet. */
export class SheetLimitError extends LogfoldError {
  override readonly code = 'SHEET_LIMIT';
  override readonly stopsLog = true;
}

export class ChunkMissingError extends LogfoldError {
  override readonly code = 'CHUNK_MISSING';
  override readonly stopsLog = true;
}

/** A stored chunk or root is truncated, altered, oversized, or of a format this version cannot read. */
export class ChunkCorruptError extends LogfoldError {
  override readonly code = 'CHUNK_CORRUPT';
  override readonly stopsLog = true;
}

/** A root belongs to another log or position than the entry that names it, or its parts disagree. */
export class RootInvalidError extends LogfoldError {
  override readonly code = 'ROOT_INVALID';
  override readonly stopsLog = true;
}

/** Two builds of one snapshot gave different states: a reducer that is not deterministic, or tampering. */
export class SnapshotMismatchError extends LogfoldError {
  override readonly code = 'SNAPSHOT_MISMATCH';
  override readonly stopsLog = true;
}

/** A small object that logfold keeps for itself does not have the form in which it was written. */
export class ObjectInvalidError extends LogfoldError {
  override readonly code = 'OBJECT_INVALID';
}

/** The object that holds a segment's archive is not in the blob store. */
export class ArchiveMissingError extends LogfoldError {
  override readonly code = 'ARCHIVE_MISSING';
  override readonly stopsLog = true;
}

/** An archive is truncated, altered, another segment's, or of a format that this version cannot read. */
export class ArchiveCorruptError extends LogfoldError {
  override readonly code = 'ARCHIVE_CORRUPT';
  override readonly stopsLog = true;
}

/** An archive and the table do not hold the same entries of a segment. Nothing leaves the table. */
export class ArchiveDiffersError extends LogfoldError {
  override readonly code = 'ARCHIVE_DIFFERS';
}

/** A segment is to be archived, expired or restored, and is not in a state in which that is safe. */
export class SegmentStateError extends LogfoldError {
  override readonly code = 'SEGMENT_STATE';
}

/** A module that should bring a reducer cannot be loaded, or exports none. */
export class ReducerInvalidError extends UsageError {
  override readonly code = 'REDUCER_INVALID';
}

/** A log's newest snapshot was made by a reducer of another name than the one that nobody chose. */
export class ReducerForeignError extends UsageError {
  override readonly code = 'REDUCER_FOREIGN';
}

/** The clock of this machine shows a time that no item can carry, so nothing was written. */
export class ClockInvalidError extends LogfoldError {
  override readonly code = 'CLOCK_INVALID';
}

/** A retention policy contradicts itself. */
export class PolicyInvalidError extends UsageError {
  override readonly code = 'POLICY_INVALID';
}

/** A message or record from a queue or stream has not the form that its producer promises. */
export class MessageInvalidError extends LogfoldError {
  override readonly code = 'MESSAGE_INVALID';
}

/** The time of a function was up before work was done that cannot go on in another turn. */
export class TimeUpError extends LogfoldError {
  override readonly code = 'TIME_UP';
}

/** A message comes from a newer version, and is understood once that is deployed here as well. */
export class MessageNewerError extends LogfoldError {
  override readonly code = 'MESSAGE_NEWER';
}

/** Whether only the log that an error is about suffers from it: whoever goes through many can go on with the next. */
export function isOfOneLog(error: unknown): error is LogfoldError {
  if (!(error instanceof LogfoldError)) return false;
  const ofALog = [LogNotFoundError, ObjectInvalidError, PolicyInvalidError].some((each) => error instanceof each);
  return error.stopsLog || (ofALog && error.log !== undefined);
}

/** The longest text that is kept of a value that somebody threw, in UTF-16 code units. */
const MAX_TEXT = 2000;

/** Whether a thrown value, whatever it is, is one of these errors. */
export function isLogfoldError(thrown: unknown): thrown is LogfoldError {
  try {
    return thrown instanceof LogfoldError;
  } catch {
    // The prototype of a revoked proxy cannot be read.
    return false;
  }
}

/** A thrown value as text. It never throws: some values have no text, and some throw when they are asked. */
export function textOf(thrown: unknown): string {
  try {
    const text = String(thrown);
    return text.length > MAX_TEXT ? `${text.slice(0, MAX_TEXT)}…` : text;
  } catch {
    return thrown !== null && typeof thrown === 'object'
      ? 'an object without a text'
      : `a ${typeof thrown} without a text`;
  }
}

/** A thrown value as a plain error that is safe to log: no getters, no methods of its own, no endless chain of causes. */
export function plainError(thrown: unknown, depth = 4): Error {
  const plain = new Error(textOf(thrown));
  try {
    if (!(thrown instanceof Error)) return plain;
    const { name, message, stack, cause } = thrown;
    if (typeof name === 'string') plain.name = name.slice(0, MAX_TEXT);
    if (typeof message === 'string') plain.message = message.slice(0, MAX_TEXT);
    if (typeof stack === 'string') plain.stack = stack.slice(0, 4 * MAX_TEXT);
    if (cause !== undefined && depth > 0) plain.cause = plainError(cause, depth - 1);
  } catch {
    // What could be read is enough.
  }
  return plain;
}
