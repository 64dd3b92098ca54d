/** The package `logfold/local`: the ports on the embedded engine and a directory, for Node. */
export { DynamoDbLogStore, type DynamoDbLogStoreOptions } from '../adapters/dynamodb/log-store.ts';
export { FilesystemBlobStore, type FilesystemBlobStoreOptions } from '../adapters/filesystem/blob-store.ts';
export { nativePlatform } from '../adapters/platform/native.ts';
export {
  type AnsweringStores,
  type AnswerOptions,
  answerLogRequest,
  type LogOperation,
} from '../adapters/web/answer-log-request.ts';
export type { LogAnswer } from '../adapters/web/log-message.ts';
export { type Engine, joinEngine } from '../local/engine.ts';
export { ensureTables, type TableNames } from '../local/tables.ts';
