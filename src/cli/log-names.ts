import { readFile } from 'node:fs/promises';
import * as z from 'zod';
import { withFileLock } from '../adapters/filesystem/file-lock.ts';
import { parseJson } from '../codec/json.ts';
import { LogfoldError, OutputFailedError, textOf, UsageError } from '../errors.ts';
import { isUuid, type LogId } from '../ids/log-id.ts';
import { isSystemError, writeFile } from './output.ts';
import type { Settings } from './settings.ts';

const settingsFile = z.record(z.string(), z.unknown());
const namesInFile = z.record(z.string(), z.string()).default({});

/**
 * Parses a name for a log.
 * @throws UsageError if people could take it for an id, an option or two words
 */
export function parseName(text: string): string {
  if (isPlainName(text) && !isUuid(text.toLowerCase())) return text;
  throw new UsageError(`'${text}' cannot be the name of a log`, {
    advice: "Give up to 100 letters, digits, '_', '-' and '.', such as 'budget-2026', and no UUID",
  });
}

/** Whether a name has only letters, digits and marks that no shell takes for something else. */
export function isPlainName(text: string): boolean {
  // The schema of the settings file would lose the name `__proto__`.
  return text !== '__proto__' && /^[\p{L}\p{N}_][\p{L}\p{N}_.-]{0,99}$/u.test(text);
}

/** @throws UsageError if the settings file has the name already */
export function requireFreeName(settings: Settings | undefined, name: string): void {
  const taken = settings?.names.get(name);
  if (settings === undefined || taken === undefined) return;
  throw new UsageError(`'${settings.path}' gives the name '${name}' to log ${taken}`, {
    advice: 'Give another name, or remove that one from the file',
  });
}

/**
 * Writes the name of a new log into a settings file, which is created if it is missing.
 * @param path of the file
 * @returns the path
 * @throws OutputFailedError if the file cannot be changed; the log exists nevertheless
 */
export async function addName(path: string, name: string, log: LogId): Promise<string> {
  try {
    await withFileLock(`${path}.lock`, async () => {
      const document = settingsFile.parse(parseJson(await readOrEmpty(path)));
      const changed = { ...document, names: { ...namesInFile.parse(document.names), [name]: log } };
      await writeFile(path, linesOf(changed));
    });
    return path;
  } catch (cause) {
    const reason = cause instanceof LogfoldError ? cause.reason : textOf(cause);
    throw new OutputFailedError(`the log was created, but '${path}' did not get its name: ${reason}`, {
      log,
      advice: `Write "names":{"${name}":"${log}"} into that file`,
      cause,
    });
  }
}

async function readOrEmpty(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    if (isSystemError(error) && error.code === 'ENOENT') return '{}';
    throw error;
  }
}

async function* linesOf(document: object): AsyncGenerator<string> {
  yield `${JSON.stringify(document, undefined, 2)}\n`;
}
