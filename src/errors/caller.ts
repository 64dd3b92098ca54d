import { type ErrorDetails, LogfoldError } from './logfold-error.ts';

/** A command line, an option or a configuration makes no sense. */
export class UsageError extends LogfoldError {
  override readonly code: string = 'USAGE';
}

/** A text or an array of bytes is not a log id. */
export class LogIdInvalidError extends UsageError {
  override readonly code = 'LOG_ID_INVALID';
}

/** A position, segment number or entry number is malformed or out of range. */
export class PositionInvalidError extends UsageError {
  override readonly code = 'POSITION_INVALID';
}

/** A number is not a checkpoint of the feed, or is after its end. */
export class CheckpointInvalidError extends UsageError {
  override readonly code = 'CHECKPOINT_INVALID';
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

/** A `check` line of an edits file contradicts the sheet. `line` counts from 1. */
export class CheckFailedError extends LogfoldError {
  override readonly code = 'CHECK_FAILED';
  readonly line: number;
  constructor(line: number, reason: string, details: ErrorDetails = {}) {
    super(`line ${line}: ${reason}`, details);
    this.line = line;
  }
}

/** A retention policy or a division policy is out of range or contradicts itself. */
export class PolicyInvalidError extends UsageError {
  override readonly code = 'POLICY_INVALID';
}

/** A schema mapping has another form, or contradicts itself. */
export class MappingInvalidError extends UsageError {
  override readonly code = 'MAPPING_INVALID';
}

/** A caller appends to a mapped log: only the application appends its own items. */
export class LogReadOnlyError extends LogfoldError {
  override readonly code = 'LOG_READ_ONLY';
}

/** A reducer lacks a part, or its module cannot be loaded or exports no reducer. */
export class ReducerInvalidError extends UsageError {
  override readonly code = 'REDUCER_INVALID';
}

/**
 * A command uses the default reducer, but a reducer with another name made the log's newest
 * snapshot.
 */
export class ReducerForeignError extends UsageError {
  override readonly code = 'REDUCER_FOREIGN';
  /** Name of the reducer of the newest snapshot; undefined if there is no snapshot. */
  readonly maker: string | undefined;
  constructor(reason: string, { maker, ...details }: ErrorDetails & { readonly maker?: string } = {}) {
    super(reason, details);
    this.maker = maker;
  }
}

/** A signal ended a command early. */
export class InterruptedError extends LogfoldError {
  override readonly code = 'INTERRUPTED';
  /** Name of the signal, such as `SIGINT`. */
  readonly signal: string;
  constructor(signal: string, reason: string, details: ErrorDetails = {}) {
    super(reason, details);
    this.signal = signal;
  }
}

/** A file or stream accepts no more output of a command, for example because the disk is full. */
export class OutputFailedError extends LogfoldError {
  override readonly code = 'OUTPUT_FAILED';
}

export class LogNotFoundError extends LogfoldError {
  override readonly code = 'LOG_NOT_FOUND';
}

export class SegmentNotFoundError extends LogfoldError {
  override readonly code = 'SEGMENT_NOT_FOUND';
}

/** A caller names an entry that the log does not have, or has already. */
abstract class EntryPlaceError extends LogfoldError {
  /** Position of the log's newest entry, if a caller could go on from there. */
  readonly newest: EntryNumbers | undefined;
  /** The number of that entry, if it has one. */
  readonly newestNumber: number | undefined;

  constructor(reason: string, { newest, newestNumber, ...details }: ErrorDetails & NewestDetails = {}) {
    super(reason, details);
    this.newest = newest;
    this.newestNumber = newestNumber;
  }

  override toJSON(): Record<string, unknown> {
    return { ...super.toJSON(), newest: this.newest, newestNumber: this.newestNumber };
  }
}

/**
 * An entry does not exist, or has expired. `newest` is the log's end, if a position or a number is
 * beyond it.
 */
export class EntryNotFoundError extends EntryPlaceError {
  override readonly code = 'ENTRY_NOT_FOUND';
}

/**
 * An entry with this number exists: another client appended first. Callers retry with the next
 * number. `newest` is the log's end as it was read just now, if the condition of an append failed:
 * an entry of the application follows `after`.
 */
export class EntryExistsError extends EntryPlaceError {
  override readonly code = 'ENTRY_EXISTS';
}

interface NewestDetails {
  readonly newest?: EntryNumbers;
  readonly newestNumber?: number | undefined;
}

interface EntryNumbers {
  readonly segment: number;
  readonly entry: number;
}

/** A new entry is not appended, because of what the log has. */
abstract class NewEntryError extends LogfoldError {
  /** Index of the entry among those of the same append, from 0. */
  readonly index: number;

  constructor(index: number, reason: string, details: ErrorDetails = {}) {
    super(reason, details);
    this.index = index;
  }

  override toJSON(): Record<string, unknown> {
    return { ...super.toJSON(), index: this.index };
  }
}

/**
 * The reducer refuses a new entry. Nothing was appended, since the entry would have stopped the
 * log. `cause` is what the reducer threw.
 */
export class EntryRejectedError extends NewEntryError {
  override readonly code = 'ENTRY_REJECTED';
}

/**
 * Others appended first, and the change that an entry makes has no place any more: they removed
 * what it changes. Nothing was appended.
 */
export class EntryDroppedError extends NewEntryError {
  override readonly code = 'ENTRY_DROPPED';
}

/** The answer to an append was lost. The entries may be in the log or not. */
export class AppendUncertainError extends LogfoldError {
  override readonly code = 'APPEND_UNCERTAIN';
}

/**
 * A caller appends a numbered mutation that never takes effect, because a later one of the same
 * client did before. Nothing was appended.
 */
export class MutationOvertakenError extends LogfoldError {
  override readonly code = 'MUTATION_OVERTAKEN';
}

/** A caller uses a document after closing it. */
export class DocumentClosedError extends LogfoldError {
  override readonly code = 'DOCUMENT_CLOSED';
}

/**
 * A caller appends to a document that shows the state before an entry that cannot be folded.
 * Nothing was appended. `cause` is the error of that entry.
 */
export class DocumentStoppedError extends LogfoldError {
  override readonly code = 'DOCUMENT_STOPPED';
}

/** A caller uses logs after closing them. */
export class LogsClosedError extends LogfoldError {
  override readonly code = 'LOGS_CLOSED';
}

/** Another member of a consumer group reads the feed, or took over from this one. */
export class FeedGroupBusyError extends LogfoldError {
  override readonly code = 'FEED_GROUP_BUSY';
}

/** A caller starts a new segment before the current one has a complete snapshot. */
export class SegmentWithoutSnapshotError extends LogfoldError {
  override readonly code = 'SEGMENT_WITHOUT_SNAPSHOT';
}

/** The attributes of an entry change only while the entry's segment is open. */
export class SegmentClosedError extends LogfoldError {
  override readonly code = 'SEGMENT_CLOSED';
}

/** An entry, batch or value is larger than DynamoDB or logfold allows. */
export class TooLargeError extends LogfoldError {
  override readonly code = 'TOO_LARGE';
}
