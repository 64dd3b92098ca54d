import { CredentialsError, ResourceMissingError, StoreUnavailableError } from '../../errors.ts';

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

/**
 * Translates an error of the SDK.
 * @param resource names the resource in the message, such as `bucket 'orders'`
 * @returns a CredentialsError, a ResourceMissingError, a StoreUnavailableError if the service was
 * not reached, or the same error for all other errors
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
  return error;
}
