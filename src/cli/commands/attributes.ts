import { parseJson } from '../../codec/json.ts';
import { printable, UsageError, unprintable } from '../../errors.ts';
import type { AttributeChange, LogAttributes } from '../../log/client.ts';
import { command, examples, inEnvironment, parse } from '../command.ts';
import { type Json, jsonFromValues, valueFromJson } from '../json-value.ts';
import { requireOwnSchema } from '../mapping.ts';
import { changesNothing } from '../signals.ts';

const HELP = `
JSON is one object of names and values, such as '{"owner":"ann"}'. All conditions must hold, or nothing is changed: then
the command prints the current attributes and ends with exit code 1. Attributes that are not named stay as they are.`;

/** The options of a change, as they were given. */
interface ChangeOptions {
  readonly set?: LogAttributes | undefined;
  readonly remove?: readonly string[] | undefined;
  readonly if?: LogAttributes | undefined;
  readonly ifAbsent?: readonly string[] | undefined;
}

export function attributesCommand() {
  return command('attributes', 'Show the attributes of a log as a whole, or change them.')
    .argument('<log>', 'the log', parse.log)
    .option('--set <json>', 'set these attributes', parseAttributes)
    .option('--remove <name>', 'remove an attribute; may be repeated', collectName)
    .option('--if <json>', 'change only if these attributes have these values', parseAttributes)
    .option('--if-absent <name>', 'change only if the log has no such attribute; may be repeated', collectName)
    .addHelpText('after', HELP)
    .addHelpText(
      'after',
      examples(
        'attributes budget',
        `attributes budget --set '{"owner":"bob"}' --if '{"owner":"ann"}'`,
        `attributes budget --set '{"lock":"bob"}' --if-absent lock`,
        'attributes budget --remove lock',
      ),
    )
    .action((log, options) => {
      const change = changeOf(options);
      if (change === undefined) changesNothing();
      else requireOwnSchema(options, log);
      return inEnvironment(options, async ({ logs: { client } }, output) => {
        if (change === undefined) {
          const attributes = await client.logAttributes(log);
          return output.result({ log, attributes: jsonOf(attributes) }, describe(attributes));
        }
        const answer = await client.updateLogAttributes(log, change);
        if (answer.updated) return output.result({ log, updated: true }, 'The attributes were changed.');
        const { attributes } = answer;
        const text = `Nothing was changed: a condition does not hold.\n${describe(attributes)}`;
        output.result({ log, updated: false, attributes: jsonOf(attributes) }, text);
        process.exitCode = 1;
      });
    });
}

/**
 * Parses the attributes of a log, as one JSON object.
 * @throws UsageError if the text is anything else
 * @throws ValueUnsupportedError if a value has a form that stands for no value
 */
export function parseAttributes(text: string): LogAttributes {
  const advice = `Write one JSON object of names and values, such as '{"owner":"ann"}'`;
  let json: unknown;
  try {
    json = parseJson(text);
  } catch (cause) {
    throw new UsageError('the attributes are not JSON', { advice, cause });
  }
  if (!isNamedValues(json)) throw new UsageError('the attributes are not a JSON object', { advice });
  return Object.fromEntries(Object.entries(json).map(([name, value]) => [name, valueFromJson(value)]));
}

function isNamedValues(json: unknown): json is { readonly [name: string]: Json } {
  return typeof json === 'object' && json !== null && !Array.isArray(json);
}

function collectName(name: string, names: readonly string[] = []): readonly string[] {
  return [...names, unprintable(name)];
}

/** @returns undefined if nothing is changed */
function changeOf({
  set,
  remove,
  if: expected = {},
  ifAbsent: absent = [],
}: ChangeOptions): AttributeChange | undefined {
  const conditions = [...Object.keys(expected), ...absent];
  if (set === undefined && remove === undefined) {
    if (conditions.length === 0) return undefined;
    throw new UsageError('--if and --if-absent are conditions of a change', { advice: 'Give --set or --remove too' });
  }
  const both = absent.find((name) => Object.hasOwn(expected, name));
  if (both !== undefined) throw new UsageError(`--if and --if-absent both name '${printable(both)}'`);
  const missing = absent.map((name) => [name, undefined] as const);
  const before = Object.fromEntries([...Object.entries(expected), ...missing]);
  return { ...(set && { set }), ...(remove && { remove }), if: before };
}

function jsonOf(attributes: LogAttributes): ReturnType<typeof jsonFromValues> {
  return jsonFromValues(Object.entries(attributes));
}

function describe(attributes: LogAttributes): string {
  const lines = Object.entries(jsonOf(attributes)).map(
    ([name, value]) => `${printable(name)}: ${JSON.stringify(value)}`,
  );
  return lines.length === 0 ? 'The log has no attributes.' : lines.join('\n');
}
