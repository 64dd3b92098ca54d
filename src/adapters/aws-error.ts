import { CredentialsError, ResourceMissingError } from '../errors.ts';

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

/**
 * What an error of the SDK means to us.
 * @param resource what was asked, for a person, such as `bucket 'orders'`
 * @returns a CredentialsError, a ResourceMissingError, or the very same error where it is neither
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
  return error;
}
