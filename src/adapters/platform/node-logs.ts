import { randomUUID } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { Logs, type LogsDeps } from '../../client/logs.ts';
import { UsageError } from '../../errors.ts';
import { parseLogId } from '../../ids/log-id.ts';
import type { ReservedTypes } from '../../log/entry.ts';
import { nativePlatform } from './native.ts';

/** Settings of `openLogs`, wherever the logs are. */
export interface LogsSettings {
  /** `RESERVED_TYPES` by default. */
  readonly types?: ReservedTypes | undefined;
  /** Memory for chunks, shared by all documents, in bytes; 64 MiB by default. */
  readonly cacheBytes?: number | undefined;
}

/**
 * Checks the options that an application gives.
 * @throws UsageError if a name is not a string or is empty, or `cacheBytes` is no number from 0 on
 */
export function checkOptions(names: Readonly<Record<string, string>>, { cacheBytes = 0 }: LogsSettings): void {
  for (const [option, name] of Object.entries<unknown>(names)) {
    if (typeof name === 'string' && name !== '') continue;
    throw new UsageError(`openLogs got no name as '${option}', but ${name === '' ? 'an empty string' : String(name)}`);
  }
  if (typeof cacheBytes === 'number' && cacheBytes >= 0) return;
  throw new UsageError(`cacheBytes is ${String(cacheBytes)}, not a number of bytes`);
}

/** Logs on these stores, with the clock, the randomness and the codecs of Node. */
export function wireLogs(deps: Pick<LogsDeps, 'store' | 'tables' | 'blobs' | 'close' | keyof LogsSettings>): Logs {
  return new Logs({
    ...deps,
    platform: nativePlatform,
    now: Date.now,
    random: Math.random,
    sleep,
    newLogId: () => parseLogId(randomUUID()),
  });
}

/** Resolves after a time in milliseconds, or as soon as the signal is aborted. */
async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  await setTimeout(ms, undefined, { signal }).catch((error: unknown) => {
    if (signal?.aborted !== true) throw error;
  });
}
