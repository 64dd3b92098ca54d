import { randomUUID } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { Logs, type LogsDeps } from '../../client/logs.ts';
import { UsageError } from '../../errors.ts';
import { parseLogId } from '../../ids/log-id.ts';
import { type ReservedTypeNames, ReservedTypes } from '../../log/entry.ts';
import { checkOptionNames } from '../../log/option-names.ts';
import { type MappingDocument, parseMapping, readMapping, type SchemaMapping } from '../../mapping/schema-mapping.ts';
import { nativePlatform } from './native.ts';
import type { Deployment } from './open-stores.ts';

/** Settings of `openLogs`, wherever the logs are. */
export interface LogsSettings {
  /** `RESERVED_TYPES` by default. */
  readonly types?: ReservedTypeNames | undefined;
  /**
   * How the items of an application's own table become entries: a schema mapping, or the name of a
   * ready-made one such as `pk-sk`. By default the table has logfold's own schema.
   */
  readonly mapping?: MappingDocument | string | undefined;
  /** Memory for chunks, shared by all documents, in bytes; 64 MiB by default. */
  readonly cacheBytes?: number | undefined;
  /** As in {@link LogsDeps}. */
  readonly warmBytes?: number | undefined;
  /** The table of the feed; by default there is none, and `logs.feed` throws UsageError. */
  readonly feedTable?: string | undefined;
}

/**
 * Checks that an application gives options, and none with a wrong name.
 * @param names the further options
 * @throws UsageError otherwise
 */
export function checkLogsOptions(options: unknown, names: readonly string[]): void {
  const settings = ['types', 'mapping', 'cacheBytes', 'warmBytes', 'feedTable'] satisfies (keyof LogsSettings)[];
  checkOptionNames('openLogs', options, [...names, ...settings]);
}

/**
 * Checks the options that an application gives.
 * @throws UsageError if a name is not a string or is empty, `cacheBytes` or `warmBytes` is not a
 * number of at least 0, `types` are not two types, or both `types` and a mapping are given
 * @throws MappingInvalidError if the mapping is wrong
 */
export function checkLogsSettings(
  names: Readonly<Record<string, string>>,
  { cacheBytes = 0, warmBytes = 0, types, mapping: given, feedTable }: LogsSettings,
): Pick<Deployment, 'types' | 'mapping'> {
  const all = { ...names, ...(feedTable !== undefined && { feedTable }) };
  for (const [option, name] of Object.entries<unknown>(all)) {
    if (typeof name === 'string' && name !== '') continue;
    throw new UsageError(`openLogs got no name as '${option}', but ${name === '' ? 'an empty string' : String(name)}`);
  }
  for (const [name, bytes] of Object.entries({ cacheBytes, warmBytes })) {
    if (typeof bytes === 'number' && bytes >= 0) continue;
    throw new UsageError(`${name} is ${String(bytes)}, not a number of bytes`);
  }
  const mapping = mappingOf(given);
  if (types === undefined) return { mapping };
  if (mapping === undefined) return { types: new ReservedTypes(types) };
  throw new UsageError('openLogs got `types` beside a mapping, whose logs have no such entries', {
    advice: 'Leave `types` out',
  });
}

function mappingOf(given: LogsSettings['mapping']): SchemaMapping | undefined {
  if (given === undefined) return undefined;
  return typeof given === 'string' ? readMapping(given) : parseMapping(given);
}

/** The clock, the randomness and the codecs of Node. */
export const NODE_PORTS = {
  platform: nativePlatform,
  now: Date.now,
  random: Math.random,
  sleep,
  newLogId: () => parseLogId(randomUUID()),
} satisfies Partial<LogsDeps>;

/** Logs on these stores, with the ports of Node. */
export function wireLogs(deps: Omit<LogsDeps, keyof typeof NODE_PORTS>): Logs {
  return new Logs({ ...deps, ...NODE_PORTS });
}

/** Resolves after a time in milliseconds, or as soon as the signal is aborted. */
export async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  await setTimeout(ms, undefined, { signal }).catch((error: unknown) => {
    if (signal?.aborted !== true) throw error;
  });
}
