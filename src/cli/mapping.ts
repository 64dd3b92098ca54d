import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { CommandUnknownOpts } from '@commander-js/extra-typings';
import { LogReadOnlyError, MappingInvalidError, textOf, UsageError } from '../errors.ts';
import { FEED_LOG } from '../feed/feed-log.ts';
import { type LogId, parseLogId } from '../ids/log-id.ts';
import { parseMappedLog } from '../mapping/key-pattern.ts';
import { isMappingName, MAPPING_NAMES, readMapping, type SchemaMapping } from '../mapping/schema-mapping.ts';
import { Setting } from './settings.ts';

/** The option with the schema mapping of the application's table. */
export function mappingOption() {
  return new Setting(
    '--mapping <file>',
    `how the items of the application's table become entries: a JSON file, or one of ${MAPPING_NAMES.join(', ')}`,
    { resolve: (value, directory) => (isMappingName(value) ? value : resolve(directory, value)) },
  ).argParser(readMappingFile);
}

/** The mapping among the options of a command, after they were parsed. */
export function mappingIn(command: CommandUnknownOpts): SchemaMapping | undefined {
  const { mapping } = command.opts();
  return isMapping(mapping) ? mapping : undefined;
}

function isMapping(value: unknown): value is SchemaMapping {
  return typeof value === 'object' && value !== null && 'partitionKey' in value;
}

/**
 * Refuses a command that appends.
 * @throws LogReadOnlyError if there is a mapping
 */
export function requireOwnSchema({ mapping }: { readonly mapping?: SchemaMapping | undefined }, log?: LogId): void {
  if (mapping === undefined || log === FEED_LOG) return;
  throw new LogReadOnlyError('only your application appends to the logs of a mapping', {
    log,
    advice: "Append with your application's own code; 'logfold sweep' builds the snapshots that are due",
  });
}

/** Parses the id of a log as people type it. */
export function parseTypedLog(mapping: SchemaMapping | undefined, text: string): LogId {
  return mapping === undefined ? parseLogId(text) : parseMappedLog(mapping, text);
}

/**
 * @returns undefined for logfold's own schema
 * @throws UsageError if the file cannot be read
 * @throws MappingInvalidError if it has no valid mapping
 */
function readMappingFile(file: string): SchemaMapping | undefined {
  if (isMappingName(file)) return readMapping(file);
  try {
    return readMapping(readText(file));
  } catch (error) {
    if (error instanceof MappingInvalidError) error.message = `'${file}': ${error.message}`;
    throw error;
  }
}

function readText(file: string): string {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (cause) {
    throw new UsageError(`'${file}' cannot be read: ${textOf(cause)}`, {
      advice: `Name a file with a mapping, which 'logfold inspect TABLE --output FILE' writes, or one of ${MAPPING_NAMES.join(', ')}`,
      cause,
    });
  }
  // An empty text would mean logfold's own schema.
  return text.trim() === '' ? 'null' : text;
}
