import { type ErrorDetails, LogfoldError } from './logfold-error.ts';

/** A table, bucket or queue that the configuration names does not exist. */
export class ResourceMissingError extends LogfoldError {
  override readonly code = 'RESOURCE_MISSING';
}

/** An optional package, such as a client of the AWS SDK, is not installed. */
export class PackageMissingError extends LogfoldError {
  override readonly code = 'PACKAGE_MISSING';
}

/** The SDK found no credentials, or AWS refused them. */
export class CredentialsError extends LogfoldError {
  override readonly code = 'CREDENTIALS';
}

/** The application's server does not allow a user to read a log or to append to it. */
export class NotAllowedError extends LogfoldError {
  override readonly code = 'NOT_ALLOWED';
}

/**
 * A parameter of a deployment, or a resource that it names, is wrong. `parameter` is the template's
 * parameter to correct, or an environment variable that no parameter sets.
 */
export class DeploymentInvalidError extends LogfoldError {
  override readonly code = 'DEPLOYMENT_INVALID';
  readonly parameter: string;
  constructor(parameter: string, reason: string, details: ErrorDetails = {}) {
    super(`parameter ${parameter} ${reason}`, details);
    this.parameter = parameter;
  }
}

/**
 * The bucket holds the mapped logs of another table, or of other keys, or a command without a
 * mapping wants to write other logs into it.
 */
export class BucketTakenError extends LogfoldError {
  override readonly code = 'BUCKET_TAKEN';
}

/**
 * A bucket, a snapshot or an archive belongs to a schema mapping with another meaning. With it, the
 * same items are other entries.
 */
export class MappingDiffersError extends LogfoldError {
  override readonly code = 'MAPPING_DIFFERS';
}

/** The blob store or the tables do not answer. A retry may help. */
export class StoreUnavailableError extends LogfoldError {
  override readonly code = 'STORE_UNAVAILABLE';
}

/** A disk takes no more data: it is full, over its quota or read-only. Nothing was stored. */
export class DiskFullError extends LogfoldError {
  override readonly code = 'DISK_FULL';
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

/** The clock of this machine shows a time that no item can hold. Nothing was written. */
export class ClockInvalidError extends LogfoldError {
  override readonly code = 'CLOCK_INVALID';
}

/** The local engine cannot be started or joined. */
export class EngineError extends LogfoldError {
  override readonly code = 'ENGINE_UNAVAILABLE';
}

/** Another process holds or took over a lock that the processes of one machine share. */
export class FileLockError extends LogfoldError {
  override readonly code = 'FILE_LOCK';
}

/**
 * A key of the blob store is malformed: absolute, with an empty part or `..`, or not printable
 * ASCII.
 */
export class BlobKeyInvalidError extends LogfoldError {
  override readonly code = 'BLOB_KEY_INVALID';
  override readonly stopsLog = true;
}

/** The blob store did not delete all objects of a request. */
export class BlobDeleteError extends LogfoldError {
  override readonly code = 'BLOB_DELETE_FAILED';
}

/**
 * The bucket keeps objects longer than logfold needs them. The others of the request are deleted.
 */
export class BlobLockedError extends LogfoldError {
  override readonly code = 'BLOB_LOCKED';
  readonly keys: ReadonlySet<string>;

  constructor(reason: string, keys: ReadonlySet<string>) {
    super(reason, { advice: 'Wait until the retention of the objects ends: a later collection removes them' });
    this.keys = keys;
  }
}

/** Another process aborted an upload. No part of the object remains. */
export class UploadAbortedError extends LogfoldError {
  override readonly code = 'UPLOAD_ABORTED';
}

/**
 * A message became visible to other consumers before its receipt was used. The queue delivers the
 * message again.
 */
export class ReceiptExpiredError extends LogfoldError {
  override readonly code = 'RECEIPT_EXPIRED';
}

/**
 * A message or record from a queue or stream, or a request or an answer between a page and its
 * server, does not have the form that its producer promises.
 */
export class MessageInvalidError extends LogfoldError {
  override readonly code = 'MESSAGE_INVALID';
}

/** A newer version of logfold sent a message. This version understands it after an update. */
export class MessageNewerError extends LogfoldError {
  override readonly code = 'MESSAGE_NEWER';
}

/** A function's time was up before it finished work that cannot be split into several runs. */
export class TimeUpError extends LogfoldError {
  override readonly code = 'TIME_UP';
}

/** A program that was given entries did not succeed. */
export class ProgramFailedError extends LogfoldError {
  override readonly code = 'PROGRAM_FAILED';
}
