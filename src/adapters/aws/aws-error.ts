import { CredentialsError, ResourceMissingError, StoreUnavailableError } from '../../errors.ts';

// Names as the services give them: they differ by protocol, and the SDK passes them on as Error.name.
const CREDENTIALS = new Set([
  'AccessDenied',
  'AccessDeniedException',
  'AuthFailure',
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
  'QueueDoesNotExist',
  'ResourceNotFoundException',
  'AWS.SimpleQueueService.NonExistentQueue',
]);

// What Node calls a service that cannot be reached, and the SDK one that is too slow.
const UNREACHABLE = new Set([
  'EAI_AGAIN',
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOTFOUND',
  'EPIPE',
  'ETIMEDOUT',
  'TimeoutError',
]);

/**
 * What an error of the SDK means to us.
 * @param resource what was asked, for a person, such as `bucket 'orders'`
 * @returns a CredentialsError, a ResourceMissingError, a StoreUnavailableError where the service was not reached, or the
 * very same error where it is none of these
 */
export function translateAwsError(error: unknown, resource: string): unknown {
  if (!(error instanceof Error)) return error;
  if (CREDENTIALS.has(error.name)) {
    return new CredentialsError(`no access to ${resource}: ${error.message}`, {
      advice: 'Check which credentials the AWS SDK finds here (environment, profile or role) and what they may do',
      cause: error,
    });
  }
  if (MISSING.has(error.name)) {
    return new ResourceMissingError(`${resource} does not exist`, {
      advice: 'Check name and region, or deploy the stack that creates it',
      cause: error,
    });
  }
  if (UNREACHABLE.has(error.name) || ('code' in error && UNREACHABLE.has(String(error.code)))) {
    return new StoreUnavailableError(`${resource} cannot be reached: ${error.message}`, {
      advice: 'Check the endpoint, the region and the network, then try again',
      cause: error,
    });
  }
  return error;
}
