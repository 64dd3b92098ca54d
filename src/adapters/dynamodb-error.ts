import { TooLargeError } from '../errors.ts';
import { translateAwsError } from './aws-error.ts';

// Rejections before anything was written. Time-outs, lost connections and failures of the service are not here: the
// request may have been carried out. Nor is TransactionInProgressException: the transaction may yet succeed.
const REJECTED = new Set([
  'ProvisionedThroughputExceededException',
  'RequestLimitExceeded',
  'ThrottlingException',
  'TransactionConflictException',
]);

// https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html
const REJECTED_REASONS = new Set(['None', 'ProvisionedThroughputExceeded', 'ThrottlingError', 'TransactionConflict']);

/** As {@link LogStore.isRetryable}, for errors of DynamoDB. */
export function isRetryable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (REJECTED.has(error.name)) return true;
  const reasons = cancellationReasons(error);
  return reasons.length > 0 && reasons.every((reason) => REJECTED_REASONS.has(reason));
}

/** Whether a condition did not hold, of a single write or of one in a transaction. */
export function conditionFailed(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return (
    error.name === 'ConditionalCheckFailedException' || cancellationReasons(error).includes('ConditionalCheckFailed')
  );
}

/** Whether the SDK sent the request again after a failure, so that an earlier sending may have been carried out. */
export function sentMoreThanOnce(error: unknown): boolean {
  const metadata = error instanceof Error && '$metadata' in error ? error.$metadata : undefined;
  if (typeof metadata !== 'object' || metadata === null || !('attempts' in metadata)) return false;
  return typeof metadata.attempts === 'number' && metadata.attempts > 1;
}

/** What an error of DynamoDB means to us, or the very same error. */
export function translateDynamoDbError(error: unknown, tables: readonly string[]): unknown {
  if (error instanceof Error && error.name === 'ValidationException' && /size.*exceeded/i.test(error.message)) {
    return new TooLargeError(`DynamoDB does not take an item of this size: ${error.message}`, { cause: error });
  }
  const names = tables.map((table) => `'${table}'`).join(' or ');
  return translateAwsError(error, `table ${names}`);
}

function cancellationReasons(error: Error): string[] {
  if (error.name !== 'TransactionCanceledException' || !('CancellationReasons' in error)) return [];
  const reasons: unknown = error.CancellationReasons;
  if (!Array.isArray(reasons)) return [];
  return reasons.map((reason: { readonly Code?: unknown } | undefined) => String(reason?.Code ?? 'None'));
}
