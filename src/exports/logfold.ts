/**
 * The package `logfold`: reads, writes and folds logs through ports. It imports no SDK and no
 * module of Node, so it runs in a browser too.
 */
export { loadWasmPlatform } from '../adapters/platform/wasm.ts';
export type { LogRequest } from '../adapters/web/answer-log-request.ts';
export { openLogs, type PageLogsOptions } from '../adapters/web/open-logs.ts';
export { RemoteLogStore, type SendLogRequest } from '../adapters/web/remote-log-store.ts';
export { UrlBlobStore, type UrlBlobStoreOptions } from '../adapters/web/url-blob-store.ts';
export { ArchivedLogStore } from '../archive/archived-log-store.ts';
export { Document, type MutateOptions } from '../client/document.ts';
export { DocumentState, type Moment, PastState, type StateChange } from '../client/document-state.ts';
export {
  Feed,
  type FeedBatchOptions,
  type FeedConsumeOptions,
  type FeedGroupStatus,
  type FeedItem,
  type FeedReadOptions,
} from '../client/feed.ts';
export type { HistoryOptions, HistoryPlace, Revision } from '../client/history.ts';
export type { ListedLog, LogListOptions } from '../client/list-logs.ts';
export type { Observable } from '../client/listeners.ts';
export type { AppendedEntries, DroppedParts } from '../client/log-writer.ts';
export { Logs, type LogsDeps } from '../client/logs.ts';
export type { DocumentOptions } from '../client/options.ts';
export type { PendingEntry, StoredMutation } from '../client/pending-list.ts';
export type { ReloadLimits } from '../client/state-folder.ts';
export type { WatchOptions } from '../client/watch.ts';
export type { ByteSource } from '../codec/bytes.ts';
export type { ChunkPlatform } from '../codec/chunk.ts';
export { confusesNames, parseJson } from '../codec/json.ts';
export { toValue, type Value } from '../codec/value.ts';
export * from '../errors.ts';
export type { FeedGroup, FeedPlace, GroupLease, GroupProgress, GroupStore, SpanPlace } from '../feed/group-store.ts';
export { type LogId, parseLogId, textLogId } from '../ids/log-id.ts';
export {
  comparePositions,
  type EntryNumber,
  formatPosition,
  type Position,
  type PositionOrNumber,
  parsePosition,
  START,
} from '../ids/position.ts';
export { decodeEntryBody, loadBody } from '../log/body.ts';
export {
  type AddedEntries,
  type AddedEntry,
  type AppendOptions,
  type AttributeAnswer,
  type AttributeChange,
  type CreateOptions,
  type EntryTime,
  type LogAppend,
  type LogAttributes,
  LogClient,
  type LogClientDeps,
  type NewEntry,
  type NewSegment,
  type QueryAnswer,
  type QueryRange,
  type ReadEntry,
  type SnapshotOptions,
} from '../log/client.ts';
export {
  type ClientMutation,
  type CompletedSnapshot,
  type Entry,
  type EntryAttributes,
  type EntryMetadata,
  RESERVED_TYPES,
  type ReservedTypeNames,
  ReservedTypes,
} from '../log/entry.ts';
export type { StoredFile } from '../log/file.ts';
export type { EntryAppender, LogReader, LogStore, TableReader } from '../log/log-store.ts';
export { VIRTUAL_TYPES } from '../log/schedule.ts';
export type { MappingDocument } from '../mapping/schema-mapping.ts';
export type { ImageChange } from '../revisions/image-change.ts';
export { revisionLog, type SourceTable } from '../revisions/source-table.ts';
export type { BadEntry, OnBadEntry } from '../snapshot/bad-entry.ts';
export { type LoadDeps, type Loaded, loadState } from '../snapshot/load.ts';
export type { SchemaInput, SchemaOutput, StandardSchema } from '../state/define-reducer.ts';
export {
  type AnyUnplacedEntry,
  type BodySchemas,
  type DefinedReducer,
  defineReducer,
  type MapType,
  type NewEntryOf,
  numberMap,
  type ReducerDefinition,
  stringMap,
  type TypedEntry,
  type TypedMap,
  type TypedMapReader,
  type TypedRebased,
  type TypedUnplacedEntry,
} from '../state/define-reducer.ts';
export type { Draft, DraftOptions } from '../state/draft.ts';
export type { DraftMap, LateValue } from '../state/draft-map.ts';
export { FrozenMap, type FrozenMeta, FrozenState } from '../state/frozen-state.ts';
export { withHistory } from '../state/history/with-history.ts';
export type { DraftMeta } from '../state/meta.ts';
export {
  checkType,
  type FoldEntry,
  type FoldFile,
  type Rebased,
  type RebaseSide,
  type Reducer,
  type ReducerDraft,
  type UnplacedEntry,
} from '../state/reducer.ts';
export type { Rectangle } from '../state/spreadsheet/sheet.ts';
export type { AxisChange, CellChange } from '../state/spreadsheet/sheet-diff.ts';
export type { MapChange, MetaChange } from '../state/state-diff.ts';
export type { BlobStore } from '../store/blob-store.ts';
export type { Key, KeyKind } from '../tree/key.ts';
export type { RangeDelete } from '../tree/range-delete.ts';
export type { KeyRange, LimitedRange, MapItem, RangeRead, WeighedItem } from '../tree/read.ts';
export { type RecordDeps, type RecordResult, recordRevisions } from '../workers/revisions/record-revisions.ts';
export { RevisionLogs, type RevisionLogsDeps } from '../workers/revisions/revision-logs.ts';
