import { v7 as newUuid } from 'uuid';
import { checkFunction } from '../../client/listeners.ts';
import { Logs } from '../../client/logs.ts';
import type { ChunkPlatform } from '../../codec/chunk.ts';
import { type ParseLog, parseLogId } from '../../ids/log-id.ts';
import { RESERVED_TYPES, type ReservedTypeNames, ReservedTypes } from '../../log/entry.ts';
import { checkOptionNames } from '../../log/option-names.ts';
import { RemoteLogStore, type SendLogRequest } from './remote-log-store.ts';
import { UrlBlobStore, type UrlBlobStoreOptions } from './url-blob-store.ts';

/** The way of a page to its logs. */
export interface PageLogsOptions extends UrlBlobStoreOptions {
  readonly send: SendLogRequest;
  /** `RESERVED_TYPES` by default. */
  readonly types?: ReservedTypeNames | undefined;
  /**
   * Reads the id of a log; {@link parseLogId} by default. `textLogId` takes the ids of any
   * application.
   */
  readonly parseLog?: ParseLog | undefined;
  /** Memory for chunks, shared by all documents, in bytes; 64 MiB by default. */
  readonly cacheBytes?: number | undefined;
  /**
   * Zstandard and SHA-256; by default those of `loadWasmPlatform`, which bundlers put into a file
   * that the page loads when it calls {@link openLogs}.
   */
  readonly platform?: ChunkPlatform | undefined;
}

const NAMES = [
  'send',
  'types',
  'parseLog',
  'cacheBytes',
  'platform',
  'urlOf',
  'fetch',
  'retries',
] satisfies (keyof PageLogsOptions)[];

/**
 * Opens logs in a page, which has no AWS credentials: entries go through the application's server,
 * chunks come through URLs. Sends no request. The logs throw the errors of {@link RemoteLogStore}
 * and {@link UrlBlobStore}; `create` and `list` throw UsageError.
 * @throws UsageError if there are no options, one has a wrong name, or `send` or `urlOf` is missing
 */
export async function openLogs(options: PageLogsOptions): Promise<Logs> {
  checkOptionNames('openLogs', options, NAMES);
  checkFunction('send', options.send);
  checkFunction('urlOf', options.urlOf);
  const { send, parseLog, cacheBytes, platform, ...urls } = options;
  const types = new ReservedTypes(options.types ?? RESERVED_TYPES);
  const store = new RemoteLogStore(send, types);
  return new Logs({
    store,
    tables: store,
    blobs: new UrlBlobStore(urls),
    platform: platform ?? (await (await import('../platform/wasm.ts')).loadWasmPlatform()),
    types,
    ...(parseLog !== undefined && { parseLog }),
    ...(cacheBytes !== undefined && { cacheBytes }),
    now: Date.now,
    random: Math.random,
    sleep: pause,
    newLogId: () => parseLogId(newUuid()),
  });
}

function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) return resolve();
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener('abort', end);
  });
}
