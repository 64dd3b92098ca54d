import { StoreUnavailableError, TooLargeError, UsageError } from '../../errors.ts';
import type { StoredItem } from '../../log/attribute.ts';
import { translateAwsError, unavailableNow } from './aws-error.ts';

// Rejections before any write. Time-outs, lost connections and failures of the service are missing
// here, because the request may have succeeded. TransactionInProgressException is missing, because
// the transaction may still succeed.
const REJECTED = new Set([
  'ProvisionedThroughputExceededException',
  'RequestLimitExceeded',
  'ThrottlingException',
  'TransactionConflictException',
]);

// https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html
const REJECTED_REASONS = new Set(['None', 'ProvisionedThroughputExceeded', 'ThrottlingError', 'TransactionConflict']);

/**
 * Whether a request may be sent again after an error of DynamoDB, as in
 * {@link LogStore.isRetryable}. False if the SDK sent the request more than once. The last answer
 * was a rejection then, but an earlier request whose answer was lost may have succeeded.
 */
export function isRetryable(error: unknown): boolean {
  const answer = error instanceof StoreUnavailableError ? error.cause : error;
  if (!(answer instanceof Error) || sentMoreThanOnce(answer)) return false;
  return REJECTED.has(answer.name) || isCancelledForNow(answer);
}

/** Whether a transaction was cancelled only for reasons that may pass. */
function isCancelledForNow(error: Error): boolean {
  const reasons = cancellationReasons(error);
  return reasons.length > 0 && reasons.every((reason) => REJECTED_REASONS.has(reason));
}

/** Whether the condition of a single write, or of a write in a transaction, did not hold. */
export function conditionFailed(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return (
    error.name === 'ConditionalCheckFailedException' || cancellationReasons(error).includes('ConditionalCheckFailed')
  );
}

/** A write of a transaction whose condition did not hold. */
export interface FailedWrite {
  /** Its index in the transaction. */
  readonly write: number;
  /** The item, if it exists and the request asked for it. */
  readonly item?: StoredItem;
}

/** The writes of a transaction whose condition did not hold. */
export function failedWrites(error: Error): FailedWrite[] {
  return cancellations(error).flatMap((reason, write) => {
    if (reason.Code !== 'ConditionalCheckFailed') return [];
    return [hasItem(reason) ? { write, item: reason.Item } : { write }];
  });
}

/** The items for which a condition did not hold, if the request asked for them. */
export function existingItems(error: unknown): StoredItem[] {
  if (!(error instanceof Error)) return [];
  const failures: readonly unknown[] = [error, ...cancellations(error)];
  return failures.flatMap((failure) => (hasItem(failure) ? [failure.Item] : []));
}

function hasItem(failure: unknown): failure is { readonly Item: StoredItem } {
  return typeof failure === 'object' && failure !== null && 'Item' in failure && failure.Item !== undefined;
}

/**
 * Whether the SDK sent the request again after a failure. An earlier request may have succeeded
 * then.
 */
function sentMoreThanOnce(error: unknown): boolean {
  const metadata = error instanceof Error && '$metadata' in error ? error.$metadata : undefined;
  if (typeof metadata !== 'object' || metadata === null || !('attempts' in metadata)) return false;
  return typeof metadata.attempts === 'number' && metadata.attempts > 1;
}

/** Translates an error of DynamoDB. Returns the same error if it needs no translation. */
export function translateDynamoDbError(error: unknown, tables: readonly string[]): unknown {
  const tooLarge = error instanceof Error && invalid(error).find((message) => /size.*exceeded/i.test(message));
  if (typeof tooLarge === 'string') {
    return new TooLargeError(`DynamoDB does not take an item of this size: ${tooLarge}`, { cause: error });
  }
  const named = invalidTableName(error, tables);
  if (named !== undefined) return named;
  const resource = namesOfTables(tables);
  if (!(error instanceof Error) || !isCancelledForNow(error)) return translateAwsError(error, resource);
  return unavailableNow(error, resource, cancellationReasons(error).join(', '));
}

/** The error for a rejected table name; undefined if the error has another reason. */
export function invalidTableName(error: unknown, tables: readonly string[]): UsageError | undefined {
  if (!(error instanceof Error)) return undefined;
  const reason = invalid(error).find((message) => /table(\/index)? ?name/i.test(message));
  if (reason === undefined) return undefined;
  return new UsageError(`DynamoDB does not take ${quoted(tables)} as the name of a table: ${reason}`, {
    advice: 'Give 3 to 255 letters, digits and characters of _-. as a name',
    cause: error,
  });
}

/** Tables in an error, such as `table 'orders' or 'people'`. */
export function namesOfTables(tables: readonly string[]): string {
  return `table ${quoted(tables)}`;
}

function quoted(tables: readonly string[]): string {
  return tables.map((table) => `'${table}'`).join(' or ');
}

/** The reasons why DynamoDB finds a request, or the writes of a transaction, invalid. */
function invalid(error: Error): string[] {
  if (error.name === 'ValidationException') return [error.message];
  return cancellations(error).flatMap(({ Code, Message }) => (Code === 'ValidationError' ? [String(Message)] : []));
}

function cancellationReasons(error: Error): string[] {
  return cancellations(error).map(({ Code }) => String(Code ?? 'None'));
}

interface Cancellation {
  readonly Code?: unknown;
  readonly Message?: unknown;
  readonly Item?: unknown;
}

/**
 * The reasons why a transaction was cancelled: one for each write, with the code `None` if the
 * write was valid.
 */
function cancellations(error: Error): Cancellation[] {
  if (error.name !== 'TransactionCanceledException' || !('CancellationReasons' in error)) return [];
  const reasons: unknown = error.CancellationReasons;
  return Array.isArray(reasons) ? reasons.map((reason: Cancellation | undefined) => reason ?? {}) : [];
}
