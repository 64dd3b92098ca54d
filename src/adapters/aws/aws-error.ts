import { CredentialsError, DiskFullError, ResourceMissingError, StoreUnavailableError } from '../../errors.ts';

// Error names of the services, which the SDK passes on as Error.name. They differ by protocol.
const CREDENTIALS = new Set([
  'AccessDenied',
  'AccessDeniedException',
  'AuthFailure',
  'AuthorizationErrorException',
  'CredentialsProviderError',
  'ExpiredToken',
  'ExpiredTokenException',
  'IncompleteSignature',
  'InvalidAccessKeyId',
  'InvalidClientTokenId',
  'InvalidSignatureException',
  'InvalidToken',
  'MissingAuthenticationToken',
  'MissingAuthenticationTokenException',
  'NotAuthorized',
  'SignatureDoesNotMatch',
  'TokenProviderError',
  'UnrecognizedClientException',
]);

const MISSING = new Set([
  'NoSuchBucket',
  'NotFoundException',
  'QueueDoesNotExist',
  'ResourceNotFoundException',
  'AWS.SimpleQueueService.NonExistentQueue',
]);

// Error codes of Node for unreachable services, and the SDK's name for a timeout.
const UNREACHABLE = new Set([
  'EAI_AGAIN',
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOTFOUND',
  'EPIPE',
  'ETIMEDOUT',
  'TimeoutError',
]);

// Error names of a service that refuses a request only for now.
const BUSY = new Set([
  'KMS.ThrottlingException',
  'LimitExceededException',
  'ProvisionedThroughputExceededException',
  'RequestLimitExceeded',
  'RequestThrottled',
  'SlowDown',
  'Throttled',
  'ThrottledException',
  'Throttling',
  'ThrottlingException',
  'TooManyRequestsException',
  'TransactionConflictException',
  'TransactionInProgressException',
]);

/** SQLite's words. Both local engines keep their data with SQLite, and answer with status 500. */
const FULL = 'database or disk is full';

/**
 * Translates an error of the SDK.
 * @param resource names the resource in the message, such as `bucket 'orders'`
 * @returns a CredentialsError, a ResourceMissingError, or a DiskFullError if the disk of a local
 * engine is full. A StoreUnavailableError if the service was not reached, failed, refuses the
 * request for now or gave an answer that cannot be read. The same error for all other errors
 */
export function translateAwsError(error: unknown, resource: string): unknown {
  if (!(error instanceof Error)) return error;
  if (CREDENTIALS.has(error.name)) {
    return new CredentialsError(`no access to ${resource}: ${error.message}`, {
      advice: 'Check which credentials the AWS SDK finds here (environment, profile or role) and their permissions',
      cause: error,
    });
  }
  if (MISSING.has(error.name)) {
    return new ResourceMissingError(`${resource} does not exist`, {
      advice: 'Check the name and the region, or deploy the stack that creates it',
      cause: error,
    });
  }
  if (UNREACHABLE.has(error.name) || ('code' in error && UNREACHABLE.has(String(error.code)))) {
    return new StoreUnavailableError(`${resource} cannot be reached: ${error.message}`, {
      advice: 'Check the endpoint, the region and the network, then try again',
      cause: error,
    });
  }
  if (error.message.includes(FULL)) {
    return new DiskFullError(`the disk of ${resource} is full: ${error.message}`, {
      advice: 'Make room on that disk, then run the command again',
      cause: error,
    });
  }
  // The SDK parses the answers of some services by JSON.parse, and passes its errors on.
  if (error instanceof SyntaxError) {
    return new StoreUnavailableError(`an answer of ${resource} is not JSON, or was cut on its way`, {
      advice: 'Check the network and the server, then try again',
      cause: error,
    });
  }
  if (BUSY.has(error.name) || statusOf(error) >= 500) return unavailableNow(error, resource);
  return error;
}

/** The error for a service that refuses a request for now, or that failed. */
export function unavailableNow(error: Error, resource: string, reason = error.message): StoreUnavailableError {
  return new StoreUnavailableError(`${resource} cannot answer now: ${error.name}: ${reason}`, {
    advice: 'Try again later; if this is frequent, raise its capacity or send fewer requests',
    cause: error,
  });
}

/** The HTTP status of an answer with an error; 0 if there is none. */
function statusOf(error: Error): number {
  const metadata = '$metadata' in error ? error.$metadata : undefined;
  if (typeof metadata !== 'object' || metadata === null || !('httpStatusCode' in metadata)) return 0;
  return Number(metadata.httpStatusCode ?? 0);
}
