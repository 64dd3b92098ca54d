/** The package `logfold/aws`: the ports on DynamoDB and S3, for Node. */
export { type SdkConfig, type SdkOptions, sdkConfig } from '../adapters/aws/sdk-config.ts';
export { DynamoDbLogStore, type DynamoDbLogStoreOptions } from '../adapters/dynamodb/log-store.ts';
export { nativePlatform } from '../adapters/platform/native.ts';
export { S3BlobStore, type S3BlobStoreOptions } from '../adapters/s3/blob-store.ts';
export {
  type AnsweringStores,
  type AnswerOptions,
  answerLogRequest,
  type LogOperation,
} from '../adapters/web/answer-log-request.ts';
export type { LogAnswer } from '../adapters/web/log-message.ts';
