import { LogfoldError } from './logfold-error.ts';

/**
 * An item of the Entry or Segment table, or a stream record, does not have the attributes of the
 * schema.
 */
export class ItemInvalidError extends LogfoldError {
  override readonly code = 'ITEM_INVALID';
  override readonly stopsLog = true;
}

/** An entry that must exist is missing: entry numbers have no gaps. */
export class EntryGapError extends LogfoldError {
  override readonly code = 'ENTRY_GAP';
  override readonly stopsLog = true;
}

/**
 * A segment that must exist is missing: segment numbers have no gaps, or the bucket holds objects
 * of the segment.
 */
export class SegmentGapError extends LogfoldError {
  override readonly code = 'SEGMENT_GAP';
  override readonly stopsLog = true;
}

/** A fold needs entries that expired under the retention policy and are in no archive. */
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

/**
 * The application changed or deleted items of a mapped log that a snapshot has folded, or began the
 * log again.
 */
export class SourceChangedError extends LogfoldError {
  override readonly code = 'SOURCE_CHANGED';
  override readonly stopsLog = true;
}

/** The bytes of an entry's body are neither MessagePack nor JSON nor native DynamoDB values. */
export class BodyUndecodableError extends LogfoldError {
  override readonly code = 'BODY_UNDECODABLE';
  override readonly stopsLog = true;
}

/** An entry's body decodes, but the reducer of its type cannot use it. */
export class BodyInvalidError extends LogfoldError {
  override readonly code = 'BODY_INVALID';
  override readonly stopsLog = true;
}

/** The object with an entry's external body is not in the blob store. */
export class ExternalMissingError extends LogfoldError {
  override readonly code = 'EXTERNAL_MISSING';
  override readonly stopsLog = true;
}

/** The object with an entry's external body does not have the hash in its name. */
export class ExternalCorruptError extends LogfoldError {
  override readonly code = 'EXTERNAL_CORRUPT';
  override readonly stopsLog = true;
}

/** The object with a segment's archive is not in the blob store. */
export class ArchiveMissingError extends LogfoldError {
  override readonly code = 'ARCHIVE_MISSING';
  override readonly stopsLog = true;
}

/**
 * An archive is truncated or altered, belongs to another segment, or has a format that this version
 * cannot read.
 */
export class ArchiveCorruptError extends LogfoldError {
  override readonly code = 'ARCHIVE_CORRUPT';
  override readonly stopsLog = true;
}

/** An archive and the table hold different entries of a segment. No entry expires. */
export class ArchiveDiffersError extends LogfoldError {
  override readonly code = 'ARCHIVE_DIFFERS';
}

/** A segment cannot be archived, expired or restored safely in its current state. */
export class SegmentStateError extends LogfoldError {
  override readonly code = 'SEGMENT_STATE';
}
