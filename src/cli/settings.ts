import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type CommandUnknownOpts, Option } from '@commander-js/extra-typings';
import * as z from 'zod';
import { withFileLock } from '../adapters/filesystem/file-lock.ts';
import { parseJson } from '../codec/json.ts';
import { LogfoldError, OutputFailedError, textOf, UsageError } from '../errors.ts';
import { isUuid, type LogId } from '../ids/log-id.ts';
import { isSystemError, writeFile } from './write.ts';

/** The file with the settings of a project, in the working directory or a parent. */
export const SETTINGS_FILE = 'logfold.json';

const ADVICE = `Write one JSON object with text for settings, such as {"local":"data","names":{"budget":"LOG"}}`;

/** The parsed settings file. */
export interface Settings {
  /** Absolute path of the file. */
  readonly path: string;
  /** Values of options by their names in the file, which are those of `Command.opts()`. */
  readonly values: ReadonlyMap<string, string>;
  /** Ids of logs by the names that people gave them. */
  readonly names: ReadonlyMap<string, string>;
}

interface SettingDetails {
  /**
   * Makes a value of the file independent of the working directory.
   * @param directory of the file
   */
  readonly resolve?: (value: string, directory: string) => string;
  /**
   * The name of a setting that makes no sense beside this one. The one that is given closer to the
   * command wins; if both are given in the same place, the command decides.
   */
  readonly instead?: string;
}

/**
 * An option that a variable `LOGFOLD_…` or the settings file may also give. The command line beats
 * the variable, which beats the file. An empty variable counts as missing.
 */
export class Setting<Usage extends string> extends Option<Usage> {
  readonly variable: string;
  readonly details: SettingDetails;

  constructor(flags: Usage, description: string, details: SettingDetails = {}) {
    super(flags, description);
    this.variable = `LOGFOLD_${this.name().replaceAll('-', '_').toUpperCase()}`;
    this.description = `${description} (env: ${this.variable})`;
    this.details = details;
  }
}

/** The settings among the options of a command. */
export function settingsOf(command: CommandUnknownOpts): readonly Setting<string>[] {
  return command.options.filter((option) => option instanceof Setting);
}

/** A value and its source. A smaller rank is closer to the command. */
interface Given {
  readonly rank: number;
  readonly source: string;
  /** Undefined if the command line gave the value, which is parsed already. */
  readonly value?: string;
}

/**
 * Gives the options of a command that the command line left out the values of variables and of the
 * settings file.
 * @throws UsageError if an option refuses its value
 */
export function applySettings(command: CommandUnknownOpts, settings: Settings | undefined): void {
  const given = new Map<string, Given>();
  for (const setting of settingsOf(command)) {
    const found = findValue(command, setting, settings);
    if (found !== undefined) given.set(setting.attributeName(), found);
  }
  for (const setting of settingsOf(command)) {
    const name = setting.attributeName();
    const { rank, source, value } = given.get(name) ?? {};
    const other = given.get(setting.details.instead ?? '');
    if (rank === undefined || source === undefined || value === undefined) continue;
    if (other !== undefined && other.rank < rank) continue;
    try {
      const parsed = setting.parseArg === undefined ? value : setting.parseArg(value, command.getOptionValue(name));
      command.setOptionValueWithSource(name, parsed, source);
    } catch (error) {
      if (error instanceof UsageError) error.message = `${source}: ${error.message}`;
      throw error;
    }
  }
}

function findValue(
  command: CommandUnknownOpts,
  setting: Setting<string>,
  settings: Settings | undefined,
): Given | undefined {
  const name = setting.attributeName();
  if (command.getOptionValueSource(name) === 'cli') return { rank: 0, source: 'cli' };
  const variable = process.env[setting.variable] ?? '';
  if (variable !== '') return { rank: 1, source: setting.variable, value: variable };
  const value = settings?.values.get(name);
  if (settings === undefined || value === undefined) return undefined;
  const { resolve } = setting.details;
  const resolved = resolve === undefined ? value : resolve(value, dirname(settings.path));
  return { rank: 2, source: settings.path, value: resolved };
}

/**
 * Reads the settings file of a directory or of its nearest parent that has one.
 * @param known the names of all settings
 * @returns undefined if there is no file
 * @throws UsageError if the file cannot be read or has another form
 */
export function readSettings(directory: string, known: ReadonlySet<string>): Settings | undefined {
  for (let from = directory; ; from = dirname(from)) {
    const path = join(from, SETTINGS_FILE);
    const text = readIfPresent(path);
    if (text !== undefined) return parseSettings(text, path, known);
    if (from === dirname(from)) return undefined;
  }
}

/** The names of a log. */
export function namesOf(settings: Settings | undefined, log: string): readonly string[] {
  return Array.from(settings?.names ?? []).flatMap(([name, of]) => (of === log ? [name] : []));
}

const file = z.object({ $schema: z.string().optional(), names: z.record(z.string(), z.string()).default({}) });

function parseSettings(text: string, path: string, known: ReadonlySet<string>): Settings {
  const parsed = file.catchall(z.string()).safeParse(parseFile(text, path));
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    throw invalid(path, `${issue?.message ?? 'it has another form'} at ${issue?.path.join('.') || 'its top'}`);
  }
  const { $schema: _, names, ...values } = parsed.data;
  for (const name of Object.keys(values)) {
    if (known.has(name)) continue;
    throw new UsageError(`'${path}' has the setting '${name}', which logfold does not know`, {
      advice: `Remove it, or write one of ${[...known, 'names'].join(', ')}`,
    });
  }
  const id = Object.keys(names).find((name) => isUuid(name.toLowerCase()));
  if (id !== undefined) throw invalid(path, `the name '${id}' is the id of a log`);
  return { path, values: new Map(Object.entries(values)), names: new Map(Object.entries(names)) };
}

function parseFile(text: string, path: string): unknown {
  try {
    return parseJson(text);
  } catch (cause) {
    throw invalid(path, textOf(cause), cause);
  }
}

function invalid(path: string, reason: string, cause?: unknown): UsageError {
  return new UsageError(`'${path}' is not valid: ${reason}`, { advice: ADVICE, cause });
}

function readIfPresent(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (cause) {
    if (isSystemError(cause) && (cause.code === 'ENOENT' || cause.code === 'ENOTDIR')) return undefined;
    throw new UsageError(`'${path}' cannot be read: ${textOf(cause)}`, {
      advice: `Make it a file that you may read, or work in a directory without ${SETTINGS_FILE} above it`,
      cause,
    });
  }
}

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
